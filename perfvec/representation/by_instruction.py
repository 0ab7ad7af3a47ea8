"""Origin of a program vector: its instructions' representations, summed by group.

A program vector is the sum of its instructions' representations (PerfVec, arXiv 2310.16792, §III), so any partition of
the executed instructions parts the vector, and the predicted time on every machine, with nothing left over. The finest
partition of use is by static instruction: functions, lines, loops and classes are sums of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.model import Model
from perfvec.precision import native_bf16, rounded
from perfvec.representation.represent import CHUNK, OVERLAP, representations
from perfvec.representation.sums import Grouping, Sums
from support.jit import cached
from tracegen.formats.trace import Trace
from uarch.instructions import StaticInstructions


def grouped_sums(
    model: Model,
    trace: Trace,
    instructions: StaticInstructions,
    groupings: Sequence[Grouping],
    *,
    max_instructions: int | None = None,
    progress: bool = True,
) -> list[Sums]:
    """Sums by each of `groupings` over a trace (or its first `max_instructions`), in one pass as `represent` makes it.

    `instructions` are the trace's, decoded. Each grouping sees every chunk once, in order. Representations are float32
    and added in float64. Memory is that of a chunk and of the sums: 8·d bytes a group.
    """
    total = len(trace) if max_instructions is None else min(max_instructions, len(trace))
    schema, foundation, bf16 = model.schema, rounded(model.foundation), native_bf16(model.foundation.mean.device)
    extractor, static = schema.extractor(instructions), schema.static(instructions)
    growing = [_Growing(model.foundation.width) for _ in groupings]
    lead_id = np.empty(0, np.uint32)
    lead_stored = np.empty((0, len(schema.columns)), schema.dtype)
    with tqdm(
        total=total, unit="instr", unit_scale=True, desc=f"profile {trace.name}", disable=None if progress else True
    ) as bar:
        for chunk in trace.chunks(CHUNK, stop=total):
            static_id = np.concatenate([lead_id, chunk.static_id])
            stored = np.concatenate([lead_stored, extractor.extract(chunk)])
            groups = [np.asarray(grouping(chunk), np.int64) for grouping in groupings]
            for sums, group in zip(growing, groups, strict=True):
                sums.count(group)
            for part, position in representations(foundation, static, static_id, stored, len(lead_id), bf16=bf16):
                representation = part.reshape(-1, model.foundation.width).cpu().numpy()
                for sums, group in zip(growing, groups, strict=True):
                    _scatter(representation, position.reshape(-1), group, sums.vectors)
            lead_id, lead_stored = static_id[-OVERLAP:], stored[-OVERLAP:]
            bar.update(len(chunk))
    return [sums.result() for sums in growing]


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
