"""The multi-perspective perceptron (Jiménez, CBP-5, 2016): a sum of weights that many features of the past select.

The 8 KB variant (16 features) up to 1,024 `entries`, above it the 64 KB one (37 features and a filter for branches that
always go the same way), with gem5's features, table sizes and hashes.

As gem5 implements it nothing is speculative except that unconditional branches enter the histories at prediction: a
branch is predicted with the histories of those retired, but trained with the entries that its histories select at
retirement. Under many branches in flight it therefore predicts with other weights than it trained. The filter's entry
depends on the last retired outcome too, and a branch whose entry was never used counts as not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled, merged, out_of_line
from uarch.timing.predictors.state import Predictor, Row, new_state, next_random

# Features of the paper, section 3; `a`, `b` and `shift` are their parameters.
(BIAS, GLOBAL, ACYCLIC, MODULO, RECENCY, POSITION_IN_RECENCY, ITERATIONS, PATH, LOCAL, MODULO_PATH, GLOBAL_PATH,
 GLOBAL_BITS, GLOBAL_MODULO_PATH, BLURRY) = range(14)  # fmt: skip


class Feature(NamedTuple):
    """`coefficient` scales its weights; `size` is its table's, where it does not share what is left."""

    what: int
    coefficient: float
    a: int = 0
    b: int = 0
    shift: int = 0
    size: int = 0
    bits: int = 6


# Order matters: masks and the tables' first signs go by position.
SMALL = (
    Feature(BIAS, 2.40625),
    Feature(GLOBAL, 1.4375, 0, 19),
    Feature(GLOBAL, 1.0, 0, 65),
    Feature(GLOBAL, 1.0, 21, 64),
    Feature(GLOBAL, 1.0625, 75, 150),
    Feature(GLOBAL_MODULO_PATH, 1.625, 0, 7, 3),
    Feature(GLOBAL_PATH, 1.25, 0, 11, 2),
    Feature(GLOBAL_PATH, 1.125, 0, 15, 4),
    Feature(GLOBAL_PATH, 1.40625, 0, 31, 1),
    Feature(GLOBAL_PATH, 1.5, 0, 7, 1, 600),
    Feature(ITERATIONS, 1.28125, 4, size=375),
    Feature(LOCAL, 1.5625, size=512),
    Feature(RECENCY, 1.25, 0, 14, 4),
    Feature(POSITION_IN_RECENCY, 1.875),
    Feature(GLOBAL_PATH, 1.65625, 0, 4, 3),
    Feature(GLOBAL_PATH, 2.53125, 0, 2, 5, bits=5),
)
LARGE = (
    Feature(ACYCLIC, 1.0),
    Feature(BLURRY, 1.0),
    Feature(GLOBAL, 1.3125, 0, 19),
    Feature(GLOBAL, 0.85, 0, 65),
    Feature(GLOBAL, 1.0, 111, 222),
    Feature(GLOBAL, 1.0, 115, 206),
    Feature(GLOBAL, 1.0, 190, 336),
    Feature(GLOBAL, 1.0, 21, 64),
    Feature(GLOBAL, 1.0, 48, 119),
    Feature(GLOBAL, 0.75, 67, 203),
    Feature(GLOBAL, 1.0, 75, 150),
    Feature(GLOBAL_MODULO_PATH, 1.45, 1, 5, 4, 1913),
    Feature(GLOBAL_MODULO_PATH, 1.0, 3, 13, 1),
    Feature(GLOBAL_BITS, 1.0, 0, 105, 4),
    Feature(GLOBAL_PATH, 1.25, 0, 11, 2),
    Feature(GLOBAL_PATH, 1.125, 0, 15, 4),
    Feature(GLOBAL_PATH, 1.0, 0, 23, 4),
    Feature(GLOBAL_PATH, 1.0, 0, 31, 1),
    Feature(GLOBAL_PATH, 1.0, 0, 32, 2),
    Feature(GLOBAL_PATH, 1.0, 0, 36, 4),
    Feature(GLOBAL_BITS, 1.0, 1, 51, 1),
    Feature(GLOBAL_PATH, 1.5, 0, 7, 1),
    Feature(GLOBAL_PATH, 1.0, 0, 72, 1),
    Feature(GLOBAL_BITS, 1.0, 0, 86, 4),
    Feature(ITERATIONS, 1.8125, 1),
    Feature(ITERATIONS, 1.78125, 4, size=1536),
    Feature(LOCAL, 1.0, size=1024),
    Feature(LOCAL, 2.0, size=3467),
    Feature(MODULO, 0.9375, 1, 16),
    Feature(MODULO_PATH, 1.0, 3, 20, 1),
    Feature(PATH, 1.4375, 0, 13, 2),
    Feature(PATH, 1.0, 0, 27, 5),
    Feature(RECENCY, 0.55, 0, 10, 3, 1024),
    Feature(RECENCY, 1.3125, 0, 14, 4),
    Feature(POSITION_IN_RECENCY, 1.5),
    Feature(GLOBAL_PATH, 1.25, 0, 2, 5, 768),
    Feature(GLOBAL_PATH, 1.3125, 0, 5, 2, 972),
)
# Magnitude of a weight by its counter (the paper's section 4.2), for counters of 5 and of 4 bits beside the sign.
MAGNITUDES = (1, 3, 4, 5, 7, 8, 9, 11, 12, 14, 15, 17, 19, 21, 23, 25, 27, 29, 32, 34, 37, 41, 45, 49, 53, 58, 63, 69,
              76, 85, 94, 106)  # fmt: skip
