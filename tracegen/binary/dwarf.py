"""Source lines of code: DWARF's line tables (DWARF 4, §6.2; DWARF 5, §6.2), of the file or of its separate debug file.

The table maps an address to the line of the code as written; where a function is inlined that is the innermost line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from support.jit import cached
from tracegen.binary.debug_files import debug_file
from tracegen.binary.elf import Mapping, elf_file, load_bias

_LINES = (".debug_line", ".zdebug_line")
_HOLDS_CODE = 4  # SHF_EXECINSTR


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
    with elf_file(path, "its source lines") as elf, ExitStack() as stack:
        debug = _with_lines(elf, path, stack) if elf is not None else None
        if debug is not None:
            yield from _lines_of(debug, executed)


def _with_lines(elf: ELFFile, path: Path, stack: ExitStack) -> ELFFile | None:
    """The file, or the separate debug file that fits it."""
    if any(elf.get_section_by_name(name) for name in _LINES):
        return elf
    separate = debug_file(elf, path)
    return ELFFile(stack.enter_context(separate.open("rb"))) if separate is not None else None


def _lines_of(elf: ELFFile, executed: NDArray[np.uint64]) -> Iterator[tuple[int, str, int]]:
    dwarf = elf.get_dwarf_info()
    if dwarf.debug_line_sec is None:
        return
    dwarf.debug_line_sec.stream.seek(0)
    section = np.frombuffer(dwarf.debug_line_sec.stream.read(), np.uint8)
    code = _code(elf)
    folders: dict[int, str] | None = None
    offset = 0
    while offset + 24 <= len(section):
        program = _program_at(section, offset)
        row_of = np.full(len(executed), -1, np.int64)
        rows = np.zeros((2, len(executed)), np.int64)
        if program.length and _run(section, *program.arguments, code, executed, row_of, rows):
            header = _header(dwarf, offset, program)
            if program.version < 5 and folders is None:
                folders = _compilation_folders(dwarf)
            names: dict[int, str] = {}
            for index in np.flatnonzero(row_of >= 0).tolist():
                file, line = int(rows[0, index]), int(rows[1, index])
                if line == 0:  # code of no line
                    continue
                if file not in names:
                    names[file] = _file_name(header, file, (folders or {}).get(offset, ""))
                yield int(executed[index]), names[file], line
        offset = program.end


def _code(elf: ELFFile) -> NDArray[np.uint64]:
    """[2, sections] begin and end of those that hold code."""
    parts = [(each["sh_addr"], each["sh_size"]) for each in elf.iter_sections() if each["sh_flags"] & _HOLDS_CODE]
    begin, size = np.array(parts, np.uint64).reshape(-1, 2).T
    return np.stack([begin, begin + size])


class _Program(NamedTuple):
    """Place of a line program, and the meaning of its opcodes (DWARF 5, §6.2.4)."""

    version: int
    bits: int  # of DWARF's format
    length: int  # 0: of a version that is not known
    end: int
    arguments: tuple[int, int, int, int, int, int, NDArray[np.int64]]


_NOTHING = (0, 0, 0, 0, 0, 0, np.empty(0, np.int64))


def _program_at(section: NDArray[np.uint8], offset: int) -> _Program:
    def number(at: int, width: int) -> int:
        return int.from_bytes(section[at : at + width].tobytes(), "little")

    length, at, wide = number(offset, 4), offset + 4, 4
    if length == 0xFFFFFFFF:
        length, at, wide = number(at, 8), at + 8, 8
    end = min(at + length, len(section))
    version = number(at, 2)
    at += 2
    if not 2 <= version <= 5:
        return _Program(version, 8 * wide, 0, end, _NOTHING)
    if version == 5:
        at += 2  # sizes of an address and of a segment selector
    begin = at + wide + number(at, wide)
    at += wide
    shortest = number(at, 1)
    at += 1 + (version >= 4)  # operations of a VLIW instruction
    line_base = (number(at + 1, 1) ^ 128) - 128
    line_range, opcode_base = number(at + 2, 1), number(at + 3, 1)
    lengths = section[at + 4 : at + 3 + opcode_base].astype(np.int64)
    if begin > end or line_range == 0 or opcode_base == 0 or len(lengths) != opcode_base - 1:
        return _Program(version, 8 * wide, 0, end, _NOTHING)
    return _Program(version, 8 * wide, length, end, (begin, end, shortest, line_base, line_range, opcode_base, lengths))


@cached()
def _leb128(data: NDArray[np.uint8], at: int, end: int, signed: bool) -> tuple[int, int]:
    """(value, place behind it)."""
    value: Any = np.int64(0)
    shift = 0
    while at < end:
        byte = np.int64(data[at])
        at += 1
        if shift < 63:
            value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            if signed and byte & 64 and shift < 64:
                value -= np.int64(1) << shift
            break
    return value, at


@cached()
def _run(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    shortest: int,
    line_base: int,
    line_range: int,
    opcode_base: int,
    lengths: NDArray[np.int64],
    code: NDArray[np.uint64],
    executed: NDArray[np.uint64],
    row_of: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> bool:
    """Execute a line program; set file and line [2, E] of `executed` addresses that its rows cover, and `row_of` [E].

    A row holds from its address up to the next row's of its sequence. Whether there are any. Sequences that begin
    outside `code` are of sections that the linker discarded: 0 stands for their address, or what no code has.
    """
    found = False
    address: Any = np.uint64(0)
    file: Any = np.int64(1)
    line: Any = np.int64(1)
    last, last_file, last_line = np.uint64(0), np.int64(0), np.int64(0)
    inside = False  # there is a last row
    kept = False
    while at < end:
        opcode = np.int64(data[at])
        at += 1
        emit, ends = False, False
        if opcode >= opcode_base:
            step = opcode - opcode_base
            address += np.uint64(step // line_range * shortest)
            line += line_base + step % line_range
            emit = True
        elif opcode == 0:
            length, at = _leb128(data, at, end, False)
            following = at + length
            if length < 1 or following > end:
                return found
            extended = data[at]
            if extended == 1:
                emit, ends = True, True
            elif extended == 2 and length <= 9:
                address = np.uint64(0)
                for byte in range(length - 1):
                    address |= np.uint64(data[at + 1 + byte]) << np.uint64(8 * byte)
                kept = False
                for part in range(code.shape[1]):
                    kept |= code[0, part] <= address < code[1, part]
            at = following
        elif opcode == 1:
            emit = True
        elif opcode == 2:
            value, at = _leb128(data, at, end, False)
            address += np.uint64(value * shortest)
        elif opcode == 3:
            value, at = _leb128(data, at, end, True)
            line += value
        elif opcode == 4:
            file, at = _leb128(data, at, end, False)
        elif opcode == 8:
            address += np.uint64((255 - opcode_base) // line_range * shortest)
        elif opcode == 9:
            if at + 2 > end:
                return found
            address += np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)
            at += 2
        else:
            for _ in range(lengths[opcode - 1]):
                _, at = _leb128(data, at, end, False)
        if not emit:
            continue
        if inside and address > last:
            place = np.searchsorted(executed, last)
            while place < len(executed) and executed[place] < address:
                row_of[place] = 0
                rows[0, place], rows[1, place] = last_file, last_line
                found = True
                place += 1
        last, last_file, last_line, inside = address, file, line, kept and not ends
        if ends:
            kept = False
            address, file, line = np.uint64(0), np.int64(1), np.int64(1)
    return found


def _header(dwarf: Any, offset: int, program: _Program) -> Any:
    structs = DWARFStructs(True, dwarf_format=program.bits, address_size=8, dwarf_version=program.version)
    return dwarf._parse_line_program_at_offset(offset, structs).header


def _compilation_folders(dwarf: Any) -> dict[int, str]:
    """The folder that relative names count from, by place of the line program (version 5 has it in the program)."""
    found = {}
    for unit in dwarf.iter_CUs():
        attributes = unit.get_top_DIE().attributes
        place, folder = attributes.get("DW_AT_stmt_list"), attributes.get("DW_AT_comp_dir")
        if place is not None and folder is not None and isinstance(folder.value, bytes):
            found[place.value] = os.fsdecode(folder.value)
    return found


def _file_name(header: Any, file: int, folder: str) -> str:
    """Path of a line program's file: from version 5 on, files and folders count from 0, before from 1."""
    first = 0 if header.version >= 5 else 1
    entry = header.file_entry[file - first]
    folders = [os.fsdecode(name) for name in header.include_directory]
    index = entry.dir_index - first
    where = folders[index] if index >= 1 - first else ""  # entry 0 of version 5 is the root itself
    root = folders[0] if first == 0 else folder
    return os.path.normpath(os.path.join(root, where, os.fsdecode(entry.name)))  # noqa: PTH118
