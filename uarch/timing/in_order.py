"""The in-order core, after gem5's Minor: two fetch stages, decode, issue in order, commit in order.

Operands are needed at issue, except that a simple integer operation takes them two stages late, so that dependent ones
follow each other every cycle although its unit has three stages. Readers of a load issue as if it took LOAD_ASSUMED
cycles; where it takes longer, they wait in their units and everything behind waits for its turn to commit. An access
leaves for memory one cycle after issue, when the writers of its address registers have committed.

A branch is predicted by the second fetch stage, which tells the first one where to go on; all that was fetched behind
it is thrown away, so that even a loop within one line asks for that line again each time. What that stage cannot tell
(of an unconditional branch without a BTB entry, too) is found at commitment, from where fetch is redirected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import InOrderPipeline, Machine
from uarch.instructions import REGISTERS, Flag
from uarch.jit import compiled, merged, number, out_of_line
from uarch.timing.branches import DECODE_REDIRECT, MISPREDICTIONS, RIGHT, Branches, branch
from uarch.timing.caches import Caches, access_code, access_data
from uarch.timing.forwarding import FORWARDED, find_store, new_forwarding, note_store
from uarch.timing.memory import Memory
from uarch.timing.ports import INT_ALU, RESOURCES, WINDOW, new_window, reserve, reserve_unpipelined
from uarch.timing.reference import by_reference
from uarch.timing.slots import take
from uarch.timing.static import (
    AFTER,
    BASE_UPDATES,
    BEFORE,
    CHAINED,
    COMPUTES,
    DESTINATION_COUNT,
    DESTINATIONS_AT,
    DIVIDER,
    FLAGS,
    INT_DIVIDER,
    LATENCY,
    LENGTH,
    MICRO_OPERATIONS,
    NOT_DIVIDER,
    UNIT,
    Rows,
    latest,
)
from uarch.timing.stream import Stream, size_of

Array = NDArray[np.int64]

# gem5's Minor: fetch1 → 1 → fetch2 → frontend_delay → decode → 1 → execute; the integer unit's three stages, of
# which operands may be two late; the memory unit's one stage and its assumed latency.
FETCH_TO_DECODE, DECODE_TO_ISSUE, ALU_STAGES, ALU_LATE, TO_REFETCH, RELEASE = 1, 1, 3, 2, 2, 1
MEMORY_LATE, LOAD_ASSUMED = 1, 3
TRANSFERS = 2  # loads between memory and commitment (executeLSQTransfersQueueSize)
AHEAD = 2  # lines of code fetched beyond the one in use (fetch2InputBufferSize)
INPUT_BUFFER = 7  # instructions waiting for issue (executeInputBufferSize)
TRAP = 13
# Places in `limits`.
WIDTH, FRONTEND, MEMORY_WIDTH, STORE_BUFFER, IN_FLIGHT, FRONT, STAGES = range(7)
# Places in `clock`.
FETCH_CYCLE, FETCH_USED, FETCH_LINE, ISSUE_CYCLE, ISSUE_USED, ISSUE_MEMORY, COMMIT_CYCLE, COMMIT_USED = range(8)
(
    OPERATIONS,
    ACCESSES,
    STORES,
    SENT,
    WRITTEN,
    SERIAL,
    LINE_BEGIN,
    LINE_FREE,
    COMPUTED,
    LEFT_BUFFER,
    SENT_TO_MEMORY,
    CHAIN,
) = range(8, 20)

BRANCH, SYSCALL, STRING = int(Flag.BRANCH), int(Flag.SYSCALL), int(Flag.STRING)
SERIALIZING, ATOMIC, BARRIER = int(Flag.SERIALIZING), int(Flag.ATOMIC), int(Flag.BARRIER)


@by_reference
class InOrder(NamedTuple):
    limits: Array
    clock: Array
    ready: Array  # [REGISTERS + 1] cycle at which the register's value exists, a load's as the issue stage assumes it
    committed: Array  # [REGISTERS + 1] cycle in which its writer commits
    capacity: Array
    window: Array
    dividers: Array
    front: Array
    stages: Array  # ring: cycle at which each of the latest operations in the integer units was committed
    in_flight: Array  # ring: cycle at which each of the latest loads could be committed
    in_memory: Array  # ring: cycle at which each of the latest accesses was done
    buffer: Array  # ring: cycle at which each of the latest stores was written
    forwarding: Array


def _ring(entries: int) -> Array:
    return np.full(1 << (entries - 1).bit_length(), -RELEASE, np.int64)


def new_core(machine: Machine) -> InOrder:
    pipeline, units = machine.pipeline, machine.functional_units
    assert isinstance(pipeline, InOrderPipeline) and WINDOW > 0
    front = INPUT_BUFFER + pipeline.width * (pipeline.frontend_delay + 2)
    limits = np.array(
        [
            pipeline.width,
            pipeline.frontend_delay,
            pipeline.memory_width,
            pipeline.store_buffer,
            pipeline.memory_in_flight,
            front,
            units.int_alu * ALU_STAGES,
        ],
        np.int64,
    )
    capacity = np.array(
        [
            pipeline.width,
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
    return InOrder(
        limits,
        clock,
        np.zeros(REGISTERS + 1, np.int64),
        np.zeros(REGISTERS + 1, np.int64),
        capacity,
        new_window(),
        np.zeros((2, 64), np.int64),
        _ring(front),
        _ring(units.int_alu * ALU_STAGES),
        _ring(TRANSFERS),
        _ring(pipeline.memory_in_flight),
        _ring(pipeline.store_buffer),
        new_forwarding(),
    )


@compiled
def _fetch(core: InOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, length: int, operations: int) -> int:
    """Cycle in which the instruction reaches issue at the earliest.

    Lines are asked for one at a time and one ahead: the next when the one before has come and is being used.
    """
    clock, limits = core.clock, core.limits
    cycle, used = clock[FETCH_CYCLE], clock[FETCH_USED]
    line, last = pc >> 6, (pc + length - 1) >> 6
    while line <= last:
        if line != clock[FETCH_LINE]:
            start = max(clock[LINE_FREE], clock[LINE_BEGIN])
            data = access_code(caches, memory, tlbs, line, start, pc, 1)
            if data > cycle:
                cycle, used = data, 0
            clock[FETCH_LINE], clock[LINE_BEGIN], clock[LINE_FREE] = line, cycle, data
        line += 1
    entries = limits[FRONT]
    room = core.front[(clock[OPERATIONS] + min(operations, entries) - 1 - entries) & (len(core.front) - 1)] + RELEASE
    if room > cycle:
        cycle, used = room, 0
    cycle, used = take(cycle, used, operations, limits[WIDTH])
    clock[FETCH_CYCLE], clock[FETCH_USED] = cycle, used
    return cycle + FETCH_TO_DECODE + limits[FRONTEND] + DECODE_TO_ISSUE


@compiled
def _issue(core: InOrder, cycle: int, operations: int, accesses: int) -> int:
    """Cycle in which the last of the micro-operations issues, not before `cycle`."""
    clock, limits = core.clock, core.limits
    if cycle > clock[ISSUE_CYCLE]:
        used, memory_used = operations, accesses
    else:
        cycle = clock[ISSUE_CYCLE]
        used, memory_used = clock[ISSUE_USED] + operations, clock[ISSUE_MEMORY] + accesses
    while used > limits[WIDTH] or memory_used > limits[MEMORY_WIDTH]:
        used, memory_used = max(used - limits[WIDTH], 0), max(memory_used - limits[MEMORY_WIDTH], 0)
        cycle += 1
    clock[ISSUE_CYCLE], clock[ISSUE_USED], clock[ISSUE_MEMORY] = cycle, used, memory_used
    return cycle


@compiled
def _send(core: InOrder, issued: int, known: int) -> int:
    """Cycle in which the memory unit hands an access on: it is one stage long, so the next one waits behind it, and an
    address must have been committed (`known`). Of loads only so many are between there and their commitment.
    """
    clock = core.clock
    ring = core.in_flight
    start = max(issued + 1, known, clock[SENT] + 1)
    start = max(start, ring[(clock[ACCESSES] - TRANSFERS) & (len(ring) - 1)])
    clock[SENT] = start
    return start


@compiled
def _access(
    core: InOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, address: int, size: int, start: int, write: int
) -> int:
    """Cycle at which an access that could begin at `start` is done: so many are under way at most."""
    ring, count = core.in_memory, core.clock[SENT_TO_MEMORY]
    start = max(start, ring[(count - core.limits[IN_FLIGHT]) & (len(ring) - 1)])
    done = access_data(caches, memory, tlbs, address, size, start, write, pc, 1)
    ring[count & (len(ring) - 1)] = done
    core.clock[SENT_TO_MEMORY] = count + 1
    return done


@compiled
def _load(
    core: InOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, address: int, size: int, start: int
) -> int:
    """Cycle in which the load sent at `start` can be committed."""
    state, known = find_store(core.forwarding, address, size, start)
    if state == FORWARDED:
        return max(start, known) + 2
    return _access(core, caches, memory, tlbs, pc, address, size, max(start, known), number(0)) + 1


@compiled
def _store(
    core: InOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, address: int, size: int, committed: int
) -> None:
    """Leaves the store buffer one cycle after the store before it; keeps its entry until it is written."""
    clock = core.clock
    start = max(committed + 1, clock[LEFT_BUFFER] + 1)
    clock[LEFT_BUFFER] = start
    done = _access(core, caches, memory, tlbs, pc, address, size, start, number(1))
    clock[WRITTEN] = max(clock[WRITTEN], done)
    core.buffer[clock[STORES] & (len(core.buffer) - 1)] = done
    clock[STORES] += 1
    note_store(core.forwarding, address, size, committed, done)


@merged
def step(
    core: InOrder,
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
    flags, accesses = row[FLAGS], last - first
    operations = int(np.int64(row[MICRO_OPERATIONS]))
    if flags & STRING:  # those of each access
        operations += (1 + row[COMPUTES]) * accesses
    arrived = _fetch(core, caches, memory, tlbs, pc, row[LENGTH], operations)
    computes = row[COMPUTES] > 0 and not flags & STRING
    simple = not computes or row[UNIT] == INT_ALU
    begin = max(arrived - (operations - 1) // limits[WIDTH], clock[SERIAL])  # the first of them
    if flags & (SERIALIZING | ATOMIC | BARRIER):
        begin = max(begin, clock[COMMIT_CYCLE], clock[WRITTEN])
    # What is not memory waits in its unit for its turn to commit: as many as the stages of the integer units.
    others = operations - accesses - (0 if simple else int(np.int64(row[COMPUTES])))
    others = min(max(others, 0), limits[STAGES])
    room = core.stages[(clock[COMPUTED] + others - 1 - limits[STAGES]) & (len(core.stages) - 1)]
    begin = max(begin, room - (others - 1) // limits[WIDTH])
    addressed, of_others = latest(ready, row)
    known, _ = latest(core.committed, row)
    if accesses > 0:
        begin = max(begin, addressed - MEMORY_LATE, clock[SENT])
    loads = 0
    for which in range(first, last):
        loads += 1 - stream.is_store[which]
    stores = accesses - loads
    if loads > 0:
        before = min(loads, 64)
        issued = _issue(core, begin, before, before)
        operations_left = max(operations - before, 0)
    else:
        issued, operations_left = begin, operations
    complete = issued + 1
    for which in range(first, last):
        if stream.is_store[which] == 0:
            sent = _send(core, issued, known)
            loaded = _load(core, caches, memory, tlbs, pc, stream.address[which], size_of(stream, which), sent)
            complete = max(complete, loaded)
            core.in_flight[clock[ACCESSES] & (len(core.in_flight) - 1)] = loaded
            clock[ACCESSES] += 1
    result = issued + LOAD_ASSUMED  # as the issue stage assumes; a later load holds up commitment
    if operations_left > 0:
        late = ALU_LATE if simple else 0
        start = max(issued, of_others - late)
        start = max(start, result - late) if loads > 0 else max(start, begin, addressed - late)
        start = _issue(core, start, 1, 0)
        finish = max(_issue(core, start, operations_left - 1, min(stores, 64)), arrived)
        if computes:
            if row[BEFORE] > 0:
                start += row[BEFORE] if simple else row[BEFORE] - 1 + ALU_STAGES
            if row[CHAINED] == 1:
                start = max(start, clock[CHAIN])
            if row[DIVIDER] != NOT_DIVIDER:
                which_divider = row[DIVIDER] - INT_DIVIDER
                start = reserve_unpipelined(core.dividers[which_divider], 1, start, row[LATENCY])
                result = start + row[LATENCY]
            else:
                begin = start
                for _ in range(row[COMPUTES]):
                    start = reserve(core.window, core.capacity, row[UNIT], begin)
                result = start + (ALU_STAGES if simple else row[LATENCY])
            if row[CHAINED] == 1:
                clock[CHAIN] = result
        elif loads == 0:
            result = start + ALU_STAGES
        if row[AFTER] > 0:  # in the integer units, one after another
            result = max(result + row[AFTER], finish + ALU_STAGES)
            start = result - ALU_STAGES
        if start > clock[ISSUE_CYCLE]:  # what comes after issues later still
            clock[ISSUE_CYCLE], clock[ISSUE_USED], clock[ISSUE_MEMORY] = start, 1, 0
        if computes or row[AFTER] > 0 or accesses == 0:
            complete = max(complete, result)
    for which in range(first, last):
        if stream.is_store[which] == 1:
            ring = core.buffer
            sent = _send(core, max(issued, clock[ISSUE_CYCLE] if stores == accesses else result - 1), known)
            complete = max(complete, sent + 1, ring[(clock[STORES] - limits[STORE_BUFFER]) & (len(ring) - 1)])

    cycle, used = clock[COMMIT_CYCLE], clock[COMMIT_USED]
    cycle, used = take(cycle, used, operations, limits[WIDTH])
    if complete > cycle:  # those before the last micro-operation have been committed by then
        cycle, used = complete, 1
    clock[COMMIT_CYCLE], clock[COMMIT_USED] = cycle, used
    for destination in range(row[DESTINATION_COUNT]):
        moved = (row[BASE_UPDATES] >> destination) & 1
        ready[row[DESTINATIONS_AT + destination]] = issued + ALU_STAGES if moved == 1 else result
        core.committed[row[DESTINATIONS_AT + destination]] = cycle
    for entry in range(clock[OPERATIONS], clock[OPERATIONS] + min(operations, limits[FRONT])):
        core.front[entry & (len(core.front) - 1)] = clock[ISSUE_CYCLE]
    clock[OPERATIONS] += min(operations, limits[FRONT])
    for entry in range(clock[COMPUTED], clock[COMPUTED] + others):
        core.stages[entry & (len(core.stages) - 1)] = cycle - (clock[COMPUTED] + others - 1 - entry) // limits[WIDTH]
    clock[COMPUTED] += others
    for which in range(first, last):
        if stream.is_store[which] == 1:
            _store(core, caches, memory, tlbs, pc, stream.address[which], size_of(stream, which), cycle)
    if flags & SERIALIZING:
        clock[SERIAL] = cycle + 1
    _redirect(core, branches, caches, memory, tlbs, row, pc, target, cycle)
    return cycle


@out_of_line
def _fetch_beyond(core: InOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int, again: int) -> int:
    """Until a misprediction is known the lines beyond the branch are fetched, and the one under way must come first."""
    clock = core.clock
    line = clock[FETCH_LINE]
    for ahead in range(1, AHEAD + 1):
        start = max(clock[LINE_FREE], clock[LINE_BEGIN])
        if start >= again:
            break
        clock[LINE_FREE] = access_code(caches, memory, tlbs, line + ahead, start, pc, 1)
    return max(again, clock[LINE_FREE])


@out_of_line
def _follow(core: InOrder, caches: Caches, memory: Memory, tlbs: Array, pc: int) -> int:
    """Cycle in which the line is asked for to which a branch goes as predicted.

    The first fetch stage knows it a cycle later. A line under way must come first (`Fetch1::numInFlightFetches`): the
    next one, or, where that has come, the one behind it, for which the second stage has just made room by throwing all
    away.
    """
    clock = core.clock
    told = clock[FETCH_CYCLE] + FETCH_TO_DECODE
    start = max(clock[LINE_FREE], clock[LINE_BEGIN]) + 1
    free = access_code(caches, memory, tlbs, clock[FETCH_LINE] + 1, start, pc, 1) + 1
    if free <= told:
        free = access_code(caches, memory, tlbs, clock[FETCH_LINE] + 2, told, pc, 1) + 1
    return max(told + 1, free)


@compiled
def _redirect(
    core: InOrder,
    branches: Branches,
    caches: Caches,
    memory: Memory,
    tlbs: Array,
    row: Rows,
    pc: int,
    target: int,
    committed: int,
) -> None:
    clock, flags = core.clock, row[FLAGS]
    again = 0
    if flags & BRANCH:
        outcome = branch(branches, pc, pc + row[LENGTH], target, int(np.int64(flags)))
        if outcome != RIGHT:
            branches.scalars[MISPREDICTIONS] += 1 if outcome == DECODE_REDIRECT else 0
            again = _fetch_beyond(core, caches, memory, tlbs, pc, committed + TO_REFETCH)
        elif target != pc + row[LENGTH]:
            again = _follow(core, caches, memory, tlbs, pc)
    elif flags & SYSCALL:
        again = committed + TRAP
    if again > 0:
        clock[FETCH_CYCLE], clock[FETCH_USED], clock[FETCH_LINE], clock[LINE_BEGIN] = again, 0, -1, again
