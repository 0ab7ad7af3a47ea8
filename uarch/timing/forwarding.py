"""Stores still in flight, by the 8-byte words they write, so that loads get their data before it is in the cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled

WORDS = 512  # direct-mapped, a power of two
WORD, BEGIN, END, DATA, WRITTEN = range(5)
CACHED, FORWARDED, PARTIAL = range(3)
PENDING = 1 << 60  # cycle of a write that has not happened yet


def new_forwarding() -> NDArray[np.int64]:
    """[WORDS, 8] word, first byte, end, cycle of the data, cycle of the write to the cache."""
    table = np.zeros((WORDS, 8), np.int64)
    table[:, WORD] = -1
    return table


@compiled
def note_store(table: NDArray[np.int64], address: int, size: int, data: int, written: int) -> None:
    for word in range(address >> 3, ((address + size - 1) >> 3) + 1):
        row = table[word & (WORDS - 1)]
        row[WORD], row[BEGIN], row[END], row[DATA], row[WRITTEN] = word, address, address + size, data, written


@compiled
def note_written(table: NDArray[np.int64], address: int, size: int, data: int, written: int) -> None:
    """The store that was noted as PENDING has been written."""
    for word in range(address >> 3, ((address + size - 1) >> 3) + 1):
        row = table[word & (WORDS - 1)]
        if row[WORD] == word and row[BEGIN] == address and row[DATA] == data:
            row[WRITTEN] = written


@compiled
def find_store(table: NDArray[np.int64], address: int, size: int, cycle: int) -> tuple[int, int]:
    """(FORWARDED, cycle of the data) where one store in flight at `cycle` covers the load, (PARTIAL, cycle of its
    write) where it holds only a part, else (CACHED, 0).
    """
    state, known = CACHED, 0
    for word in range(address >> 3, ((address + size - 1) >> 3) + 1):
        row = table[word & (WORDS - 1)]
        if row[WORD] != word or row[WRITTEN] <= cycle or row[BEGIN] >= address + size or row[END] <= address:
            continue
        if row[BEGIN] <= address and address + size <= row[END]:
            if state != PARTIAL:
                state, known = FORWARDED, max(known, row[DATA])
        else:
            if state != PARTIAL:
                known = 0
            state, known = PARTIAL, max(known, row[WRITTEN])
    return state, known
