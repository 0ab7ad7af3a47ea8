"""TAGE (Seznec & Michaud, "A case for (partially) tagged geometric history length branch prediction", JILP 2006).

The default sizes are gem5's: 7 tagged tables of 512, histories 5 to 130, a bimodal table of 8,192 whose hysteresis bits
are shared by four. As in gem5 histories move at prediction and tables learn at retirement, an entry is allocated at one
of the next three tables (1/2, 1/4, 1/4), and an entry just allocated yields to the alternative while that does better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uarch.jit import compiled, merged
from uarch.timing.predictors import folded
from uarch.timing.predictors.folded import geometric, shift_in
from uarch.timing.predictors.state import Predictor, Row, count, new_state, next_random

PATH_BITS = 16
MOST_TABLES = 36
SIMPLE_TABLES = 16  # at most, of those without TAGE-SC-L's pairs
# Places in `parameters`: number of tables, where the parts of `counters` begin, then by table (counted from 1) log2 of
# its size, bits of its tag and its first entry.
TABLES, BIMODAL_MASK, HYSTERESIS, TAGGED, USEFUL = 1, 2, 3, 4, 5
LOG_AT = folded.END_OF_PARAMETERS
BITS_AT = LOG_AT + MOST_TABLES + 1
FIRST_AT = BITS_AT + MOST_TABLES + 1
PATH_AT = FIRST_AT + MOST_TABLES + 1  # mask of the path bits used
END_OF_PARAMETERS = PATH_AT + MOST_TABLES + 1
# Places in `history`.
PATH, AGE, RANDOM = 1, 2, 3
USE_ALTERNATIVE = folded.END_OF_HISTORY
END_OF_HISTORY = USE_ALTERNATIVE + 16
# Places in a row: providing and alternative table (0: bimodal), their predictions, TAGE's, whether the provider was
# unsure; 16 for the predictors built on this one; then entry and tag by table.
PROVIDER, ALTERNATIVE, PROVIDED, ALTERNATE, PREDICTED, UNSURE, CONDITIONAL = range(7)
END_OF_ROW = 7
ENTRY_AT, TAG_AT = 40, 40 + MOST_TABLES + 1
RESET_PERIOD, FIRST_AGE = 1 << 18, 1 << 17


def new(entries: int) -> Predictor:
    """gem5's fixed sizes, whatever `entries`."""
    return new_tables(13, geometric(5, 130, 7), [9] * 7, [9, 9, 10, 10, 11, 11, 12])


def new_tables(
    log_bimodal: int,
    lengths: Sequence[int],
    log_sizes: Sequence[int],
    tag_bits: Sequence[int],
    extra_history: int = 0,
    extra_parameters: int = 0,
) -> Predictor:
    tagged = sum(1 << log_size for log_size in log_sizes)
    state = new_bimodal(log_bimodal, tagged, 0, extra_history, extra_parameters)
    state.parameters[TABLES] = len(lengths)
    folded.set_registers(state, lengths, [(log, bits, bits - 1) for log, bits in zip(log_sizes, tag_bits, strict=True)])
    first = 0
    for table, (log_size, bits) in enumerate(zip(log_sizes, tag_bits, strict=True), 1):
        state.parameters[LOG_AT + table], state.parameters[BITS_AT + table] = log_size, bits
        state.parameters[FIRST_AT + table] = first
        state.parameters[PATH_AT + table] = (1 << min(PATH_BITS, lengths[table - 1])) - 1
        first += 1 << log_size
    state.history[AGE] = FIRST_AGE
    return state


