"""2-bit counters indexed by the branch's address (Smith, ISCA 1981); gem5 calls it LocalBP. Not taken at first."""

from __future__ import annotations

from uarch.timing.compiled import compiled
from uarch.timing.predictors.state import Predictor, count, new_state


def new(entries: int) -> Predictor:
    state = new_state(counters=entries)
    state.parameters[1] = entries - 1
    return state


@compiled
def predict(state: Predictor, pc: int) -> int:
    return 1 if state.counters[(pc >> 2) & state.parameters[1]] >= 2 else 0


@compiled
def update(state: Predictor, pc: int, taken: int) -> None:
    count(state.counters, (pc >> 2) & state.parameters[1], taken, 0, 3)
