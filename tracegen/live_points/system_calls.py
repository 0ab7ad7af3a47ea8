"""The system calls of a whole run, counted: what a machine takes for them is known, not estimated from units."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import Chunk, Flag, StaticInstructions
from uarch.system_calls import UNKNOWN, cycles_by_number


@dataclass(frozen=True)
class SystemCallCounts:
    """Rows [C]: how often which instruction made which call."""

    static_id: NDArray[np.uint32]
    number: NDArray[np.uint16]  # UNKNOWN where the source does not tell
    count: NDArray[np.uint64]

    def cycles(self, machine: Machine, isa: str) -> NDArray[np.float64]:
        """[C] cycles in the kernel."""
        by_number = cycles_by_number(machine.system_calls, isa)
        each = by_number[np.minimum(self.number, len(by_number) - 1)]
        return each.astype(np.float64) * self.count


class SystemCallCounter:
    """Counts the calls of chunks that go by."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, instructions: StaticInstructions, chunk: Chunk) -> None:
        """Take in a chunk; `instructions` are those known by then."""
        makes_call = (instructions.flags & Flag.SYSCALL) != 0
        here = np.flatnonzero(makes_call[chunk.static_id])
        number = np.full(len(here), UNKNOWN, np.uint16)
        indices = (here + chunk.start).astype(np.uint64)
        _, own, known = np.intersect1d(indices, chunk.call_instruction, assume_unique=True, return_indices=True)
        number[own] = chunk.call_number[known]
        self._counts.update(zip(chunk.static_id[here].tolist(), number.tolist(), strict=True))

    def counts(self) -> SystemCallCounts:
        """The calls so far, by instruction and number."""
        rows = sorted(self._counts.items())
        return SystemCallCounts(
            np.array([row[0][0] for row in rows], np.uint32),
            np.array([row[0][1] for row in rows], np.uint16),
            np.array([row[1] for row in rows], np.uint64),
        )
