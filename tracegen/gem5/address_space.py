"""Address space of gem5's syscall emulation: the places of a program's files, and their bytes.

Exec text carries no instruction bytes; they are read from the ELF files that ran:

- The program lies at the addresses in its file, a position-independent one too (gem5 gives it no bias).
- The dynamic loader lies where the area for `mmap` begins (src/sim/process.cc, src/arch/*/process.cc); the first
  executed instruction, where it is in the text, is its entry point and tells.
- Libraries are mapped by the loader: the debug flag `Vma` prints a line for each mapping, with the file's name. The
  first of a file covers all of it from its first page on.

Code that the program makes itself has no file: such a program cannot be imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.binary import elf

_PAGE = 4096
_EXECUTABLE = 1  # PF_X
_LONGEST = 16
_MOST_MAPPINGS = 1 << 16
MMAP_BEGINS = {"x86-64": 0x7FFFF7FFF000, "aarch64": 0x4000000000, "riscv64": 0x4000000000000000}


@dataclass(frozen=True)
class Segment:
    """Executable bytes of a file, at the file's own addresses."""

    address: int
    offset: int
    code: NDArray[np.uint8]


@dataclass(frozen=True)
class Image:
    """An ELF file as it is mapped: its executable segments, and the addresses that it spans."""

    path: Path
    low: int  # of the first page
    high: int
    entry: int
    segments: tuple[Segment, ...]


def read_image(path: Path) -> Image:
    """Raises InputError for what is no readable ELF file."""
    segments, low, high = [], 2**64, 0
    try:
        with path.open("rb") as stream:
            file = ELFFile(stream)
            entry = int(file["e_entry"])
            for segment in file.iter_segments("PT_LOAD"):
                address = int(segment["p_vaddr"])
                low, high = min(low, address // _PAGE * _PAGE), max(high, address + int(segment["p_memsz"]))
                if segment["p_flags"] & _EXECUTABLE:
                    code = np.frombuffer(segment.data() + bytes(_LONGEST), np.uint8)
                    segments.append(Segment(address, int(segment["p_offset"]), code))
    except (OSError, ELFError, ValueError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no ELF file"
        raise InputError(
            f"{path}: {reason}; the instructions' bytes are read from it, so it must be the file that ran"
        ) from None
    return Image(path, low, high, entry, tuple(segments))


class AddressSpace:
    """The files of one simulated process; those below `sysroot` are taken before this system's own."""

    def __init__(self, program: Path, isa: str, folder: Path, sysroot: str = "") -> None:
        self._isa = isa
        self._folder = folder  # to which relative names belong
        self._sysroot = sysroot
        self._program = elf.inspect(program)
        if self._program.isa != isa:
            raise InputError(f"{program}: a program for {self._program.isa}, but gem5 simulated {isa}")
        self.placed: list[tuple[Image, int]] = [(read_image(program), 0)]  # the latest wins
        self._known: dict[str, Image | None] = {}
        self._loader_placed = False

    @cached_property
    def loader(self) -> Image | None:
        name = self._program.interpreter
        return read_image(self._path(name)) if name is not None else None

    def _path(self, name: str) -> Path:
        """The file that has this name in the program."""
        below = Path(self._sysroot + name)
        return below if self._sysroot and below.is_file() else self._folder / name

    def map(self, name: str, start: int) -> None:
        """A file was mapped at `start` (a line of the flag Vma). Raises InputError."""
        if len(self.placed) >= _MOST_MAPPINGS:
            raise InputError(f"more than {_MOST_MAPPINGS} mappings of programs and libraries; the text is not gem5's")
        if name not in self._known:
            path = self._path(name)
            try:
                self._known[name] = read_image(path) if path.is_file() else None
            except InputError:
                self._known[name] = None  # a data file
        image = self._known[name]
        if image is None:
            return
        for other, bias in self.placed:
            if other is image and image.low + bias <= start < image.high + bias:
                return  # a further segment of what is mapped
        self.placed.append((image, start - image.low))

    def place_loader(self, first: int | None, executed: NDArray[np.uint64]) -> None:
        """Find the dynamic loader: `first` is the first executed address of the run, None where the text lacks it."""
        if self._loader_placed or self.loader is None:
            return
        image = self.loader
        size = -(-(image.high - image.low) // _PAGE) * _PAGE
        begin = MMAP_BEGINS[self._isa]
        candidates = [begin - image.low, begin - size - image.low]
        if first is not None:
            candidates.insert(0, first - image.entry)
        for bias in candidates:
            inside = (
                executed[(executed >= image.low + bias) & (executed < image.high + bias)] if bias >= 0 else executed[:0]
            )
            if bias % _PAGE == 0 and len(inside) and _found(image, bias, inside).all():
                self.placed.insert(0, (image, bias))
                self._loader_placed = True
                return

    def code(self, address: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """The 16 bytes at each address [K, 16], and whether a file holds them [K]."""
        code = np.zeros((len(address), _LONGEST), np.uint8)
        found = np.zeros(len(address), bool)
        for image, bias in reversed(self.placed):
            for segment in image.segments:
                begin = segment.address + bias
                rows = np.flatnonzero(~found & (address >= begin) & (address < begin + len(segment.code) - _LONGEST))
                if len(rows):
                    offsets = (address[rows] - np.uint64(begin)).astype(np.int64)
                    code[rows] = segment.code[offsets[:, None] + np.arange(_LONGEST)]
                    found[rows] = True
        return code, found

    def mappings(self) -> Iterator[elf.Mapping]:
        """The executable mappings, for their symbols."""
        for image, bias in self.placed:
            for segment in image.segments:
                begin = segment.address + bias
                end = begin + len(segment.code) - _LONGEST
                yield elf.Mapping(begin // _PAGE * _PAGE, end, segment.offset // _PAGE * _PAGE, str(image.path))


def _found(image: Image, bias: int, address: NDArray[np.uint64]) -> NDArray[np.bool_]:
    held = np.zeros(len(address), bool)
    for segment in image.segments:
        begin = segment.address + bias
        held |= (address >= begin) & (address < begin + len(segment.code) - _LONGEST)
    return held
