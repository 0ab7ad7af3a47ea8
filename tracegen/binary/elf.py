"""Facts from ELF files: instruction set, dynamic linker, function symbols."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE, ENUM_E_TYPE
from elftools.elf.sections import SymbolTableSection
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.binary.debug_files import debug_file
from tracegen.binary.demangle import demangled, without_parameters
from tracegen.binary.plt import Stub, stubs

# e_machine, bits -> the name of the instruction set in a trace
ISA_OF_MACHINE = {("EM_X86_64", 64): "x86-64", ("EM_AARCH64", 64): "aarch64", ("EM_RISCV", 64): "riscv64"}
_RESERVED = 0xFF00  # SHN_LORESERVE: no number of a section
_LABEL = 0  # STT_NOTYPE
_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
# What pyelftools raises where a file is no ELF file, or a damaged one: besides its own errors, whatever it runs into
# (AssertionError, OverflowError and MemoryError for sizes that no file has, …).
UNREADABLE = Exception
_PAGE = 4096
_LOADED, _INTERPRETER = 1, 3  # PT_LOAD, PT_INTERP
_EXECUTABLE = 1  # PF_X
MAGIC = b"\x7fELF"
_LONGEST_NAME = 4096  # PATH_MAX
_NAMES_OF_TYPES = {number: name for name, number in ENUM_E_TYPE.items()}
_NAMES_OF_MACHINES = {number: name for name, number in ENUM_E_MACHINE.items()}


@dataclass(frozen=True)
class Executable:
    """An ELF program."""

    path: Path
    isa: str  # "x86-64", "aarch64" or "riscv64"
    interpreter: str | None  # the dynamic linker it names, None for a static program


class Mapping(NamedTuple):
    """A part of a file that is mapped into the program's memory, at the program's own addresses."""

    start: int
    end: int
    offset: int  # in the file
    path: str


class Symbols(NamedTuple):
    """Function symbols in ascending order of address, one per address."""

    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    name: list[str]


def inspect(path: Path) -> Executable:
    """Read the headers of a program; InputError unless it is a 64-bit little-endian executable of a known machine.

    Sections are not looked at, as Linux does not: a program runs whatever they hold.
    """
    try:
        with path.open("rb") as stream:
            bits, little, kind, machine = _header(stream)
            isa = ISA_OF_MACHINE.get((machine, bits))
            if isa is None or not little:
                found = f"{machine.removeprefix('EM_')}, {bits}-bit, {'little' if little else 'big'}-endian"
                raise InputError(
                    f"{path}: a program for {found}; 64-bit little-endian x86-64, AArch64 or RISC-V is supported"
                )
            interpreter = _interpreter(stream, path.stat().st_size)
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not an ELF program, nor a script that starts with '#!'") from error
    if kind not in ("ET_EXEC", "ET_DYN"):
        raise InputError(f"{path}: an ELF file that is not executable ({kind}); link it into a program first")
    return Executable(path, isa, interpreter)


def _header(stream: BinaryIO) -> tuple[int, bool, str, str]:
    """Bits, whether little-endian, and pyelftools' names of e_type and e_machine. Raises struct.error, KeyError."""
    ident = stream.read(16)
    if ident[:4] != MAGIC:
        raise KeyError("no ELF file")
    bits, little = {1: 32, 2: 64}[ident[4]], {1: True, 2: False}[ident[5]]
    kind, machine = struct.unpack("<HH" if little else ">HH", stream.read(4))
    return bits, little, _NAMES_OF_TYPES.get(kind, str(kind)), _NAMES_OF_MACHINES.get(machine, str(machine))


class _Segment(NamedTuple):
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    length: int  # in the file

    @property
    def page(self) -> int:
        """Offset of the page of the file in which it begins."""
        return self.offset // _PAGE * _PAGE


def _segments(stream: BinaryIO, size: int) -> Iterator[_Segment]:
    """Program headers of a 64-bit little-endian file. Raises struct.error, KeyError."""
    stream.seek(32)
    (first,) = struct.unpack("<Q", stream.read(8))
    stream.seek(54)
    entry, count = struct.unpack("<HH", stream.read(4))
    if count and (entry < 56 or first + entry * count > size):
        raise KeyError("program headers beyond the file")
    for number in range(count):
        stream.seek(first + entry * number)
        kind, flags, offset, address, _, length = struct.unpack("<IIQQQQ", stream.read(40))
        yield _Segment(kind, flags, offset, address, length)


def _interpreter(stream: BinaryIO, size: int) -> str | None:
    """The dynamic linker that the program headers of a 64-bit little-endian file name."""
    for segment in _segments(stream, size):
        if segment.kind == _INTERPRETER:
            if segment.length > _LONGEST_NAME or segment.offset + segment.length > size:
                raise KeyError("a name beyond the file")
            stream.seek(segment.offset)
            return stream.read(segment.length).partition(b"\0")[0].decode()
    return None


