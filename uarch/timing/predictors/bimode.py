"""Bi-mode (Lee, Chen & Mudge, MICRO 1997): two tables of counters indexed by address xor global history, one for
branches mostly taken and one for the others; a choice table indexed by address picks. All of `entries` counters.

As in gem5 unconditional branches enter the history and train the taken side and the choice.
"""

from __future__ import annotations

from uarch.jit import merged
from uarch.timing.predictors.state import Predictor, Row, count, new_state

MASK, ENTRIES = 1, 2  # places in `parameters`
HISTORY, SIDE, PREDICTED = 0, 1, 2  # places in a row


def new(entries: int) -> Predictor:
    state = new_state(counters=3 * entries)
    state.parameters[MASK], state.parameters[ENTRIES] = entries - 1, entries
    return state


@merged
def predict(state: Predictor, row: Row, pc: int) -> int:
    mask, entries = state.parameters[MASK], state.parameters[ENTRIES]
    side = 1 if state.counters[(pc >> 2) & mask] >= 2 else 0
    place = entries * (1 + side) + (((pc >> 2) ^ state.history[0]) & mask)
    row[SIDE] = side
    row[PREDICTED] = 1 if state.counters[place] >= 2 else 0
    return int(row[PREDICTED])


@merged
def pass_by(state: Predictor, row: Row, taken: int, conditional: int) -> None:
    row[HISTORY] = state.history[0]
    if conditional == 0:
        row[SIDE], row[PREDICTED] = 1, 1
    state.history[0] = ((state.history[0] << 1) | taken) & state.parameters[MASK]


@merged
def learn(state: Predictor, row: Row, pc: int, taken: int) -> None:
    mask, entries = state.parameters[MASK], state.parameters[ENTRIES]
    side, predicted = row[SIDE], row[PREDICTED]
    count(state.counters, entries * (1 + side) + (((pc >> 2) ^ row[HISTORY]) & mask), taken, 0, 3)
    # The choice stays where the chosen table was right although the choice went the other way.
    if not (side != taken and predicted == taken):
        count(state.counters, (pc >> 2) & mask, taken, 0, 3)
