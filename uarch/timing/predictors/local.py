"""2-bit counters indexed by the branch's address (Smith, ISCA 1981); gem5 calls it LocalBP. Not taken at first.

As in gem5 the size counts bits, so that there are `entries` / 2 counters, and unconditional branches train theirs too.
"""

from __future__ import annotations

from uarch.jit import merged
from uarch.timing.predictors.state import Predictor, count, new_state


def new(entries: int) -> Predictor:
    state = new_state(counters=entries // 2)
    state.parameters[1] = entries // 2 - 1
    return state


@merged
def predict(state: Predictor, pc: int) -> int:
    return 1 if state.counters[(pc >> 2) & state.parameters[1]] >= 2 else 0


@merged
def learn(state: Predictor, pc: int, taken: int) -> None:
    count(state.counters, (pc >> 2) & state.parameters[1], taken, 0, 3)
