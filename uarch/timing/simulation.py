"""How long a stream of instructions takes on a machine: the way into the timing model.

    simulation = Simulation(machine, instructions)
    simulation.warm(before)             # caches and TLBs only, fast
    latency = simulation.run(chunk)     # cycles from one retirement to the next
    simulation.counters["cycles"]

State lives in the Simulation and is bounded by the machine, not by the trace; any division of a stream into chunks
gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import LAST, Chunk, StaticInstructions
from uarch.timing import branches, caches, in_order, out_of_order, tlb
from uarch.timing.caches import L1D, L1I, access
from uarch.timing.compiled import kernel
from uarch.timing.static import LENGTH, static_rows
from uarch.timing.tlb import DATA, INSTRUCTION, translate

SATURATED = 65535
COUNTERS = (
    "cycles",
    "instructions",
    "branches",
    "mispredictions",
    "l1i_accesses",
    "l1i_misses",
    "l1d_accesses",
    "l1d_misses",
    "l2_accesses",
    "l2_misses",
    "l3_accesses",
    "l3_misses",
    "itlb_misses",
    "dtlb_misses",
    "l1d_write_backs",
    "l2_write_backs",
    "l3_write_backs",
    "l1d_prefetches",
    "l2_prefetches",
    "l3_prefetches",
)


@cache
def _source_digest() -> str:
    """Changes with any file of the timing model. numba's cache looks at the outermost function's file alone, so the
    kernels close over this: an edited helper is never served from a stale cache.
    """
    folder = Path(__file__).parent
    return sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))).hexdigest()


def _build_run(step: Callable[..., int], digest: str) -> Any:
    @kernel
    def run(  # type: ignore[no-untyped-def]  # noqa: ANN202
        core, predictors, hierarchy, memory, tlbs, rows, pc, static_id, following, offset, address, size, is_store, latency, before  # noqa: ANN001, E501
    ):
        _ = digest
        for k in range(len(static_id)):
            here, target = static_id[k], following[k]
            row = rows[here]
            fall_through = pc[here] + row[LENGTH]
            goes = fall_through if target == LAST else pc[target]
            retired = step(
                core, predictors, hierarchy, memory, tlbs, row, pc[here], goes, address, size, is_store, offset[k], offset[k + 1]  # noqa: E501
            )
            latency[k] = min(retired - before, SATURATED)
            before = retired
        return before

    return run


def _build_warm(digest: str) -> Any:
    @kernel
    def warm(hierarchy, memory, tlbs, rows, pc, static_id, offset, address, size, is_store, line):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        _ = digest
        for k in range(len(static_id)):
            here = static_id[k]
            last = (pc[here] + rows[here, LENGTH] - 1) >> 6
            for current in range(pc[here] >> 6, last + 1):
                if current != line:
                    translate(tlbs, INSTRUCTION, current << 6)
                    access(hierarchy, memory, L1I, current << 6, 0, 0, pc[here], False)
                    line = current
            for which in range(offset[k], offset[k + 1]):
                first = np.int64(address[which])
                write = np.int64(is_store[which])
                translate(tlbs, DATA, first)
                access(hierarchy, memory, L1D, first, 0, write, pc[here], False)
                beyond = ((first + max(np.int64(size[which]), 1) - 1) >> 6) << 6
                if beyond > first:
                    access(hierarchy, memory, L1D, beyond, 0, write, pc[here], False)
        return line

    return warm


@cache
def _kernel(name: str) -> Any:
    if name == "warm":
        return _build_warm(_source_digest())
    return _build_run(in_order.step if name == "in-order" else out_of_order.step, _source_digest())


class Simulation:
    """One machine running one program."""

    def __init__(self, machine: Machine, instructions: StaticInstructions) -> None:
        self.machine = machine
        self._rows = static_rows(machine, instructions)
        self._pc = instructions.address.astype(np.int64)
        self._caches, self._memory = caches.new_caches(machine)
        self._tlbs = tlb.new_tlbs()
        self._branches = branches.new_branches(machine)
        core = in_order if machine.core == "in-order" else out_of_order
        self._core: Any = core.new_core(machine)
        self._instructions = 0
        self._retired = 0
        self._warm_line = -1

    def run(self, chunk: Chunk) -> NDArray[np.uint16]:
        """[n] cycles between each instruction's retirement and the one before, at most 65535."""
        latency = np.empty(len(chunk), np.uint16)
        self._retired = _kernel(self.machine.core)(
            self._core,
            self._branches,
            self._caches,
            self._memory,
            self._tlbs,
            self._rows,
            self._pc,
            chunk.static_id,
            chunk.next_static_id,
            chunk.access_offset,
            chunk.address,
            chunk.size,
            chunk.is_store,
            latency,
            self._retired,
        )
        self._instructions += len(chunk)
        return latency

    def warm(self, chunk: Chunk) -> None:
        """Lets the chunk pass through caches and TLBs in no time; the branch predictor does not see it."""
        self._warm_line = _kernel("warm")(
            self._caches,
            self._memory,
            self._tlbs,
            self._rows,
            self._pc,
            chunk.static_id,
            chunk.access_offset,
            chunk.address,
            chunk.size,
            chunk.is_store,
            self._warm_line,
        )

    @property
    def counters(self) -> dict[str, float]:
        """Totals since the beginning or the last `reset_counters`, by the names of COUNTERS (warm-up included)."""
        levels = self._caches.counters
        names = ("l1i", "l1d", "l2", "l3")
        totals = {
            "cycles": self._retired - self._cycles_before,
            "instructions": self._instructions,
            "branches": self._branches.scalars[branches.BRANCHES],
            "mispredictions": self._branches.scalars[branches.MISPREDICTIONS],
            "itlb_misses": self._tlbs[tlb.INSTRUCTION, -1],
            "dtlb_misses": self._tlbs[tlb.DATA, -1],
        }
        for column, kind in enumerate(("accesses", "misses", "write_backs", "prefetches")):
            totals |= {f"{name}_{kind}": levels[level, column] for level, name in enumerate(names)}
        return {name: float(totals[name]) for name in COUNTERS}

    _cycles_before = 0

    def reset_counters(self) -> None:
        """Counts from here on; contents and times stay."""
        self._cycles_before = self._retired
        self._instructions = 0
        self._caches.counters[:] = 0
        self._branches.scalars[[branches.BRANCHES, branches.MISPREDICTIONS]] = 0
        self._tlbs[:, -1] = 0


def simulate(
    machine: Machine, instructions: StaticInstructions, chunks: Iterable[Chunk]
) -> tuple[NDArray[np.uint16], dict[str, float]]:
    """Latency of every instruction of `chunks`, and the counters. Memory grows with the result alone."""
    simulation = Simulation(machine, instructions)
    latencies = [simulation.run(chunk) for chunk in chunks]
    return np.concatenate(latencies) if latencies else np.empty(0, np.uint16), simulation.counters
