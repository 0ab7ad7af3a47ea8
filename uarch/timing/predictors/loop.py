"""The loop predictor of L-TAGE (Seznec, CBP-2, JILP 2007) and TAGE-SC-L: branches that leave after a constant count.

A set-associative table of four ways, found by tag; an entry predicts once it saw the same count often enough. As in
gem5 the iterations are counted at retirement, so that those in flight are not, and in L-TAGE an entry is for a branch
taken while looping. TAGE-SC-L hashes the ways apart, keeps the direction, and allocates only now and then.
"""

from __future__ import annotations

from typing import NamedTuple

from uarch.jit import compiled, merged, out_of_line
from uarch.timing.predictors.state import Predictor, Row, next_random
from uarch.timing.predictors.tage import END_OF_HISTORY as AT
from uarch.timing.predictors.tage import END_OF_PARAMETERS as PARAMETERS_AT
from uarch.timing.predictors.tage import END_OF_ROW as ROW_AT
from uarch.timing.predictors.tage import PREDICTED, RANDOM

WAYS = 4
# An entry: tag, trip count, iterations so far, confidence, age, direction while looping.
TAG, TRIPS, SEEN, SURENESS, AGE, DIRECTION, FIELDS = 0, 1, 2, 3, 4, 5, 6
TRUST, ENTRIES_AT = AT, AT + 1  # in `history`: does the predictor do better where it differs? Then the entries.
# Places in a row: entry hit (or -1), whether it was sure, what it said; the final prediction of the branch.
HIT, VALID, SAID, FINAL = range(ROW_AT, ROW_AT + 4)
END_OF_ROW = ROW_AT + 4


# Places in `parameters`; the last says L-TAGE's variant.
LOG_SETS, TAG_BITS, COUNT_BITS, SURE, OLDEST, FIRST_AGE, EAGER = range(PARAMETERS_AT, PARAMETERS_AT + 7)
END_OF_PARAMETERS = PARAMETERS_AT + 7


class Kind(NamedTuple):
    """Constants of a variant; `eager` is L-TAGE's."""

    log_sets: int
    tag_bits: int
    count_bits: int
    sure: int
    oldest: int
    first_age: int
    eager: int


def room(sets: int) -> int:
    """Numbers needed in `history`."""
    return 1 + FIELDS * WAYS * sets


def set_up(state: Predictor, kind: Kind) -> None:
    state.parameters[LOG_SETS:END_OF_PARAMETERS] = kind
    state.history[TRUST] = -1


@compiled
def _tag(state: Predictor, pc: int) -> int:
    parameters = state.parameters
    log_sets, mask = parameters[LOG_SETS], (1 << parameters[TAG_BITS]) - 1
    if parameters[EAGER] == 1:
        return (pc >> (2 + log_sets)) & mask
    return ((pc >> log_sets) ^ (pc >> (log_sets + parameters[TAG_BITS]))) & mask


@compiled
def _entry(state: Predictor, pc: int, way: int) -> int:
    """Where the branch's entry of a way is in `history`."""
    log_sets = state.parameters[LOG_SETS]
    mask = (1 << log_sets) - 1
    which = (pc >> 2) & mask
    if state.parameters[EAGER] == 0:
        which = ((pc ^ (pc >> 2)) & mask) ^ (((pc >> log_sets) & mask) >> way)
    return ENTRIES_AT + FIELDS * (WAYS * which + way)


@out_of_line
def predict(state: Predictor, row: Row, pc: int, predicted: int) -> int:
    """Its word where it is sure and trusted, else `predicted`."""
    history = state.history
    tag = _tag(state, pc)
    row[HIT], row[VALID], row[SAID] = -1, 0, 0
    for way in range(WAYS):
        at = _entry(state, pc, way)
        if history[at + TAG] == tag:
            sureness, trips = history[at + SURENESS], history[at + TRIPS]
            eager = state.parameters[EAGER]
            looping = 1 if eager == 1 else history[at + DIRECTION]
            sure = sureness == state.parameters[SURE] or (eager == 0 and sureness * trips > 128)
            row[HIT], row[VALID] = at, 1 if sure else 0
            row[SAID] = 1 - looping if history[at + SEEN] + 1 == trips else looping
            break
    if row[VALID] == 1 and history[TRUST] >= 0:
        predicted = int(row[SAID])
    return predicted


@out_of_line
def learn(state: Predictor, row: Row, pc: int, taken: int) -> None:
    history = state.history
    if row[VALID] == 1 and row[FINAL] != row[SAID]:
        step = 1 if row[SAID] == taken else -1
        history[TRUST] = min(63, max(-64, history[TRUST] + step))
    at = row[HIT]
    if at >= 0:
        _count(state, row, at, taken)
    elif state.parameters[EAGER] == 1:
        if taken == 1:
            first = next_random(history, RANDOM)
            for way in range(WAYS):
                if _claim(state, _entry(state, pc, (first + way) & (WAYS - 1)), pc, taken) == 1:
                    break
    elif row[FINAL] != taken and next_random(history, RANDOM) & 3 == 0:
        _claim(state, _entry(state, pc, next_random(history, RANDOM) & (WAYS - 1)), pc, taken)


@compiled
def _claim(state: Predictor, at: int, pc: int, taken: int) -> int:
    """Takes an entry if it is of no age, else ages it; returns 1 if taken."""
    history = state.history
    if history[at + AGE] > 0:
        history[at + AGE] -= 1
        return 0
    history[at + TAG], history[at + TRIPS], history[at + SURENESS] = _tag(state, pc), 0, 0
    history[at + SEEN], history[at + AGE] = state.parameters[EAGER], state.parameters[FIRST_AGE]
    history[at + DIRECTION] = 1 - taken
    return 1


@merged
def _count(state: Predictor, row: Row, at: int, taken: int) -> None:
    history = state.history
    if row[VALID] == 1:
        if row[SAID] != taken:  # the count is not constant after all
            history[at + TRIPS], history[at + SEEN], history[at + SURENESS], history[at + AGE] = 0, 0, 0, 0
            return
        if row[SAID] != row[PREDICTED] or (state.parameters[EAGER] == 0 and next_random(history, RANDOM) & 7 == 0):
            history[at + AGE] = min(history[at + AGE] + 1, state.parameters[OLDEST])
    history[at + SEEN] = (history[at + SEEN] + 1) & ((1 << state.parameters[COUNT_BITS]) - 1)
    if history[at + SEEN] > history[at + TRIPS]:
        history[at + SURENESS] = 0
        if history[at + TRIPS] != 0:
            _forget(state, at)
    if taken == (1 if state.parameters[EAGER] == 1 else history[at + DIRECTION]):
        return
    if history[at + SEEN] == history[at + TRIPS]:
        history[at + SURENESS] = min(history[at + SURENESS] + 1, state.parameters[SURE])
        if history[at + TRIPS] < 3:  # a loop so short needs no counting
            history[at + DIRECTION] = taken
            history[at + TRIPS], history[at + AGE], history[at + SURENESS] = 0, 0, 0
    elif history[at + TRIPS] == 0:  # the first time to the end
        history[at + SURENESS], history[at + TRIPS] = 0, history[at + SEEN]
    else:
        _forget(state, at)
    history[at + SEEN] = 0


@compiled
def _forget(state: Predictor, at: int) -> None:
    history = state.history
    history[at + TRIPS], history[at + SURENESS] = 0, 0
    if state.parameters[EAGER] == 1:
        history[at + AGE] = 0
