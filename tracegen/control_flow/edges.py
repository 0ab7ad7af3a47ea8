"""The control-flow graph as it was executed: which instruction followed which, and how often."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.instructions import LAST, Chunk


class Edges(NamedTuple):
    """Distinct pairs of consecutive instructions, by static id, in ascending order."""

    source: NDArray[np.int64]  # [E]
    target: NDArray[np.int64]  # [E]
    times: NDArray[np.int64]  # [E] executed


NO_EDGES = Edges(*(np.empty(0, np.int64) for _ in range(3)))


class EdgeCounter:
    """Fed with a trace's chunks; memory grows with the distinct edges."""

    def __init__(self, statics: int) -> None:
        self._statics = max(statics, 1)
        self._key = np.empty(0, np.int64)
        self._count = np.empty(0, np.int64)

    def observe(self, chunk: Chunk) -> None:
        followed = chunk.next_static_id != LAST
        pair = chunk.static_id[followed].astype(np.int64) * self._statics + chunk.next_static_id[followed]
        key, count = np.unique(pair, return_counts=True)
        self._key, place = np.unique(np.concatenate([self._key, key]), return_inverse=True)
        self._count = np.bincount(place, np.concatenate([self._count, count]), len(self._key)).astype(np.int64)

    def edges(self) -> Edges:
        """Return the edges executed so far."""
        return Edges(self._key // self._statics, self._key % self._statics, self._count)
