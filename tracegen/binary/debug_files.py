"""Separate debug files: what `objcopy --only-keep-debug` and distributions' packages keep apart from a program."""

from __future__ import annotations

import os
import zlib
from functools import lru_cache
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

DEBUG_FOLDER = Path("/usr/lib/debug")  # where distributions put them


def debug_file(elf: ELFFile, path: Path) -> Path | None:
    """Return the separate debug file that fits this one: by build identifier, or by name and checksum."""
    identifier = _build_identifier(elf)
    if identifier:
        candidate = DEBUG_FOLDER / ".build-id" / identifier[:2] / f"{identifier[2:]}.debug"
        if candidate.is_file():
            return candidate
    link = elf.get_section_by_name(".gnu_debuglink")
    if link is not None:
        data = link.data()
        name = os.fsdecode(data.split(b"\0", 1)[0])
        checksum = int.from_bytes(data[-4:], "little")
        here = path.resolve().parent
        for folder in (here, here / ".debug", DEBUG_FOLDER / here.relative_to("/")):
            candidate = folder / name
            if candidate.is_file() and candidate != path:
                status = candidate.stat()
                if _checksum(candidate, status.st_mtime_ns, status.st_size) == checksum:
                    return candidate
    return None


@lru_cache(maxsize=64)
def _checksum(path: Path, changed: int, size: int) -> int:
    """`changed` and `size` tell whether the file is still the one that was read."""
    return zlib.crc32(path.read_bytes())


def _build_identifier(elf: ELFFile) -> str:
    section = elf.get_section_by_name(".note.gnu.build-id")
    if isinstance(section, NoteSection):
        for note in section.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID":
                return str(note["n_desc"])
    return ""
