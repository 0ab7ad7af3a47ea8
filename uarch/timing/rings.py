"""Rings of release cycles: when the entries of a structure that are handed out in order are free again.

A ring has room for SPARE entries more than the structure, so that the usual few can be booked without asking how many
they are: what is written beyond them is written again before it is read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled

Array = NDArray[np.int64]

SPARE = 4


def new_ring(entries: int, free_at: int) -> Array:
    """A power of two of cycles, at least `entries` and the spare ones, all released at `free_at`."""
    return np.full(1 << (int(entries) + SPARE - 1).bit_length(), free_at, np.int64)


@compiled
def released(ring: Array, handed_out: int, wanted: int, entries: int) -> int:
    """Cycle of the release after which `wanted` more of `entries` are there, after `handed_out` so far."""
    return ring[(handed_out + min(wanted, entries) - 1 - entries) & (len(ring) - 1)]


@compiled
def book(ring: Array, handed_out: int, count: int, cycle: int) -> int:
    """`count` more entries, which are released at `cycle`; returns how many are handed out then."""
    mask = len(ring) - 1
    for entry in range(SPARE):
        ring[(handed_out + entry) & mask] = cycle
    for entry in range(SPARE, count):
        ring[(handed_out + entry) & mask] = cycle
    return handed_out + count
