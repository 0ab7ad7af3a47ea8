"""Encoding of x86-64 instructions: where the numbers lie that do not change what an instruction does.

Source: Intel SDM 2, chapter 2 (prefixes, ModR/M, SIB, displacement, VEX, EVEX) and appendix A (opcode maps).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MOST_PREFIXES = 4
_TWO_BYTES, _VEX2, _VEX3, _EVEX = 0x0F, 0xC5, 0xC4, 0x62
_LEFT_ALONE = (0x8F, 0xCD)  # XOP, which reaches into other maps; int 3 is another instruction than int n


def _marked(*ranges: tuple[int, int]) -> NDArray[np.bool_]:
    """Return [256], true within the ranges, ends included."""
    marked = np.zeros(256, np.bool_)
    for first, last in ranges:
        marked[first : last + 1] = True
    return marked


_PREFIX = _marked((0x26, 0x26), (0x2E, 0x2E), (0x36, 0x36), (0x3E, 0x3E), (0x64, 0x67), (0xF0, 0xF0), (0xF2, 0xF3))
_REX = _marked((0x40, 0x4F))
# Opcodes with a ModR/M byte, of one byte and of two.
_MODRM = _marked(
    *((first, first + 3) for first in range(0, 0x40, 8)),
    *((0x62, 0x63), (0x69, 0x69), (0x6B, 0x6B), (0x80, 0x8F), (0xC0, 0xC1), (0xC4, 0xC7)),
    *((0xD0, 0xD3), (0xD8, 0xDF), (0xF6, 0xF7), (0xFE, 0xFF)),
)
_MODRM_OF_TWO = ~_marked(
    *((0x04, 0x0C), (0x0E, 0x0E), (0x30, 0x37), (0x77, 0x77), (0x80, 0x8F), (0xA0, 0xA2), (0xA8, 0xAA), (0xC8, 0xCF))
)


def without_numbers(code: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return `code` [S, 16] with 0 for distances of jumps and immediates of one-byte opcodes, and 1 for displacements
    other than 0: six in seven of a program's distinct instructions differ in nothing else.

    Other immediates stay: they select what vector instructions do.
    """
    row, column = np.arange(len(code)), np.arange(code.shape[1])

    def byte(at: NDArray[np.int64]) -> NDArray[np.uint8]:
        return code[row, np.minimum(at, code.shape[1] - 1)]

    at = np.zeros(len(code), np.int64)
    for _ in range(_MOST_PREFIXES):
        at += _PREFIX[byte(at)]
    at += _REX[byte(at)]
    lead, second = byte(at), byte(at + 1)
    two, vex2, vex3, evex = (lead == first for first in (_TWO_BYTES, _VEX2, _VEX3, _EVEX))
    three = two & ((second == 0x38) | (second == 0x3A))
    one = ~(two | vex2 | vex3 | evex)
    of_two = (two & ~three) | vex2 | ((vex3 | evex) & (second & 0x1F == 1))
    for form, bytes_more in ((two, 1), (three, 1), (vex2, 2), (vex3, 3), (evex, 4)):
        at += np.where(form, bytes_more, 0)
    opcode, modrm = byte(at), byte(at + 1)
    has_modrm = np.where(one, _MODRM[opcode], np.where(of_two, _MODRM_OF_TWO[opcode], True))
    mode, memory = modrm >> 6, modrm & 7
    addresses = has_modrm & (mode != 3)
    indexed = addresses & (memory == 4)
    without_base = (mode == 0) & ((memory == 5) | (indexed & (byte(at + 2) & 7 == 5)))
    size = np.where(addresses, np.where(without_base | (mode == 2), 4, np.where(mode == 1, 1, 0)), 0)
    begin = at + 1 + has_modrm + indexed  # a number behind it
    far = one | (two & ~three & (opcode >> 4 == 8))  # all behind the displacement is a number
    kept = _PREFIX[lead] | _REX[lead] | np.isin(lead, _LEFT_ALONE)  # in an order that the manual does not know
    end = np.where(kept, begin, np.where(far, code.shape[1], begin + size))
    number = (column >= begin[:, None]) & (column < end[:, None])
    moved = ((code != 0) & number & (column < (begin + size)[:, None])).any(axis=1)
    plain = np.where(number, np.uint8(0), code)
    plain[row[moved], begin[moved]] = 1
    return plain
