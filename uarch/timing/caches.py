"""The cache hierarchy: set-associative, true LRU, write-back, write-allocate, mostly inclusive; 64-byte lines.

Tags, recency and the cycle at which a line's data is there are flat arrays over all levels. A miss installs its line
at once with the future cycle of its data: a later access to the same line before that is what a merged MSHR target
would be (Kroft, ISCA 1981). A level's MSHRs are the intervals of its latest misses; a miss that finds all of them
occupied at its time waits for the first to end.

Accesses come in program order, not in the order of time: a store that evicts a line when it has retired is seen before
younger loads that ran ahead of it. So an L1 remembers from when on the lines it has lost lately are gone.

Latencies follow gem5's classic caches: tag and data together `latency`, response half of it (at least 1), a crossbar
of one cycle and two cycles of payload between levels, its system crossbar before memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.timing.compiled import compiled, number, out_of_line
from uarch.timing.memory import Memory, new_memory, read_memory, write_memory
from uarch.timing.reference import by_reference
from uarch.timing.tlb import DATA, INSTRUCTION, translate

Array = NDArray[np.int64]

L1I, L1D, L2, L3 = range(4)
NO_LEVEL = -1
# Columns of `levels`.
FIRST, SET_MASK, WAYS, LATENCY, REQUEST, TRANSFER, RESPONSE, MSHRS, PREFETCHER, NEXT = range(10)
# Columns of `counters`.
ACCESSES, MISSES, WRITE_BACKS, PREFETCHES, MERGED = range(5)  # merged: with a miss whose line is on its way
# Places in `scalars`.
TICK, QUEUED = range(2)

DIRTY, PREFETCHED = 1, 2  # bits of `used`
MAX_MSHRS = 256
NONE, STRIDE, TAGGED = range(3)
PREFETCHERS = {"none": NONE, "stride": STRIDE, "tagged": TAGGED}
# gem5's defaults: stride prefetcher (Fu, Patel & Janssens, MICRO 1992) of 64 entries, degree 4, 3-bit confidence that
# starts at 4 and must be at least half; tagged prefetcher of degree 2. They see misses and the first use of what they
# brought (Smith's tagged prefetching, Computing Surveys 1982), and do not leave the page.
STRIDE_ENTRIES, STRIDE_DEGREE, STRIDE_START, STRIDE_HIGH, STRIDE_NEEDED, TAGGED_DEGREE = 64, 4, 4, 7, 4, 2
QUEUE = 32
EVICTED = 256  # lines remembered of each L1, a power of two

CROSSBAR = 1  # cycles to pass the crossbar between levels, each way
PAYLOAD = 1  # further cycles until the last bytes of a line have passed 32 bytes wide
SYSTEM_REQUEST, SYSTEM_RESPONSE = 7, 2  # gem5's SystemXBar: frontend 3 + forward 4, response 2
SYSTEM_PAYLOAD = 3  # 16 bytes wide
LOAD_RETRY = 3  # a load that a blocked cache refuses goes back to the issue queue (gem5's O3)


@by_reference
class Caches(NamedTuple):
    levels: NDArray[np.int64]  # [4, 10] geometry and latencies
    tag: NDArray[np.int64]  # [lines] line number, -1 where empty
    used: NDArray[np.int64]  # [lines] 4 * tick of the last use + PREFETCHED + DIRTY
    ready: NDArray[np.int64]  # [lines] cycle at which the data is there
    mshrs: NDArray[np.int64]  # [4, MAX_MSHRS, 2] begin and end of the latest misses
    blocked: NDArray[np.int64]  # [4, 2] interval in which all MSHRs are taken and the level accepts nothing (gem5)
    evicted: NDArray[np.int64]  # [2, EVICTED, 2] lines that L1 caches have lost, and the cycle from which on
    strides: NDArray[np.int64]  # [4, STRIDE_ENTRIES, 4] pc, last address, stride, confidence
    missed: NDArray[np.int64]  # [4, 3] of the miss under way: does it miss here, its MSHR, its begin
    queue: NDArray[np.int64]  # [QUEUE, 4] prefetches to do: level, line, cycle, pc of what they were asked for
    counters: NDArray[np.int64]  # [4, 5]
    scalars: NDArray[np.int64]


def new_caches(machine: Machine) -> tuple[Caches, Memory]:
    levels = np.zeros((4, 10), np.int64)
    first = 0
    chain = [machine.l1i, machine.l1d, machine.l2, machine.l3]
    for level, cache in enumerate(chain):
        if cache is None:
            continue
        sets = cache.size_kib * 16 // cache.associativity
        following = L2 if level < L2 else L3 if level == L2 and machine.l3 is not None else NO_LEVEL
        last = following == NO_LEVEL
        levels[level] = (
            first,
            sets - 1,
            cache.associativity,
            cache.latency,
            cache.latency + (SYSTEM_REQUEST if last else CROSSBAR),
            SYSTEM_RESPONSE + SYSTEM_PAYLOAD if last else CROSSBAR + PAYLOAD,
            max(1, cache.latency // 2),
            cache.mshrs,
            PREFETCHERS[cache.prefetcher],
            following,
        )
        first += sets * cache.associativity
    caches = Caches(
        levels=levels,
        tag=np.full(first, -1, np.int64),
        used=np.zeros(first, np.int64),
        ready=np.zeros(first, np.int64),
        mshrs=np.zeros((4, MAX_MSHRS, 2), np.int64),
        blocked=np.zeros((4, 2), np.int64),
        evicted=np.full((2, EVICTED, 2), -1, np.int64),
        strides=np.full((4, STRIDE_ENTRIES, 4), -1, np.int64),
        missed=np.zeros((4, 3), np.int64),
        queue=np.zeros((QUEUE, 4), np.int64),
        counters=np.zeros((4, 5), np.int64),
        scalars=np.zeros(2, np.int64),
    )
    return caches, new_memory(machine)


@compiled
def _find(caches: Caches, level: int, line: int) -> int:
    """Where the line is, or -1. The most recent one of a set is its first, where most searches end."""
    row = caches.levels[level]
    first = row[FIRST] + (line & row[SET_MASK]) * row[WAYS]
    if caches.tag[first] == line:
        return first
    for place in range(first + 1, first + row[WAYS]):
        if caches.tag[place] == line:
            return place
    return -1


@compiled
def _use(caches: Caches, level: int, line: int, place: int, flags: int) -> int:
    """The line found at `place` is the most recent one now; returns where it is from now on."""
    row = caches.levels[level]
    first = row[FIRST] + (line & row[SET_MASK]) * row[WAYS]
    caches.scalars[TICK] += 1
    if place != first:
        caches.tag[place], caches.used[place] = caches.tag[first], caches.used[first]
        caches.ready[place], caches.ready[first] = caches.ready[first], caches.ready[place]
        caches.tag[first] = line
    caches.used[first] = 4 * caches.scalars[TICK] + flags
    return first


@compiled
def _victim(caches: Caches, level: int, line: int) -> int:
    row = caches.levels[level]
    first = row[FIRST] + (line & row[SET_MASK]) * row[WAYS]
    best = first
    for place in range(first + 1, first + row[WAYS]):
        if caches.used[place] < caches.used[best]:
            best = place
    return best


@out_of_line
def _install(caches: Caches, memory: Memory, level: int, line: int, flags: int, ready: int, timed: int) -> None:
    """Puts `line` in place of the least recently used one; a dirty victim moves down, level by level."""
    while True:
        place = _victim(caches, level, line)
        victim, victim_dirty = caches.tag[place], caches.used[place] & DIRTY
        caches.scalars[TICK] += 1
        caches.tag[place] = line
        caches.used[place] = 4 * caches.scalars[TICK] + flags
        caches.ready[place] = ready
        if timed and victim >= 0 and level <= L1D:
            row = caches.evicted[level, victim & (EVICTED - 1)]
            row[0], row[1] = victim, ready
        if victim < 0 or victim_dirty == 0:
            return
        caches.counters[level, WRITE_BACKS] += 1
        level = caches.levels[level, NEXT]
        if level == NO_LEVEL:
            if timed:
                write_memory(memory, victim, ready)
            return
        place = _find(caches, level, victim)
        if place >= 0:
            _use(caches, level, victim, place, (caches.used[place] & PREFETCHED) | DIRTY)
            return
        line, flags = victim, number(DIRTY)


@out_of_line
def _take_mshr(caches: Caches, level: int, cycle: int) -> tuple[int, int, int]:
    """Number of the MSHR for a miss at `cycle`, how many others are occupied then, and when it can start."""
    entries = caches.mshrs[level]
    occupied, first = 0, 0
    for entry in range(caches.levels[level, MSHRS]):
        if entries[entry, 1] < entries[first, 1]:
            first = entry
        if entries[entry, 0] <= cycle < entries[entry, 1]:
            occupied += 1
    if occupied == caches.levels[level, MSHRS]:
        cycle = entries[first, 1]
    return first, occupied, cycle


@out_of_line
def _give_mshr(caches: Caches, level: int, slot: int, begin: int, end: int) -> None:
    """Books the MSHR; where it is the last one, the level is blocked until the first of them is free again."""
    entries = caches.mshrs[level]
    entries[slot, 0], entries[slot, 1] = begin, end
    occupied, free = 0, end
    for entry in range(caches.levels[level, MSHRS]):
        if entries[entry, 0] <= begin < entries[entry, 1]:
            occupied += 1
            free = min(free, entries[entry, 1])
    if occupied == caches.levels[level, MSHRS]:
        # Else it goes on from the interval before, in which others wait already (and a while after it, to be retried).
        if begin > caches.blocked[level, 1] + LOAD_RETRY:
            caches.blocked[level, 0] = begin
        caches.blocked[level, 1] = free


@compiled
def _accepted(caches: Caches, level: int, cycle: int) -> int:
    """First cycle from `cycle` on at which the level takes a request."""
    if caches.blocked[level, 0] < cycle < caches.blocked[level, 1]:
        return caches.blocked[level, 1]
    return cycle


@out_of_line
def _fetch(
    caches: Caches, memory: Memory, level: int, line: int, cycle: int, write: int, demand: int, timed: int
) -> int:
    """Brings a line that `level` misses into it; returns the cycle of its data. Counts in the levels below."""
    where = level
    # Down to the level that has it; each level's MSHR and the cycle from which it is taken are noted on the way.
    while True:
        caches.missed[where, 0] = 1
        if timed:
            slot, _, begin = _take_mshr(caches, where, cycle)
            caches.missed[where, 1], caches.missed[where, 2] = slot, begin
            cycle = begin + caches.levels[where, REQUEST]
            if where == level and demand == 0:  # it has not been looked up there
                cycle -= caches.levels[where, LATENCY]
        where = caches.levels[where, NEXT]
        if where == NO_LEVEL:
            data = read_memory(memory, line, cycle) if timed else 0
            break
        # From here on it is a read like any other, also of what a level above prefetches.
        caches.counters[where, ACCESSES] += 1
        cycle = _accepted(caches, where, cycle)
        place = _find(caches, where, line)
        if place >= 0:
            place = _use(caches, where, line, place, caches.used[place] & DIRTY)
            data = max(cycle + caches.levels[where, LATENCY], caches.ready[place])
            if cycle < caches.ready[place] - caches.levels[where, RESPONSE]:
                caches.counters[where, MERGED] += 1
            break
        caches.counters[where, MISSES] += 1
    # And back up.
    for below in range(L3, -1, -1):
        if caches.missed[below, 0] == 0:
            continue
        caches.missed[below, 0] = 0
        data += caches.levels[below, TRANSFER]
        if timed:
            _give_mshr(caches, below, caches.missed[below, 1], caches.missed[below, 2], data)
        data += caches.levels[below, RESPONSE]
        flags = number(0)
        if below == level:
            flags = write if demand else number(PREFETCHED)
        _install(caches, memory, below, line, flags, data, timed)
    return data


@out_of_line
def _look_down(caches: Caches, level: int, line: int, cycle: int, pc: int) -> None:
    """Lets the prefetchers below `level` see a request that it sends at `cycle`."""
    where = caches.levels[level, NEXT]
    while where != NO_LEVEL:
        place = _find(caches, where, line)
        if (place < 0 and caches.levels[where, PREFETCHER] != NONE) or (place >= 0 and caches.used[place] & PREFETCHED):
            _train(caches, where, line << 6, pc, cycle)
        if place >= 0:
            return
        cycle += caches.levels[where, REQUEST]
        where = caches.levels[where, NEXT]


@out_of_line
def _train(caches: Caches, level: int, address: int, pc: int, cycle: int) -> None:
    """Lets the level's prefetcher see a demand miss and queue what it wants."""
    page = address >> 12
    if caches.levels[level, PREFETCHER] == TAGGED:
        for ahead in range(1, TAGGED_DEGREE + 1):
            _queue(caches, level, (address >> 6) + ahead, page, cycle + ahead, pc)
        return
    entry = caches.strides[level, (pc ^ (pc >> 6)) & (STRIDE_ENTRIES - 1)]
    if entry[0] != pc:
        entry[0], entry[1], entry[2], entry[3] = pc, address, 0, STRIDE_START
        return
    stride = address - entry[1]
    entry[1] = address
    if stride == entry[2] and stride != 0:
        entry[3] = min(entry[3] + 1, STRIDE_HIGH)
    else:
        entry[3] = max(entry[3] - 1, 0)
        if entry[3] < STRIDE_NEEDED:
            entry[2] = stride
    if entry[3] < STRIDE_NEEDED or entry[2] == 0:
        return
    step = entry[2]
    if -64 < step < 64:
        step = 64 if step > 0 else -64
    for ahead in range(1, STRIDE_DEGREE + 1):
        _queue(caches, level, (address + step * ahead) >> 6, page, cycle + ahead, pc)


