"""The one shape of state that all predictors share, so that one compiled core serves every machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled
from uarch.timing.reference import by_reference

IN_FLIGHT = 256  # branches between fetch and retirement
NOTES = 128  # numbers that a predictor can note of a branch
Row = NDArray[np.int32]


@by_reference
class Predictor(NamedTuple):
    """A predictor uses of these what it needs; `parameters[0]` is its kind (`dispatch`)."""

    parameters: NDArray[np.int64]
    counters: NDArray[np.int8]  # saturating counters of all its tables
    tags: NDArray[np.uint16]
    history: NDArray[np.int64]  # history registers
    outcomes: NDArray[np.uint8]  # circular buffer of outcomes, for histories longer than a word
    notes: NDArray[np.int32]  # [IN_FLIGHT, NOTES] a row for each branch from its prediction to its retirement


def new_state(counters: int = 1, tags: int = 1, history: int = 1, outcomes: int = 1, parameters: int = 16) -> Predictor:
    return Predictor(
        np.zeros(parameters, np.int64),
        np.zeros(counters, np.int8),
        np.zeros(tags, np.uint16),
        np.zeros(history, np.int64),
        np.zeros(outcomes, np.uint8),
        np.zeros((IN_FLIGHT, NOTES), np.int32),
    )


@compiled
def count(counters: NDArray[np.int8], place: int, up: int, low: int, high: int) -> None:
    """Moves a saturating counter one step up (up = 1) or down (up = 0)."""
    value = counters[place]
    if up == 1:
        if value < high:
            counters[place] = value + 1
    elif value > low:
        counters[place] = value - 1


@compiled
def next_random(history: NDArray[np.int64], place: int) -> int:
    """The next of a sequence of 31-bit numbers (xorshift; Marsaglia, J. Statistical Software 8(14), 2003)."""
    random = history[place]
    random ^= (random << 13) & 0x7FFFFFFF
    random ^= random >> 17
    random ^= (random << 5) & 0x7FFFFFFF
    history[place] = random
    return random
