"""Pages of 4 KiB: translation lookaside buffers, and where virtual pages lie in physical memory.

Caches and DRAM see physical addresses. Frames are given out in the order in which pages are first touched, as gem5's
system-call emulation and a freshly booted system do; or a page keeps its virtual number (`first_touch=False`), as tools
that know only virtual addresses have it (cachegrind).

TLBs have 64 entries for instructions and as many for data, 8-way with LRU (gem5's are fully associative; eight ways
come close and are quicker to search). A miss is counted but costs nothing: in system-call emulation, where the labels
come from, gem5's x86 TLB is refilled from the page table without a walk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.timing.compiled import compiled, number, out_of_line

WAYS, SETS = 8, 8
INSTRUCTION, DATA = 0, 1
PLACES = 1 << 17  # of the page table, a power of two; beyond MOST_PAGES (384 MiB touched) pages keep their number
MOST_PAGES = 3 * PLACES // 4
# Columns of `state`, a row for each of INSTRUCTION and DATA; FRAMES and FIRST_TOUCH count in row 0.
PAGE, FRAME, MISSES, FRAMES, FIRST_TOUCH = range(5)


class Pages(NamedTuple):
    tlb: NDArray[np.int64]  # [2, SETS * WAYS] pages, the most recent of each set first
    state: NDArray[np.int64]  # [2, 5] last page and its frame, misses; frames given out, mode
    page: NDArray[np.int64]  # [PLACES] page table, hashed with linear probing
    frame: NDArray[np.int64]  # [PLACES]


def new_pages(first_touch: bool) -> Pages:
    state = np.zeros((2, 5), np.int64)
    state[:, PAGE] = -1
    state[0, FIRST_TOUCH] = first_touch
    places = PLACES if first_touch else 1
    return Pages(
        np.full((2, SETS * WAYS), -1, np.int64), state, np.full(places, -1, np.int64), np.zeros(places, np.int64)
    )


@compiled
def translate(pages: Pages, which: int, address: int) -> int:
    """The physical address; a look-up of the instruction or the data TLB."""
    if pages.state[which, PAGE] != address >> 12:
        _look_up(pages, number(which), number(address >> 12))
    return (pages.state[which, FRAME] << 12) | (address & 4095)


@out_of_line
def _look_up(pages: Pages, which: int, page: int) -> None:
    tlb = pages.tlb[which]
    first = (page & (SETS - 1)) * WAYS
    way = 0
    while way < WAYS - 1 and tlb[first + way] != page:
        way += 1
    if tlb[first + way] != page:
        pages.state[which, MISSES] += 1
    for later in range(way, 0, -1):
        tlb[first + later] = tlb[first + later - 1]
    tlb[first] = page
    pages.state[which, PAGE] = page
    pages.state[which, FRAME] = page
    if pages.state[0, FIRST_TOUCH] == 1:
        place = (page ^ (page >> 17)) & (PLACES - 1)
        while pages.page[place] != page and pages.page[place] != -1:
            place = (place + 1) & (PLACES - 1)
        if pages.page[place] == -1:
            if pages.state[0, FRAMES] >= MOST_PAGES:
                return
            pages.page[place] = page
            pages.frame[place] = pages.state[0, FRAMES]
            pages.state[0, FRAMES] += 1
        pages.state[which, FRAME] = pages.frame[place]