@compiled
def _queue(caches: Caches, level: int, line: int, page: int, cycle: int, pc: int) -> None:
    place = caches.scalars[QUEUED]
    if place < QUEUE and line >> 6 == page:
        row = caches.queue[place]
        row[0], row[1], row[2], row[3] = level, line, cycle, pc
        caches.scalars[QUEUED] = place + 1


@out_of_line
def _miss(caches: Caches, memory: Memory, level: int, address: int, cycle: int, write: int, pc: int, timed: int) -> int:
    caches.counters[level, MISSES] += 1
    if timed:
        # What a prefetcher wants is asked for at once, before the miss itself, which has to be looked up first.
        if caches.levels[level, PREFETCHER] != NONE:
            _train(caches, level, address, pc, cycle)
        _look_down(caches, level, address >> 6, cycle + caches.levels[level, REQUEST], pc)
        _prefetch(caches, memory)
    return _fetch(caches, memory, level, address >> 6, cycle, write, number(1), timed)


@out_of_line
def _prefetch(caches: Caches, memory: Memory) -> None:
    """Does what the prefetchers have queued; below, that is a request like any other."""
    done = 0
    while done < caches.scalars[QUEUED]:
        where, line, when, pc = (
            caches.queue[done, 0],
            caches.queue[done, 1],
            caches.queue[done, 2],
            caches.queue[done, 3],
        )
        done += 1
        if _find(caches, where, line) >= 0:
            continue
        _, occupied, _ = _take_mshr(caches, where, when)
        if occupied + 1 < caches.levels[where, MSHRS]:  # gem5 keeps one MSHR for demand misses
            caches.counters[where, PREFETCHES] += 1
            _look_down(caches, where, line, when + caches.levels[where, REQUEST] - caches.levels[where, LATENCY], pc)
            _fetch(caches, memory, where, line, when, number(0), number(0), number(1))
    caches.scalars[QUEUED] = 0


