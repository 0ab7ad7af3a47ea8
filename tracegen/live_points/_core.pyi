"""The recorder's compiled core (tracegen/live_points/core/bindings.cpp)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNIT: int
CODE: int
DIRTY: int
MISPREDICTED: int
NEAR: int
BELOW: int
LINE_SHIFT: int

class TakeAll:
    """The units of a run with by far the most accesses (take_all.hpp)."""

    def see(self, first: int, accesses: NDArray[np.int64]) -> None: ...
    def units(self) -> NDArray[np.int64]: ...

class Recorder:
    """One pass over a run: units drawn at random, the gaps between them, every unit's signature (recorder.hpp)."""

    def __init__(
        self, *, capacity: int, signatures: int, branches: int, seed: int, listed: Sequence[int] = ()
    ) -> None: ...
    def grow(
        self,
        pc: NDArray[np.uint64],
        length: NDArray[np.uint8],
        latency: NDArray[np.uint8],
        flags: NDArray[np.uint16],
        sources: NDArray[np.uint8],
        destinations: NDArray[np.uint8],
    ) -> None: ...
    def observe(
        self,
        static_id: NDArray[np.uint32],
        next_static_id: NDArray[np.uint32],
        access_offset: NDArray[np.int64],
        address: NDArray[np.uint64],
        size: NDArray[np.uint8],
        is_store: NDArray[np.uint8],
    ) -> None: ...
    def keep(self, units: Sequence[int]) -> None: ...
    def held(self) -> NDArray[np.uint64]: ...
    def take_all(self) -> NDArray[np.uint64]: ...
    def pieces(self) -> dict[str, NDArray[Any]]: ...
    def signatures(self) -> tuple[NDArray[np.uint64], NDArray[np.float32]]: ...
    @property
    def statics(self) -> int: ...
    @property
    def units(self) -> int: ...
    @property
    def instructions(self) -> int: ...