SHORT_MAGNITUDES = (0, 4, 5, 7, 9, 11, 12, 14, 16, 17, 19, 22, 28, 33, 39, 45)


class Variant(NamedTuple):
    features: Sequence[Feature]
    bits: int  # its whole budget
    locals: int
    filters: int
    # Position masks: features whose index also takes the first and fourth iteration counter, the place in the stack.
    first_iterations: int
    fourth_iterations: int
    metadata: int  # bits of histories and of misprediction counters, which the tables cannot have


IN_RECENCY = 0x100000090
SMALL_VARIANT = Variant(SMALL, (8192 + 256) * 8, 48, 0, 0x6, 0x4400, 32 + 151 + 32 * 16 + 24 * 16 + 8 + 8 * 16)
LARGE_VARIANT = Variant(
    LARGE,
    (65536 + 256) * 8,
    510,
    18025,
    0xC1000,
    0x80008000,
    2 * 32 + 337 + 106 * 16 + 24 * 37 + (17 + 14) + 16 * (6 + 21) + 154 + 2 * 18025 + 12,
)
LOCAL_BITS, STACK, BLOCK = 11, 31, 21
SPEED, FIRST_LIMIT, FUDGE, DOUBT, BEST = 9, 10, 0.245, 1, 20

MOST, FIELDS = 37, 8
# Places in `parameters`; a feature has its own: where its table begins, its size and its counters' maximum.
FEATURES, LOCALS, FILTERS, SIGNS, FIRST_ITERATIONS, FOURTH_ITERATIONS, IS_LARGE = range(1, 8)
FEATURE_AT, WEIGHT_AT = 16, 16 + FIELDS * MOST
WHAT, A, B, SHIFT, TABLE, SIZE, HIGHEST = range(7)
END_OF_PARAMETERS = WEIGHT_AT + 32 * MOST
# Places in `history`: words of 21 outcomes, alone and xored with two bits of the path; a ring of addresses of branches
# with their outcomes; the stack of recent branches; those whose hash is a multiple of 2, 3 and 5; the features' errors.
LIMIT, ADJUST, RANDOM, LAST, NEWEST, FIRST_COUNTER, FOURTH_COUNTER, ALTERNATING = range(8)
WORDS, RING, MODULO_LENGTH, BLURRED = 17, 128, 21, 7
WORD_AT = 8
ELEMENT_AT = WORD_AT + 3 * WORDS
STACK_AT = ELEMENT_AT + RING
BLURRY_AT = STACK_AT + STACK
MODULO_AT = BLURRY_AT + BLURRED
WRONG_AT = MODULO_AT + 3 * MODULO_LENGTH
LOCAL_AT = WRONG_AT + MOST
# Places in a row.
FILTERED, SUM, HASH, VALUE_AT = 0, 1, 2, 8


