"""The front end of the out-of-order core: fetch, the fetch queue, decode, and how a stall travels back to fetch.

gem5's stages tell the one before to stop and to go on, and that takes a cycle a stage. What is on its way meanwhile is
kept in a stage's skid buffer; only when that is empty does the stage let the one before go on, whose micro-operations
then take the whole way again. So a renaming that is held up for one cycle at b stops decode from b + 1 and fetch from
b + 2 on, and when decode has worked off what was sent before, the next comes `frontend_delay` + 1 cycles later: a
bubble that a deep front end pays for every stall. A squash that takes more than one cycle stalls it in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import OutOfOrderPipeline
from uarch.jit import compiled
from uarch.timing.caches import Caches, access_code
from uarch.timing.memory import Memory
from uarch.timing.reference import by_reference
from uarch.timing.rings import book, new_ring, released
from uarch.timing.slots import take

Array = NDArray[np.int64]

FETCH_QUEUE = 32  # micro-operations between fetch and decode (gem5's default)
NEVER = 1 << 60
# Places in `limits`.
FETCH, DECODE, DELAY = range(3)
# Places in `clock`: cycle and slots used of each stage; the line being fetched; micro-operations sent to decode.
FETCH_CYCLE, FETCH_USED, LINE, SENT, SEND_CYCLE, SEND_USED, DECODE_CYCLE, DECODE_USED = range(8)
# The cycle in which rename stalled, from which fetch sends nothing, from which decode goes on, in which it has worked
# off what came meanwhile.
STALLED, STOPPED, RESUMED, EMPTIED = range(8, 12)


@by_reference
class FrontEnd(NamedTuple):
    limits: Array
    clock: Array
    queue: Array  # ring of the cycles in which the latest micro-operations left the fetch queue


def new_front_end(pipeline: OutOfOrderPipeline) -> FrontEnd:
    clock = np.zeros(12, np.int64)
    clock[LINE] = -1
    clock[STALLED] = clock[STOPPED] = NEVER
    limits = np.array([pipeline.fetch_width, pipeline.decode_width, pipeline.frontend_delay], np.int64)
    return FrontEnd(limits, clock, new_ring(FETCH_QUEUE, -1))


@compiled
def fetch(
    front: FrontEnd, caches: Caches, memory: Memory, tlbs: Array, pc: int, length: int, operations: int
) -> tuple[int, int]:
    """Cycles in which the instruction's first and last micro-operation are fetched.

    A new 64-byte line is asked for in the cycle in which the former one ends; a group ends with its line.
    """
    clock, width = front.clock, front.limits[FETCH]
    cycle, used = clock[FETCH_CYCLE], clock[FETCH_USED]
    last = (pc + length - 1) >> 6
    line = pc >> 6
    while line <= last:
        if line != clock[LINE]:
            data = access_code(caches, memory, tlbs, line, cycle, pc, 1)
            cycle, used = max(cycle + 1, data), 0
            clock[LINE] = line
        line += 1
    room = released(front.queue, clock[SENT], operations, FETCH_QUEUE) + 1
    if room > cycle:
        cycle, used = room, 0
    first = cycle + 1 if used == width else cycle
    cycle, used = take(cycle, used, operations, width)
    clock[FETCH_CYCLE], clock[FETCH_USED] = cycle, used
    return first, cycle


@compiled
def decode(front: FrontEnd, first: int, last: int, operations: int, renamed: int) -> tuple[int, int]:
    """Cycles in which the first and the last micro-operation, fetched at `first` and `last`, are decoded.

    `renamed` is the cycle in which the instruction before was renamed.
    """
    clock, width, delay = front.clock, front.limits[DECODE], front.limits[DELAY]
    # Leaving the fetch queue.
    cycle, used = clock[SEND_CYCLE], clock[SEND_USED]
    if first > cycle:
        cycle, used = first, 0
    begin = cycle + 1 if used == width else cycle
    cycle, used = take(cycle, used, operations, width)
    if last > cycle:
        cycle, used = last, 1
    if clock[STALLED] != NEVER and max(cycle + delay, clock[DECODE_CYCLE]) > clock[STALLED]:
        # It is not among what rename has in hand, so rename goes on when what came before is done.
        clock[RESUMED], clock[EMPTIED] = renamed + 1, max(clock[EMPTIED], renamed)
        clock[STALLED] = NEVER
    behind = False
    if clock[STOPPED] != NEVER:
        if cycle >= clock[STOPPED]:
            goes_on = max(clock[EMPTIED], clock[RESUMED]) + 1
            if goes_on > begin:
                begin = goes_on
                cycle, used = take(goes_on, 0, operations, width)
            clock[STOPPED] = NEVER
        else:
            behind = cycle + delay < clock[RESUMED] or cycle + delay <= clock[EMPTIED]
    clock[SEND_CYCLE], clock[SEND_USED] = cycle, used
    clock[SENT] = book(front.queue, clock[SENT], min(operations, FETCH_QUEUE), cycle)
    # Decode.
    begin += delay
    last = cycle + delay
    if behind:
        begin = clock[RESUMED] if begin < clock[RESUMED] else begin + 1
    cycle, used = clock[DECODE_CYCLE], clock[DECODE_USED]
    if begin > cycle:
        cycle, used = begin, 0
    first = cycle + 1 if used == width else cycle
    cycle, used = take(cycle, used, operations, width)
    if last > cycle:
        cycle, used = last, 1
    clock[DECODE_CYCLE], clock[DECODE_USED] = cycle, used
    if behind:
        clock[EMPTIED] = max(clock[EMPTIED], cycle)
    return first, cycle


@compiled
def stall(front: FrontEnd, cycle: int) -> None:
    """Rename could not take all that it had in `cycle`."""
    clock = front.clock
    if clock[STALLED] == NEVER:
        clock[STALLED] = cycle
    if clock[STOPPED] == NEVER:
        clock[STOPPED] = cycle + 2


@compiled
def squashed(front: FrontEnd, resolved: int, steps: int) -> None:
    """A branch that completed at `resolved` was mispredicted; the reorder buffer needs so many cycles to squash."""
    clock = front.clock
    clock[STALLED] = clock[STOPPED] = NEVER
    if steps > 1:
        clock[STOPPED] = resolved + 6
        clock[RESUMED], clock[EMPTIED] = resolved + steps + 4, 0


@compiled
def go_on(front: FrontEnd, cycle: int, line: int, used: int) -> None:
    """Fetching goes on at `cycle`, in the line at hand or, where `line` is -1, in one to ask for."""
    front.clock[FETCH_CYCLE], front.clock[FETCH_USED], front.clock[LINE] = cycle, used, line


@compiled
def end_group(front: FrontEnd, target: int) -> None:
    """A branch goes to `target` as expected: nothing more is fetched in its cycle."""
    front.clock[FETCH_USED] = front.limits[FETCH]
    if target >> 6 != front.clock[LINE]:
        front.clock[LINE] = -1


@compiled
def most_under_way(front: FrontEnd) -> int:
    """Micro-operations that the queue and the stages before rename can hold."""
    return FETCH_QUEUE + front.limits[DECODE] * (front.limits[DELAY] + 2)