def new_bimodal(
    log_bimodal: int, tagged: int, extra_counters: int = 0, extra_history: int = 0, extra_parameters: int = 0
) -> Predictor:
    """State with room for `tagged` entries in all; its bimodal table says not taken, all but sure of the opposite."""
    bimodal = 1 << log_bimodal
    state = new_state(
        counters=bimodal + bimodal // 4 + 2 * tagged + extra_counters,
        tags=tagged,
        history=END_OF_HISTORY + extra_history,
        outcomes=folded.OUTCOMES,
        parameters=END_OF_PARAMETERS + extra_parameters,
    )
    parameters = state.parameters
    parameters[BIMODAL_MASK], parameters[HYSTERESIS] = bimodal - 1, bimodal
    parameters[TAGGED] = bimodal + bimodal // 4
    parameters[USEFUL] = parameters[TAGGED] + tagged
    state.counters[bimodal : bimodal + bimodal // 4] = 1
    state.history[RANDOM] = 0x2545F491
    return state


@compiled
def mixed_path(path: int, log_size: int, table: int) -> int:
    """The path history folded once and rotated by the table's number; nothing is left of it where the number is above
    log2 of the table's size (gem5 shifts by a negative count there).
    """
    mask = (1 << log_size) - 1
    back = (log_size - table) & 31
    high = path >> log_size
    mixed = (path & mask) ^ (((high << table) & mask) + (high >> back))
    return ((mixed << table) & mask) + (mixed >> back)


@merged
def predict(state: Predictor, row: Row, pc: int) -> int:
    parameters, history, counters = state.parameters, state.history, state.counters
    short = pc >> 2
    path = history[PATH]
    provider, alternative = 0, 0
    for table in range(1, SIMPLE_TABLES + 1):  # all that there can be, eight at a time
        log_size = parameters[LOG_AT + table]
        key = short ^ (short >> (abs(log_size - table) + 1)) ^ history[folded.INDEX_AT - 1 + table]
        key ^= mixed_path(path & parameters[PATH_AT + table], log_size, table)
        entry = parameters[FIRST_AT + table] + (key & ((1 << log_size) - 1))
        tag = short ^ history[folded.FIRST_TAG_AT - 1 + table] ^ (history[folded.SECOND_TAG_AT - 1 + table] << 1)
        tag &= (1 << parameters[BITS_AT + table]) - 1
        row[ENTRY_AT + table], row[TAG_AT + table] = entry, tag
    for table in range(1, parameters[TABLES] + 1):
        if state.tags[row[ENTRY_AT + table]] == row[TAG_AT + table]:
            alternative, provider = provider, table
    provided = int(np.int64(counters[short & parameters[BIMODAL_MASK]]))
    alternate, predicted, unsure = provided, provided, 0
    if provider > 0:
        if alternative > 0:
            alternate = 1 if counters[parameters[TAGGED] + row[ENTRY_AT + alternative]] >= 0 else 0
        value = counters[parameters[TAGGED] + row[ENTRY_AT + provider]]
        provided = 1 if value >= 0 else 0
        unsure = 1 if value == 0 or value == -1 else 0
        predicted = alternate if unsure == 1 and history[USE_ALTERNATIVE] >= 0 else provided
    row[PROVIDER], row[ALTERNATIVE], row[PROVIDED], row[ALTERNATE] = provider, alternative, provided, alternate
    row[PREDICTED], row[UNSURE] = predicted, unsure
    return predicted


@merged
def pass_by(state: Predictor, pc: int, taken: int) -> None:
    state.history[PATH] = ((state.history[PATH] << 1) | ((pc >> 2) & 1)) & ((1 << PATH_BITS) - 1)
    shift_in(state, taken)


@compiled
def learn_bimodal(state: Predictor, place: int, taken: int) -> None:
    """A counter of two bits, the lower of which it shares with three neighbours."""
    shared = state.parameters[HYSTERESIS] + (place >> 2)
    value = 2 * np.int64(state.counters[place]) + state.counters[shared]
    value = min(value + 1, 3) if taken == 1 else max(value - 1, 0)
    state.counters[place], state.counters[shared] = value >> 1, value & 1


@merged
def learn(state: Predictor, row: Row, pc: int, taken: int) -> None:
    parameters, history, counters = state.parameters, state.history, state.counters
    provider, provided, alternate = row[PROVIDER], row[PROVIDED], row[ALTERNATE]
    allocate = row[PREDICTED] != taken and provider < parameters[TABLES]
    if provider > 0 and row[UNSURE] == 1:
        if provided == taken:  # the entry was right and only too new to be believed
            allocate = False
        if provided != alternate:
            step = 1 if alternate == taken else -1
            history[USE_ALTERNATIVE] = min(7, max(-8, history[USE_ALTERNATIVE] + step))
    if allocate:
        _allocate(state, row, taken, provider)
    history[AGE] += 1
    if history[AGE] & (RESET_PERIOD - 1) == 0:  # let old entries go: halve every usefulness
        for place in range(parameters[USEFUL], parameters[USEFUL] + len(state.tags)):
            counters[place] >>= 1
    bimodal = (pc >> 2) & parameters[BIMODAL_MASK]
    if provider == 0:
        learn_bimodal(state, bimodal, taken)
        return
    count(counters, parameters[TAGGED] + row[ENTRY_AT + provider], taken, -4, 3)
    useful = parameters[USEFUL] + row[ENTRY_AT + provider]
    if counters[useful] == 0:  # not known to be useful: what it would fall back to goes on learning
        if row[ALTERNATIVE] > 0:
            count(counters, parameters[TAGGED] + row[ENTRY_AT + row[ALTERNATIVE]], taken, -4, 3)
        else:
            learn_bimodal(state, bimodal, taken)
    if row[PREDICTED] != alternate:
        count(counters, useful, 1 if row[PREDICTED] == taken else 0, 0, 3)


@merged
def _allocate(state: Predictor, row: Row, taken: int, provider: int) -> None:
    """One entry that is not useful in a table of longer history; where there is none, the first one asked gives way."""
    parameters, counters = state.parameters, state.counters
    tables, useful = parameters[TABLES], parameters[USEFUL]
    random = next_random(state.history, RANDOM) & ((1 << (tables - provider - 1)) - 1)
    start = provider + 1
    if random & 1 == 1:
        start += 1
        if random & 2 == 2:
            start += 1
    free = False
    for table in range(provider + 1, tables + 1):
        free |= counters[useful + row[ENTRY_AT + table]] == 0
    if not free:
        counters[useful + row[ENTRY_AT + start]] = 0
    for table in range(start, tables + 1):
        entry = row[ENTRY_AT + table]
        if counters[useful + entry] == 0:
            state.tags[entry] = row[TAG_AT + table]
            counters[parameters[TAGGED] + entry] = 0 if taken == 1 else -1
            return