@out_of_line
def _first_use(caches: Caches, memory: Memory, level: int, address: int, cycle: int, pc: int) -> None:
    """A prefetched line turns out useful."""
    _train(caches, level, address, pc, cycle)
    _prefetch(caches, memory)


@compiled
def access(
    caches: Caches, memory: Memory, level: int, address: int, cycle: int, write: int, pc: int, timed: int
) -> int:
    """One access to the line of `address` by an L1 cache at `cycle`; returns when its data is there.

    `write` is 0 or 1. Without `timed` only contents and counts change (fast-forward).
    """
    caches.counters[level, ACCESSES] += 1
    accepted = _accepted(caches, level, cycle)
    if accepted > cycle and level == L1D and write == 0:
        accepted += LOAD_RETRY
    cycle = accepted
    place = _find(caches, level, address >> 6)
    if place >= 0:
        flags = caches.used[place] & (PREFETCHED | DIRTY)
        place = _use(caches, level, address >> 6, place, flags & DIRTY | write)
        ready = max(cycle + caches.levels[level, LATENCY], caches.ready[place])
        if cycle < caches.ready[place] - caches.levels[level, RESPONSE]:
            caches.counters[level, MERGED] += 1
        if flags & PREFETCHED and timed:
            _first_use(caches, memory, number(level), address, cycle, number(pc))
        return ready
    gone = caches.evicted[level, (address >> 6) & (EVICTED - 1)]
    if timed and gone[0] == address >> 6 and cycle < gone[1]:  # evicted by what comes later in time
        return cycle + caches.levels[level, LATENCY]
    return _miss(caches, memory, number(level), address, cycle, number(write), number(pc), number(timed))


