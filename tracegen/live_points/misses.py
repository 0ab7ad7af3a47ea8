"""Accesses between the pieces of a run that prefetchers by instruction learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Misses:
    """Accesses to data that were not touched lately: before piece k, the last of them are those of
    `offset[k]:offset[k + 1]`.
    """

    offset: NDArray[np.int64]  # [P + 1]
    static_id: NDArray[np.uint32]
    address: NDArray[np.uint64]
    far: NDArray[np.bool_]  # not touched for so long that a second level lacks them, too
