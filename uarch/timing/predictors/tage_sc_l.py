"""TAGE-SC-L (Seznec, "TAGE-SC-L branch predictors again", CBP-5, 2016): TAGE, loop predictor, statistical corrector.

The 8 KB variant up to 1,024 `entries`, above it the 64 KB one, with gem5's sizes. Two tables share a history length and
a tag, so that a length has two ways; the tables' entries are interleaved in two memories, of short and of long tags.

As gem5 implements it nothing is speculative: all histories move at retirement, so that a branch is predicted without
those in flight. A branch brings two bits of its address and direction into the global history (an indirect jump three).
"""

from __future__ import annotations

from typing import NamedTuple

from uarch.jit import compiled, merged, number, out_of_line
from uarch.timing.predictors import corrector, folded, loop, tage
from uarch.timing.predictors.corrector import ALTERNATE_SURE, HIGH, LOW, MEDIUM
from uarch.timing.predictors.state import Predictor, Row, count, next_random
from uarch.timing.predictors.tage import (
    ALTERNATE,
    ALTERNATIVE,
    BIMODAL_MASK,
    ENTRY_AT,
    HYSTERESIS,
    PATH_AT,
    PREDICTED,
    PROVIDED,
    PROVIDER,
    TABLES,
    TAG_AT,
    TAGGED,
    UNSURE,
    USE_ALTERNATIVE,
    USEFUL,
    learn_bimodal,
)

PATH_BITS = 27
LOOPS_SMALL = loop.Kind(log_sets=1, tag_bits=10, count_bits=10, sure=15, oldest=15, first_age=7, eager=0)
LOOPS_LARGE = LOOPS_SMALL._replace(log_sets=3)
# Places in `parameters`.
SMALL, ACTIVE, LOG_SIZE, FIRST_LONG, SHORT_BANKS, LONG_BANKS, LONG_PATH = range(
    corrector.END_OF_PARAMETERS, corrector.END_OF_PARAMETERS + 7
)
END_OF_PARAMETERS = LONG_PATH + 1
RESET_AT, FIRST_AGE = 1024, 512
SHORT_BITS, LONG_BITS = 8, 12


class Sizes(NamedTuple):
    lengths: list[int]
    used: list[int]  # tables that have entries
    log_size: int
    log_bimodal: int
    first_long: int
    banks: tuple[int, int]  # of short and of long tags


SMALL_SIZES = Sizes(folded.geometric(4, 1000, 15), [2, 4, *range(6, 21), 22, 24, 26, 28, 30], 7, 12, 11, (9, 17))
LARGE_SIZES = Sizes(folded.geometric(6, 3000, 18), [2, 6, *range(9, 23), 24, 26, 28, 32, 36], 10, 13, 13, (10, 20))


