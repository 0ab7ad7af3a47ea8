"""Origin of a program vector: its instructions' representations, summed by group.

A program vector is the sum of its instructions' representations (PerfVec, arXiv 2310.16792, §III), so any partition of
the executed instructions parts the vector, and the predicted time on every machine, with nothing left over. The finest
partition of use is by static instruction: functions, lines, loops and classes are sums of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfvec.model import Model
from perfvec.precision import native_bf16, rounded
from perfvec.representation.represent import OVERLAP, representations
from perfvec.representation.sums import Sums
from support.jit import cached
from uarch.instructions import Chunk, StaticInstructions


class GroupedSums:
    """Sums of a run's representations by several groupings, in one pass as `represent` makes it.

    Representations are float32 and added in float64. Memory is that of a chunk and of the sums: 8·d bytes a group.
    """

    def __init__(self, model: Model, instructions: StaticInstructions, groupings: int) -> None:
        schema = model.schema
        self._foundation, self._bf16 = rounded(model.foundation), native_bf16(model.foundation.mean.device)
        self._extractor, self._static = schema.extractor(instructions), schema.static(instructions)
        self._growing = [_Growing(model.foundation.width) for _ in range(groupings)]
        self._lead_id = np.empty(0, np.uint32)
        self._lead_stored = np.empty((0, len(schema.columns)), schema.dtype)

    def add(self, chunk: Chunk, groups: Sequence[NDArray[np.int64]]) -> None:
        """Add the run's next chunk [n]; for each grouping the group [n], from 0 on, of each of its instructions."""
        static_id = np.concatenate([self._lead_id, chunk.static_id])
        stored = np.concatenate([self._lead_stored, self._extractor.extract(chunk)])
        for sums, group in zip(self._growing, groups, strict=True):
            sums.count(group)
        lead = len(self._lead_id)
        for part, position in representations(self._foundation, self._static, static_id, stored, lead, bf16=self._bf16):
            representation = part.reshape(-1, self._foundation.width).cpu().numpy()
            for sums, group in zip(self._growing, groups, strict=True):
                _scatter(representation, position.reshape(-1), group, sums.vectors)
        self._lead_id, self._lead_stored = static_id[-OVERLAP:], stored[-OVERLAP:]

    def sums(self) -> list[Sums]:
        """Return the sums so far, one for each grouping."""
        return [growing.result() for growing in self._growing]


class _Growing:
    """Sums with room for more groups than there are yet."""

    def __init__(self, width: int) -> None:
        self.vectors = np.zeros((64, width))
        self._counts = np.zeros(0, np.int64)

    def count(self, group: NDArray[np.int64]) -> None:
        counts = np.bincount(group, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        if len(counts) > len(self.vectors):
            grown = np.zeros((max(len(counts), 2 * len(self.vectors)), self.vectors.shape[1]))
            grown[: len(self.vectors)] = self.vectors
            self.vectors = grown

    def result(self) -> Sums:
        return Sums(self.vectors[: len(self._counts)], self._counts)


@cached(nogil=True)
def _scatter(
    representation: NDArray[np.float32],
    position: NDArray[np.int64],
    group: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> None:
    """Add each representation to its group's row."""
    for k in range(len(position)):
        if position[k] >= 0:
            row = group[position[k]]
            for column in range(representation.shape[1]):
                sums[row, column] += representation[k, column]