@contextmanager
def elf_file(path: Path, what: str) -> Iterator[ELFFile | None]:
    """The file, None where it is no readable ELF file. Where reading it fails, warn that `what` is missing: a program
    runs with damaged sections, and symbols and lines are not worth the loss of its trace.
    """
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(path.open("rb"))
            magic = stream.read(4) == MAGIC
            elf = ELFFile(stream) if magic else None
        except OSError:
            elf = None
        except UNREADABLE as error:
            _warn_left_out(path, what, error)
            elf = None
        try:
            yield elf
        except UNREADABLE as error:
            _warn_left_out(path, what, error)


def _warn_left_out(path: Path, what: str, error: Exception) -> None:
    why = f"{type(error).__name__}: {error}" if str(error) else "a size that no file has"  # MemoryError says nothing
    _warn(f"{path}: {what} cannot be read, and are left out ({why})")


@cache
def _warn(text: str) -> None:
    """Once, not for every thread."""
    print(f"perfvec: {' '.join(text.split())[:200]}", file=sys.stderr)


class _SymbolTable(NamedTuple):
    """The named symbols of .symtab and .dynsym, and the stubs that they do not name."""

    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    end: NDArray[np.uint64]  # of the section that it is in, 0 where that is not known
    kind: NDArray[np.uint8]
    is_defined: NDArray[np.bool_]
    name: list[str]
    stubs: list[Stub]

    @property
    def is_function(self) -> NDArray[np.bool_]:
        return np.isin(self.kind, _FUNCTIONS)


_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("address", "<u8"), ("size", "<u8")]
)  # Elf64_Sym