def new(entries: int) -> Predictor:
    small = entries <= 1024
    sizes = SMALL_SIZES if small else LARGE_SIZES
    tables, log_size = 2 * len(sizes.lengths), sizes.log_size
    kind = LOOPS_SMALL if small else LOOPS_LARGE
    parts = corrector.SMALL if small else corrector.LARGE
    state = tage.new_bimodal(
        sizes.log_bimodal,
        sum(sizes.banks) << log_size,
        corrector.counters(parts),
        corrector.EXTRA_HISTORY,
        END_OF_PARAMETERS - tage.END_OF_PARAMETERS,
    )
    parameters = state.parameters
    if small:
        widths = [(17 + 2 * k % 4, 13, 11) for k in range(len(sizes.lengths))]
    else:
        tags = [SHORT_BITS if 2 * k + 1 < sizes.first_long else LONG_BITS for k in range(len(sizes.lengths))]
        widths = [(log_size, bits, bits - 1) for bits in tags]
    folded.set_registers(state, sizes.lengths, widths)
    parameters[TABLES], parameters[SMALL], parameters[LOG_SIZE] = tables, int(small), log_size
    parameters[ACTIVE] = sum(1 << table for table in sizes.used)
    parameters[FIRST_LONG] = sizes.first_long
    parameters[SHORT_BANKS], parameters[LONG_BANKS] = sizes.banks
    # gem5 shifts a 32-bit one by the history length, of which the processor takes 5 bits.
    parameters[LONG_PATH] = (1 << (sizes.lengths[sizes.first_long // 2] & 31)) - 1
    for table in range(1, tables + 1):
        parameters[PATH_AT + table] = (1 << min(PATH_BITS, sizes.lengths[(table - 1) // 2])) - 1
    state.history[tage.AGE] = FIRST_AGE
    loop.set_up(state, kind)
    corrector.set_up(state, parts, int(parameters[TAGGED]) + 2 * len(state.tags))
    return state


@compiled
def _mixed_path(path: int, log_size: int, table: int) -> int:
    """TAGE's, but folded only where the table's number is below log2 of its size."""
    mask = (1 << log_size) - 1
    if table >= log_size:
        return (path & mask) ^ (path >> log_size)
    high = path >> log_size
    mixed = (path & mask) ^ (((high << table) & mask) + (high >> (log_size - table)))
    return ((mixed << table) & mask) + (mixed >> (log_size - table))


@merged
def _look_up(state: Predictor, row: Row, pc: int) -> None:
    """Entries and tags of all tables."""
    parameters, history = state.parameters, state.history
    small, log_size, first_long = parameters[SMALL], parameters[LOG_SIZE], parameters[FIRST_LONG]
    mask, low, path = (1 << log_size) - 1, pc & 0xFFFFFFFF, history[tage.PATH]
    before = 0
    short_bank = (pc ^ (path & parameters[PATH_AT + 1])) % parameters[SHORT_BANKS]
    long_bank = (pc ^ (path & parameters[LONG_PATH])) % parameters[LONG_BANKS]
    for pair in range(parameters[TABLES] >> 1):
        table = 2 * pair + 1
        bits = SHORT_BITS if table < first_long else LONG_BITS
        mixed = _mixed_path(path & parameters[PATH_AT + table], log_size, table)
        by_index = history[folded.INDEX_AT + pair]
        by_tag = history[folded.FIRST_TAG_AT + pair] ^ (history[folded.SECOND_TAG_AT + pair] << 1)
        key = low ^ (low >> (abs(log_size - table) + 1)) ^ by_index ^ mixed
        if small == 1:
            key ^= (key >> log_size) ^ (key >> (2 * log_size))
            tag = (before << 2) ^ low ^ (low >> 2) ^ by_index
            tag = (tag >> 1) ^ ((tag & 1) << 10) ^ mixed ^ by_tag
            tag ^= tag >> bits
        else:
            tag = low ^ by_tag
        tag &= (1 << bits) - 1
        before = by_index
        for way in range(2):
            if (parameters[ACTIVE] >> (table + way)) & 1 == 1:
                if table < first_long:
                    entry = short_bank << log_size
                    short_bank = (short_bank + 1) % parameters[SHORT_BANKS]
                else:
                    entry = (parameters[SHORT_BANKS] + long_bank) << log_size
                    long_bank = (long_bank + 1) % parameters[LONG_BANKS]
                place = key if way == 0 else key ^ tag
                row[ENTRY_AT + table + way] = entry + (place & mask)
                row[TAG_AT + table + way] = tag


@compiled
def _sureness(value: int) -> int:
    """1, 3, 5 or 7: how far a 3-bit counter is from changing its mind."""
    return abs(2 * value + 1)


@out_of_line
def predict(state: Predictor, row: Row, pc: int) -> int:
    parameters, counters = state.parameters, state.counters
    _look_up(state, row, pc)
    provider, alternative = 0, 0
    for table in range(1, parameters[TABLES] + 1):
        if (parameters[ACTIVE] >> table) & 1 == 1 and state.tags[row[ENTRY_AT + table]] == row[TAG_AT + table]:
            alternative, provider = provider, table
    place = (pc ^ (pc >> 2)) & parameters[BIMODAL_MASK]
    provided = int(counters[place])
    value = 2 * provided + counters[parameters[HYSTERESIS] + (place >> 2)]
    alternate, predicted, unsure = provided, provided, 0
    high = 1 if value == 0 or value == 3 else 0
    low, medium, alternate_sure = 1 - high, 0, high
    if provider > 0:
        if alternative > 0:
            value = counters[parameters[TAGGED] + row[ENTRY_AT + alternative]]
            alternate = 1 if value >= 0 else 0
            alternate_sure = 1 if _sureness(value) > 1 else 0
        value = counters[parameters[TAGGED] + row[ENTRY_AT + provider]]
        provided = 1 if value >= 0 else 0
        sureness = _sureness(value)
        unsure, low = 1 if sureness == 1 else 0, 1 if sureness == 1 else 0
        medium, high = 1 if sureness == 5 else 0, 1 if sureness == 7 else 0
        trusted = state.history[USE_ALTERNATIVE + ((provider - 1) // 8) * 2 + alternate_sure]
        predicted = alternate if unsure == 1 and trusted >= 0 else provided
    row[PROVIDER], row[ALTERNATIVE], row[PROVIDED], row[ALTERNATE] = provider, alternative, provided, alternate
    row[PREDICTED], row[UNSURE] = predicted, unsure
    row[LOW], row[MEDIUM], row[HIGH], row[ALTERNATE_SURE] = low, medium, high, alternate_sure
    predicted = corrector.predict(state, row, pc, loop.predict(state, row, pc, number(predicted)))
    row[loop.FINAL] = predicted
    return predicted


@out_of_line
def learn(state: Predictor, row: Row, pc: int, taken: int, target: int, conditional: int, direct: int) -> None:
    if conditional == 1:
        corrector.learn(state, row, pc, taken)
        loop.learn(state, row, pc, taken)
        _learn_tables(state, row, pc, taken)
        corrector.shift_in(state, pc, taken, target)
    history = state.history
    bits, steps = pc ^ (pc >> 2) ^ taken, pc ^ (pc >> 2) ^ (pc >> 4)
    width = 32 if state.parameters[SMALL] == 1 else PATH_BITS
    for step in range(2 if conditional == 1 or direct == 1 else 3):
        folded.shift_in(state, (bits >> step) & 1)
        history[tage.PATH] = ((history[tage.PATH] << 1) ^ ((steps >> step) & 127)) & ((1 << width) - 1)


@out_of_line
def _learn_tables(state: Predictor, row: Row, pc: int, taken: int) -> None:
    parameters, history, counters = state.parameters, state.history, state.counters
    provider, provided, alternate = row[PROVIDER], row[PROVIDED], row[ALTERNATE]
    allocate = row[PREDICTED] != taken and provider < parameters[TABLES]
    if provider > 0 and row[UNSURE] == 1:
        if provided == taken:
            allocate = False
        if provided != alternate:
            place = USE_ALTERNATIVE + ((provider - 1) // 8) * 2 + row[ALTERNATE_SURE]
            step = 1 if alternate == taken else -1
            history[place] = min(15, max(-16, history[place] + step))
    if row[loop.FINAL] == taken and next_random(history, tage.RANDOM) & 31 != 0:
        allocate = False  # the others made up for it
    if allocate:
        _allocate(state, row, taken, provider)
    bimodal = (pc ^ (pc >> 2)) & parameters[BIMODAL_MASK]
    if provider == 0:
        learn_bimodal(state, bimodal, taken)
        return
    small, tagged = parameters[SMALL], parameters[TAGGED]
    first, useful = tagged + row[ENTRY_AT + provider], parameters[USEFUL] + row[ENTRY_AT + provider]
    # Entries of tables without memory are never the alternative.
    second = tagged + row[ENTRY_AT + row[ALTERNATIVE]]
    if _sureness(counters[first]) == 1 and provided != taken:
        if row[ALTERNATIVE] > 0:
            if small == 1 and _sureness(counters[second]) == 1:
                counters[second - tagged + parameters[USEFUL]] = 0
            count(counters, second, taken, -4, 3)
            if small == 1 and _sureness(counters[second]) == 1:
                counters[second - tagged + parameters[USEFUL]] = 0
        else:
            learn_bimodal(state, bimodal, taken)
    if small == 1 and _sureness(counters[first]) == 1:
        counters[useful] = 0
    count(counters, first, taken, -4, 3)
    if _sureness(counters[first]) == 1:  # it has changed its mind: no use so far
        counters[useful] = 0
    if (
        alternate == taken
        and provided == taken
        and row[ALTERNATIVE] > 0
        and _sureness(counters[second]) == 7
        and counters[useful] == 1
    ):
        counters[useful] = 0
    if provided != alternate and provided == taken:
        count(counters, useful, 1, 0, 3 if small == 1 else 1)


@merged
def _allocate(state: Predictor, row: Row, taken: int, provider: int) -> None:
    """Up to two entries in tables of longer history, where one table of a pair is as good as the other."""
    parameters, history, counters = state.parameters, state.history, state.counters
    small, tables, active = parameters[SMALL], parameters[TABLES], parameters[ACTIVE]
    further = 2 if next_random(history, tage.RANDOM) & 127 < 32 else 1
    at = ((provider - 1 + 2 * further) & 0xFFE) ^ (next_random(history, tage.RANDOM) & 1)
    allocated, age = 0, 0
    while at < tables and allocated < 2:
        for way in range(2):
            table = (at ^ way) + 1
            if table > tables:
                break
            if (active >> table) & 1 == 0:
                if small == 1:
                    break
                continue
            entry = row[ENTRY_AT + table]
            value, useful = parameters[TAGGED] + entry, parameters[USEFUL] + entry
            sureness = _sureness(counters[value])
            if counters[useful] > 0:
                age += 1
                if small == 1:
                    if counters[useful] == 1 and sureness == 1:
                        if next_random(history, tage.RANDOM) & 7 == 0:
                            counters[useful] = 0
                    else:
                        age += 1
                continue
            if small == 0 and sureness > 3:  # sure of itself: first it becomes less so
                counters[value] += -1 if counters[value] > 0 else 1
                continue
            if small == 1 and next_random(history, tage.RANDOM) & 31 == 0:
                counters[useful] = 1
            state.tags[entry] = row[TAG_AT + table]
            counters[value] = 0 if taken == 1 else -1
            allocated += 1
            age -= 5 if small == 1 else 2
            if allocated == 2:
                break
            at += 2
            if small == 0:
                break
        at += 2
    history[tage.AGE] = max(history[tage.AGE] + age, 0)
    if history[tage.AGE] >= RESET_AT:  # too little is free: everything becomes less useful
        history[tage.AGE] = 0
        for place in range(parameters[USEFUL], parameters[USEFUL] + len(state.tags)):
            if counters[place] > 0:
                counters[place] -= 1
