"""Translation lookaside buffers for instructions and data: 64 entries, 8-way, 4 KiB pages.

gem5's are fully associative; eight ways come close and are quicker to search. A miss is counted but costs nothing: in
system-call emulation, where the labels come from, gem5's x86 TLB is refilled from the page table without a walk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.timing.compiled import compiled

WAYS, SETS = 8, 8
INSTRUCTION, DATA = 0, 1


def new_tlbs() -> NDArray[np.int64]:
    """[2, SETS * WAYS + 2] pages, the most recent of each set first; then the last page and the misses so far."""
    return np.full((2, SETS * WAYS + 2), -1, np.int64) * np.array([1] * (SETS * WAYS + 1) + [0])


@compiled
def translate(tlbs: NDArray[np.int64], which: int, address: int) -> None:
    page = address >> 12
    tlb = tlbs[which]
    if tlb[SETS * WAYS] == page:
        return
    tlb[SETS * WAYS] = page
    first = (page & (SETS - 1)) * WAYS
    way = 0
    while way < WAYS - 1 and tlb[first + way] != page:
        way += 1
    if tlb[first + way] != page:
        tlb[SETS * WAYS + 1] += 1
    for later in range(way, 0, -1):
        tlb[first + later] = tlb[first + later - 1]
    tlb[first] = page
