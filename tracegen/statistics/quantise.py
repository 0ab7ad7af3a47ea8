"""Distances as one byte: eight steps an octave, by tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import compiled

FIRST = 255  # stored for a first reference
STEPS = 8.0  # stored steps per octave
_DIRECT_BITS = 12  # distances of so many bits have their code in a table
_DIRECT = 1 << _DIRECT_BITS


def quantise(distance: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Distances ≥ 0 to 1 … 254, 1 + 8·log2(1 + d) rounded; negative ones (none) to 0."""
    steps = 1.0 + np.rint(STEPS * np.log2(np.maximum(distance, 0) + 1.0))
    return np.where(distance < 0, 0, np.minimum(steps, FIRST - 1)).astype(np.uint8)


class Codes(NamedTuple):
    """`quantise` by tables, for compiled loops."""

    direct: NDArray[np.uint8]  # codes of the distances 0 … 2^12 - 1
    least: NDArray[np.int64]  # [257] the least distance of each code


def code_tables() -> Codes:
    """The tables of `code_of`."""
    least = np.full(FIRST + 2, np.iinfo(np.int64).max)
    for code in range(1, FIRST):
        guess = int(np.exp2((code - 1.5) / STEPS))
        near = np.arange(max(guess - 3, 0), guess + 3)
        at_least = near[quantise(near) >= code]
        least[code] = at_least[0]
    return Codes(quantise(np.arange(_DIRECT)), least)


@compiled
def code_of(distance: np.int64, codes: Codes) -> np.uint8:
    """`quantise` of one distance; FIRST where it is negative (a first reference)."""
    if np.uint64(distance) < np.uint64(_DIRECT):
        return codes.direct[distance]
    if distance < 0:
        return np.uint8(FIRST)
    shift = 0
    value = distance + 1
    while value >> shift >= _DIRECT:
        shift += 1
    # The leading bits give the code of the power-of-two multiple below; the distance may be up to one step above.
    code = min(int(codes.direct[(value >> shift) - 1]) + 8 * shift, FIRST - 1)
    return np.uint8(code + (distance >= codes.least[code + 1]))
