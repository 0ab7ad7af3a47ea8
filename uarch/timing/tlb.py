"""Translation lookaside buffers for instructions and data: 64 entries, 8-way with LRU, 4 KiB pages.

gem5's are fully associative; eight ways come close and are quicker to search. A miss is counted but costs nothing: in
system-call emulation, where the labels come from, gem5's x86 TLB is refilled from the page table without a walk.
Caches and memory see virtual addresses, as in cachegrind: where a system puts its pages is not known from a trace.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled, number, out_of_line

WAYS, SETS = 8, 8
INSTRUCTION, DATA = 0, 1
MISSES = SETS * WAYS  # the column after the entries


def new_tlbs() -> NDArray[np.int64]:
    """[2, SETS * WAYS + 1] pages, the most recent of each set first; then the misses so far."""
    tlbs = np.full((2, SETS * WAYS + 1), -1, np.int64)
    tlbs[:, MISSES] = 0
    return tlbs


@compiled
def translate(tlbs: NDArray[np.int64], which: int, address: int) -> None:
    """A look-up of the instruction or the data TLB."""
    page = address >> 12
    if tlbs[which, (page & (SETS - 1)) * WAYS] != page:
        _look_up(tlbs, number(which), number(page))


@out_of_line
def _look_up(tlbs: NDArray[np.int64], which: int, page: int) -> None:
    tlb = tlbs[which]
    first = (page & (SETS - 1)) * WAYS
    way = 1  # it is not the most recent one
    while way < WAYS - 1 and tlb[first + way] != page:
        way += 1
    if tlb[first + way] != page:
        tlb[MISSES] += 1
    for later in range(way, 0, -1):
        tlb[first + later] = tlb[first + later - 1]
    tlb[first] = page