@out_of_line
def _access_second(caches: Caches, memory: Memory, address: int, cycle: int, write: int, pc: int, timed: int) -> int:
    return access(caches, memory, L1D, address, cycle, write, pc, timed)


@compiled
def access_data(
    caches: Caches, memory: Memory, tlbs: Array, address: int, size: int, cycle: int, write: int, pc: int, timed: int
) -> int:
    """The data cache's access to `size` bytes, which may lie on two lines."""
    translate(tlbs, DATA, address)
    data = access(caches, memory, L1D, address, cycle, write, pc, timed)
    second = ((address + size - 1) >> 6) << 6
    if second > address:
        translate(tlbs, DATA, second)
        other = _access_second(caches, memory, number(second), number(cycle), number(write), number(pc), number(timed))
        data = max(data, other)
    return data


@out_of_line
def access_data_again(
    caches: Caches, memory: Memory, tlbs: Array, address: int, size: int, cycle: int, pc: int
) -> None:
    """A load whose result does not count, as it will be done again."""
    access_data(caches, memory, tlbs, address, size, cycle, 0, pc, 1)


@compiled
def access_code(caches: Caches, memory: Memory, tlbs: Array, line: int, cycle: int, pc: int, timed: int) -> int:
    """The instruction cache's access to a line, given by its number."""
    translate(tlbs, INSTRUCTION, line << 6)
    return access(caches, memory, L1I, line << 6, cycle, 0, pc, timed)
