"""A record of `O3PipeView`: the ticks of one instruction in the stages of an out-of-order core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from support.jit import cached
from tracegen.gem5.text.characters import begins, decimal, encoded, hexadecimal, line_end
from tracegen.gem5.text.layout import BAD_PIPE, RING, State

_FETCH, _RETIRE, _STORED = map(encoded, ("O3PipeView:fetch:", "O3PipeView:retire:", ":store:"))
_STAGES = ("decode", "rename", "dispatch", "issue", "complete")
_INITIAL = encoded("".join(stage[0] for stage in _STAGES))
_COLON = np.array([len("O3PipeView:") + len(stage) for stage in _STAGES])


@cached(nogil=True)
def read_record(text: NDArray[np.uint8], at: int, length: int, state: State, records: NDArray[np.void]) -> int:
    """A record of O3PipeView, seven lines from `at` on, into `records`. Where it ends, 0 where `length` ends before, or
    the number of what is wrong with a line (negative).
    """
    # O3PipeView:fetch:TICK:0xPC:MICRO:SEQ:DISASSEMBLY
    end = line_end(text, at, length)
    if end >= length:
        return 0
    # What is shown of a wrong line.
    state.line_number, state.line_begin, state.at = state.line_number + 1, at, end + 1
    if not begins(text, at, end, _FETCH):
        return -BAD_PIPE
    tick, at = decimal(text, at + 17, end)
    if tick < 0 or text[at] != 58:
        return -BAD_PIPE
    pc, at, digits = hexadecimal(text, at + 1, end)
    if digits == 0 or digits > 16 or text[at] != 58:
        return -BAD_PIPE
    micro, at = decimal(text, at + 1, end)
    if micro < 0 or text[at] != 58:
        return -BAD_PIPE
    seq, at = decimal(text, at + 1, end)
    if seq < 0 or text[at] != 58:
        return -BAD_PIPE
    at = end + 1
    # O3PipeView:decode:TICK and four more such lines; of their labels, the initial and the colons are looked at.
    for stage in range(5):
        colon = at + _COLON[stage]
        if colon >= length:
            return 0
        state.line_number, state.line_begin, state.at = state.line_number + 1, at, colon + 2
        if text[at] != 79 or text[at + 10] != 58 or text[colon] != 58 or text[at + 11] != _INITIAL[stage]:
            return -BAD_PIPE
        tick, after = decimal(text, colon + 1, length)
        if after >= length:
            return 0
        if tick < 0 or text[after] != 10:
            return -BAD_PIPE
        at = after + 1
    complete = tick
    # O3PipeView:retire:TICK:store:TICK
    end = line_end(text, at, length)
    if end >= length:
        return 0
    state.line_number, state.line_begin, state.at = state.line_number + 1, at, end + 1
    if not begins(text, at, end, _RETIRE):
        return -BAD_PIPE
    tick, at = decimal(text, at + 18, end)
    if tick < 0 or not begins(text, at, end, _STORED):
        return -BAD_PIPE
    stored, at = decimal(text, at + 7, end)
    if stored < 0 or at != end:
        return -BAD_PIPE
    slot = seq & (RING - 1)
    records[slot].seq, records[slot].pc, records[slot].tick, records[slot].complete = seq + 1, pc, tick, complete
    state.pipe_seq = seq
    return end + 1
