"""The timing model's compiled core (uarch/timing/core/bindings.cpp)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import Chunk as ProgramChunk

CAUSES: int

class Chunk:
    def __init__(self, chunk: ProgramChunk, instructions: int) -> None: ...

class Simulation:
    def __init__(
        self,
        *,
        machine: Machine,
        dram: Mapping[str, float] | None,
        int_registers: int,
        fp_registers: int,
        total_store_order: bool,
        rows: NDArray[np.int16],
        pc: NDArray[np.int64],
        ideal_branches: bool = False,
        ideal_instructions: bool = False,
        ideal_data: bool = False,
    ) -> None: ...
    def run(self, chunk: Chunk) -> NDArray[np.uint16]: ...
    def run_with_stacks(
        self, chunk: Chunk, stacks: Sequence[tuple[NDArray[np.int64], NDArray[np.uint32]]]
    ) -> NDArray[np.uint16]: ...
    def warm(self, chunk: Chunk) -> None: ...
    @property
    def counters(self) -> dict[str, int]: ...
