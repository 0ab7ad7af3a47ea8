"""What the toolkit needs to know of ELF files: instruction set, dynamic linker, function symbols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from numpy.typing import NDArray

from uarch.errors import InputError

# e_machine, bits -> the name of the instruction set in a trace
ISA_OF_MACHINE = {("EM_X86_64", 64): "x86-64", ("EM_AARCH64", 64): "aarch64", ("EM_RISCV", 64): "riscv64"}
_FUNCTIONS = ("STT_FUNC", "STT_GNU_IFUNC", "STT_LOOS")  # LOOS is what older pyelftools calls GNU_IFUNC
_PAGE = 4096


@dataclass(frozen=True)
class Executable:
    """An ELF program."""

    path: Path
    isa: str  # "x86-64", "aarch64" or "riscv64"
    interpreter: str | None  # the dynamic linker it names, None for a static program
    is_pie: bool

    @property
    def is_dynamic(self) -> bool:
        return self.interpreter is not None


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
    """Read the headers of a program; InputError unless it is a 64-bit little-endian executable of a known machine."""
    with path.open("rb") as stream:
        try:
            elf = ELFFile(stream)
            machine, bits, little = elf["e_machine"], elf.elfclass, elf.little_endian
            kind = elf["e_type"]
            interpreter = None
            for segment in elf.iter_segments("PT_INTERP"):
                interpreter = segment.get_interp_name()  # type: ignore[attr-defined]
        except (ELFError, UnicodeDecodeError, ValueError) as error:
            raise InputError(f"{path}: not an ELF program, nor a script that starts with '#!'") from error
    isa = ISA_OF_MACHINE.get((machine, bits))
    if isa is None or not little:
        found = f"{str(machine).removeprefix('EM_')}, {bits}-bit, {'little' if little else 'big'}-endian"
        raise InputError(f"{path}: a program for {found}; 64-bit little-endian x86-64, AArch64 or RISC-V is supported")
    if kind not in ("ET_EXEC", "ET_DYN"):
        raise InputError(f"{path}: an ELF file that is not executable ({kind}); link it into a program first")
    return Executable(path, isa, interpreter, kind == "ET_DYN")


def function_symbols(path: Path) -> Symbols:
    """Function symbols of .symtab and .dynsym, at the addresses in the file. Empty for what is no readable ELF file."""
    found: dict[int, tuple[int, str]] = {}
    try:
        with path.open("rb") as stream:
            for section in ELFFile(stream).iter_sections():
                if isinstance(section, SymbolTableSection):
                    _collect(section, found)
    except (OSError, ELFError, UnicodeDecodeError, ValueError):
        pass
    return _symbols(found)


def _collect(section: SymbolTableSection, found: dict[int, tuple[int, str]]) -> None:
    for symbol in section.iter_symbols():
        if symbol["st_info"]["type"] not in _FUNCTIONS or symbol["st_shndx"] == "SHN_UNDEF" or not symbol.name:
            continue
        address, size = symbol["st_value"], symbol["st_size"]
        known = found.get(address)
        # Of several names for one place: the one that has a size, then the least decorated.
        if known is None or (size > 0, -_decoration(symbol.name)) > (known[0] > 0, -_decoration(known[1])):
            found[address] = (size, symbol.name)


def _decoration(name: str) -> int:
    return len(name) - len(name.lstrip("_")) + 2 * name.startswith("_IO") + 4 * ("@" in name)


def _symbols(found: dict[int, tuple[int, str]]) -> Symbols:
    order = sorted(found)
    return Symbols(
        np.array(order, np.uint64),
        np.array([found[address][0] for address in order], np.uint64),
        [found[address][1] for address in order],
    )


def load_bias(path: Path, mapping: Mapping) -> int | None:
    """Run-time address minus address in the file, from one mapping of the file; None where no segment covers it."""
    try:
        with path.open("rb") as stream:
            for segment in ELFFile(stream).iter_segments("PT_LOAD"):
                begin = segment["p_offset"] // _PAGE * _PAGE
                if begin <= mapping.offset < segment["p_offset"] + max(segment["p_filesz"], 1):
                    address = segment["p_vaddr"] - segment["p_offset"] + mapping.offset
                    return mapping.start - int(address)
    except (OSError, ELFError, ValueError):
        pass
    return None


def symbols_at_run_time(mappings: Iterable[Mapping], executed: NDArray[np.uint64]) -> Symbols:
    """Function symbols, at run-time addresses, of the mapped files that hold one of `executed` (sorted addresses)."""
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
    return _symbols(found)
