"""Bi-mode (Lee, Chen & Mudge, MICRO 1997): two tables of counters indexed by address xor global history, one for
branches mostly taken and one for the others; a choice table indexed by address picks. Both of `entries` counters.
"""

from __future__ import annotations

from uarch.timing.compiled import compiled
from uarch.timing.predictors.state import Predictor, count, new_state


def new(entries: int) -> Predictor:
    state = new_state(counters=3 * entries)
    state.parameters[1] = entries - 1
    state.parameters[2] = entries
    return state


@compiled
def predict(state: Predictor, pc: int) -> int:
    mask, entries = state.parameters[1], state.parameters[2]
    choice = (pc >> 2) & mask
    direction = ((pc >> 2) ^ state.history[0]) & mask
    side = 1 if state.counters[choice] >= 2 else 0
    place = entries * (1 + side) + direction
    state.scratch[0], state.scratch[1], state.scratch[2] = choice, side, place
    state.scratch[3] = 1 if state.counters[place] >= 2 else 0
    return state.scratch[3]


@compiled
def update(state: Predictor, pc: int, taken: int) -> None:
    choice, side, place, predicted = state.scratch[0], state.scratch[1], state.scratch[2], state.scratch[3]
    count(state.counters, place, taken, 0, 3)
    # The choice stays where the chosen table was right although the choice went the other way.
    if not (side != taken and predicted == taken):
        count(state.counters, choice, taken, 0, 3)
    state.history[0] = ((state.history[0] << 1) | taken) & state.parameters[1]


@compiled
def observe(state: Predictor, pc: int, taken: int) -> None:
    state.history[0] = ((state.history[0] << 1) | taken) & state.parameters[1]
