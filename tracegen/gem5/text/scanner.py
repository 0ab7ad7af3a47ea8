"""The loop over a text's lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from support.jit import cached
from tracegen.gem5.text.characters import line_end
from tracegen.gem5.text.exec_lines import MAPPED, READ, read_line
from tracegen.gem5.text.instructions import advance, settle
from tracegen.gem5.text.layout import DONE, FULL, GROW, MAPPING, OTHER_CORE, PENDING, Output, Tables
from tracegen.gem5.text.pipe_view import read_record
from tracegen.gem5.text.statics import Statics


@cached(nogil=True)
def scan(
    text: NDArray[np.uint8],
    length: int,
    core: NDArray[np.uint8],
    fast_core: NDArray[np.uint8],
    tables: Tables,
    output: Output,
    statics: Statics,
) -> int:
    """Take in whole lines of `text` [: length] from state.at on, until they end or something is to be done outside.

    `core` and `fast_core` are the names of the timed core and of the one that fast-forwards. Returns DONE, FULL (empty
    `output`), GROW (`statics`), MAPPING (the line at state.line_begin tells of a mapping; it is passed already), or the
    number of what is wrong with the line there.
    """
    state, lines, records, pending = tables
    held, line = lines[0], lines[1]
    static_id, accesses, latency, divisions = output
    slot, pcs = statics
    while True:
        at = state.at
        if max(state.ids, state.latencies) + 2 > len(static_id) or state.accesses + 4 > len(accesses):
            return FULL
        if state.statics + 2 > len(pcs):
            return GROW
        if at < length and text[at] == 79:  # the O of O3PipeView
            number = state.line_number
            end = read_record(text, at, length, state, records) if state.out_of_order else -OTHER_CORE
            if end < 0:
                return -end
            if end == 0:
                state.line_number, state.at = number, at
                return DONE
            state.at = end
            if pending[state.first_pending & (PENDING - 1)].seq == state.pipe_seq:
                wrong = settle(state, records, pending, latency)
                if wrong:
                    return wrong
            continue
        end = line_end(text, at, length)
        if end >= length:
            return DONE
        state.line_number, state.line_begin, state.at = state.line_number + 1, at, end + 1
        kind = read_line(text, at, end, core, fast_core, state, line)
        if kind == MAPPED:
            return MAPPING
        if kind > 0:
            return kind
        if kind == READ:
            wrong = advance(state, held, line, records, pending, slot, pcs, static_id, accesses, latency, divisions)
            if wrong:
                return wrong
            lines[0] = line
