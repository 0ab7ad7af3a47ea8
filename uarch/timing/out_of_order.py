"""The out-of-order core: rename, issue, completion and retirement of each instruction, in program order.

Instruction-driven timing (Sanchez & Kozyrakis, "ZSim", ISCA 2013, section 3.1): a stage's cycle follows from the stage
before, from the widths, and from when the structures it needs release an entry: in order for the reorder buffer, the
load and store queues and the registers (rings of release cycles), out of order for the issue queue (a calendar of
releases). The stage delays are those of gem5's O3 as its pipeline view shows them: decode → 1 → rename →
`dispatch_delay` → issue → 1 → complete → at least 2 → retire; what is before rename is `front_end`. A store is written
from 2 cycles after it retires on, and reaches the cache when no load that comes later in the program can be there
before it: under total store order (x86-64) when the store before it is written, else in order too, but as many a cycle
as there are store ports, and loads then find its line on the way (`LSQUnit::writebackStores`).

After a misprediction fetch goes on 3 cycles after the branch completes. What was fetched meanwhile (`wrong_path`) is
squashed SQUASH_WIDTH micro-operations a cycle, and holds its reorder buffer entries until the branch retires. A load
that went ahead of an older store to its place is fetched again (`store_sets`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine, OutOfOrderPipeline
from uarch.gem5.table import ADDED_REGISTERS, Isa
from uarch.instructions import REGISTERS, Flag
from uarch.jit import compiled, merged, number, out_of_line
from uarch.timing.branches import DECODE_REDIRECT, EXECUTE_REDIRECT, RIGHT, Branches, branch, retires
from uarch.timing.caches import Caches, access_data, access_data_again
from uarch.timing.forwarding import (
    CACHED,
    FORWARDED,
    PENDING,
    find_store,
    new_forwarding,
    note_store,
    note_written,
)
from uarch.timing.front_end import (
    DECODE,
    FETCH,
    FETCH_CYCLE,
    LINE,
    NEVER,
    FrontEnd,
    decode,
    end_group,
    fetch,
    go_on,
    most_under_way,
    new_front_end,
    squashed,
    stall,
)
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
from uarch.timing.reference import by_reference
from uarch.timing.rings import book, new_ring, released
from uarch.timing.slots import take
from uarch.timing.static import (
    AFTER,
    BASE_UPDATES,
    BEFORE,
    CHAINED,
    COMPUTES,
    DESTINATIONS,
    DESTINATIONS_AT,
    DIVIDER,
    FLAGS,
    FP_DESTINATIONS,
    INT_DESTINATIONS,
    LATENCY,
    LENGTH,
    MICRO_OPERATIONS,
    NOT_DIVIDER,
    UNIT,
    Rows,
    latest,
)
from uarch.timing.store_sets import StoreSets, new_store_sets, note_issue, violated, waits_for
from uarch.timing.stream import Stream, size_of
from uarch.timing.wrong_path import UNKNOWN, WrongPath, note_branch, walk

Array = NDArray[np.int64]

TO_RENAME, TO_RETIRE, TO_SQUASH, TO_REFETCH, TO_WRITE = 1, 2, 2, 2, 2
# Cycles until rename knows what retiring, issuing or writing frees: registers and load queue entries one later.
RELEASE, LATE_RELEASE = 1, 2
RESPONSES = 4096  # cycles, a power of two
CALENDAR = 4096  # cycles, a power of two, over which entries of the issue queue are released; later ones then
SQUASH_WIDTH = 8  # gem5's squashWidth
TRAP = 13  # gem5's trap latency, after a system call
# Places in `limits`.
RENAME, COMMIT, FRONTEND, DISPATCH, ROB, ISSUE_QUEUE, LOAD_QUEUE, STORE_QUEUE, INT_REGS, FP_REGS = range(10)
INT_DIVIDERS, FP_DIVIDERS, TOTAL_STORE_ORDER = 10, 11, 12
# Places in `clock`: the current cycle of each in-order stage and the slots used in it, counts of entries handed out.
RENAME_CYCLE, RENAME_USED, COMMIT_CYCLE, COMMIT_USED, LOADS, STORES, WRITES, INTS, FLOATS, ENTRIES = range(10)
WRITTEN, MEMORY_ORDER, MEMORY_LAST, SERIAL, AGAIN, CHAIN = range(10, 16)
QUEUED, QUEUE_CYCLE, RENAMED = range(16, 19)  # entries of the issue queue taken in that cycle; renamed so far
SENT, DRAINED = 19, 20  # stores sent to the cache in the cycle WRITTEN, and when all sent so far are there
EARLIEST, ADDRESS, SIZE, PC, DATA = range(5)  # columns of `waiting`

ATOMIC, BARRIER, SERIALIZING = int(Flag.ATOMIC), int(Flag.BARRIER), int(Flag.SERIALIZING)
BRANCH, SYSCALL, STRING = int(Flag.BRANCH), int(Flag.SYSCALL), int(Flag.STRING)
CONDITIONAL = int(Flag.CONDITIONAL)


@by_reference
class OutOfOrder(NamedTuple):
    limits: Array
    clock: Array
    ready: Array  # [REGISTERS + 1] cycle from which a reader of the register can issue
    capacity: Array  # [RESOURCES] units and issue width
    window: Array
    dividers: Array  # [2, units] next free cycle
    front: FrontEnd
    rob: Array  # rings of release cycles; each a power of two at least as long as the structure
    loads: Array
    stores: Array
    waiting: Array  # [as `stores`, 5] those that have retired and not yet been written
    ints: Array
    floats: Array
    calendar: Array  # [CALENDAR, 2] by cycle: entries of the issue queue released, micro-operations renamed before
    responses: Array  # [RESPONSES] cycle in which the data cache last answered, by cycle
    forwarding: Array
    sets: StoreSets


def new_core(machine: Machine, isa: Isa) -> OutOfOrder:
    pipeline, units = machine.pipeline, machine.functional_units
    assert isinstance(pipeline, OutOfOrderPipeline)
    limits = np.array(
        [
            min(pipeline.rename_width, pipeline.issue_width),
            pipeline.commit_width,
            pipeline.frontend_delay,
            pipeline.dispatch_delay,
            pipeline.rob_entries,
            pipeline.issue_queue_entries,
            pipeline.load_queue_entries,
            pipeline.store_queue_entries,
            pipeline.int_registers + ADDED_REGISTERS - isa.int_registers,
            pipeline.fp_registers + ADDED_REGISTERS - isa.fp_registers,
            units.int_mul,
            units.fp_mul,
            isa.total_store_order,
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
    stores = new_ring(pipeline.store_queue_entries, -LATE_RELEASE)
    return OutOfOrder(
        limits,
        clock,
        np.zeros(REGISTERS + 1, np.int64),
        capacity,
        new_window(),
        np.zeros((2, 64), np.int64),
        new_front_end(pipeline),
        new_ring(pipeline.rob_entries, -LATE_RELEASE),
        new_ring(pipeline.load_queue_entries, -LATE_RELEASE),
        stores,
        np.zeros((len(stores), 5), np.int64),
        new_ring(limits[INT_REGS], -LATE_RELEASE),
        new_ring(limits[FP_REGS], -LATE_RELEASE),
        np.zeros((CALENDAR, 2), np.int64),
        np.full(RESPONSES, -1, np.int64),
        new_forwarding(),
        new_store_sets(),
    )


@compiled
def _leave(core: OutOfOrder, cycle: int) -> None:
    """A micro-operation leaves the issue queue at `cycle`."""
    cycle = min(cycle + RELEASE, core.clock[QUEUE_CYCLE] + CALENDAR - 1)
    core.calendar[cycle & (CALENDAR - 1), 0] += 1


@compiled
def _queue_room(core: OutOfOrder, cycle: int, operations: int) -> int:
    """First cycle from `cycle` on with room in the issue queue, and in the reorder buffer as rename counts it.

    A micro-operation takes its entry of the issue queue when it is renamed. In the reorder buffer gem5's rename counts
    it twice from its second cycle there until it is dispatched.
    """
    clock, limits, calendar = core.clock, core.limits, core.calendar
    at, queued, renamed = clock[QUEUE_CYCLE], clock[QUEUED], clock[RENAMED]
    most = limits[ISSUE_QUEUE] - min(operations, limits[ISSUE_QUEUE])
    while True:
        if at >= cycle:
            twice = calendar[(cycle - 1) & (CALENDAR - 1), 1] - calendar[(cycle - limits[DISPATCH]) & (CALENDAR - 1), 1]
            room = released(core.rob, clock[ENTRIES], operations + twice, limits[ROB])
            if queued <= most and room + RELEASE <= cycle:
                break
            cycle += 1
        at += 1  # the issue queue in the next cycle of renaming
        row = calendar[at & (CALENDAR - 1)]
        queued -= row[0]
        row[0], row[1] = 0, renamed
    clock[QUEUE_CYCLE], clock[QUEUED] = at, queued
    return cycle


@compiled
def _rename(core: OutOfOrder, row: Rows, first: int, last: int, operations: int, loads: int, stores: int) -> int:
    """Cycle in which the last micro-operation is renamed: every structure must have room then.

    The first and the last one arrive at `first` and `last`.
    """
    clock, limits = core.clock, core.limits
    cycle, used = clock[RENAME_CYCLE], clock[RENAME_USED]
    if first > cycle:
        cycle, used = first, 0
    cycle, used = take(cycle, used, operations, limits[RENAME])
    if last > cycle:
        cycle, used = last, 1
    unhindered = cycle
    cycle = max(cycle, clock[SERIAL])
    cycle = max(cycle, released(core.rob, clock[ENTRIES], operations, limits[ROB]) + RELEASE)
    if loads > 0:
        cycle = max(cycle, released(core.loads, clock[LOADS], loads, limits[LOAD_QUEUE]) + LATE_RELEASE)
    if stores > 0:
        cycle = max(cycle, released(core.stores, clock[STORES], stores, limits[STORE_QUEUE]) + RELEASE)
    if row[INT_DESTINATIONS] > 0:
        free = released(core.ints, clock[INTS], row[INT_DESTINATIONS], limits[INT_REGS])
        cycle = max(cycle, free + LATE_RELEASE)
    if row[FP_DESTINATIONS] > 0:
        free = released(core.floats, clock[FLOATS], row[FP_DESTINATIONS], limits[FP_REGS])
        cycle = max(cycle, free + LATE_RELEASE)
    cycle = _queue_room(core, cycle, operations)
    if cycle > unhindered:
        used = min(operations, limits[RENAME])
        stall(core.front, last)
    elif unhindered > last and limits[RENAME] < core.front.limits[DECODE]:
        stall(core.front, last)
    clock[RENAME_CYCLE], clock[RENAME_USED] = cycle, used
    clock[RENAMED] += operations
    return cycle


@out_of_line
def _write_next(core: OutOfOrder, caches: Caches, memory: Memory, tlbs: Array) -> None:
    """The oldest store that waits goes to the cache; its queue entry is free when it and all before it are there."""
    clock = core.clock
    which = clock[WRITES] & (len(core.stores) - 1)
    store = core.waiting[which]
    start = max(store[EARLIEST], clock[WRITTEN])
    done = access_data(caches, memory, tlbs, store[ADDRESS], store[SIZE], start, 1, store[PC], 1)
    done += 1 if core.responses[done & (RESPONSES - 1)] == done else 0
    written = done
    if core.limits[TOTAL_STORE_ORDER] == 1:
        clock[WRITTEN] = done
    else:
        clock[SENT] = clock[SENT] + 1 if start == clock[WRITTEN] else 1
        clock[WRITTEN] = start
        if clock[SENT] == core.capacity[STORE]:
            clock[WRITTEN], clock[SENT] = start + 1, 0
        written = start + 1  # a load that comes later asks the cache for it
    clock[DRAINED] = max(clock[DRAINED], done)
    core.stores[which] = clock[DRAINED]
    clock[WRITES] += 1
    note_written(core.forwarding, store[ADDRESS], store[SIZE], store[DATA], written)


@compiled
def _write_before(core: OutOfOrder, caches: Caches, memory: Memory, tlbs: Array, cycle: int) -> None:
    """The stores that can go to the cache before `cycle`, which all later loads reach not before it, do so."""
    clock = core.clock
    while clock[WRITES] < clock[STORES]:
        if max(core.waiting[clock[WRITES] & (len(core.stores) - 1), EARLIEST], clock[WRITTEN]) >= cycle:
            break
        _write_next(core, caches, memory, tlbs)


@out_of_line
def _write_until(core: OutOfOrder, caches: Caches, memory: Memory, tlbs: Array, number: int) -> None:
    """All stores before this one go to the cache."""
    while core.clock[WRITES] < min(core.clock[STORES], number):
        _write_next(core, caches, memory, tlbs)


@out_of_line
def _find_again(
    core: OutOfOrder, caches: Caches, memory: Memory, tlbs: Array, address: int, size: int, cycle: int
) -> tuple[int, int]:
    """`find_store`, where it has found one that may have been written by `cycle`, or whose time it needs."""
    _write_before(core, caches, memory, tlbs, cycle)
    while True:
        state, known = find_store(core.forwarding, address, size, cycle)
        if known < PENDING:
            return state, known
        _write_next(core, caches, memory, tlbs)


@compiled
def _answered(core: OutOfOrder, cycle: int) -> int:
    """When the core has what the data cache answers at `cycle`: of several in one cycle only the first comes in time.

    gem5 sends the others one tick (of 1 ps) later each, which is after the core's own turn in that cycle.
    """
    place = cycle & (RESPONSES - 1)
    if core.responses[place] == cycle:
        return cycle + 1
    core.responses[place] = cycle
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
    if state != CACHED and core.clock[WRITES] < core.clock[STORES]:
        state, known = _find_again(core, caches, memory, tlbs, number(address), number(size), number(issue + 1))
    if known > issue and state != FORWARDED:  # part of it is in a store that must reach the cache first
        issue = known
    if state == FORWARDED:
        return max(issue, known) + 2
    return _answered(core, access_data(caches, memory, tlbs, address, size, issue + 1, 0, pc, 1))


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
    cycle, used = take(cycle, used, operations, width)
    if complete + TO_RETIRE > cycle:  # those before the last micro-operation have retired by then
        cycle, used = complete + TO_RETIRE, 1
    clock[COMMIT_CYCLE], clock[COMMIT_USED] = cycle, used
    return cycle


@compiled
def _wait_to_write(core: OutOfOrder, pc: int, address: int, size: int, data: int) -> None:
    """A store that has retired waits for its turn."""
    clock = core.clock
    store = core.waiting[clock[STORES] & (len(core.stores) - 1)]
    store[EARLIEST], store[ADDRESS], store[SIZE] = clock[COMMIT_CYCLE] + TO_WRITE, address, size
    store[PC], store[DATA] = pc, data
    clock[STORES] += 1
    note_store(core.forwarding, address, size, data, PENDING)


@out_of_line
def _mispredicted(
    core: OutOfOrder,
    path: WrongPath,
    branches: Branches,
    caches: Caches,
    memory: Memory,
    tlbs: Array,
    rows: Rows,
    pcs: Array,
    here: int,
    target: int,
    renamed: int,
    fetched: int,
    resolved: int,
) -> int:
    """The branch `here`, which goes to `target`, is known at `resolved` to be mispredicted.

    Returns how many micro-operations of the wrong path are in the reorder buffer. They are found there SQUASH_WIDTH a
    cycle, and nothing is dispatched or retired meanwhile; their entries are free only when what is before them has
    retired (gem5's O3).
    """
    front, ring, limits, end = core.front, core.rob, core.limits, core.clock[ENTRIES]
    low, high = end - limits[ROB], end  # the first entry that is still taken at `resolved`
    while low < high:
        middle = (low + high) >> 1
        if ring[middle & (len(ring) - 1)] + RELEASE > resolved:
            high = middle
        else:
            low = middle + 1
    room = max(limits[ROB] - (end - low), 0)
    expected = 0 if target != pcs[here] + rows[here, LENGTH] and rows[here, FLAGS] & CONDITIONAL else 1
    count, line = walk(
        path, branches, caches, memory, tlbs, rows, pcs, here, expected, front.clock[LINE], front.limits[FETCH],
        fetched + 1, fetched + resolved - 1 - renamed, resolved + TO_SQUASH, room + most_under_way(front),
    )  # fmt: skip
    slots = (resolved - 1 - renamed) * limits[RENAME] + limits[RENAME] - core.clock[RENAME_USED]
    wrong = min(room, count, max(slots, 0))
    squashed(front, resolved, (wrong + SQUASH_WIDTH - 1) // SQUASH_WIDTH)
    go_on(front, resolved + TO_SQUASH + 1, line if line == target >> 6 else number(UNKNOWN), number(0))
    return wrong


@merged
def step(
    core: OutOfOrder,
    path: WrongPath,
    branches: Branches,
    caches: Caches,
    memory: Memory,
    tlbs: Array,
    rows: Rows,
    pcs: Array,
    here: int,
    target: int,
    stream: Stream,
    k: int,
) -> int:
    """Instruction `k` of the stream; returns its retire cycle."""
    row, pc = rows[here], pcs[here]
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
    others = 0 if flags & STRING else max(operations - own - (last - first), 0)
    began, fetched = fetch(core.front, caches, memory, tlbs, pc, row[LENGTH], operations)
    began, decoded = decode(core.front, began, fetched, operations, clock[RENAME_CYCLE])
    if flags & SERIALIZING:
        clock[SERIAL] = max(clock[SERIAL], clock[COMMIT_CYCLE] + RELEASE)
    if stores > 0:
        room = clock[STORES] + min(stores, limits[STORE_QUEUE]) - limits[STORE_QUEUE]
        if clock[WRITES] < room:
            _write_until(core, caches, memory, tlbs, number(room))
    renamed = _rename(core, row, began + TO_RENAME, decoded + TO_RENAME, operations, loads, stores)
    clock[QUEUED] += own + others + last - first
    dispatched = renamed + limits[DISPATCH]
    begin = dispatched + row[BEFORE]
    of_address, of_others = latest(ready, row)
    addressed = max(begin, of_address)
    if last > first:
        _write_before(core, caches, memory, tlbs, dispatched + 1)
    if flags & (ATOMIC | BARRIER):  # waits for all memory operations before it, and those after it wait
        _write_until(core, caches, memory, tlbs, number(clock[STORES]))
        addressed = max(addressed, max(clock[MEMORY_LAST], clock[DRAINED]), clock[COMMIT_CYCLE])
    addressed = max(addressed, clock[MEMORY_ORDER])

    data = addressed if loads > 0 else begin
    for which in range(first, last):
        if stream.is_store[which] == 0:
            loaded = _load(core, caches, memory, tlbs, pc, stream.address[which], size_of(stream, which), addressed)
            _leave(core, loaded)
            data = max(data, loaded)
    data = max(data, of_others)
    complete = max(data, dispatched + 1) if loads > 0 else dispatched + 1
    result = data
    if own > 0:
        start = data if loads > 0 else max(data, addressed)
        if row[CHAINED] == 1:
            start = max(start, clock[CHAIN])
        for _ in range(own):
            done = _execute(core, row, start)
            result = max(result, done)
            _leave(core, done - row[LATENCY])
        if row[CHAINED] == 1:
            clock[CHAIN] = result
        complete = result
    if row[AFTER] > 0:
        result += row[AFTER]
        complete = max(complete, result)
    if others > 0:  # they wait for nothing
        other = reserve_each(core.window, core.capacity, number(INT_ALU), number(dispatched), number(others))
        complete = max(complete, other + 1)
        for _ in range(others):
            _leave(core, other)
    if stores > 0:
        issue = max(max(addressed, result), waits_for(core.sets, pc))
        for _ in range(stores):
            issue = reserve(core.window, core.capacity, STORE, issue)
            _leave(core, issue + 1)
        for which in range(first, last):
            if stream.is_store[which] == 1:
                note_issue(core.sets, pc, stream.address[which], size_of(stream, which), issue)
        complete = max(complete, issue + 1)
    for destination in range(DESTINATIONS):
        moved = (row[BASE_UPDATES] >> destination) & 1
        ready[np.uint64(row[DESTINATIONS_AT + destination])] = addressed + 1 if moved == 1 else result
    ready[REGISTERS] = 0  # where those that it does not have went
    clock[MEMORY_LAST] = max(clock[MEMORY_LAST], complete)
    if flags & (ATOMIC | BARRIER):
        clock[MEMORY_ORDER] = complete

    outcome = RIGHT
    if flags & BRANCH:
        outcome = branch(branches, pc, pc + row[LENGTH], target, int(np.int64(flags)), number(fetched), number(NEVER))
    wrong, done = 0, 0
    if outcome == EXECUTE_REDIRECT:
        wrong = _mispredicted(
            core, path, branches, caches, memory, tlbs, rows, pcs, number(here), number(target), number(renamed),
            number(fetched), number(complete),
        )  # fmt: skip
        done = complete + 1 + (wrong + SQUASH_WIDTH - 1) // SQUASH_WIDTH
    retired = _retire(core, max(complete, done - TO_RETIRE), operations)
    clock[ENTRIES] = book(core.rob, clock[ENTRIES], min(operations, limits[ROB]), retired)
    if wrong > 0:
        clock[ENTRIES] = book(core.rob, clock[ENTRIES], wrong, retired)
    clock[LOADS] = book(core.loads, clock[LOADS], min(loads, limits[LOAD_QUEUE]), retired)
    clock[INTS] = book(core.ints, clock[INTS], row[INT_DESTINATIONS], retired)
    clock[FLOATS] = book(core.floats, clock[FLOATS], row[FP_DESTINATIONS], retired)
    for which in range(first, last):
        if stream.is_store[which] == 1:
            if clock[STORES] - clock[WRITES] == limits[STORE_QUEUE]:  # one instruction's, more than the queue holds
                _write_until(core, caches, memory, tlbs, number(clock[WRITES] + 1))
            _wait_to_write(core, pc, stream.address[which], size_of(stream, which), complete)
    if flags & SERIALIZING:
        clock[SERIAL] = retired + RELEASE
    if clock[AGAIN] > 0:
        if clock[AGAIN] > core.front.clock[FETCH_CYCLE]:
            go_on(core.front, clock[AGAIN], pc >> 6, operations)
        clock[AGAIN] = 0
    if flags & BRANCH:
        retires(branches, retired)
        note_branch(path, here, stream.following[k], target != pc + row[LENGTH])
        if outcome == DECODE_REDIRECT:
            go_on(core.front, decoded + TO_REFETCH, UNKNOWN, 0)
        elif outcome == RIGHT and target != pc + row[LENGTH]:  # a taken branch ends the fetch group
            end_group(core.front, target)
    elif flags & SYSCALL:
        go_on(core.front, retired + TRAP, UNKNOWN, 0)
    return retired
