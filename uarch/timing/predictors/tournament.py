"""Tournament (Kessler, "The Alpha 21264 Microprocessor", IEEE Micro 1999), as gem5 sizes it: local histories and
local counters of `entries` each, global and choice counters of twice that; all counters of 2 bits.
"""

from __future__ import annotations

from uarch.timing.compiled import out_of_line
from uarch.timing.predictors.state import Predictor, count, new_state


def new(entries: int) -> Predictor:
    state = new_state(counters=5 * entries, history=1 + entries)
    state.parameters[1] = entries - 1
    state.parameters[2] = entries
    return state


@out_of_line
def predict(state: Predictor, pc: int) -> int:
    mask, entries = state.parameters[1], state.parameters[2]
    local = 1 + ((pc >> 2) & mask)
    place = state.history[local] & mask
    recent = state.history[0] & (2 * entries - 1)
    by_local = 1 if state.counters[place] >= 2 else 0
    by_global = 1 if state.counters[entries + recent] >= 2 else 0
    state.scratch[0], state.scratch[1], state.scratch[2] = local, place, recent
    state.scratch[3], state.scratch[4] = by_local, by_global
    return by_global if state.counters[3 * entries + recent] >= 2 else by_local


@out_of_line
def update(state: Predictor, pc: int, taken: int) -> None:
    entries = state.parameters[2]
    local, place, recent = state.scratch[0], state.scratch[1], state.scratch[2]
    by_local, by_global = state.scratch[3], state.scratch[4]
    if by_local != by_global:
        count(state.counters, 3 * entries + recent, 1 if by_global == taken else 0, 0, 3)
    count(state.counters, place, taken, 0, 3)
    count(state.counters, entries + recent, taken, 0, 3)
    state.history[local] = ((state.history[local] << 1) | taken) & state.parameters[1]
    observe(state, pc, taken)


@out_of_line
def observe(state: Predictor, pc: int, taken: int) -> None:
    state.history[0] = ((state.history[0] << 1) | taken) & (2 * state.parameters[2] - 1)
