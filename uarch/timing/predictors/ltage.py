"""L-TAGE (Seznec, CBP-2, JILP 2007): TAGE and a predictor of loops with constant trip counts.

Sizes are gem5's: 12 tagged tables, histories 4 to 640, 16,384 bimodal counters; 256 loop entries of 14-bit counts,
found by address (here direct-mapped). A loop entry predicts after seeing the same count 3 times.
"""

from __future__ import annotations

from uarch.timing.compiled import out_of_line
from uarch.timing.predictors import tage
from uarch.timing.predictors.state import Predictor
from uarch.timing.predictors.tage import EXTENSION, EXTENSION_SCRATCH

LOOPS = 256
# An entry: tag, trip count, iterations so far, confidence, age, direction while looping.
TAG, TRIPS, SEEN, CONFIDENCE, AGE, DIRECTION, LOOP_FIELDS = 0, 1, 2, 3, 4, 5, 6
WITH_LOOP = EXTENSION  # counter: does the loop predictor do better than TAGE where they differ?
LOOP_AT = EXTENSION + 1
LOOP_HISTORY = 1 + LOOPS * LOOP_FIELDS
LOOP_VALID, LOOP_PREDICTION, BEFORE_LOOP = EXTENSION_SCRATCH, EXTENSION_SCRATCH + 1, EXTENSION_SCRATCH + 2
SURE, MOST_TRIPS = 3, (1 << 14) - 1


def new(entries: int) -> Predictor:
    """gem5's fixed sizes, whatever `entries`."""
    sizes = [10, 10, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9]
    bits = [7, 7, 8, 8, 9, 10, 11, 12, 12, 13, 14, 15]
    return tage.new_tables(14, tage.geometric(4, 640, 12), sizes, bits, extra_history=LOOP_HISTORY)


@out_of_line
def predict(state: Predictor, pc: int) -> int:
    return with_loop(state, pc, tage.predict(state, pc))


@out_of_line
def with_loop(state: Predictor, pc: int, predicted: int) -> int:
    """The loop predictor's word where it is sure and has been better, else `predicted`."""
    history, scratch = state.history, state.scratch
    at = LOOP_AT + LOOP_FIELDS * (pc & (LOOPS - 1))
    scratch[LOOP_VALID], scratch[BEFORE_LOOP] = 0, predicted
    if history[at + TAG] != pc >> 8 or history[at + CONFIDENCE] < SURE:
        return predicted
    direction = history[at + DIRECTION]
    scratch[LOOP_VALID] = 1
    scratch[LOOP_PREDICTION] = 1 - direction if history[at + SEEN] + 1 == history[at + TRIPS] else direction
    return scratch[LOOP_PREDICTION] if history[WITH_LOOP] >= 0 else predicted


@out_of_line
def update(state: Predictor, pc: int, taken: int) -> None:
    learn_loop(state, pc, taken)
    tage.update(state, pc, taken)


@out_of_line
def learn_loop(state: Predictor, pc: int, taken: int) -> None:
    history, scratch = state.history, state.scratch
    valid, prediction, other = scratch[LOOP_VALID] == 1, scratch[LOOP_PREDICTION], scratch[BEFORE_LOOP]
    if valid and prediction != other:
        step = 1 if prediction == taken else -1
        history[WITH_LOOP] = min(63, max(-64, history[WITH_LOOP] + step))
    at = LOOP_AT + LOOP_FIELDS * (pc & (LOOPS - 1))
    if history[at + TAG] != pc >> 8:
        if other != taken:  # only branches that TAGE gets wrong deserve an entry
            if history[at + AGE] > 0:
                history[at + AGE] -= 1
            else:
                history[at + TAG], history[at + TRIPS], history[at + SEEN] = pc >> 8, 0, 0
                history[at + CONFIDENCE], history[at + AGE], history[at + DIRECTION] = 0, 7, 1 - taken
        return
    if valid and prediction != taken:  # the count is not constant after all
        history[at + TRIPS], history[at + SEEN], history[at + CONFIDENCE], history[at + AGE] = 0, 0, 0, 0
        return
    if valid and prediction != other:
        history[at + AGE] = min(7, history[at + AGE] + 1)
    history[at + SEEN] += 1
    if taken == history[at + DIRECTION]:
        if history[at + SEEN] >= MOST_TRIPS:
            history[at + TAG], history[at + CONFIDENCE] = -1, 0
        return
    if history[at + SEEN] == history[at + TRIPS]:
        history[at + CONFIDENCE] = min(SURE, history[at + CONFIDENCE] + 1)
        if history[at + TRIPS] < 3:  # a loop so short needs no counting
            history[at + TAG], history[at + CONFIDENCE] = -1, 0
    else:
        history[at + TRIPS], history[at + CONFIDENCE] = history[at + SEEN], 0
    history[at + SEEN] = 0


@out_of_line
def observe(state: Predictor, pc: int, taken: int) -> None:
    tage.observe(state, pc, taken)
