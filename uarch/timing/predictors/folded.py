"""A long global history and its folded registers, what every TAGE predictor is made of.

A history of L outcomes is folded into w bits by a circular shift register into which the newest outcome enters and
from which the one L back leaves (Michaud, "A PPM-like, tag-based branch predictor", JILP 2005, section 4.3). Each of up
to `MOST` lengths has three registers: for the index and twice for the tag.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uarch.jit import compiled
from uarch.timing.predictors.state import Predictor

OUTCOMES = 4096  # longer than the longest history (3,000)
MOST = 24  # a multiple of eight, so that the host can compute eight registers at a time
# Places in `parameters`.
LENGTHS, LENGTH_AT = 16, 17  # number of lengths, then they
WIDTH_AT = LENGTH_AT + MOST
LEAVES_AT = WIDTH_AT + 3 * MOST
MASK_AT = LEAVES_AT + 3 * MOST
END_OF_PARAMETERS = MASK_AT + 3 * MOST
# Places in `history`.
POSITION, INDEX_AT = 0, 8
FIRST_TAG_AT, SECOND_TAG_AT = INDEX_AT + MOST, INDEX_AT + 2 * MOST
LEAVING_AT = INDEX_AT + 3 * MOST
END_OF_HISTORY = LEAVING_AT + MOST


def geometric(shortest: int, longest: int, count: int) -> list[int]:
    """History lengths of a geometric series (Seznec, O-GEHL, ISCA 2005, equation 1)."""
    ratio = longest / shortest
    return [int(shortest * ratio ** (k / max(count - 1, 1)) + 0.5) for k in range(count)]


def set_registers(state: Predictor, lengths: Sequence[int], widths: Sequence[tuple[int, int, int]]) -> None:
    """`widths` has the bits of the three registers of each length."""
    parameters = state.parameters
    parameters[LENGTHS] = len(lengths)
    for k, (length, three) in enumerate(zip(lengths, widths, strict=True)):
        parameters[LENGTH_AT + k] = length
        for which, width in enumerate(three):
            at = which * MOST + k
            parameters[WIDTH_AT + at], parameters[LEAVES_AT + at] = width, length % width
            parameters[MASK_AT + at] = (1 << width) - 1


@compiled
def shift_in(state: Predictor, outcome: int) -> None:
    """All registers are computed, also those without a length, which stay 0: eight at a time."""
    parameters, history = state.parameters, state.history
    position = (history[POSITION] - 1) & (OUTCOMES - 1)
    history[POSITION] = position
    state.outcomes[position] = outcome
    for k in range(parameters[LENGTHS]):
        back = (position + parameters[LENGTH_AT + k]) & (OUTCOMES - 1)
        history[LEAVING_AT + k] = np.int64(state.outcomes[back])
    for which in range(3):
        for k in range(MOST):
            at = which * MOST + k
            register = (history[INDEX_AT + at] << 1) | outcome
            register ^= history[LEAVING_AT + k] << parameters[LEAVES_AT + at]
            register ^= register >> parameters[WIDTH_AT + at]
            history[INDEX_AT + at] = register & parameters[MASK_AT + at]
