"""The statistical corrector of TAGE-SC-L (Seznec, CBP-5, 2016): an adder that overrules TAGE where its sum is large.

It adds counters of tables indexed by address and one history each: global, of backward branches, of the path, local,
of loop iterations (IMLI; Seznec, San Miguel & Albericio, MICRO 2015). As in gem5 all histories move at retirement, and
a branch counts as backward by the address that it went to, so that the iteration counter never returns to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uarch.jit import compiled, merged, out_of_line
from uarch.timing.predictors import loop, tage
from uarch.timing.predictors.state import Predictor, Row, count
from uarch.timing.predictors.tage import ALTERNATE, ALTERNATIVE, PROVIDED, PROVIDER

# Places in a row: sureness of TAGE and of its alternative, the sum, the threshold, and what was predicted before.
LOW, MEDIUM, HIGH, ALTERNATE_SURE, SUM, THRESHOLD, BEFORE = range(loop.END_OF_ROW, loop.END_OF_ROW + 7)
# Histories; the large variant reads that of backward branches with the prediction beside the address.
GLOBAL, BACKWARD, ALONG_PATH, LOCAL, SECOND_LOCAL, THIRD_LOCAL, BY_ITERATION, ITERATION = range(8)


class Group(NamedTuple):
    """Tables of one history: its lengths, log2 of a table's size, the first value of the group's weights."""

    history: int
    lengths: Sequence[int]
    log_size: int
    weight: int = 7


class Parts(NamedTuple):
    log_bias: int
    locals: int
    groups: Sequence[Group]


# A length of 40 acts as 8 in gem5, which shifts a 32-bit one by it.
SMALL = Parts(
    7, 64, [Group(GLOBAL, (6, 3), 7), Group(BACKWARD, (16, 8), 7), Group(LOCAL, (6, 3), 7), Group(ITERATION, (8,), 7)]
)
LARGE = Parts(
    8,
    256,
    [
        Group(BACKWARD, (8, 24, 10), 10),
        Group(ALONG_PATH, (25, 16, 9), 9),
        Group(LOCAL, (11, 6, 3), 10),
        Group(SECOND_LOCAL, (16, 11, 6), 9),
        Group(THIRD_LOCAL, (9, 4), 10),
        Group(BY_ITERATION, (10, 4), 9, 0),
        Group(ITERATION, (8,), 8),
    ],
)
WEIGHTS, THRESHOLDS = 8, 64  # tables by address
# Places in `parameters`.
IS_LARGE, LOG_BIAS, LOCALS, GROUPS, COUNTERS = range(loop.END_OF_PARAMETERS, loop.END_OF_PARAMETERS + 5)
GROUP_AT, GROUP_FIELDS = COUNTERS + 1, 3  # history, first table and the one after the last
TABLE_AT, TABLE_FIELDS = GROUP_AT + GROUP_FIELDS * 8, 4  # mask of the history, number in the group, size - 1, place
END_OF_PARAMETERS = TABLE_AT + TABLE_FIELDS * 20
# Places in `history`, after the loops.
LOOP_ROOM = loop.room(8)
ITERATIONS, LIMIT, FIRST_CHOICE, SECOND_CHOICE, EVERY, BACK = range(
    tage.END_OF_HISTORY + LOOP_ROOM, tage.END_OF_HISTORY + LOOP_ROOM + 6
)
LOCAL_AT = BACK + 1
SECOND_AT = LOCAL_AT + 256
THIRD_AT = SECOND_AT + 16
ROUND_AT = THIRD_AT + 16
END_OF_HISTORY = ROUND_AT + 256
EXTRA_HISTORY = END_OF_HISTORY - tage.END_OF_HISTORY


def counters(parts: Parts) -> int:
    """Counters needed: three of bias, weights and thresholds by address, the tables."""
    tables = sum(len(group.lengths) << group.log_size for group in parts.groups)
    return (3 << parts.log_bias) + THRESHOLDS + WEIGHTS * (1 + len(parts.groups)) + tables


def set_up(state: Predictor, parts: Parts, first: int) -> None:
    """The corrector's counters begin at `first`."""
    parameters, size = state.parameters, 1 << parts.log_bias
    parameters[IS_LARGE] = int(parts is LARGE)
    parameters[LOG_BIAS], parameters[LOCALS], parameters[COUNTERS] = parts.log_bias, parts.locals, first
    parameters[GROUPS] = len(parts.groups)
    for which, start in enumerate(((-32, 31, -1, 0), (-8, 7, -32, 31), (-32, 31, -1, 0))):
        state.counters[first + which * size : first + (which + 1) * size] = np.tile(start, size // 4)
    weights = first + 3 * size + THRESHOLDS
    state.counters[weights : weights + WEIGHTS] = 4
    place, table = weights + WEIGHTS * (1 + len(parts.groups)), 0
    for which, group in enumerate(parts.groups):
        at = GROUP_AT + GROUP_FIELDS * which
        parameters[at : at + GROUP_FIELDS] = group.history, table, table + len(group.lengths)
        at = weights + WEIGHTS * (1 + which)
        state.counters[at : at + WEIGHTS] = group.weight
        for number, length in enumerate(group.lengths):
            entries = 1 << group.log_size
            # The large variant uses half of a group's last two tables.
            used = entries >> 1 if parts is LARGE and number >= len(group.lengths) - 2 else entries
            at = TABLE_AT + TABLE_FIELDS * table
            parameters[at : at + TABLE_FIELDS] = (1 << length) - 1, number, used - 1, place
            state.counters[place : place + entries : 2] = -1
            place, table = place + entries, table + 1
    state.history[LIMIT] = 35 << 3


@compiled
def _bias(state: Predictor, row: Row, pc: int, which: int) -> int:
    """Place of one of the three counters of bias."""
    log_size, before = state.parameters[LOG_BIAS], row[BEFORE]
    if which == 0:
        doubtful = 1 if row[LOW] == 1 and row[PROVIDED] != row[ALTERNATE] else 0
        key = ((((pc ^ (pc >> 2)) << 1) ^ doubtful) << 1) + before
    elif which == 1:
        key = ((((pc ^ (pc >> (log_size - 2))) << 1) ^ row[HIGH]) << 1) + before
    else:
        key = before + (((row[PROVIDER] + 1) // 4) << 4) + (row[HIGH] << 1) + (row[LOW] << 2)
        key += 8 if row[ALTERNATIVE] != 0 else 0
        key += ((pc ^ (pc >> 2)) << 7) if state.parameters[IS_LARGE] == 1 else 0
    return state.parameters[COUNTERS] + (which << log_size) + (key & ((1 << log_size) - 1))


@compiled
def _weight(state: Predictor, group: int, pc: int) -> int:
    """Place of the weight of a group (0: the bias) for an address."""
    start = state.parameters[COUNTERS] + (3 << state.parameters[LOG_BIAS]) + THRESHOLDS
    return start + WEIGHTS * group + ((pc ^ (pc >> 2)) & (WEIGHTS - 1))


@compiled
def _threshold(state: Predictor, pc: int) -> int:
    start = state.parameters[COUNTERS] + (3 << state.parameters[LOG_BIAS])
    return start + ((pc ^ (pc >> 2)) & (THRESHOLDS - 1))


@compiled
def _history(state: Predictor, pc: int, which: int) -> int:
    history = state.history
    if which == GLOBAL:
        return history[EVERY]
    if which == BACKWARD:
        return history[BACK]
    if which == ALONG_PATH:
        return history[tage.PATH]
    if which == LOCAL:
        return history[LOCAL_AT + ((pc ^ (pc >> 2)) & (state.parameters[LOCALS] - 1))]
    if which == SECOND_LOCAL:
        return history[SECOND_AT + ((pc ^ (pc >> 5)) & 15)]
    if which == THIRD_LOCAL:
        return history[THIRD_AT + ((pc ^ (pc >> 10)) & 15)]
    if which == BY_ITERATION:
        return history[ROUND_AT + history[ITERATIONS]]
    return history[ITERATIONS]


@compiled
def _place(state: Predictor, table: int, pc: int, history: int) -> int:
    """Where the counter of a table is, for an address and a history."""
    at = TABLE_AT + TABLE_FIELDS * table
    recent, number = history & state.parameters[at], state.parameters[at + 1]
    key = pc ^ recent ^ (recent >> (8 - number)) ^ (recent >> (16 - 2 * number)) ^ (recent >> (24 - 3 * number))
    return state.parameters[at + 3] + (key & state.parameters[at + 2])


@out_of_line
def predict(state: Predictor, row: Row, pc: int, predicted: int) -> int:
    """What becomes of a prediction."""
    parameters, history, counters = state.parameters, state.history, state.counters
    row[BEFORE] = predicted
    total = 0
    for which in range(3):
        total += 2 * counters[_bias(state, row, pc, which)] + 1
    weighty = 1 if counters[_weight(state, 0, pc)] >= 0 else 0
    total, heavy = (1 + weighty) * total, weighty
    for group in range(parameters[GROUPS]):
        at = GROUP_AT + GROUP_FIELDS * group
        recent = _history(state, pc, parameters[at])
        key = 2 * pc + predicted if parameters[IS_LARGE] == 1 and parameters[at] == BACKWARD else pc
        part = 0
        for table in range(parameters[at + 1], parameters[at + 2]):
            part += 2 * counters[_place(state, table, key, recent)] + 1
        weighty = 1 if counters[_weight(state, 1 + group, key)] >= 0 else 0
        total += (1 + weighty) * part
        if parameters[at] != BY_ITERATION:
            heavy += 1 if counters[_weight(state, 1 + group, pc)] >= 0 else 0
    threshold = (history[LIMIT] >> 3) + counters[_threshold(state, pc)]
    if parameters[IS_LARGE] == 1:
        threshold += 12 * heavy
    row[SUM], row[THRESHOLD] = total, threshold
    corrected, use = 1 if total >= 0 else 0, True
    if corrected != predicted:
        if row[HIGH] == 1:
            if abs(total) < threshold // 4:
                use = False
            elif abs(total) < threshold // 2:
                use = history[SECOND_CHOICE] < 0
        if row[MEDIUM] == 1 and abs(total) < threshold // 4:
            use = history[FIRST_CHOICE] < 0
    return corrected if use else predicted


@compiled
def _choose(state: Predictor, which: int, better: bool) -> None:
    """`better`: what was predicted before the corrector was right."""
    state.history[which] = min(63, max(-64, state.history[which] + (1 if better else -1)))


@out_of_line
def learn(state: Predictor, row: Row, pc: int, taken: int) -> None:
    """Before the branch enters the histories."""
    parameters, history, counters = state.parameters, state.history, state.counters
    total, threshold, before = row[SUM], row[THRESHOLD], row[BEFORE]
    corrected, size = 1 if total >= 0 else 0, abs(total)
    if corrected != before:
        if row[HIGH] == 1 and threshold // 4 <= size and size < threshold // 2:
            _choose(state, SECOND_CHOICE, before == taken)
        if row[MEDIUM] == 1 and size < threshold // 4:
            _choose(state, FIRST_CHOICE, before == taken)
    if corrected == taken and size >= threshold:
        return
    wrong = 1 if corrected != taken else 0
    history[LIMIT] = min(2047, max(-2048, history[LIMIT] + (1 if wrong == 1 else -1)))
    count(counters, _threshold(state, pc), wrong, -128, 127)
    for group in range(parameters[GROUPS] + 1):
        at = GROUP_AT + GROUP_FIELDS * (group - 1)
        key, recent, first, last = pc, 0, 0, 3
        if group > 0:
            recent = _history(state, pc, parameters[at])
            first, last = int(parameters[at + 1]), int(parameters[at + 2])
            if parameters[IS_LARGE] == 1 and parameters[at] == BACKWARD:
                key = 2 * pc + before
        part = 0
        for table in range(first, last):
            place = _bias(state, row, pc, table) if group == 0 else _place(state, table, key, recent)
            part += 2 * counters[place] + 1
            count(counters, place, taken, -32, 31)
        weight = _weight(state, group, key)
        without = total - (part if counters[weight] >= 0 else 0)
        if (without + part >= 0) != (without >= 0):  # this part decided
            count(counters, weight, 1 if (part >= 0) == (taken == 1) else 0, -32, 31)


@merged
def shift_in(state: Predictor, pc: int, taken: int, target: int) -> None:
    """A conditional branch retires."""
    history = state.history
    second, third = SECOND_AT + ((pc ^ (pc >> 5)) & 15), THIRD_AT + ((pc ^ (pc >> 10)) & 15)
    local = LOCAL_AT + ((pc ^ (pc >> 2)) & (state.parameters[LOCALS] - 1))
    _append(state, EVERY, taken)
    _append(state, ROUND_AT + history[ITERATIONS], taken)
    _append(state, second, taken)
    history[second] ^= pc & 15
    _append(state, third, taken)
    _append(state, local, taken)
    backward = 1 if taken == 1 and target < pc else 0
    _append(state, BACK, backward)
    if backward == 1:
        history[ITERATIONS] = min(history[ITERATIONS] + 1, 255)


@compiled
def _append(state: Predictor, place: int, outcome: int) -> None:
    state.history[place] = ((state.history[place] << 1) | outcome) & 0xFFFFFFFF
