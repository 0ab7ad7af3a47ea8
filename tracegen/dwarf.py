"""Source lines of code: DWARF's line tables (DWARF 4, §6.2; DWARF 5, §6.2), of the file or of its separate debug file.

The table maps an address to the line of the code as written; where a function is inlined that is the innermost line.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from elftools.dwarf.ranges import RangeEntry
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection
from numpy.typing import NDArray

from tracegen.elf import UNREADABLE, Mapping, load_bias

DEBUG_FOLDER = Path("/usr/lib/debug")  # where distributions put separate debug files
_LINES = (".debug_line", ".zdebug_line")


class Lines(NamedTuple):
    """Source lines of those instructions whose line is known, in ascending order of address."""

    address: NDArray[np.uint64]
    file: NDArray[np.uint32]  # index of `files`
    line: NDArray[np.uint32]
    files: list[str]


def lines_at_run_time(mappings: Iterable[Mapping], executed: NDArray[np.uint64]) -> Lines:
    """Source lines of `executed` (run-time addresses, ascending) in the files that are mapped there."""
    found: dict[int, tuple[str, int]] = {}
    wanted: dict[tuple[str, int], list[NDArray[np.uint64]]] = {}
    for mapping in mappings:
        first, last = np.searchsorted(executed, np.array([mapping.start, mapping.end], np.uint64))
        bias = load_bias(Path(mapping.path), mapping) if first < last else None
        if bias is not None:
            wanted.setdefault((mapping.path, bias), []).append(executed[first:last])
    for (path, bias), parts in wanted.items():
        shift = np.uint64(bias % 2**64)
        for address, file, line in file_lines(Path(path), np.unique(np.concatenate(parts)) - shift):
            found[(address + bias) % 2**64] = (file, line)
    order = sorted(found)
    files = {file: index for index, file in enumerate(sorted({file for file, _ in found.values()}))}
    return Lines(
        np.array(order, np.uint64),
        np.array([files[found[address][0]] for address in order], np.uint32),
        np.array([found[address][1] for address in order], np.uint32),
        list(files),
    )


def file_lines(path: Path, executed: NDArray[np.uint64]) -> Iterator[tuple[int, str, int]]:
    """(address, source file, line) of `executed` (addresses in the file, ascending) where they are known.

    Nothing for what is no readable ELF file or has no line table, here or in its separate debug file.
    """
    try:
        with ExitStack() as stack:
            debug = _with_lines(path, stack)
            if debug is not None:
                yield from _lines_of(debug, executed)
    except UNREADABLE:
        return


def _with_lines(path: Path, stack: ExitStack) -> ELFFile | None:
    """The file, or the separate debug file that fits it: by build identifier, or by name and checksum."""
    elf = ELFFile(stack.enter_context(path.open("rb")))
    if any(elf.get_section_by_name(name) for name in _LINES):
        return elf
    identifier = _build_identifier(elf)
    if identifier:
        candidate = DEBUG_FOLDER / ".build-id" / identifier[:2] / f"{identifier[2:]}.debug"
        if candidate.is_file():
            return ELFFile(stack.enter_context(candidate.open("rb")))
    link = elf.get_section_by_name(".gnu_debuglink")
    if link is not None:
        data = link.data()
        name = os.fsdecode(data.split(b"\0", 1)[0])
        checksum = int.from_bytes(data[-4:], "little")
        here = path.resolve().parent
        for folder in (here, here / ".debug", DEBUG_FOLDER / here.relative_to("/")):
            candidate = folder / name
            if candidate.is_file() and candidate != path and zlib.crc32(candidate.read_bytes()) == checksum:
                return ELFFile(stack.enter_context(candidate.open("rb")))
    return None


def _build_identifier(elf: ELFFile) -> str:
    section = elf.get_section_by_name(".note.gnu.build-id")
    if isinstance(section, NoteSection):
        for note in section.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID":
                return str(note["n_desc"])
    return ""


def _lines_of(elf: ELFFile, executed: NDArray[np.uint64]) -> Iterator[tuple[int, str, int]]:
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        try:
            if not _may_cover(dwarf, unit, executed):
                continue
            program = dwarf.line_program_for_CU(unit)
            if program is not None:
                yield from _rows(program, _compilation_folder(unit), executed)
        except UNREADABLE:  # one damaged unit does not take the others with it
            continue


def _compilation_folder(unit: Any) -> str:
    attribute = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    return os.fsdecode(attribute.value) if attribute is not None and isinstance(attribute.value, bytes) else ""


def _may_cover(dwarf: Any, unit: Any, executed: NDArray[np.uint64]) -> bool:
    """Whether the unit's code may hold one of `executed`; yes where its extent cannot be told."""
    attributes = unit.get_top_DIE().attributes
    low, high, ranges = (attributes.get(f"DW_AT_{name}") for name in ("low_pc", "high_pc", "ranges"))
    if low is not None and high is not None:
        end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
        return _holds(executed, low.value, end)
    lists = dwarf.range_lists() if ranges is not None and ranges.form == "DW_FORM_sec_offset" else None
    if lists is None:
        return True
    base = low.value if low is not None else 0
    for entry in lists.get_range_list_at_offset(ranges.value, unit):
        if not isinstance(entry, RangeEntry):
            base = entry.base_address
            continue
        shift = 0 if getattr(entry, "is_absolute", False) else base
        if _holds(executed, entry.begin_offset + shift, entry.end_offset + shift):
            return True
    return False


def _holds(executed: NDArray[np.uint64], low: int, high: int) -> bool:
    first, last = np.searchsorted(executed, np.array([low, max(low, high)], np.uint64))
    return bool(first < last)


def _rows(program: Any, folder: str, executed: NDArray[np.uint64]) -> Iterator[tuple[int, str, int]]:
    """The rows of one line program, sequence by sequence: a row holds from its address to the next one's."""
    names: dict[int, str] = {}
    sequence: list[tuple[int, int, int]] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        sequence.append((state.address, state.file, state.line))
        if not state.end_sequence:
            continue
        begin, end = sequence[0][0], state.address
        first, last = np.searchsorted(executed, np.array([begin, max(begin, end)], np.uint64))
        if first < last:
            here = executed[first:last]
            starts = np.array([row[0] for row in sequence[:-1]], np.uint64)
            for address, row in zip(here.tolist(), (np.searchsorted(starts, here, "right") - 1).tolist(), strict=True):
                _, file, line = sequence[row]
                if line:  # 0: of no line
                    if file not in names:
                        names[file] = _file_name(program, file, folder)
                    yield address, names[file], line
        sequence = []


def _file_name(program: Any, file: int, folder: str) -> str:
    """Path of a line program's file: from version 5 on, files and folders count from 0, before from 1."""
    header = program.header
    first = 0 if header.version >= 5 else 1
    entry = header.file_entry[file - first]
    folders = [os.fsdecode(name) for name in header.include_directory]
    index = entry.dir_index - first
    where = folders[index] if index >= 0 else ""
    return os.path.normpath(os.path.join(folder, where, os.fsdecode(entry.name)))  # noqa: PTH118
