"""How long a stream of instructions takes on a machine: the way into the timing model.

    simulation = Simulation(machine, instructions)
    simulation.warm(before)             # caches and TLBs only, fast
    latency = simulation.run(chunk)     # cycles from one retirement to the next
    simulation.counters["cycles"]

State lives in the Simulation and is bounded by the machine, not by the trace; any division of a stream into chunks
gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.gem5.table import ISAS
from uarch.instructions import Chunk, StaticInstructions
from uarch.timing import branches, caches, in_order, out_of_order, tlb
from uarch.timing.kernels import run_kernel, warm_kernel
from uarch.timing.static import static_rows
from uarch.timing.stream import stream_of
from uarch.timing.wrong_path import new_wrong_path

SIMULATOR = "embedded 7"  # this model's name in what it made; another number where times of some machine change
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
    "l1i_merged",
    "l1d_merged",
    "l2_merged",
    "l3_merged",
)


class Simulation:
    """One machine running one program."""

    def __init__(self, machine: Machine, instructions: StaticInstructions) -> None:
        self.machine = machine
        self._rows = static_rows(machine, instructions)
        self._pc = instructions.address.astype(np.int64)
        self._caches, self._memory = caches.new_caches(machine)
        self._tlbs = tlb.new_tlbs()
        self._branches = branches.new_branches(machine)
        if machine.core == "in-order":
            self._core: Any = in_order.new_core(machine)
        else:  # other sources' traces (ChampSim) are of x86-64 programs
            self._core = out_of_order.new_core(machine, ISAS.get(instructions.isa, ISAS["x86-64"]))
        self._wrong_path = new_wrong_path(len(instructions))
        self._instructions = 0
        self._retired = 0
        self._warm_line = -1
        self._cycles_before = 0

    def run(self, chunk: Chunk) -> NDArray[np.uint16]:
        """[n] cycles between each instruction's retirement and the one before, at most 65535."""
        latency = np.empty(len(chunk), np.uint16)
        self._retired = run_kernel(self.machine.core)(
            self._core,
            self._wrong_path,
            self._branches,
            self._caches,
            self._memory,
            self._tlbs,
            self._rows,
            self._pc,
            stream_of(chunk),
            latency,
            self._retired,
        )
        self._instructions += len(chunk)
        return latency

    def warm(self, chunk: Chunk) -> None:
        """Lets the chunk pass through caches and TLBs in no time; the branch predictor does not see it."""
        self._warm_line = warm_kernel()(
            self._caches,
            self._memory,
            self._tlbs,
            self._rows,
            self._pc,
            stream_of(chunk),
            self._warm_line,
        )

    @property
    def counters(self) -> dict[str, float]:
        """Totals since the beginning or the last `reset_counters`, by the names of COUNTERS (warm-up included).

        Stores that have retired but not been written yet are not among the accesses yet.
        """
        levels = self._caches.counters
        names = ("l1i", "l1d", "l2", "l3")
        totals = {
            "cycles": self._retired - self._cycles_before,
            "instructions": self._instructions,
            "branches": self._branches.scalars[branches.BRANCHES],
            "mispredictions": self._branches.scalars[branches.MISPREDICTIONS],
            "itlb_misses": self._tlbs[tlb.INSTRUCTION, tlb.MISSES],
            "dtlb_misses": self._tlbs[tlb.DATA, tlb.MISSES],
        }
        for column, kind in enumerate(("accesses", "misses", "write_backs", "prefetches", "merged")):
            totals |= {f"{name}_{kind}": levels[level, column] for level, name in enumerate(names)}
        return {name: float(totals[name]) for name in COUNTERS}

    def reset_counters(self) -> None:
        """Counts from here on; contents and times stay."""
        self._cycles_before = self._retired
        self._instructions = 0
        self._caches.counters[:] = 0
        self._branches.scalars[[branches.BRANCHES, branches.MISPREDICTIONS]] = 0
        self._tlbs[:, tlb.MISSES] = 0


def simulate(
    machine: Machine, instructions: StaticInstructions, chunks: Iterable[Chunk]
) -> tuple[NDArray[np.uint16], dict[str, float]]:
    """Latency of every instruction of `chunks`, and the counters. Memory grows with the result alone."""
    simulation = Simulation(machine, instructions)
    latencies = [simulation.run(chunk) for chunk in chunks]
    return np.concatenate(latencies) if latencies else np.empty(0, np.uint16), simulation.counters
