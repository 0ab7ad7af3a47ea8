"""A trial: `perfvec train` and `evaluate` with the schema `caused`: `timed`, and why three reference machines wait.

    python -m benchmarks.perfvec.causes train --schema caused --traces GEM5 … -o m.safetensors
    python -m benchmarks.perfvec.causes evaluate --model m.safetensors --traces GEM5 --latencies GEM5

Of each instruction on these machines: the cycles of eight groups of causes of the CPI stack, and their means over the
last 16 and 128 instructions, coded as those of `timed`. Results: docs/appendix/training.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analysis.cli.main import main
from tracegen.features import SCHEMAS
from tracegen.features.schema import Column, Extractor
from tracegen.features.timed import MEAN_LENGTHS, NAMES, TIMED, TimedSchema, latency_codes, references
from uarch.instructions import Chunk, StaticInstructions
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES

MACHINES = ("middle", "large", "in-order")
GROUPS = {
    "fetch": ("instruction fetch", "front-end bandwidth"),
    "mispredictions": ("branch misprediction",),
    "execution": ("execution", "ports"),
    "near loads": ("loads from L1D", "loads from stores in flight", "loads behind older stores"),
    "far loads": ("loads from L2", "loads from L3"),
    "memory": ("loads from memory", "data TLB misses"),
    "full": ("full windows",),
    "stores": ("stores and ordering",),
}
COLUMNS = [
    [number for number, (cause, group) in enumerate(CAUSES.items()) if cause in names or group in names]
    for names in GROUPS.values()
]
EACH = 1 + len(MEAN_LENGTHS)
LARGEST = 65535


class CausedExtractor:
    """`timed`'s columns, then those of each machine and group."""

    def __init__(self, instructions: StaticInstructions) -> None:
        self._timed = TIMED.extractor(instructions)
        chosen = [references()[NAMES.index(name)] for name in MACHINES]
        known = replace(instructions, temporary=None)  # as `timed` does
        self._machines = [Simulation(one.machine, known, one.ideal, taken_path_only=True) for one in chosen]
        self._before = np.zeros((len(MACHINES), max(MEAN_LENGTHS), len(GROUPS)), np.int64)

    def grow(self, instructions: StaticInstructions) -> None:
        self._timed.grow(instructions)
        for machine in self._machines:
            machine.grow(replace(instructions, temporary=None))

    def extract(self, chunk: Chunk) -> NDArray[np.uint8]:
        return self._with_causes(chunk, self._timed.extract(chunk))

    def begin(self, chunk: Chunk) -> NDArray[np.uint8]:
        stored = self._timed.begin(chunk)
        return np.concatenate([stored, np.zeros((len(chunk), len(CAUSED.columns) - stored.shape[1]), np.uint8)], axis=1)

    def finish(self, chunk: Chunk, stored: NDArray[np.uint8]) -> None:
        timed = np.ascontiguousarray(stored[:, : len(TIMED.columns)])
        self._timed.finish(chunk, timed)
        stored[:] = self._with_causes(chunk, timed)

    def _with_causes(self, chunk: Chunk, timed: NDArray) -> NDArray[np.uint8]:
        parts, codes, size = [timed], latency_codes(), len(chunk)
        for machine, before in zip(self._machines, self._before, strict=True):
            stack = new_stack(size)
            machine.run_with_stacks(chunk, [(stack, np.arange(size, dtype=np.uint32))])
            cycles = np.stack([np.minimum(stack[:, which].sum(axis=1), LARGEST) for which in COLUMNS], axis=1)
            known = np.concatenate([before, cycles])
            sums = np.concatenate([np.zeros((1, len(GROUPS)), np.int64), np.cumsum(known, axis=0)])
            end = len(before) + 1
            coded = [codes[cycles]]
            for length in MEAN_LENGTHS:
                mean = (sums[end:] - sums[end - length : end - length + size]) / length
                coded.append(np.minimum(np.rint(13 * np.log2(1 + 16 * mean)), 255).astype(np.uint8))
            parts.append(np.stack(coded, axis=2).reshape(size, len(GROUPS) * EACH))
            before[:] = known[-len(before) :]
        return np.concatenate(parts, axis=1)


class CausedSchema(TimedSchema):
    """See the module's description."""

    def extractor(self, instructions: StaticInstructions) -> Extractor:
        return CausedExtractor(instructions)


_LIKE = TIMED.columns[len(TIMED.columns) - EACH :]  # a latency and its means
CAUSED = CausedSchema(
    name="caused",
    version=1,
    dtype="u1",
    columns=(
        *TIMED.columns,
        *(
            Column(f"{machine}.{group}{like.name.removeprefix(NAMES[-1])}", like.table)
            for machine in MACHINES
            for group in GROUPS
            for like in _LIKE
        ),
    ),
    static_names=TIMED.static_names,
)

if __name__ == "__main__":
    SCHEMAS[CAUSED.name] = CAUSED
    main()
