"""Encodings that QEMU reports in their own way: repeated strings, atomic updates, conditional stores, SVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def repeated_strings(code: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """x86: a string instruction (movs, cmps, stos, lods, scas, ins, outs) with a rep prefix; code [I, 16]."""
    result = np.zeros(len(code), bool)
    prefixed = np.isin(code[:, :4], (0xF2, 0xF3)).any(axis=1)  # of up to four prefixes in use, one is rep
    for row in np.flatnonzero(prefixed):
        repeat = False
        for byte in code[row].tolist():
            if byte in (0xF2, 0xF3):
                repeat = True
            elif byte not in (0x66, 0x67, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0xF0) and byte & 0xF0 != 0x40:
                result[row] = repeat and (
                    byte in range(0xA4, 0xA8) or byte in range(0xAA, 0xB0) or byte in range(0x6C, 0x70)
                )
                break
    return result


def atomic_read_modify_writes(code: NDArray[np.uint8], isa: str) -> NDArray[np.uint8]:
    """Return whether an instruction reads and writes memory in one step; code [I, 16].

    x86: a lock prefix, or xchg with memory. AArch64: LSE's LD<op>, SWP, CAS, CASP. RISC-V: the A extension without
    LR and SC.
    """
    word = np.ascontiguousarray(code[:, :4]).view("<u4")[:, 0]
    if isa == "aarch64":
        atomic = (word & 0x3B200C00) == 0x38200000
        atomic |= (word & 0x3FA07C00) == 0x08A07C00
        atomic |= (word & 0xBFA07C00) == 0x08207C00
    elif isa == "riscv64":
        atomic = ((word & 0x7F) == 0x2F) & ~np.isin(word >> 27, (2, 3))
    else:
        atomic = code[:, 0] == 0xF0
        for prefixes in range(3):  # xchg after an operand size or REX prefix; lock after an operand size prefix
            before = code[:, :prefixes]
            plain = ((before == 0x66) | (before & 0xF0 == 0x40)).all(axis=1)
            opcode = code[:, prefixes]
            atomic |= plain & (opcode == 0xF0)
            atomic |= plain & ((opcode == 0x86) | (opcode == 0x87)) & (code[:, prefixes + 1] < 0xC0)
    return atomic.astype(np.uint8)


def store_conditionals(code: NDArray[np.uint8], isa: str) -> NDArray[np.uint8]:
    """Return whether an instruction stores if nothing else has: AArch64's STXR and STXP, RISC-V's SC; code [I, 16]."""
    word = np.ascontiguousarray(code[:, :4]).view("<u4")[:, 0]
    conditional = np.zeros(len(code), bool)
    if isa == "aarch64":
        conditional = ((word & 0x3FE00000) == 0x08000000) | ((word & 0xBFE00000) == 0x88200000)
    elif isa == "riscv64":
        conditional = ((word & 0x7F) == 0x2F) & (word >> 27 == 3)
    return conditional.astype(np.uint8)


def scalable(code: NDArray[np.uint8], isa: str) -> NDArray[np.bool_]:
    """AArch64: Return whether an instruction is one of SVE, of which QEMU tells no access for sure; code [I, 16]."""
    word = np.ascontiguousarray(code[:, :4]).view("<u4")[:, 0]
    return (word >> 25 & 15 == 2) & (isa == "aarch64")


_MASKED = (0x2C, 0x2D, 0x2E, 0x2F, 0x8C, 0x8E, 0x90, 0x91, 0x92, 0x93)  # vmaskmov, vpmaskmov, gathers: VEX, map 2


def untold(code: NDArray[np.uint8], isa: str) -> NDArray[np.bool_]:
    """Return whether QEMU may not tell that an instruction accesses memory; code [I, 16].

    AArch64: SVE, allocation tags, and `dc zva` and `dc gzva`, which only the plugin may tell. x86-64: what loads or
    stores under a mask, which may be all zero.
    """
    if isa == "x86-64":
        vex = (code[:, 0] == 0xC4) & (code[:, 1] & 31 == 2) & np.isin(code[:, 3], _MASKED)
        skipped = (code[:, 0] == 0x66).astype(np.int64)
        rows = np.arange(len(code))
        stores = (code[rows, skipped] == 0x0F) & (code[rows, skipped + 1] == 0xF7)  # maskmovq, maskmovdqu
        return vex | stores | ((code[:, 0] == 0xC5) & (code[:, 2] == 0xF7))
    word = np.ascontiguousarray(code[:, :4]).view("<u4")[:, 0]
    others = ((word & 0xFF200000) == 0xD9200000) | np.isin(word & 0xFFFFFFE0, (0xD50B7420, 0xD50B7480))
    return scalable(code, isa) | (others & (isa == "aarch64"))
