"""Contention for functional units, ports and issue slots: a window of per-cycle occupancy.

Instruction-driven timing (Sanchez & Kozyrakis, "ZSim", ISCA 2013, section 3.1) visits instructions in program order
but books units at the cycles where they issue, which are not in order. So each cycle of a moving window has its own
counts. A row of the window holds the cycle that it stands for and all counts, 8 bits each, in one word; a row that
stands for an earlier cycle is free to reuse, so nothing ever has to be cleared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.jit import out_of_line

Array = NDArray[np.int64]

WINDOW = 4096  # cycles, a power of two; bookings further apart than this do not see one another

# Position of each resource's count in the word.
ISSUE, INT_ALU, INT_MUL, FP_ADD, FP_MUL, SIMD, LOAD, STORE = range(8)
RESOURCES = 8


def new_window() -> Array:
    """[WINDOW, 2] cycle and packed counts."""
    window = np.zeros((WINDOW, 2), np.int64)
    window[:, 0] = -1
    return window


@out_of_line
def reserve(window: Array, capacity: Array, resource: int, cycle: int) -> int:
    """First cycle from `cycle` on with a free slot of `resource` and of ISSUE; books both."""
    shift = 8 * resource
    limit, width = capacity[resource], capacity[ISSUE]
    while True:
        row = cycle & (WINDOW - 1)
        stamp = window[row, 0]
        if stamp < cycle:
            window[row, 0] = cycle
            window[row, 1] = 1 + (1 << shift)
            return cycle
        if stamp > cycle:  # the row stands for a later cycle already: too far back to know
            return cycle
        counts = window[row, 1]
        if (counts & 255) < width and ((counts >> shift) & 255) < limit:
            window[row, 1] = counts + 1 + (1 << shift)
            return cycle
        cycle += 1


@out_of_line
def reserve_each(window: Array, capacity: Array, resource: int, cycle: int, count: int) -> int:
    """`count` slots of `resource` and ISSUE, each the first free one from `cycle` on; returns the cycle of the last."""
    shift = 8 * resource
    limit, width = capacity[resource], capacity[ISSUE]
    while True:
        row = cycle & (WINDOW - 1)
        stamp = window[row, 0]
        if stamp > cycle:
            return cycle
        counts = window[row, 1] if stamp == cycle else 0
        room = min(width - (counts & 255), limit - ((counts >> shift) & 255))
        if room > 0:
            taken = min(room, count)
            window[row, 0] = cycle
            window[row, 1] = counts + taken * (1 + (1 << shift))
            count -= taken
            if count == 0:
                return cycle
        cycle += 1


@out_of_line
def reserve_unpipelined(free_at: Array, units: int, cycle: int, duration: int) -> int:
    """First cycle from `cycle` on at which one of `units` dividers is idle; keeps it busy for `duration` cycles."""
    best = 0
    for unit in range(1, units):
        if free_at[unit] < free_at[best]:
            best = unit
    start = max(cycle, free_at[best])
    free_at[best] = start + duration
    return start
