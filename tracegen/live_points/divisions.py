"""The divisions of a whole run: how many steps each divide takes on average, where its source tells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uarch.instructions import Chunk


@dataclass(frozen=True)
class DivisionSteps:
    """Rows [D]: a divide, and the mean steps of those of its executions that are known, rounded."""

    static_id: NDArray[np.uint32]
    steps: NDArray[np.uint8]

    def told(self, chunk: Chunk) -> Chunk:
        """Return the chunk with the mean steps of its divisions."""
        if len(self.static_id) == 0:
            return chunk
        known = np.zeros(max(int(self.static_id.max()), int(chunk.static_id.max(initial=0))) + 1, np.uint8)
        known[self.static_id] = self.steps
        steps = known[chunk.static_id]
        (which,) = np.nonzero(steps)
        instruction = (which + chunk.start).astype(np.uint64)
        return replace(chunk, division_instruction=instruction, division_steps=steps[which])


NO_STEPS = DivisionSteps(np.empty(0, np.uint32), np.empty(0, np.uint8))  # of a source that does not tell


class DivisionCounter:
    """Adds up the steps of chunks that go by."""

    def __init__(self) -> None:
        self._times, self._steps = np.zeros(0, np.int64), np.zeros(0, np.int64)  # [S so far]

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk."""
        if len(chunk.division_instruction) == 0:
            return
        which = chunk.static_id[(chunk.division_instruction - np.uint64(chunk.start)).astype(np.int64)]
        size = max(len(self._times), int(which.max()) + 1)
        self._times = np.pad(self._times, (0, size - len(self._times))) + np.bincount(which, minlength=size)
        steps = np.bincount(which, chunk.division_steps, size).astype(np.int64)
        self._steps = np.pad(self._steps, (0, size - len(self._steps))) + steps

    def steps(self) -> DivisionSteps:
        """The divides so far."""
        (which,) = np.nonzero(self._times)
        mean = np.rint(self._steps[which] / self._times[which])
        return DivisionSteps(which.astype(np.uint32), mean.astype(np.uint8))
