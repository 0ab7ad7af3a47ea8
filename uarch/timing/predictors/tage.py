"""TAGE (Seznec & Michaud, JILP 2006): a bimodal table and tagged tables indexed by geometrically longer histories.

The default geometry is gem5's TAGEBase: 7 tagged tables, histories 5 to 130, 512 entries of 3-bit counters each,
8,192 bimodal counters. Histories are folded incrementally (section 4 there); L-TAGE and TAGE-SC-L are built on this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uarch.timing.compiled import out_of_line
from uarch.timing.predictors.state import Predictor, count, new_state

OUTCOMES = 4096  # longest history + 1, a power of two
MOST_TABLES = 20
# Places in `parameters`; from TABLES_AT on, FIELDS values for each tagged table.
TABLES, BIMODAL_MASK, FIRST_TAGGED, RESET_PERIOD, TABLES_AT = 1, 2, 3, 4, 20
FIELDS, LENGTH, LOG_SIZE, TAG_BITS, FIRST, USEFUL_FIRST, _ = 6, 0, 1, 2, 3, 4, 5
# Places in `history`: position in the circular buffer, path history, ticks to the next reset, use-alternative counter,
# random state; from FOLDED_AT on, three folded registers for each table.
POSITION, PATH, AGE, USE_ALTERNATIVE, RANDOM, FOLDED_AT = 0, 1, 2, 3, 4, 8
EXTENSION = FOLDED_AT + 3 * MOST_TABLES  # registers of the predictors built on this one
# Places in `scratch`: providing and alternative table (-1: bimodal), their predictions, then index and tag per table.
PROVIDER, ALTERNATIVE, PROVIDED, ALTERNATE, PREDICTED, CONFIDENT, INDEX_AT = 0, 1, 2, 3, 4, 5, 16
TAG_AT = INDEX_AT + MOST_TABLES
EXTENSION_SCRATCH = TAG_AT + MOST_TABLES


def new(entries: int) -> Predictor:
    """gem5's fixed sizes, whatever `entries`."""
    return new_tables(13, geometric(5, 130, 7), [9] * 7, [9, 9, 10, 10, 11, 11, 12])


def geometric(shortest: int, longest: int, tables: int) -> list[int]:
    """History lengths of a geometric series (equation 1 there)."""
    ratio = (longest / shortest) ** (1 / max(tables - 1, 1))
    return [int(shortest * ratio**table + 0.5) for table in range(tables)]


def new_tables(
    log_bimodal: int,
    lengths: Sequence[int],
    log_sizes: Sequence[int],
    tag_bits: Sequence[int],
    extra_counters: int = 0,
    extra_history: int = 0,
) -> Predictor:
    tables, bimodal = len(lengths), 1 << log_bimodal
    tagged = sum(1 << log_size for log_size in log_sizes)
    state = new_state(
        counters=bimodal + 2 * tagged + extra_counters,
        tags=tagged,
        history=EXTENSION + extra_history,
        outcomes=OUTCOMES,
    )
    parameters = state.parameters
    parameters[TABLES], parameters[BIMODAL_MASK], parameters[FIRST_TAGGED] = tables, bimodal - 1, bimodal
    parameters[RESET_PERIOD] = 1 << 18
    state.counters[:bimodal] = 1  # weakly not taken
    first = 0
    for table, (length, log_size, bits) in enumerate(zip(lengths, log_sizes, tag_bits, strict=True)):
        at = TABLES_AT + FIELDS * table
        parameters[at : at + FIELDS] = (length, log_size, bits, first, bimodal + tagged + first, 0)
        first += 1 << log_size
    state.history[RANDOM] = 0x2545F491
    return state


def extra_at(state: Predictor) -> int:
    """Where the counters of a predictor built on this one begin."""
    return int(state.parameters[FIRST_TAGGED]) + 2 * len(state.tags)


@out_of_line
def predict(state: Predictor, pc: int) -> int:
    parameters, history, scratch = state.parameters, state.history, state.scratch
    tables = parameters[TABLES]
    provider, alternative = -1, -1
    for table in range(tables):
        at = TABLES_AT + FIELDS * table
        log_size = parameters[at + LOG_SIZE]
        folded = FOLDED_AT + 3 * table
        path = history[PATH] & ((1 << min(16, parameters[at + LENGTH])) - 1)
        index = (pc ^ (pc >> (abs(log_size - table) + 1)) ^ history[folded] ^ path ^ (path >> log_size)) & (
            (1 << log_size) - 1
        )
        tag = (pc ^ history[folded + 1] ^ (history[folded + 2] << 1)) & ((1 << parameters[at + TAG_BITS]) - 1)
        scratch[INDEX_AT + table] = parameters[at + FIRST] + index
        scratch[TAG_AT + table] = tag
        if state.tags[parameters[at + FIRST] + index] == tag:
            alternative, provider = provider, table
    base = 1 if state.counters[pc & parameters[BIMODAL_MASK]] >= 2 else 0
    alternate = base
    if alternative >= 0:
        alternate = 1 if state.counters[parameters[FIRST_TAGGED] + scratch[INDEX_AT + alternative]] >= 0 else 0
    provided, predicted, confident = base, base, 0
    if provider >= 0:
        value = state.counters[parameters[FIRST_TAGGED] + scratch[INDEX_AT + provider]]
        provided = 1 if value >= 0 else 0
        weak = value in (-1, 0)
        predicted = alternate if weak and history[USE_ALTERNATIVE] >= 0 else provided
        confident = 0 if weak else 1 if -4 < value < 3 else 2
    scratch[PROVIDER], scratch[ALTERNATIVE], scratch[PROVIDED], scratch[ALTERNATE] = (
        provider,
        alternative,
        provided,
        alternate,
    )
    scratch[PREDICTED], scratch[CONFIDENT] = predicted, confident
    return predicted


