"""Sums over executed instructions by group: of a model's representations, or of simulated cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Sums:
    """Vectors summed by group; the rows add up to the whole program's."""

    vectors: NDArray[np.float64]  # [G, d]
    instructions: NDArray[np.int64]  # [G] executed ones

    def merge(self, group: NDArray[np.integer], groups: int) -> Sums:
        """The sums of coarser groups, of which row g is part of number `group[g]`."""
        rows = len(self.instructions)
        member = csr_matrix((np.ones(rows), (group, np.arange(rows))), (groups, rows))
        return Sums(member @ self.vectors, (member @ self.instructions).astype(np.int64))
