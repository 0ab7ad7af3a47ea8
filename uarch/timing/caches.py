"""The cache hierarchy: set-associative, true LRU, write-back, write-allocate, mostly inclusive; 64-byte lines.

Tags, recency and the cycle at which a line's data is there are flat arrays over all levels. A miss installs its line
at once with the future cycle of its data: a later access to the same line before that is what a merged MSHR target
would be (Kroft, ISCA 1981). A miss that finds all MSHRs of a level occupied at its time waits for the first that is
free (`mshrs`). What prefetchers want is in `prefetchers`.

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
from uarch.jit import compiled, number, out_of_line
from uarch.timing import tlb
from uarch.timing.memory import Memory, new_memory, read_memory, write_memory
from uarch.timing.mshrs import book, free_from, new_mshrs
from uarch.timing.prefetchers import (
    CODE,
    DATA,
    FOR,
    HEAD,
    LINE,
    MSHRS_LEFT,
    NONE,
    NOW,
    PREFETCHER_OF,
    READY,
    UNBOOKED,
    WAITING,
    Prefetchers,
    drop_first,
    kind_of,
    new_prefetchers,
    train,
)
from uarch.timing.reference import by_reference
from uarch.timing.tlb import translate

Array = NDArray[np.int64]

L1I, L1D, L2, L3 = range(4)
NO_LEVEL = -1
# Columns of `levels`.
FIRST, SET_MASK, WAYS, LATENCY, REQUEST, TRANSFER, RESPONSE, MSHRS, PREFETCHER, NEXT = range(10)
# Columns of `counters`.
ACCESSES, MISSES, WRITE_BACKS, PREFETCHES, MERGED = range(5)  # merged: with a miss whose line is on its way
# Places in `scalars`.
TICK, HELD = range(2)  # held: cycles before the miss to come from which its MSHR is its own

DIRTY, PREFETCHED = 1, 2  # bits of `used`
MERGING = 64  # lines whose waiting accesses are counted, a power of two
TARGETS = 16  # accesses that one MSHR serves (`tgts_per_mshr` of gem5's configurations)
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
    mshrs: NDArray[np.int64]  # [4, 2, …] begin and end of the latest misses
    blocked: NDArray[np.int64]  # [4, 2] interval in which the level now and then accepts nothing
    targets: NDArray[np.int64]  # [2, MERGING, 2] lines that come to the L1 caches, and the accesses that wait for each
    crowded: NDArray[np.int64]  # [4, 2] interval in which as many wait for one line as can
    evicted: NDArray[np.int64]  # [2, EVICTED, 2] lines that L1 caches have lost, and the cycle from which on
    missed: NDArray[np.int64]  # [4, 2] of the miss under way: does it miss here, its begin
    counters: NDArray[np.int64]  # [4, 5]
    scalars: NDArray[np.int64]
    prefetchers: Prefetchers


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
            kind_of(cache.prefetcher, cache.mshrs),
            following,
        )
        first += sets * cache.associativity
    caches = Caches(
        levels=levels,
        tag=np.full(first, -1, np.int64),
        used=np.zeros(first, np.int64),
        ready=np.zeros(first, np.int64),
        mshrs=new_mshrs(),
        blocked=np.zeros((4, 2), np.int64),
        targets=np.full((2, MERGING, 2), -1, np.int64),
        crowded=np.zeros((4, 2), np.int64),
        evicted=np.full((2, EVICTED, 2), -1, np.int64),
        missed=np.zeros((4, 2), np.int64),
        counters=np.zeros((4, 5), np.int64),
        scalars=np.zeros(2, np.int64),
        prefetchers=new_prefetchers(),
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
def _give_mshr(caches: Caches, level: int, begin: int, end: int) -> None:
    """Books an MSHR; where it is the last one, the level is blocked until one of them is free again."""
    free = book(caches.mshrs[level], caches.levels[level, MSHRS], begin, end)
    if free > 0:
        _block(caches, level, begin, free)


@compiled
def _block(caches: Caches, level: int, begin: int, end: int) -> None:
    """The level accepts nothing from `begin` to `end`; `blocked` holds this and what is not apart from it."""
    blocked = caches.blocked[level]
    blocked[0] = begin if begin > blocked[1] else min(blocked[0], begin)
    blocked[1] = max(blocked[1], end)


@compiled
def _accepted(caches: Caches, level: int, cycle: int) -> int:
    """First cycle from `cycle` on at which the level takes a request."""
    if caches.blocked[level, 0] <= cycle < caches.blocked[level, 1]:
        return _unblocked(caches, level, cycle)
    return cycle


@out_of_line
def _unblocked(caches: Caches, level: int, cycle: int) -> int:
    mshrs, crowded = caches.levels[level, MSHRS], caches.crowded[level]
    while True:
        cycle = free_from(caches.mshrs[level], mshrs, mshrs, cycle)
        if cycle < crowded[0] or crowded[1] <= cycle:
            return cycle
        cycle = crowded[1]


@out_of_line
def _merge(caches: Caches, level: int, line: int, cycle: int, end: int) -> None:
    """One more access waits for a line that comes at `end`; the last one for which there is room blocks the level."""
    counted = caches.targets[level, line & (MERGING - 1)]
    if counted[0] != line:
        counted[0], counted[1] = line, 1
    counted[1] += 1
    if counted[1] == TARGETS:
        caches.crowded[level, 0], caches.crowded[level, 1] = cycle, end
        _block(caches, level, cycle, end)


@compiled
def _under_way(caches: Caches, level: int, place: int, cycle: int) -> bool:
    """Whether the data of the line at `place` has not come by `cycle`."""
    return cycle < caches.ready[place] - caches.levels[level, RESPONSE]


@out_of_line
def _fetch(
    caches: Caches, memory: Memory, level: int, line: int, cycle: int, write: int, demand: int, timed: int
) -> int:
    """Brings a line that `level` misses into it; returns the cycle of its data. Counts in the levels below."""
    where, held = level, number(0)
    if demand == 1:
        held, caches.scalars[HELD] = caches.scalars[HELD], 0
    # Down to the level that has it; the cycle from which each level's MSHR is taken is noted on the way.
    while True:
        caches.missed[where, 0] = 1
        if timed:
            mshrs = caches.levels[where, MSHRS]
            begin = free_from(caches.mshrs[where], mshrs, mshrs, cycle)
            caches.missed[where, 1] = begin - held
            held = 0
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
            if _under_way(caches, where, place, cycle):
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
            _give_mshr(caches, below, caches.missed[below, 1], data)
        data += caches.levels[below, RESPONSE]
        flags = number(0)
        if below == level:
            flags = write if demand else number(PREFETCHED)
        _install(caches, memory, below, line, flags, data, timed)
    if timed and level <= L1D:
        counted = caches.targets[level, line & (MERGING - 1)]
        counted[0], counted[1] = line, 1
    return data


@out_of_line
def _look_down(caches: Caches, level: int, address: int, cycle: int, pc: int, who: int, demand: int) -> None:
    """Lets the prefetchers below `level` see a request that it sends at `cycle`."""
    where = caches.levels[level, NEXT]
    while where != NO_LEVEL:
        place, kind = _find(caches, where, address >> 6), caches.levels[where, PREFETCHER]
        missed = place < 0 or _under_way(caches, where, place, cycle)
        if kind != NONE:
            state = caches.prefetchers.state[where]
            state[NOW] = cycle
            if place < 0 and demand == 1:
                state[UNBOOKED] = 1
            if missed or caches.used[place] & PREFETCHED:
                train(caches.prefetchers, where, kind, address, pc, who, cycle, 1 if missed else 0)
        if place >= 0:
            return
        cycle += caches.levels[where, REQUEST]
        where = caches.levels[where, NEXT]


@out_of_line
def _prefetch(caches: Caches, memory: Memory) -> None:
    """Does what can go of what the prefetchers have queued; below, that is a request like any other."""
    again = True
    while again:
        again = False
        for level in range(L3 + 1):
            state, mshrs = caches.prefetchers.state[level], caches.levels[level, MSHRS]
            most = mshrs - MSHRS_LEFT - state[UNBOOKED]
            while state[WAITING] > 0 and most > 0:
                row = caches.prefetchers.queue[level, state[HEAD]]
                line, pc = row[LINE], row[FOR]
                if line >= 0 and _find(caches, level, line) < 0:
                    cycle = free_from(caches.mshrs[level], mshrs, most, row[READY])
                    if cycle > state[NOW]:
                        break
                    drop_first(caches.prefetchers, level)
                    again = True
                    caches.counters[level, PREFETCHES] += 1
                    below = cycle + caches.levels[level, REQUEST] - caches.levels[level, LATENCY]
                    _look_down(caches, level, line << 6, below, pc, number(PREFETCHER_OF + level), number(0))
                    _fetch(caches, memory, level, line, cycle, number(0), number(0), number(1))
                else:
                    drop_first(caches.prefetchers, level)


@out_of_line
def _waited(caches: Caches, memory: Memory, level: int, line: int, cycle: int) -> int:
    """Where the line is after what has waited at a level until `cycle`, or -1."""
    state = caches.prefetchers.state[level]
    state[NOW] = cycle
    _prefetch(caches, memory)
    return _find(caches, level, line)


@out_of_line
def _miss(caches: Caches, memory: Memory, level: int, address: int, cycle: int, write: int, pc: int, timed: int) -> int:
    caches.counters[level, MISSES] += 1
    if timed:
        # What a prefetcher wants is asked for at once, before the miss itself, which has to be looked up first.
        who, kind, state = CODE if level == L1I else DATA, caches.levels[level, PREFETCHER], caches.prefetchers.state
        if kind != NONE:
            state[level, UNBOOKED] = 1
            train(caches.prefetchers, level, kind, address, pc, number(who), cycle, number(1))
        _look_down(caches, level, address, cycle + caches.levels[level, REQUEST], pc, number(who), number(1))
        _prefetch(caches, memory)
        state[level, UNBOOKED] = state[L2, UNBOOKED] = state[L3, UNBOOKED] = 0
    return _fetch(caches, memory, level, address >> 6, cycle, write, number(1), timed)


@out_of_line
def _seen(caches: Caches, memory: Memory, level: int, address: int, cycle: int, pc: int, missed: int) -> None:
    """The prefetcher sees an access to a line that it has brought, or that is on its way."""
    kind = caches.levels[level, PREFETCHER]
    if kind != NONE:
        who = CODE if level == L1I else DATA
        train(caches.prefetchers, level, kind, address, pc, number(who), cycle, missed)
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
    held = 0
    if accepted > cycle and level == L1D and write == 0:
        held = LOAD_RETRY
    cycle = accepted + held
    place = _find(caches, level, address >> 6)
    if place < 0 and timed and caches.prefetchers.state[level, WAITING] > 0:
        place = _waited(caches, memory, number(level), address >> 6, cycle)
    if place >= 0:
        flags = caches.used[place] & (PREFETCHED | DIRTY)
        place = _use(caches, level, address >> 6, place, flags & DIRTY | write)
        ready = max(cycle + caches.levels[level, LATENCY], caches.ready[place])
        missed = 0
        if _under_way(caches, level, place, cycle):
            caches.counters[level, MERGED] += 1
            missed = 1
            if timed:
                end = caches.ready[place] - caches.levels[level, RESPONSE]
                _merge(caches, number(level), address >> 6, cycle, end)
        if timed and (missed == 1 or flags & PREFETCHED):
            _seen(caches, memory, number(level), address, cycle, number(pc), number(missed))
        return ready
    gone = caches.evicted[level, (address >> 6) & (EVICTED - 1)]
    if timed and gone[0] == address >> 6 and cycle < gone[1]:  # evicted by what comes later in time
        return cycle + caches.levels[level, LATENCY]
    caches.scalars[HELD] = held
    return _miss(caches, memory, number(level), address, cycle, number(write), number(pc), number(timed))


@out_of_line
def _access_second(caches: Caches, memory: Memory, address: int, cycle: int, write: int, pc: int, timed: int) -> int:
    return access(caches, memory, L1D, address, cycle, write, pc, timed)


@compiled
def access_data(
    caches: Caches, memory: Memory, tlbs: Array, address: int, size: int, cycle: int, write: int, pc: int, timed: int
) -> int:
    """The data cache's access to `size` bytes, which may lie on two lines."""
    translate(tlbs, tlb.DATA, address)
    data = access(caches, memory, L1D, address, cycle, write, pc, timed)
    second = ((address + size - 1) >> 6) << 6
    if second > address:
        translate(tlbs, tlb.DATA, second)
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
    translate(tlbs, tlb.INSTRUCTION, line << 6)
    return access(caches, memory, L1I, line << 6, cycle, 0, pc, timed)