@out_of_line
def update(state: Predictor, pc: int, taken: int) -> None:
    learn(state, pc, taken)
    observe(state, pc, taken)


@out_of_line
def learn(state: Predictor, pc: int, taken: int) -> None:
    parameters, history, scratch = state.parameters, state.history, state.scratch
    counters, tables = state.counters, parameters[TABLES]
    provider, provided, alternate = scratch[PROVIDER], scratch[PROVIDED], scratch[ALTERNATE]
    allocate = scratch[PREDICTED] != taken and provider < tables - 1
    if provider >= 0:
        place = parameters[FIRST_TAGGED] + scratch[INDEX_AT + provider]
        if counters[place] == 0 or counters[place] == -1:  # newly allocated, or never sure
            if provided == taken:
                allocate = False
            if provided != alternate:
                step = 1 if alternate == taken else -1
                history[USE_ALTERNATIVE] = min(7, max(-8, history[USE_ALTERNATIVE] + step))
    if allocate:
        _allocate(state, taken, provider)
    history[AGE] += 1
    if history[AGE] >= parameters[RESET_PERIOD]:  # let old entries go: halve every usefulness
        history[AGE] = 0
        first = parameters[FIRST_TAGGED] + len(state.tags)
        for place in range(first, first + len(state.tags)):
            counters[place] >>= 1
    if provider >= 0:
        at = TABLES_AT + FIELDS * provider
        count(counters, parameters[FIRST_TAGGED] + scratch[INDEX_AT + provider], taken, -4, 3)
        useful = parameters[at + USEFUL_FIRST] - parameters[at + FIRST] + scratch[INDEX_AT + provider]
        if (counters[useful] == 0 and provided != alternate) or counters[useful] == 0:
            _train_alternative(state, pc, taken)
        if provided != alternate:
            count(counters, useful, 1 if provided == taken else 0, 0, 3)
    else:
        count(counters, pc & parameters[BIMODAL_MASK], taken, 0, 3)


@out_of_line
def _train_alternative(state: Predictor, pc: int, taken: int) -> None:
    """While the provider is not yet useful, what it would fall back to goes on learning."""
    alternative = state.scratch[ALTERNATIVE]
    if alternative >= 0:
        place = state.parameters[FIRST_TAGGED] + state.scratch[INDEX_AT + alternative]
        count(state.counters, place, taken, -4, 3)
    else:
        count(state.counters, pc & state.parameters[BIMODAL_MASK], taken, 0, 3)


@out_of_line
def _allocate(state: Predictor, taken: int, provider: int) -> None:
    """One entry that is not useful in a table of longer history; where there is none, all of them become less so."""
    parameters, history, scratch, counters = state.parameters, state.history, state.scratch, state.counters
    tables = parameters[TABLES]
    random = history[RANDOM]  # xorshift (Marsaglia 2003), kept to 31 bits
    random ^= (random << 13) & 0x7FFFFFFF
    random ^= random >> 17
    random ^= (random << 5) & 0x7FFFFFFF
    history[RANDOM] = random
    start = provider + 1
    if start < tables - 1 and random & 1 == 1:  # half the time one table further (section 3.2.3 there)
        start += 1
        if start < tables - 1 and random & 2 == 2:
            start += 1
    found = False
    for table in range(start, tables):
        at = TABLES_AT + FIELDS * table
        place = scratch[INDEX_AT + table]
        useful = parameters[at + USEFUL_FIRST] - parameters[at + FIRST] + place
        if counters[useful] == 0:
            state.tags[place] = scratch[TAG_AT + table]
            counters[parameters[FIRST_TAGGED] + place] = 0 if taken == 1 else -1
            found = True
            break
    if not found:
        for table in range(provider + 1, tables):
            at = TABLES_AT + FIELDS * table
            useful = parameters[at + USEFUL_FIRST] - parameters[at + FIRST] + scratch[INDEX_AT + table]
            count(counters, useful, 0, 0, 3)


@out_of_line
def observe(state: Predictor, pc: int, taken: int) -> None:
    """Shifts one outcome into the global history, the path history and every folded register."""
    parameters, history = state.parameters, state.history
    position = (history[POSITION] + 1) & (OUTCOMES - 1)
    history[POSITION] = position
    state.outcomes[position] = taken
    history[PATH] = ((history[PATH] << 1) | ((pc >> 2) & 1)) & 0xFFFF
    for table in range(parameters[TABLES]):
        at = TABLES_AT + FIELDS * table
        length = parameters[at + LENGTH]
        leaving = np.int64(state.outcomes[(position - length) & (OUTCOMES - 1)])
        for register in range(3):
            width = parameters[at + LOG_SIZE] if register == 0 else parameters[at + TAG_BITS] - (register - 1)
            folded = (history[FOLDED_AT + 3 * table + register] << 1) | taken
            folded ^= leaving << (length % width)
            folded ^= folded >> width
            history[FOLDED_AT + 3 * table + register] = folded & ((1 << width) - 1)
