"""L-TAGE (Seznec, CBP-2, JILP 2007): TAGE and a predictor of loops with constant trip counts.

Sizes are gem5's: 12 tagged tables, histories 4 to 640, 16,384 bimodal counters; 256 loop entries of 14-bit counts that
predict after the same count 3 times.
"""

from __future__ import annotations

from uarch.jit import merged, number
from uarch.timing.predictors import loop, tage
from uarch.timing.predictors.state import Predictor, Row

LOOPS = loop.Kind(log_sets=6, tag_bits=14, count_bits=14, sure=3, oldest=255, first_age=255, eager=1)


def new(entries: int) -> Predictor:
    """gem5's fixed sizes, whatever `entries`."""
    sizes = [10, 10, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9]
    bits = [7, 7, 8, 8, 9, 10, 11, 12, 12, 13, 14, 15]
    lengths = tage.geometric(4, 640, 12)
    state = tage.new_tables(14, lengths, sizes, bits, loop.room(64), loop.END_OF_PARAMETERS - tage.END_OF_PARAMETERS)
    loop.set_up(state, LOOPS)
    return state


@merged
def predict(state: Predictor, row: Row, pc: int, predicted: int) -> int:
    """After TAGE `predicted`."""
    predicted = loop.predict(state, row, number(pc), number(predicted))
    row[loop.FINAL] = predicted
    return predicted


@merged
def learn(state: Predictor, row: Row, pc: int, taken: int) -> None:
    """Before TAGE learns."""
    loop.learn(state, row, number(pc), number(taken))
