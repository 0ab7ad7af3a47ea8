"""Tournament (Kessler, "The Alpha 21264 Microprocessor", IEEE Micro 1999), as gem5 sizes it: local histories and
local counters of `entries` each, global and choice counters of twice that; all counters of 2 bits.

As in gem5 both histories move at prediction; unconditional branches enter the global one and train its counters.
"""

from __future__ import annotations

from uarch.jit import merged
from uarch.timing.predictors.state import Predictor, Row, count, new_state

MASK, ENTRIES = 1, 2  # places in `parameters`
GLOBAL, LOCAL, BY_LOCAL, BY_GLOBAL = 0, 1, 2, 3  # places in a row
UNCONDITIONAL = -1


def new(entries: int) -> Predictor:
    state = new_state(counters=6 * entries, history=1 + entries)
    state.parameters[MASK], state.parameters[ENTRIES] = entries - 1, entries
    return state


@merged
def predict(state: Predictor, row: Row, pc: int) -> int:
    mask, entries = state.parameters[MASK], state.parameters[ENTRIES]
    local, recent = state.history[1 + ((pc >> 2) & mask)], state.history[0]
    by_local = 1 if state.counters[local] >= 2 else 0
    by_global = 1 if state.counters[entries + recent] >= 2 else 0
    row[LOCAL], row[BY_LOCAL], row[BY_GLOBAL] = local, by_local, by_global
    return by_global if state.counters[3 * entries + recent] >= 2 else by_local


@merged
def pass_by(state: Predictor, row: Row, pc: int, taken: int, conditional: int) -> None:
    mask, history = state.parameters[MASK], state.history
    row[GLOBAL] = history[0]
    history[0] = ((history[0] << 1) | taken) & (2 * mask + 1)
    if conditional == 1:
        place = 1 + ((pc >> 2) & mask)
        history[place] = ((history[place] << 1) | taken) & mask
    else:
        row[LOCAL] = UNCONDITIONAL


@merged
def learn(state: Predictor, row: Row, taken: int) -> None:
    entries, recent, local = state.parameters[ENTRIES], row[GLOBAL], row[LOCAL]
    if local != UNCONDITIONAL:
        if row[BY_LOCAL] != row[BY_GLOBAL]:
            count(state.counters, 3 * entries + recent, 1 if row[BY_GLOBAL] == taken else 0, 0, 3)
        count(state.counters, local, taken, 0, 3)
    count(state.counters, entries + recent, taken, 0, 3)