def _symbol_table(path: Path) -> _SymbolTable:
    """Empty for what is no readable ELF file."""
    try:
        status = path.stat()
    except OSError:
        return read_symbol_table(path, 0, 0)
    return read_symbol_table(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def read_symbol_table(path: Path, changed: int, size: int) -> _SymbolTable:
    """`changed` and `size` tell whether the file is still the one that was read."""
    tables, names, ends = [], [], np.zeros(1 << 16, np.uint64)
    linkage: list[Stub] = []
    with elf_file(path, "its symbols") as elf:
        for number, section in enumerate(elf.iter_sections() if elf is not None else ()):
            if number < _RESERVED:
                ends[number] = (section["sh_addr"] + section["sh_size"]) % 2**64
            if isinstance(section, SymbolTableSection):
                data = section.data()
                table = np.frombuffer(data, _SYMBOL, len(data) // _SYMBOL.itemsize)
                table = table[table["name"] != 0]
                text = section.stringtable.data()
                names += [
                    text[begin : text.find(b"\0", begin)].decode(errors="replace") for begin in table["name"].tolist()
                ]
                tables.append(table)
        if elf is not None:
            linkage = stubs(elf)
    table = np.concatenate(tables) if tables else np.empty(0, _SYMBOL)
    return _SymbolTable(
        table["address"],
        table["size"],
        ends[table["section"]],
        (table["info"] & 15).astype(np.uint8),
        table["section"] != 0,
        names,
        linkage,
    )


def function_addresses(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the offsets at which functions and labels begin, in the file; local functions of one name begin at several
    places, and so do those that C++ overloads. A C++ function has its symbol, its name, and that with its parameters.
    """
    table = _symbol_table(path)
    found: dict[str, dict[int, None]] = {}
    for row in np.flatnonzero(table.is_defined & (table.is_function | (table.kind == _LABEL))).tolist():
        symbol, name = table.name[row], demangled(table.name[row])
        for each in (symbol,) if name == symbol else (symbol, name, without_parameters(name)):
            found.setdefault(each, {})[int(table.address[row])] = None
    return {name: tuple(addresses) for name, addresses in found.items()}


def imported_names(path: Path) -> set[str]:
    """Names that the file expects of others."""
    table = _symbol_table(path)
    return {table.name[row] for row in np.flatnonzero(~table.is_defined).tolist()}


def function_symbols(path: Path) -> Symbols:
    """Function symbols of .symtab and .dynsym, at the addresses in the file, those of C++ as in the source; of a
    stripped file also those of its separate debug file. Stubs that call f are `f@plt`. Empty for what is no readable
    ELF file.
    """
    found: dict[int, tuple[int, str]] = {}
    ends: dict[int, int] = {}
    for table in (_symbol_table(path), *_separate_symbol_tables(path)):
        for row in np.flatnonzero(table.is_function & table.is_defined).tolist():
            name, address, size = table.name[row], int(table.address[row]), int(table.size[row])
            known = found.get(address)
            # Of several names for one place: the one that has a size, then the least decorated.
            if known is None or (size > 0, -_decoration(name)) > (known[0] > 0, -_decoration(known[1])):
                found[address] = (size, name)
                if size == 0:
                    ends[address] = int(table.end[row])
    for stub in _symbol_table(path).stubs:
        name = stub.name or (found[stub.chooser][1] if stub.chooser in found else "")
        found.setdefault(stub.address, (stub.size, f"{demangled(name)}@plt" if name else stub.section))
    for address, following in pairwise([*sorted(found), 2**64]):
        size, name = found[address]
        if size == 0 and ends.get(address, 0) > address:
            # One without a size, as of assembly code, reaches to the next one or to its section's end.
            found[address] = (min(ends[address], following) - address, name)
    return _symbols(found)


def _separate_symbol_tables(path: Path) -> list[_SymbolTable]:
    """Symbols of the separate debug file, where there is one, of a file without a .symtab."""
    separate = None
    with elf_file(path, "its symbols") as elf:
        if elf is not None and elf.get_section_by_name(".symtab") is None:
            separate = debug_file(elf, path)
    return [_symbol_table(separate)] if separate is not None else []


def _decoration(name: str) -> int:
    return len(name) - len(name.lstrip("_")) + 2 * name.startswith(("_IO", "__GI_")) + 4 * ("@" in name)


def _symbols(found: dict[int, tuple[int, str]]) -> Symbols:
    order = sorted(found)
    return Symbols(
        np.array(order, np.uint64),
        np.array([found[address][0] for address in order], np.uint64),
        [demangled(found[address][1]) for address in order],
    )


def load_bias(path: Path, mapping: Mapping) -> int | None:
    """Run-time address minus address in the file, from one mapping of the file; None where no segment covers it.

    LLD's segments share a page of the file, which is mapped once for each: at its place begins the later one. Where
    several begin in that page, the mapping that matters is of the one with code.
    """
    try:
        with path.open("rb") as stream:
            bits, little, *_ = _header(stream)
            covering = [
                segment
                for segment in (_segments(stream, path.stat().st_size) if bits == 64 and little else ())
                if segment.kind == _LOADED and segment.page <= mapping.offset < segment.offset + max(segment.length, 1)
            ]
    except (OSError, struct.error, LookupError):
        return None
    if not covering:
        return None
    segment = max(covering, key=lambda each: (each.page, each.flags & _EXECUTABLE))
    return mapping.start - (segment.address - segment.offset + mapping.offset)


def symbols_at_run_time(mappings: Sequence[Mapping], executed: NDArray[np.uint64]) -> Symbols:
    """Function symbols, at run-time addresses, of the mapped files that hold one of `executed` (sorted addresses).

    Code that none covers has its file's name, `[libc.so.6]`, or `[program]` in that which is mapped first.
    """
    found: dict[int, tuple[int, str]] = {}
    seen: set[tuple[str, int]] = set()
    for mapping in mappings:
        first = int(np.searchsorted(executed, np.uint64(mapping.start)))
        if first == len(executed) or int(executed[first]) >= mapping.end:
            continue
        path = Path(mapping.path)
        bias = load_bias(path, mapping)
        if bias is None or (mapping.path, bias) in seen:
            continue
        seen.add((mapping.path, bias))
        symbols = function_symbols(path)
        for address, size, name in zip(symbols.address.tolist(), symbols.size.tolist(), symbols.name, strict=True):
            found[(address + bias) % 2**64] = (size, name)
    return _symbols(found | _files_of(mappings, executed, found))


def _files_of(
    mappings: Sequence[Mapping], executed: NDArray[np.uint64], found: dict[int, tuple[int, str]]
) -> dict[int, tuple[int, str]]:
    """Return a symbol for what of each file is executed between one symbol and the next that no symbol covers."""
    start = np.array(sorted(found), np.uint64)
    size = np.array([found[address][0] for address in start.tolist()], np.uint64)
    before = np.searchsorted(start, executed, "right") - 1
    others: dict[int, tuple[int, str]] = {}
    for mapping in dict.fromkeys(mappings):
        inside = (executed >= mapping.start) & (executed < mapping.end)
        here, last = executed[inside], before[inside]
        if len(start):  # a symbol without a size reaches to the next one
            symbol, long = start[last], size[last]
            covered = (last >= 0) & np.where(long > 0, here < symbol + long, symbol >= mapping.start)
            here, last = here[~covered], last[~covered]
        name = "[program]" if mapping.path == mappings[0].path else f"[{Path(mapping.path).name}]"
        changes = np.flatnonzero(np.diff(last, prepend=-2, append=-2))  # where gaps begin, and the end
        for begin, end in zip(here[changes[:-1]].tolist(), here[changes[1:] - 1].tolist(), strict=True):
            others[begin] = (end - begin + 1, name)
    return others
