"""Stubs of procedure linkage tables, through which a file calls functions of others. No symbol names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection
from numpy.typing import NDArray

_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".iplt")
_RELOCATION = np.dtype([("slot", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])  # Elf64_Rela
_BTI = 0xD503245F  # bti c

Found = tuple[NDArray[np.int64], NDArray[np.int64]]


class Stub(NamedTuple):
    """A stub, or what is left of the section before its first one."""

    address: int
    size: int
    name: str  # of the function that it jumps to; empty where that has none
    chooser: int  # address in the file of the function that chooses among several, 0 where there is none
    section: str


def stubs(elf: ELFFile) -> list[Stub]:
    """Return the stubs of a file: those that jump to where a relocation says."""
    read = _READERS.get(elf["e_machine"])
    found: list[Stub] = []
    if read is None:
        return found
    for name in _SECTIONS:
        section = elf.get_section_by_name(name)
        if section is None or section["sh_type"] != "SHT_PROGBITS":
            continue
        begin, slots = read(section.data(), section["sh_addr"])
        targets = _targets(elf, slots)
        places = {section["sh_addr"]: ("", 0)}
        for address, slot in zip(begin.tolist(), slots.tolist(), strict=True):
            if slot in targets:
                places[address] = targets[slot]
        bounds = [*sorted(places), section["sh_addr"] + section["sh_size"]]
        for place, address in enumerate(bounds[:-1]):
            found.append(Stub(address, bounds[place + 1] - address, *places[address], name))
    return found


def _targets(elf: ELFFile, slots: NDArray[np.int64]) -> dict[int, tuple[str, int]]:
    """(name, chooser) of the functions whose addresses the dynamic linker, or the program itself, puts into `slots`."""
    targets = {}
    for section in elf.iter_sections("SHT_RELA"):
        data = section.data()
        rows = np.frombuffer(data, _RELOCATION, len(data) // _RELOCATION.itemsize)
        rows = rows[np.isin(rows["slot"], slots.astype(np.uint64))]
        symbols = elf.get_section(section["sh_link"])
        for slot, _, symbol, addend in rows.tolist():
            targets[slot] = (_name(symbols, symbol), 0) if symbol else ("", addend)
    return targets


def _name(symbols: Section, number: int) -> str:
    return str(symbols.get_symbol(number).name) if isinstance(symbols, SymbolTableSection) else ""


def _x86_64(code: bytes, address: int) -> Found:
    """`jmp *slot(%rip)`, at a stub's begin, or behind endbr64 and bnd; stubs begin at multiples of 8."""
    data = np.frombuffer(code, np.uint8)
    at = np.flatnonzero((data[:-5] == 0xFF) & (data[1:-4] == 0x25))
    distance = np.stack([data[at + byte] for byte in range(2, 6)], 1).copy().view("<i4")[:, 0]
    return address + at // 8 * 8, address + at + 6 + distance


def _aarch64(code: bytes, address: int) -> Found:
    """`adrp x16, page; ldr x17, [x16, offset]`, behind a landing pad where there is one."""
    words = np.frombuffer(code, "<u4", len(code) // 4).astype(np.int64)
    at = np.flatnonzero((words[:-1] & 0x9F00001F == 0x90000010) & (words[1:] & 0xFFC003FF == 0xF9400211))
    page, load = words[at], words[at + 1]
    distance = (page >> 5 & 0x7FFFF) << 2 | page >> 29 & 3
    distance -= (distance >> 20) << 21
    begin = at - ((at > 0) & (words[at - 1] == _BTI))
    return address + 4 * begin, (address + 4 * at >> 12) + distance << 12 | (load >> 10 & 0xFFF) << 3


def _riscv(code: bytes, address: int) -> Found:
    """`auipc t3, high; ld t3, low(t3)`."""
    words = np.frombuffer(code, "<i4", len(code) // 4).astype(np.int64)
    at = np.flatnonzero((words[:-1] & 0xFFF == 0xE17) & (words[1:] & 0xFFFFF == 0xE3E03))
    return address + 4 * at, address + 4 * at + (words[at] & ~0xFFF) + (words[at + 1] >> 20)


_READERS: dict[str, Callable[[bytes, int], Found]] = {"EM_X86_64": _x86_64, "EM_AARCH64": _aarch64, "EM_RISCV": _riscv}
