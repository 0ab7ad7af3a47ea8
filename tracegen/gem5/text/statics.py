"""Distinct instructions, numbered in the order of their first execution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import cached


class Statics(NamedTuple):
    """An open hash table of the instructions' addresses, and these in order."""

    slot: NDArray[np.int32]  # [2^k] number + 1, 0 where free
    pc: NDArray[np.int64]  # [2^(k-1)]

    @staticmethod
    def empty(bits: int = 16) -> Statics:
        return Statics(np.zeros(1 << bits, np.int32), np.zeros(1 << (bits - 1), np.int64))

    def grown(self, count: int) -> Statics:
        """Twice the table with the same `count` numbers."""
        slot, pc = np.zeros(2 * len(self.slot), np.int32), np.zeros(2 * len(self.pc), np.int64)
        pc[:count] = self.pc[:count]
        _fill(slot, pc, count)
        return Statics(slot, pc)


@cached(nogil=True)
def _fill(slot: NDArray[np.int32], pcs: NDArray[np.int64], count: int) -> None:
    for number in range(count):
        slot[slot_of(slot, pcs, pcs[number])] = number + 1


@cached(nogil=True)
def slot_of(slot: NDArray[np.int32], pcs: NDArray[np.int64], pc: int) -> int:
    """Return the address's place in the hash table, or where it would be."""
    mask = len(slot) - 1
    at: Any = np.int64((np.uint64(pc) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) & mask
    while slot[at] and pcs[slot[at] - 1] != pc:
        at = (at + 1) & mask
    return at
