"""The prefetchers of the caches, with gem5's defaults, and what they want until it can go.

A prefetcher sees misses, also those of a line that is on its way already, and the first use of what it brought
(Smith's tagged prefetching, Computing Surveys 1982). It does not leave the page. Stride (Fu, Patel & Janssens, MICRO
1992): 16 sets of 4 entries by program counter for each who asks, degree 4, a 3-bit confidence that starts at 4 and must
be at least half; it steps by the latest stride and does not see instruction fetches. Tagged: the next two lines.

What it wants waits in a queue of 32 and goes one a cycle, while fewer than all but two of the level's MSHRs are taken
(`MSHRQueue::canPrefetch`): never, where there are two. A demand for the line takes it out, a newer one the oldest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled, out_of_line
from uarch.timing.predictors.state import next_random
from uarch.timing.reference import by_reference

NONE, STRIDE, TAGGED = range(3)
KINDS = {"none": NONE, "stride": STRIDE, "tagged": TAGGED}
# Who asks a cache: the core for data, the prefetcher of level k (2 + k), the core for instructions.
DATA, CODE, PREFETCHER_OF = 0, 1, 2
SETS, WAYS = 16, 4
STRIDE_DEGREE, STRIDE_START, STRIDE_HIGH, STRIDE_NEEDED, TAGGED_DEGREE = 4, 4, 7, 4, 2
QUEUE = 32
MSHRS_LEFT = 2  # gem5's demand reserve and one more: fewer than all but so many may be taken
# Fields of a stride entry, of what waits, and of a level's `state`: how many wait and the first of them, the cycle
# of the access at hand, misses under way that have no MSHR booked yet.
PC, LAST, STEP, SURE = range(4)
LINE, READY, FOR = range(3)
WAITING, HEAD, NOW, UNBOOKED = range(4)


@by_reference
class Prefetchers(NamedTuple):
    strides: NDArray[np.int64]  # [4, 6, SETS, WAYS, 4]
    queue: NDArray[np.int64]  # [4, QUEUE, 3] circular; line -1: taken out
    state: NDArray[np.int64]  # [4, 4]
    random: NDArray[np.int64]


def new_prefetchers() -> Prefetchers:
    return Prefetchers(
        np.full((4, PREFETCHER_OF + 4, SETS, WAYS, 4), -1, np.int64),
        np.zeros((4, QUEUE, 3), np.int64),
        np.zeros((4, 4), np.int64),
        np.full(1, 0x2545F491, np.int64),
    )


def kind_of(name: str, mshrs: int) -> int:
    """A prefetcher that can never send anything is none."""
    return KINDS[name] if mshrs > MSHRS_LEFT else NONE


@out_of_line
def train(
    prefetchers: Prefetchers, level: int, kind: int, address: int, pc: int, who: int, cycle: int, missed: int
) -> None:
    """The level's prefetcher sees an access to `address` and queues what it wants."""
    state, page = prefetchers.state[level], address >> 12
    state[NOW] = cycle + STRIDE_DEGREE
    if kind == STRIDE and who == CODE and missed == 1:
        return
    for k in range(state[WAITING]):
        row = prefetchers.queue[level, (state[HEAD] + k) & (QUEUE - 1)]
        if row[LINE] == address >> 6:
            row[LINE] = -1
    if kind == TAGGED:
        for ahead in range(1, TAGGED_DEGREE + 1):
            _queue(prefetchers, level, (address >> 6) + ahead, page, cycle + ahead, pc)
        return
    chosen = prefetchers.strides[level, who, ((pc >> 1) ^ (pc >> 5)) & (SETS - 1)]
    which, empty = -1, -1
    for way in range(WAYS):
        if chosen[way, PC] == pc:
            which = way
        elif chosen[way, PC] == -1:
            empty = way
    if which < 0:
        which = empty if empty >= 0 else next_random(prefetchers.random, 0) & (WAYS - 1)
        entry = chosen[which]
        entry[PC], entry[LAST], entry[STEP], entry[SURE] = pc, address, 0, STRIDE_START
        return
    entry = chosen[which]
    step = address - entry[LAST]
    entry[LAST] = address
    if step == entry[STEP] and step != 0:
        entry[SURE] = min(entry[SURE] + 1, STRIDE_HIGH)
    else:
        entry[SURE] = max(entry[SURE] - 1, 0)
        if entry[SURE] < STRIDE_NEEDED:
            entry[STEP] = step
    if entry[SURE] < STRIDE_NEEDED:
        return
    if -64 < step < 64:
        step = -64 if step < 0 else 64
    for ahead in range(1, STRIDE_DEGREE + 1):
        _queue(prefetchers, level, (address + step * ahead) >> 6, page, cycle + ahead, pc)


@out_of_line
def _queue(prefetchers: Prefetchers, level: int, line: int, page: int, ready: int, pc: int) -> None:
    state = prefetchers.state[level]
    if line >> 6 != page:
        return
    for k in range(state[WAITING]):
        if prefetchers.queue[level, (state[HEAD] + k) & (QUEUE - 1), LINE] == line:
            return
    if state[WAITING] == QUEUE:
        drop_first(prefetchers, level)
    row = prefetchers.queue[level, (state[HEAD] + state[WAITING]) & (QUEUE - 1)]
    row[LINE], row[READY], row[FOR] = line, ready, pc
    state[WAITING] += 1


@compiled
def drop_first(prefetchers: Prefetchers, level: int) -> None:
    """What has waited longest no longer does."""
    state = prefetchers.state[level]
    state[HEAD] = (state[HEAD] + 1) & (QUEUE - 1)
    state[WAITING] -= 1
