"""Hashed perceptron (Tarjan & Skadron, TACO 2005) with the feature mix of the multi-perspective perceptron predictor
(Jiménez, CBP-5, 2016) that matters most: folded global histories of growing length, path, and local history.

Up to 1,024 `entries` it has 8 tables of 512 weights (the 8 KB class), above it 16 tables of 4,096 (the 64 KB class).
"""

from __future__ import annotations

from uarch.timing.compiled import out_of_line
from uarch.timing.predictors.state import Predictor, new_state

TABLES, LOG_SIZE, FEATURES_AT = 1, 2, 8
POSITION, PATH, THETA, ADJUST, FOLDED_AT = 0, 1, 2, 3, 8
LOCALS, LOCAL_AT = 512, 32
OUTCOMES = 1024
SUM, INDEX_AT = 0, 1
MOST, LEAST = 31, -32  # 6-bit weights
# Kinds of feature: negative ones are not a history length.
BIAS, PATH_FEATURE, LOCAL_FEATURE, SHORT_LOCAL = -1, -2, -3, -4
SMALL = (BIAS, 3, 7, 13, 24, 48, PATH_FEATURE, LOCAL_FEATURE)
LARGE = (BIAS, 2, 4, 7, 11, 16, 23, 33, 48, 70, 104, 160, 256, PATH_FEATURE, LOCAL_FEATURE, SHORT_LOCAL)


def new(entries: int) -> Predictor:
    features, log_size = (SMALL, 9) if entries <= 1024 else (LARGE, 12)
    state = new_state(counters=len(features) << log_size, history=LOCAL_AT + LOCALS, outcomes=OUTCOMES)
    state.parameters[TABLES], state.parameters[LOG_SIZE] = len(features), log_size
    state.parameters[FEATURES_AT : FEATURES_AT + len(features)] = features
    # Training threshold of the perceptron paper (Jiménez & Lin, HPCA 2001, section 5.1), then adapted.
    state.history[THETA] = int(1.93 * len(features) + 14)
    return state


@out_of_line
def predict(state: Predictor, pc: int) -> int:
    parameters, history = state.parameters, state.history
    log_size = parameters[LOG_SIZE]
    mask = (1 << log_size) - 1
    local = history[LOCAL_AT + ((pc ^ (pc >> 9)) & (LOCALS - 1))]
    total = 0
    for table in range(parameters[TABLES]):
        feature = parameters[FEATURES_AT + table]
        if feature == BIAS:
            value = 0
        elif feature == PATH_FEATURE:
            value = history[PATH]
        elif feature == LOCAL_FEATURE:
            value = local & 0x7FF
        elif feature == SHORT_LOCAL:
            value = local & 0x1F
        else:
            value = history[FOLDED_AT + table]
        key = pc ^ (pc >> (log_size - (table & 3))) ^ value ^ (value << (table & 3)) ^ (value >> log_size)
        place = (table << log_size) + (key & mask)
        state.scratch[INDEX_AT + table] = place
        total += state.counters[place]
    state.scratch[SUM] = total
    return 1 if total >= 0 else 0


@out_of_line
def update(state: Predictor, pc: int, taken: int) -> None:
    history, scratch, weights = state.history, state.scratch, state.counters
    total = scratch[SUM]
    wrong = (1 if total >= 0 else 0) != taken
    if wrong or abs(total) <= history[THETA]:
        for table in range(state.parameters[TABLES]):
            place = scratch[INDEX_AT + table]
            if taken == 1:
                if weights[place] < MOST:
                    weights[place] += 1
            elif weights[place] > LEAST:
                weights[place] -= 1
        # Threshold adaptation (Seznec, O-GEHL, ISCA 2005).
        history[ADJUST] += 1 if wrong else -1
        if history[ADJUST] >= 64:
            history[THETA] += 1
            history[ADJUST] = 0
        elif history[ADJUST] <= -64:
            history[THETA] = max(history[THETA] - 1, 1)
            history[ADJUST] = 0
    place = LOCAL_AT + ((pc ^ (pc >> 9)) & (LOCALS - 1))
    history[place] = ((history[place] << 1) | taken) & 0xFFFF
    observe(state, pc, taken)


@out_of_line
def observe(state: Predictor, pc: int, taken: int) -> None:
    parameters, history = state.parameters, state.history
    width = parameters[LOG_SIZE]
    position = (history[POSITION] + 1) & (OUTCOMES - 1)
    history[POSITION] = position
    state.outcomes[position] = taken
    history[PATH] = ((history[PATH] << 3) ^ (pc >> 1)) & 0xFFFFFF
    for table in range(parameters[TABLES]):
        length = parameters[FEATURES_AT + table]
        if length > 0:
            folded = (history[FOLDED_AT + table] << 1) | taken
            folded ^= int(state.outcomes[(position - length) & (OUTCOMES - 1)]) << (length % width)
            folded ^= folded >> width
            history[FOLDED_AT + table] = folded & ((1 << width) - 1)
