"""The out-of-order core: fetch, rename, issue, completion and retirement of each instruction, in program order.

Instruction-driven timing (Sanchez & Kozyrakis, "ZSim", ISCA 2013, section 3.1): a stage's cycle follows from the stage
before, from the widths, and from when the structures it needs release an entry: in order for the reorder buffer, the
load and store queues and the registers (rings of release cycles), out of order for the issue queue (a heap). The stage
delays are those of gem5's O3 as its pipeline view shows them: fetch → `frontend_delay` → decode → 1 → rename →
`dispatch_delay` → issue → 1 → complete → at least 2 → retire; after a misprediction the target is fetched from 2
cycles after the branch completes; a store is written 2 cycles after it retires, one at a time (total store order).

A trace has no wrong path. What it costs is kept: the micro-operations renamed there (what fits between the branch's
renaming and its completion) are squashed SQUASH_WIDTH a cycle, and hold their reorder buffer entries until the branch
retires. A load that went ahead of an older store to its place is fetched again (`store_sets`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine, OutOfOrderPipeline
from uarch.instructions import REGISTERS, Flag
from uarch.timing.branches import DECODE_REDIRECT, EXECUTE_REDIRECT, RIGHT, Branches, branch
from uarch.timing.caches import Caches, access_code, access_data, access_data_again
from uarch.timing.compiled import compiled, merged, number, out_of_line
from uarch.timing.forwarding import FORWARDED, find_store, new_forwarding, note_store
from uarch.timing.memory import Memory
from uarch.timing.ports import (
    INT_ALU,
    LOAD,
    RESOURCES,
    STORE,
    new_window,
    reserve,
    reserve_each,
    reserve_unpipelined,
)
from uarch.timing.static import (
    ADDRESS_COUNT,
    AFTER,
    BASE_UPDATES,
    BEFORE,
    CHAINED,
    COMPUTES,
    DESTINATION_COUNT,
    DESTINATIONS_AT,
    DIVIDER,
    FLAGS,
    FP_DESTINATIONS,
    INT_DESTINATIONS,
    LATENCY,
    LENGTH,
    MICRO_OPERATIONS,
    NOT_DIVIDER,
    SOURCE_COUNT,
    UNIT,
    Rows,
    latest,
)
from uarch.timing.store_sets import StoreSets, new_store_sets, note_issue, violated, waits_for
from uarch.timing.stream import Stream, size_of

Array = NDArray[np.int64]

FETCH_QUEUE = 32  # micro-operations between fetch and decode (gem5's default)
TO_RENAME, TO_RETIRE, TO_REFETCH, TO_WRITE, RELEASE = 1, 2, 2, 2, 1
SQUASH_WIDTH = 8  # gem5's squashWidth
TRAP = 13  # gem5's trap latency, after a system call
# Registers free for renaming beyond the configured counts: gem5 adds 64 and keeps 38 integer and 48 floating-point
# ones for the architectural state and the micro-operations' temporaries of x86.
FREE_INT, FREE_FP = 64 - 38, 64 - 48
# Places in `limits`.
FETCH, RENAME, COMMIT, FRONTEND, DISPATCH, ROB, ISSUE_QUEUE, LOAD_QUEUE, STORE_QUEUE, INT_REGS, FP_REGS = range(11)
FRONT, INT_DIVIDERS, FP_DIVIDERS = 11, 12, 13
# Places in `clock`: the current cycle of each in-order stage and the slots used in it, counts of entries handed out.
FETCH_CYCLE, FETCH_USED, FETCH_LINE, RENAME_CYCLE, RENAME_USED, COMMIT_CYCLE, COMMIT_USED = range(7)
OPERATIONS, LOADS, STORES, INTS, FLOATS, WRITTEN, MEMORY_ORDER, MEMORY_LAST, SERIAL, AGAIN, ENTRIES, CHAIN = range(
    7, 19
)

ATOMIC, BARRIER, SERIALIZING = int(Flag.ATOMIC), int(Flag.BARRIER), int(Flag.SERIALIZING)
BRANCH, SYSCALL, STRING = int(Flag.BRANCH), int(Flag.SYSCALL), int(Flag.STRING)


class OutOfOrder(NamedTuple):
    limits: Array
    clock: Array
    ready: Array  # [REGISTERS + 1] cycle from which a reader of the register can issue
    capacity: Array  # [RESOURCES] units and issue width
    window: Array
    dividers: Array  # [2, units] next free cycle
    front: Array  # rings of release cycles; each a power of two at least as long as the structure
    rob: Array
    loads: Array
    stores: Array
    ints: Array
    floats: Array
    issue_queue: Array  # heap of release cycles
    forwarding: Array
    sets: StoreSets


def _ring(entries: int) -> Array:
    return np.full(1 << (int(entries) - 1).bit_length(), -RELEASE, np.int64)


def new_core(machine: Machine) -> OutOfOrder:
    pipeline, units = machine.pipeline, machine.functional_units
    assert isinstance(pipeline, OutOfOrderPipeline)
    front = FETCH_QUEUE + pipeline.decode_width * pipeline.frontend_delay
    limits = np.array(
        [
            pipeline.fetch_width,
            min(pipeline.decode_width, pipeline.rename_width, pipeline.issue_width),
            pipeline.commit_width,
            pipeline.frontend_delay,
            pipeline.dispatch_delay,
            pipeline.rob_entries,
            pipeline.issue_queue_entries,
            pipeline.load_queue_entries,
            pipeline.store_queue_entries,
            pipeline.int_registers + FREE_INT,
            pipeline.fp_registers + FREE_FP,
            front,
            units.int_mul,
            units.fp_mul,
        ],
        np.int64,
    )
    capacity = np.array(
        [
            pipeline.issue_width,
            units.int_alu,
            units.int_mul,
            units.fp_add,
            units.fp_mul,
            units.simd,
            units.load_ports,
            units.store_ports,
        ],
        np.int64,
    )
    assert len(capacity) == RESOURCES
    clock = np.zeros(24, np.int64)
    clock[FETCH_LINE] = -1
    return OutOfOrder(
        limits,
        clock,
        np.zeros(REGISTERS + 1, np.int64),
        capacity,
        new_window(),
        np.zeros((2, 64), np.int64),
        _ring(front),
        _ring(pipeline.rob_entries),
        _ring(pipeline.load_queue_entries),
        _ring(pipeline.store_queue_entries),
        _ring(limits[INT_REGS]),
        _ring(limits[FP_REGS]),
        np.full(pipeline.issue_queue_entries, -RELEASE, np.int64),
        new_forwarding(),
        new_store_sets(),
    )


@compiled
def _released(ring: Array, handed_out: int, wanted: int, entries: int) -> int:
    """Cycle at which `wanted` more of `entries` are there, after `handed_out` so far."""
    return ring[(handed_out + min(wanted, entries) - 1 - entries) & (len(ring) - 1)] + RELEASE


@compiled
def _replace_least(heap: Array, value: int) -> None:
    """Replaces the smallest element of a binary heap."""
    size, place = len(heap), 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@compiled
def _fetch(core: OutOfOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, length: int, operations: int) -> int:
    """Cycle in which the instruction's last micro-operation is fetched.

    A new 64-byte line is asked for in the cycle in which the former one ends; a group ends with its line.
    """
    clock, limits = core.clock, core.limits
    cycle, used = clock[FETCH_CYCLE], clock[FETCH_USED]
    last = (pc + length - 1) >> 6
    line = pc >> 6
    while line <= last:
        if line != clock[FETCH_LINE]:
            data = access_code(caches, memory, tlbs, line, cycle, pc, 1)
            cycle, used = max(cycle + 1, data), 0
            clock[FETCH_LINE] = line
        line += 1
    room = _released(core.front, clock[OPERATIONS], operations, limits[FRONT])
    if room > cycle:
        cycle, used = room, 0
    used += operations
    while used > limits[FETCH]:
        used -= limits[FETCH]
        cycle += 1
    clock[FETCH_CYCLE], clock[FETCH_USED] = cycle, used
    return cycle


@compiled
def _rename(core: OutOfOrder, row: Rows, fetched: int, operations: int, loads: int, stores: int, entries: int) -> int:
    """Cycle in which the last micro-operation is renamed: every structure must have room then."""
    clock, limits = core.clock, core.limits
    cycle = max(fetched + limits[FRONTEND] + TO_RENAME, clock[SERIAL])
    cycle = max(cycle, _released(core.rob, clock[ENTRIES], operations, limits[ROB]))
    if loads > 0:
        cycle = max(cycle, _released(core.loads, clock[LOADS], loads, limits[LOAD_QUEUE]))
    if stores > 0:
        cycle = max(cycle, _released(core.stores, clock[STORES], stores, limits[STORE_QUEUE]))
    if row[INT_DESTINATIONS] > 0:
        cycle = max(cycle, _released(core.ints, clock[INTS], row[INT_DESTINATIONS], limits[INT_REGS]))
    if row[FP_DESTINATIONS] > 0:
        cycle = max(cycle, _released(core.floats, clock[FLOATS], row[FP_DESTINATIONS], limits[FP_REGS]))
    cycle = max(cycle, core.issue_queue[0] + RELEASE)
    if cycle > clock[RENAME_CYCLE]:
        used = operations
    else:
        cycle, used = clock[RENAME_CYCLE], clock[RENAME_USED] + operations
    while used > limits[RENAME]:
        used -= limits[RENAME]
        cycle += 1
    clock[RENAME_CYCLE], clock[RENAME_USED] = cycle, used
    return cycle


@compiled
def _load(
    core: OutOfOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, address: int, size: int, cycle: int
) -> int:
    """A load that can issue at `cycle`; returns the cycle from which its readers can issue."""
    issue = reserve(core.window, core.capacity, LOAD, max(cycle, waits_for(core.sets, pc)))
    found = violated(core.sets, pc, address, size, issue)
    if found > 0:  # everything from here on is fetched again
        access_data_again(caches, memory, tlbs, number(address), number(size), number(issue + 1), number(pc))
        core.clock[AGAIN] = found + TO_REFETCH
        issue = found + TO_REFETCH + core.limits[FRONTEND] + TO_RENAME + core.limits[DISPATCH]
    state, known = find_store(core.forwarding, address, size, issue + 1)
    if known > issue and state != FORWARDED:  # part of it is in a store that must reach the cache first
        issue = known
    if state == FORWARDED:
        return max(issue, known) + 2
    return access_data(caches, memory, tlbs, address, size, issue + 1, 0, pc, 1)


@compiled
def _execute(core: OutOfOrder, row: Rows, cycle: int) -> int:
    """The computing part; returns the cycle from which readers of its result can issue."""
    if row[DIVIDER] == NOT_DIVIDER:
        return reserve(core.window, core.capacity, row[UNIT], cycle) + row[LATENCY]
    which = row[DIVIDER] - 1
    start = reserve_unpipelined(core.dividers[which], core.limits[INT_DIVIDERS + which], cycle, row[LATENCY])
    return start + row[LATENCY]


@compiled
def _retire(core: OutOfOrder, complete: int, operations: int) -> int:
    clock, width = core.clock, core.limits[COMMIT]
    cycle, used = clock[COMMIT_CYCLE], clock[COMMIT_USED]
    used += operations
    while used > width:
        used -= width
        cycle += 1
    if complete + TO_RETIRE > cycle:  # those before the last micro-operation have retired by then
        cycle, used = complete + TO_RETIRE, 1
    clock[COMMIT_CYCLE], clock[COMMIT_USED] = cycle, used
    return cycle


@compiled
def _write(
    core: OutOfOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, address: int, size: int, data: int
) -> None:
    """A retired store goes to the cache after the one before it; its queue entry is free then."""
    clock = core.clock
    start = max(clock[COMMIT_CYCLE] + TO_WRITE, clock[WRITTEN])
    done = access_data(caches, memory, tlbs, address, size, start, 1, pc, 1)
    clock[WRITTEN] = done
    core.stores[clock[STORES] & (len(core.stores) - 1)] = done
    clock[STORES] += 1
    note_store(core.forwarding, address, size, data, done)


@compiled
def _book(ring: Array, handed_out: int, count: int, cycle: int) -> int:
    for entry in range(handed_out, handed_out + count):
        ring[entry & (len(ring) - 1)] = cycle
    return handed_out + count


@out_of_line
def _squash(core: OutOfOrder, renamed: int, resolved: int) -> int:
    """Micro-operations renamed on the wrong path since `renamed`, when it is known at `resolved` to be wrong.

    They are found in the reorder buffer SQUASH_WIDTH a cycle, and nothing is dispatched or retired meanwhile; their
    entries are free only when what is before them has retired (gem5's O3).
    """
    ring, limits, end = core.rob, core.limits, core.clock[ENTRIES]
    low, high = end - limits[ROB], end  # the first entry that is still taken at `resolved`
    while low < high:
        middle = (low + high) >> 1
        if ring[middle & (len(ring) - 1)] + RELEASE > resolved:
            high = middle
        else:
            low = middle + 1
    return max(min(limits[ROB] - (end - low), (resolved - renamed) * limits[RENAME]), 0)


@merged
def step(
    core: OutOfOrder,
    branches: Branches,
    caches: Caches,
    memory: Memory,
    tlbs: Array,
    row: Rows,
    pc: int,
    target: int,
    stream: Stream,
    k: int,
) -> int:
    """Instruction `k` of the stream; returns its retire cycle."""
    first, last = stream.offset[k], stream.offset[k + 1]
    clock, limits, ready = core.clock, core.limits, core.ready
    flags = row[FLAGS]
    loads = 0
    for which in range(first, last):
        loads += 1 - stream.is_store[which]
    stores = last - first - loads
    operations, own = int(np.int64(row[MICRO_OPERATIONS])), int(np.int64(row[COMPUTES]))
    if flags & STRING:  # those of each access
        operations += (1 + row[COMPUTES]) * (last - first)
        own = 0
    fetched = _fetch(core, caches, memory, tlbs, pc, row[LENGTH], operations)
    if flags & SERIALIZING:
        clock[SERIAL] = max(clock[SERIAL], clock[COMMIT_CYCLE] + RELEASE)
    renamed = _rename(core, row, fetched, operations, loads, stores, own + last - first)
    dispatched = renamed + limits[DISPATCH]
    begin = dispatched + row[BEFORE]
    sources = row[SOURCE_COUNT]
    addressed = max(begin, latest(ready, row, 0, row[ADDRESS_COUNT]))
    if flags & (ATOMIC | BARRIER):  # waits for all memory operations before it, and those after it wait
        addressed = max(addressed, max(clock[MEMORY_LAST], clock[WRITTEN]), clock[COMMIT_CYCLE])
    addressed = max(addressed, clock[MEMORY_ORDER])

    data = addressed if loads > 0 else begin
    for which in range(first, last):
        if stream.is_store[which] == 0:
            loaded = _load(core, caches, memory, tlbs, pc, stream.address[which], size_of(stream, which), addressed)
            _replace_least(core.issue_queue, loaded)
            data = max(data, loaded)
    data = max(data, latest(ready, row, row[ADDRESS_COUNT], sources))
    complete = max(data, dispatched + 1) if loads > 0 else dispatched + 1
    result = data
    if own > 0:
        start = data if loads > 0 else max(data, addressed)
        if row[CHAINED] == 1:
            start = max(start, clock[CHAIN])
        for _ in range(own):
            done = _execute(core, row, start)
            result = max(result, done)
            if done - row[LATENCY] > dispatched:  # else it leaves the issue queue as it comes
                _replace_least(core.issue_queue, done - row[LATENCY])
        if row[CHAINED] == 1:
            clock[CHAIN] = result
        complete = result
    if row[AFTER] > 0:
        result += row[AFTER]
        complete = max(complete, result)
    others = operations - own - (last - first)
    if others > 0 and not flags & STRING:  # they wait for nothing
        other = reserve_each(core.window, core.capacity, number(INT_ALU), number(dispatched), number(others))
        complete = max(complete, other + 1)
    if stores > 0:
        issue = max(max(addressed, result), waits_for(core.sets, pc))
        for _ in range(stores):
            issue = reserve(core.window, core.capacity, STORE, issue)
            _replace_least(core.issue_queue, issue)
        for which in range(first, last):
            if stream.is_store[which] == 1:
                note_issue(core.sets, pc, stream.address[which], size_of(stream, which), issue)
        complete = max(complete, issue + 1)
    for destination in range(row[DESTINATION_COUNT]):
        moved = (row[BASE_UPDATES] >> destination) & 1
        ready[row[DESTINATIONS_AT + destination]] = addressed + 1 if moved == 1 else result
    clock[MEMORY_LAST] = max(clock[MEMORY_LAST], complete)
    if flags & (ATOMIC | BARRIER):
        clock[MEMORY_ORDER] = complete

    outcome = RIGHT
    if flags & BRANCH:
        known = max(complete + TO_RETIRE, clock[COMMIT_CYCLE])
        outcome = branch(branches, pc, pc + row[LENGTH], target, int(np.int64(flags)), number(fetched), number(known))
    wrong, squashed = 0, 0
    if outcome == EXECUTE_REDIRECT:
        wrong = _squash(core, number(renamed), number(complete))
        squashed = complete + 1 + (wrong + SQUASH_WIDTH - 1) // SQUASH_WIDTH
    retired = _retire(core, max(complete, squashed - TO_RETIRE), operations)
    clock[OPERATIONS] = _book(core.front, clock[OPERATIONS], min(operations, limits[FRONT]), renamed)
    clock[ENTRIES] = _book(core.rob, clock[ENTRIES], min(operations, limits[ROB]), retired)
    if wrong > 0:
        clock[ENTRIES] = _book(core.rob, clock[ENTRIES], wrong, retired)
        clock[SERIAL] = max(clock[SERIAL], squashed + 1)
    clock[LOADS] = _book(core.loads, clock[LOADS], min(loads, limits[LOAD_QUEUE]), retired)
    clock[INTS] = _book(core.ints, clock[INTS], row[INT_DESTINATIONS], retired)
    clock[FLOATS] = _book(core.floats, clock[FLOATS], row[FP_DESTINATIONS], retired)
    for which in range(first, last):
        if stream.is_store[which] == 1:
            _write(core, caches, memory, tlbs, pc, stream.address[which], size_of(stream, which), complete)
    if flags & SERIALIZING:
        clock[SERIAL] = retired + RELEASE
    if clock[AGAIN] > 0:
        if clock[AGAIN] > clock[FETCH_CYCLE]:
            clock[FETCH_CYCLE], clock[FETCH_USED], clock[FETCH_LINE] = clock[AGAIN], operations, pc >> 6
        clock[AGAIN] = 0
    _redirect(core, row, pc, target, fetched, complete, retired, outcome)
    return retired


@compiled
def _redirect(
    core: OutOfOrder, row: Rows, pc: int, target: int, fetched: int, complete: int, retired: int, outcome: int
) -> None:
    """Where and when fetching goes on."""
    clock, flags = core.clock, row[FLAGS]
    again = 0
    if flags & BRANCH:
        if outcome == EXECUTE_REDIRECT:
            again = complete + TO_REFETCH
        elif outcome == DECODE_REDIRECT:
            again = fetched + core.limits[FRONTEND] + TO_REFETCH
        if outcome == RIGHT and target != pc + row[LENGTH]:  # a taken branch ends the fetch group
            clock[FETCH_USED] = core.limits[FETCH]
            if target >> 6 == clock[FETCH_LINE]:
                return
            clock[FETCH_LINE] = -1
            return
    elif flags & SYSCALL:
        again = retired + TRAP
    if again > 0:
        clock[FETCH_CYCLE], clock[FETCH_USED], clock[FETCH_LINE] = again, 0, -1
