"""Units of a run that are wanted when it has ended, and what warms a machine before each: recorded in one pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tracegen.live_points import _core
from tracegen.live_points.divisions import DivisionCounter, DivisionSteps
from tracegen.live_points.live_points import Pieces
from tracegen.live_points.record import AHEAD, mixed, observe_chunk
from uarch.instructions import Chunk, StaticInstructions

BRANCHES = 1 << 14  # before a unit, at most


class Recording:
    """Fed with the chunks of one run in order (`observe`), which a thread records.

    Of the run so far it has the units `listed`, or those with the `capacity` lowest keys (`keys` of
    perfvec/representation/signatures.py) and some more.
    """

    def __init__(
        self, instructions: StaticInstructions, *, capacity: int = 0, seed: int = 0, listed: Sequence[int] = ()
    ) -> None:
        self._recorder = _core.Recorder(
            capacity=capacity, signatures=1, branches=BRANCHES, seed=mixed(seed), listed=listed
        )
        self._divisions = DivisionCounter()
        self._instructions = instructions
        self._thread = ThreadPoolExecutor(1)
        self._waiting: deque[Future[None]] = deque()
        self._last: list[Chunk] = []

    def grow(self, instructions: StaticInstructions) -> None:
        """Go on with more static instructions, of which the ones so far are the first, unchanged."""
        self._instructions = instructions

    def observe(self, chunk: Chunk) -> None:
        """The next chunk (without gaps)."""
        if len(self._waiting) == AHEAD:
            self._waiting.popleft().result()
        self._waiting.append(
            self._thread.submit(observe_chunk, self._recorder, self._divisions, self._instructions, chunk)
        )
        self._last.append(chunk)
        while sum(map(len, self._last[1:])) >= 2 * _core.UNIT:
            del self._last[0]

    def finish(self, units: NDArray[np.int64]) -> Pieces:
        """Return the pieces of these units, ascending, all of which it has. It then has nothing but the run's end."""
        self._thread.shutdown()
        for one in self._waiting:
            one.result()
        self._recorder.keep(units.tolist())
        pieces = Pieces(**self._recorder.pieces())
        del self._recorder
        if not np.array_equal(pieces.unit[pieces.counted], units):
            raise AssertionError("the recorder has other units")
        return pieces

    def divisions(self) -> DivisionSteps:
        """Return the mean steps of each divide, once all is recorded (`finish`)."""
        return self._divisions.steps()

    def last(self, count: int) -> Chunk:
        """Return the run's last instructions, so many of them: at most two units."""
        offset = np.concatenate([chunk.access_offset[1:] - chunk.access_offset[:-1] for chunk in self._last])
        columns = [
            np.concatenate([getattr(chunk, name) for chunk in self._last])
            for name in ("static_id", "next_static_id", "address", "size", "is_store")
        ]
        static_id, following, *accesses = columns
        whole = Chunk(self._last[0].start, static_id, following, np.append(0, np.cumsum(offset)), *accesses)
        return whole.part(len(whole) - count, len(whole))
