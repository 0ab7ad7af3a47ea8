"""Micro-operations into instructions: which took effect, and when each instruction retired."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from support.jit import cached
from tracegen.gem5.text.layout import (
    AGAIN,
    ATOMIC,
    BACKWARDS,
    BAD_TICK,
    CODE_PREFETCH,
    DIVIDES,
    FAULT_INSIDE,
    FIRST,
    INCOMPLETE,
    LAST,
    LOAD,
    LONGEST,
    MICRO,
    MIDDLE,
    NO_RECORD,
    NOT_RETIRED,
    OTHER_ADDRESS,
    PENDING,
    RING,
    STORE,
    STORED_OPEN,
    TOO_LATE,
    Line,
    State,
)
from tracegen.gem5.text.statics import slot_of


@cached(nogil=True)
def advance(
    state: State,
    held: Line,
    line: Line,
    records: NDArray[np.void],
    pending: NDArray[np.void],
    slot: NDArray[np.int32],
    pcs: NDArray[np.int64],
    static_id: NDArray[np.uint32],
    accesses: NDArray[np.void],
    latency: NDArray[np.uint32],
    divisions: NDArray[np.void],
) -> int:
    """Take or take back the held line, now that the one after it is known (not `valid`: none). 0, or what is wrong."""
    if not held.valid:
        return 0
    if line.valid and _is_repeated(state, held, line):
        _take_back(state, held)
        return 0
    wrong = _take(state, held, accesses)
    if wrong:
        return wrong
    held.valid = 0
    if not held.op_flags & MICRO or held.op_flags & LAST:
        return _end_instruction(state, held, records, pending, slot, pcs, static_id, latency, divisions)
    return FAULT_INSIDE if held.fault else 0


@cached(nogil=True)
def _is_repeated(state: State, held: Line, line: Line) -> bool:
    """Return whether the line that was read does again what the held one could not."""
    if held.pc != line.pc or held.fast != line.fast:
        return False
    same = held.micro == line.micro
    if state.out_of_order and not held.fast:
        return held.fault != 0 and (same or line.op_flags & FIRST != 0)
    return same and held.has != 0 and line.has != 0 and held.address == line.address


@cached(nogil=True)
def _take_back(state: State, held: Line) -> None:
    """The held line was without effect. Minor has counted it all the same."""
    held.valid = 0
    state.interrupted = 1
    if not held.fast and not held.fault:
        flags = held.op_flags
        state.micro_operations += 1
        state.repeated_references += flags & (LOAD | STORE | ATOMIC) != 0
        state.repeated += not flags & MICRO or flags & LAST != 0


@cached(nogil=True)
def _take(state: State, held: Line, accesses: NDArray[np.void]) -> int:
    """The held line has taken effect: one more micro-operation of an instruction. 0, or what is wrong with it."""
    flags = held.op_flags
    if state.open:
        if state.open_pc != held.pc:
            return INCOMPLETE
        if not flags & MICRO or flags & FIRST:
            if not state.interrupted or state.open == STORED_OPEN:
                return AGAIN
            state.accesses = state.open_access  # from its beginning once more
            state.steps = 0
    else:
        if flags & MICRO and not flags & FIRST:
            return MIDDLE
        state.open_pc = held.pc
        state.open_access = state.accesses
        state.open = 1
        state.steps = 0
    state.interrupted = 0
    state.steps += flags & DIVIDES != 0
    counted = not held.fast and not held.fault
    state.micro_operations += counted
    if flags & (LOAD | STORE | ATOMIC):
        state.references += counted
        if held.has and not flags & CODE_PREFETCH:
            at = state.accesses
            for is_store in range(2):
                if flags & (ATOMIC | (STORE if is_store else LOAD)):
                    accesses[at].instruction = state.instructions
                    accesses[at].address = held.address
                    accesses[at].is_store = is_store
                    at += 1
            state.accesses = at
    return 0


@cached(nogil=True)
def _end_instruction(
    state: State,
    held: Line,
    records: NDArray[np.void],
    pending: NDArray[np.void],
    slot: NDArray[np.int32],
    pcs: NDArray[np.int64],
    static_id: NDArray[np.uint32],
    latency: NDArray[np.uint32],
    divisions: NDArray[np.void],
) -> int:
    """The held line was an instruction's last. 0, or what is wrong with it."""
    place = slot_of(slot, pcs, state.open_pc)
    if slot[place] == 0:
        pcs[state.statics] = state.open_pc
        state.statics += 1
        slot[place] = state.statics
    static_id[state.ids] = slot[place] - 1
    state.ids += 1
    if state.steps:
        divisions[state.divisions].instruction, divisions[state.divisions].steps = state.instructions, state.steps
        state.divisions += 1
    state.instructions += 1
    state.open = 0
    if held.fast:
        state.fast += 1
        return 0
    state.syscalls += held.fault
    if state.retired < 0:
        state.retired = held.tick
    if not state.out_of_order:
        return _retire(state, latency, held.tick)
    if state.last_pending - state.first_pending == PENDING:
        return NO_RECORD
    at = state.last_pending & (PENDING - 1)
    pending[at].seq, pending[at].pc, pending[at].fault = held.seq, state.open_pc, held.fault
    state.last_pending += 1
    if state.last_pending - state.first_pending == 1:  # its record may be there, since its line was held back
        return settle(state, records, pending, latency)
    return 0


@cached(nogil=True)
def settle(state: State, records: NDArray[np.void], pending: NDArray[np.void], latency: NDArray[np.uint32]) -> int:
    """Retire the instructions whose records are there, in order, as far as there is room. 0, or what is wrong."""
    while state.first_pending < state.last_pending and state.latencies < len(latency):
        at = state.first_pending & (PENDING - 1)
        slot = pending[at].seq & (RING - 1)
        if records[slot].seq != pending[at].seq + 1:
            return 0
        if records[slot].pc != pending[at].pc:
            return OTHER_ADDRESS
        tick = records[slot].tick
        if tick == 0:
            if not pending[at].fault:
                return NOT_RETIRED
            tick = max(records[slot].complete, state.retired)
        wrong = _retire(state, latency, tick)
        if wrong:
            return wrong
        state.first_pending += 1
    return 0


@cached(nogil=True)
def _retire(state: State, latency: NDArray[np.uint32], tick: int) -> int:
    """The next instruction has retired at `tick`. 0, or what is wrong with that."""
    if tick % state.period:
        return BAD_TICK
    if tick < state.retired:
        return BACKWARDS
    cycles = (tick - state.retired) // state.period
    if cycles > LONGEST:
        return TOO_LATE
    latency[state.latencies] = cycles
    state.latencies += 1
    state.labelled += 1
    state.retired = tick
    return 0