def table_sizes(variant: Variant) -> list[int]:
    """What the given sizes leave of the budget is divided among the rest; an entry has two signs."""
    left = variant.bits - variant.metadata - variant.locals * LOCAL_BITS - STACK * 16
    free = 0
    for feature in variant.features:
        left -= feature.size * (feature.bits + 1)
        free += feature.size == 0
    return [feature.size or left // free // (feature.bits + 1) for feature in variant.features]


def new(entries: int) -> Predictor:
    variant = SMALL_VARIANT if entries <= 1024 else LARGE_VARIANT
    sizes = table_sizes(variant)
    total = sum(sizes)
    state = new_state(
        counters=3 * total + variant.filters,
        history=LOCAL_AT + variant.locals,
        parameters=END_OF_PARAMETERS,
    )
    parameters, first = state.parameters, 0
    parameters[FEATURES], parameters[SIGNS] = len(sizes), total
    parameters[LOCALS], parameters[FILTERS] = variant.locals, variant.filters
    parameters[FIRST_ITERATIONS], parameters[FOURTH_ITERATIONS] = variant.first_iterations, variant.fourth_iterations
    parameters[IS_LARGE] = int(variant is LARGE_VARIANT)
    for which, (feature, size) in enumerate(zip(variant.features, sizes, strict=True)):
        at = FEATURE_AT + FIELDS * which
        parameters[at : at + 4] = feature.what, feature.a, feature.b, feature.shift
        parameters[at + TABLE], parameters[at + SIZE] = first, size
        parameters[at + HIGHEST] = (1 << (feature.bits - 1)) - 1
        magnitudes = MAGNITUDES if feature.bits == 6 else SHORT_MAGNITUDES
        at = WEIGHT_AT + 32 * which
        parameters[at : at + len(magnitudes)] = [int(feature.coefficient * m) for m in magnitudes]
        # Signs of a table in an odd position, and the second sign everywhere, begin negative.
        signs = state.counters[total + 2 * first : total + 2 * (first + size)]
        signs[0::2], signs[1::2] = which & 1, 1
        first += size
    state.history[LIMIT], state.history[RANDOM] = FIRST_LIMIT, 0x2545F491
    return state


@compiled
def _hash(pc: int) -> int:
    """16 bits of two integer hashes of the 32-bit address `pc`, weighted as the predictor weights them."""
    word = 0xFFFFFFFF
    first = ((pc ^ 0xDEADBEEF) + (pc << 4)) & word
    first ^= first >> 10
    first = (first + (first << 7)) & word
    first ^= first >> 13
    second = (pc ^ 61) ^ (pc >> 16)
    second = (second + (second << 3)) & word
    second ^= second >> 4
    second = (second * 0x27D4EB2D) & word
    second ^= second >> 15
    return (10 * second + first) & 0xFFFF


@compiled
def _block(history: NDArray[np.int64], words: int, first: int, last: int) -> int:
    """Outcomes `first` to `last` (0 the newest) folded to words of 21 by addition; the first is shifted as gem5 does,
    by a negative count, of which the processor takes 5 bits.
    """
    start, stop = first // BLOCK + 1, last // BLOCK
    folded = history[words + start - 1] >> ((first - start * BLOCK) & 31)
    for word in range(start, stop):
        folded += history[words + word]
    rest = last - stop * BLOCK
    return folded + ((history[words + stop] & ((1 << rest) - 1)) << (BLOCK - rest))


@compiled
def _bits(history: NDArray[np.int64], words: int, depth: int) -> int:
    """The newest `depth` bits folded to words of 21 by xor."""
    folded, whole = 0, depth // BLOCK
    for word in range(whole):
        folded ^= history[words + word]
    return folded ^ (history[words + whole] & ((1 << (depth - whole * BLOCK)) - 1))


@merged
def _value(state: Predictor, at: int, pc: int, place: int) -> int:
    """What the feature described at `at` sees: 32 bits. `place` is the branch's in the stack, in its table's units."""
    parameters, history = state.parameters, state.history
    what, a, depth, shift = parameters[at + WHAT], parameters[at + A], parameters[at + B], parameters[at + SHIFT]
    value = 0
    if what == GLOBAL:
        value = _block(history, WORD_AT, a, depth)
    elif what in (GLOBAL_PATH, PATH):
        # What is shifted by 32 and more is gone, so that of long paths the oldest part remains.
        for back in range(max(0, depth - (31 + shift) // shift), depth):
            element = history[ELEMENT_AT + ((history[NEWEST] + back) & (RING - 1))]
            value = (value << shift) + (element if what == GLOBAL_PATH else element >> 1)
    elif what == GLOBAL_BITS:
        value = _bits(history, WORD_AT + WORDS * (1 + a), depth)
    elif what == RECENCY:
        for back in range(max(0, depth - (31 + shift) // shift), depth):
            value = (value << shift) + history[STACK_AT + back]
    elif what == POSITION_IN_RECENCY:
        value = place
    elif what == LOCAL:
        value = history[LOCAL_AT + (pc >> 2) % parameters[LOCALS]]
    elif what == ITERATIONS:
        value = history[FIRST_COUNTER if a == 1 else FOURTH_COUNTER]
    elif what == ACYCLIC:
        value = history[ALTERNATING]
    elif what == BLURRY:
        for back in range(BLURRED):
            value += history[BLURRY_AT + back]
    elif what != BIAS:
        ring = MODULO_AT + MODULO_LENGTH * (2 if a == 3 else a)
        for back in range(depth):
            element = history[ring + back]
            if what == MODULO:
                value ^= (element & 1) << back
            else:
                value = ((value << shift) + (element if what == GLOBAL_MODULO_PATH else element >> 1)) & 0xFFFFFFFF
    return value & 0xFFFFFFFF


@compiled
def _in_stack(state: Predictor, short: int) -> int:
    """The branch's place in the stack of recent branches, or its length."""
    for place in range(STACK):
        if state.history[STACK_AT + place] == short:
            return place
    return STACK


@out_of_line
def _select(state: Predictor, row: Row, pc: int) -> None:
    """Notes the place of every feature's weight, by the histories of now."""
    parameters, history = state.parameters, state.history
    short = (pc >> 2) & 0xFFFF
    place = _in_stack(state, short)
    for which in range(parameters[FEATURES]):
        at = FEATURE_AT + FIELDS * which
        size = parameters[at + SIZE]
        scaled = size - 1 if place == STACK else place * size // STACK
        key = (_value(state, at, pc, scaled) << 6) ^ short
        if (parameters[FIRST_ITERATIONS] >> which) & 1 == 1:
            key ^= history[FIRST_COUNTER]
        if (parameters[FOURTH_ITERATIONS] >> which) & 1 == 1:
            key ^= history[FOURTH_COUNTER]
        if (IN_RECENCY >> which) & 1 == 1:
            key ^= scaled
        row[VALUE_AT + which] = parameters[at + TABLE] + key % size


@compiled
def _weight(state: Predictor, which: int, place: int, side: int, scaled: int) -> int:
    """The weight at a place; `scaled` by the feature's coefficient or not."""
    level, parameters = state.counters[place], state.parameters
    if scaled == 1:
        size = parameters[WEIGHT_AT + 32 * which + level]
    elif parameters[FEATURE_AT + FIELDS * which + HIGHEST] == 15:
        size = SHORT_MAGNITUDES[level]
    else:
        size = MAGNITUDES[level]
    return -size if state.counters[parameters[SIGNS] + 2 * place + side] == 1 else size


@compiled
def _filter(state: Predictor, code: int) -> int:
    """Where in `counters` the branch's entry of the filter is: bit 0 for taken once, bit 1 for not taken."""
    return 3 * state.parameters[SIGNS] + (code ^ state.history[LAST]) % state.parameters[FILTERS]


@out_of_line
def predict(state: Predictor, row: Row, pc: int) -> int:
    parameters, history = state.parameters, state.history
    pc &= 0xFFFFFFFF
    code, unknown = _hash(pc), False
    row[FILTERED], row[SUM], row[HASH] = 0, 0, code
    if parameters[FILTERS] > 0:
        seen = state.counters[_filter(state, code)]
        if seen == 1 or seen == 2:
            row[FILTERED] = 1
            return 1 if seen == 1 else 0
        unknown = seen == 0
    local, ones = history[LOCAL_AT + (pc >> 2) % parameters[LOCALS]], (1 << LOCAL_BITS) - 1
    total = -5 if local == 0 else 5 if local == ones else -1 if local == 1 << (LOCAL_BITS - 1) else 0
    total += 1 if local == ones >> 1 else 0
    _select(state, row, pc)
    for which in range(parameters[FEATURES]):
        value = _weight(state, which, row[VALUE_AT + which], code & 1, 1)
        row[VALUE_AT + which] = value
        total += value
    row[SUM] = int(total * FUDGE)
    if unknown:
        return 0
    if abs(row[SUM]) <= DOUBT:
        return 1 if _best(state, row) >= 1 else 0
    return 1 if row[SUM] >= 1 else 0


@merged
def _best(state: Predictor, row: Row) -> int:
    """The sum of the features that have been wrong least often."""
    features, history, total = state.parameters[FEATURES], state.history, 0
    for which in range(features):
        better = 0
        for other in range(features):
            less = history[WRONG_AT + other] - history[WRONG_AT + which]
            better += 1 if less < 0 or (less == 0 and other < which) else 0
        if better < BEST:
            total += row[VALUE_AT + which]
    return total


@out_of_line
def learn(state: Predictor, row: Row, pc: int, taken: int, target: int) -> None:
    """A conditional branch retires, having gone to `target`."""
    pc &= 0xFFFFFFFF
    seen = 3
    if state.parameters[FILTERS] > 0:
        place = _filter(state, row[HASH])
        seen = int(state.counters[place])
        state.counters[place] = seen | (1 if taken == 1 else 2)
    if seen == 0 or seen == 3:
        _train(state, row, pc, taken)
    _remember(state, row, pc, taken, target)


@compiled
def _train(state: Predictor, row: Row, pc: int, taken: int) -> None:
    parameters, history, counters = state.parameters, state.history, state.counters
    right, size, side = (row[SUM] >= 1) == (taken == 1), abs(row[SUM]), row[HASH] & 1
    if right and size > history[LIMIT]:
        return
    features = parameters[FEATURES]
    _select(state, row, pc)
    if size <= DOUBT:
        for which in range(features):
            if (_weight(state, which, row[VALUE_AT + which], side, 1) >= 1) != (taken == 1):
                history[WRONG_AT + which] += 1
    # Threshold adaptation (Seznec, O-GEHL, ISCA 2005).
    if not right:
        history[ADJUST] += 1
        if history[ADJUST] >= SPEED:
            history[LIMIT], history[ADJUST] = history[LIMIT] + 1, 0
    elif size < history[LIMIT]:
        history[ADJUST] -= 1
        if history[ADJUST] <= -SPEED:
            history[LIMIT], history[ADJUST] = history[LIMIT] - 1, 0
    total = 0
    for which in range(features):
        place = row[VALUE_AT + which]
        sign = parameters[SIGNS] + 2 * place + side
        if counters[sign] == taken:  # towards zero; there the sign changes
            if counters[place] == 0:
                counters[sign] = 1 - taken
            else:
                counters[place] -= 1
        elif counters[place] < parameters[FEATURE_AT + FIELDS * which + HIGHEST]:
            counters[place] += 1
        total += _weight(state, which, place, side, 0)
    if (total >= 1) == (taken == 1):
        return
    # Still wrong: a weight without which it would be right loses a step.
    first = next_random(history, RANDOM)
    for turn in range(features):
        which = (first + turn) % features
        place = row[VALUE_AT + which]
        if (total - _weight(state, which, place, side, 0) >= 1) == (taken == 1):
            if counters[place] > 1:
                counters[place] -= 1
            return


@out_of_line
def _push(state: Predictor, pc: int, outcome: int) -> None:
    """A branch enters the global history and the path."""
    history, short = state.history, (pc >> 2) & 0xFFFF
    history[NEWEST] = (history[NEWEST] - 1) & (RING - 1)
    history[ELEMENT_AT + history[NEWEST]] = 2 * short + outcome
    for group in range(1 + 2 * state.parameters[IS_LARGE]):
        enters = outcome
        if group > 0:
            enters ^= (short >> (4 if group == 1 else 1)) & 1
        for word in range(WORD_AT + WORDS * group, WORD_AT + WORDS * (group + 1)):
            full = (history[word] << 1) | enters
            history[word], enters = full & ((1 << BLOCK) - 1), full >> BLOCK


@merged
def pass_by(state: Predictor, pc: int) -> None:
    """An unconditional branch is fetched."""
    _push(state, pc, 1 - ((pc >> 2) & 1))


@merged
def _remember(state: Predictor, row: Row, pc: int, taken: int, target: int) -> None:
    history, code, short = state.history, row[HASH], (pc >> 2) & 0xFFFF
    if target < pc:  # that is, taken: `target` is where it went
        history[FIRST_COUNTER] = (history[FIRST_COUNTER] + 1) & 0xFFFFFFFF if taken == 1 else 0
    else:
        history[FOURTH_COUNTER] = 0 if taken == 1 else (history[FOURTH_COUNTER] + 1) & 0xFFFFFFFF
    _push(state, pc, taken)
    place = code % 12
    history[ALTERNATING] = (history[ALTERNATING] & ~(1 << place)) | (taken << place)
    large = state.parameters[IS_LARGE]
    for which in range(1 if large == 1 else 0, 3 if large == 1 else 1):
        if code % (5 if which == 2 else which + 2) == 0:
            _insert(history, MODULO_AT + MODULO_LENGTH * which, MODULO_LENGTH - 1, 2 * short + taken)
    if history[BLURRY_AT] != pc >> 10:
        _insert(history, BLURRY_AT, BLURRED - 1, pc >> 10)
    _insert(history, STACK_AT, min(_in_stack(state, short), STACK - 1), short)
    if row[FILTERED] == 0:
        place = LOCAL_AT + (pc >> 2) % state.parameters[LOCALS]
        history[place] = ((history[place] << 1) | taken) & ((1 << LOCAL_BITS) - 1)
    history[LAST] = taken


@compiled
def _insert(history: NDArray[np.int64], start: int, last: int, value: int) -> None:
    """Puts a value in front; what is at `last` is gone."""
    for place in range(start + last, start, -1):
        history[place] = history[place - 1]
    history[start] = value
