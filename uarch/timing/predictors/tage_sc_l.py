"""TAGE-SC-L (Seznec, CBP-5, 2016): L-TAGE checked by a small statistical corrector.

The corrector is a GEHL adder (bias, three global and two local history lengths) that overrules TAGE where its sum is
sure of the opposite. Up to 1,024 `entries` the sizes are those of the 8 KB class, above it of the 64 KB class; the
tables are banked in the original and plain here.
"""

from __future__ import annotations

from uarch.timing.compiled import out_of_line
from uarch.timing.predictors import ltage, tage
from uarch.timing.predictors.ltage import LOOP_AT, LOOP_HISTORY, LOOPS
from uarch.timing.predictors.state import Predictor, count
from uarch.timing.predictors.tage import BIMODAL_MASK, CONFIDENT, EXTENSION, EXTENSION_SCRATCH, PREDICTED

GLOBAL = EXTENSION + LOOP_HISTORY  # recent global outcomes
THRESHOLD = GLOBAL + 1
LOCAL_AT = GLOBAL + 2
LOCALS = 256
TABLES = 8  # 2 bias, 4 global, 2 local
LENGTHS = (0, 0, 4, 10, 16, 27, 6, 11)
LOG_TABLE, FIRST_EXTRA = 5, 6  # places in `parameters`
SUM, BEFORE, INDEX_AT = EXTENSION_SCRATCH + 4, EXTENSION_SCRATCH + 5, EXTENSION_SCRATCH + 6


def new(entries: int) -> Predictor:
    small = entries <= 1024
    if small:
        tables, log_size, longest, log_bimodal, log_corrector = 10, 8, 1000, 12, 7
    else:
        tables, log_size, longest, log_bimodal, log_corrector = 15, 10, 3000, 13, 10
    shortest = 4 if small else 6
    bits = [8] * (tables // 2) + [11] * (tables - tables // 2)
    state = tage.new_tables(
        log_bimodal,
        tage.geometric(shortest, longest, tables),
        [log_size] * tables,
        bits,
        extra_counters=TABLES << log_corrector,
        extra_history=LOOP_HISTORY + 2 + LOCALS,
    )
    state.parameters[LOG_TABLE] = log_corrector
    state.parameters[FIRST_EXTRA] = tage.extra_at(state)
    state.history[THRESHOLD] = 10
    assert LOOP_AT + LOOPS <= GLOBAL and state.parameters[BIMODAL_MASK] > 0
    return state


@out_of_line
def predict(state: Predictor, pc: int) -> int:
    predicted = ltage.with_loop(state, pc, tage.predict(state, pc))
    history, scratch = state.history, state.scratch
    log_size = state.parameters[LOG_TABLE]
    mask = (1 << log_size) - 1
    local = history[LOCAL_AT + ((pc ^ (pc >> 8)) & (LOCALS - 1))]
    total = 0
    for table in range(TABLES):
        if table == 0:
            key = (pc << 1) ^ predicted
        elif table == 1:
            key = (pc << 3) ^ (scratch[CONFIDENT] << 1) ^ predicted
        else:
            recent = (history[GLOBAL] if table < 6 else local) & ((1 << LENGTHS[table]) - 1)
            key = pc ^ (pc >> (3 + table)) ^ recent ^ (recent >> log_size) ^ (recent >> (2 * log_size))
        place = state.parameters[FIRST_EXTRA] + (table << log_size) + (key & mask)
        scratch[INDEX_AT + table] = place
        total += 2 * state.counters[place] + 1
    # TAGE's own word counts as one more table, the more the surer it is.
    vote = 2 + 6 * scratch[CONFIDENT]
    total += vote if predicted == 1 else -vote
    scratch[SUM], scratch[BEFORE] = total, predicted
    corrected = 1 if total >= 0 else 0
    return corrected if abs(total) >= history[THRESHOLD] >> 1 else predicted


@out_of_line
def update(state: Predictor, pc: int, taken: int) -> None:
    history, scratch = state.history, state.scratch
    total, before = scratch[SUM], scratch[BEFORE]
    corrected = 1 if total >= 0 else 0
    if corrected != before:  # dynamic threshold (O-GEHL, ISCA 2005): move to where overruling pays
        history[THRESHOLD] = min(127, max(4, history[THRESHOLD] + (1 if corrected != taken else -1)))
    if corrected != taken or abs(total) < 4 * history[THRESHOLD]:
        for table in range(TABLES):
            count(state.counters, scratch[INDEX_AT + table], taken, -32, 31)
    place = LOCAL_AT + ((pc ^ (pc >> 8)) & (LOCALS - 1))
    history[place] = ((history[place] << 1) | taken) & 0xFFFF
    ltage.learn_loop(state, pc, taken)
    tage.learn(state, pc, taken)
    observe(state, pc, taken)
    scratch[PREDICTED] = before


@out_of_line
def observe(state: Predictor, pc: int, taken: int) -> None:
    state.history[GLOBAL] = ((state.history[GLOBAL] << 1) | taken) & 0xFFFFFFFF
    tage.observe(state, pc, taken)
