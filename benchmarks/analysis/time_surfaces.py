"""Seconds that a surface takes beside its simulations (a tool, not a test):

    python benchmarks/analysis/time_surfaces.py core space

Of grids of the what-if protocol and of its space: a program whose simulation takes no time is answered.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from analysis.budget import budget
from analysis.designs.design import first_points, grid_design, space_design
from analysis.programs.simulable import Estimates
from analysis.questions import what_if
from uarch.configuration import Machine
from uarch.machine_files import load_machine


class Known:
    """A program of a few bottlenecks."""

    name, isa, instructions, work = "known", "x86-64", 1, 1

    def prepare(self) -> None:
        pass

    def simulate(self, machines: Sequence[Machine], threads: int | None = None) -> Estimates:
        cycles = np.array([1e6 * self._cpi(machine) for machine in machines])
        return Estimates.exact(cycles)

    def _cpi(self, machine: Machine) -> float:
        pipeline = machine.pipeline
        width = min(getattr(pipeline, "issue_width", getattr(pipeline, "width", 2)), 4)
        window = getattr(pipeline, "rob_entries", 32)
        return 1 / width + 8 / machine.l1d.size_kib + 3 * machine.l2.latency / machine.l2.size_kib + 3 / window


def main(names: Sequence[str]) -> None:
    for name in names:
        if name == "space":
            design, first, most = (
                space_design("default", what_if.SPACE_POINTS, seed=what_if.SPACE_SEED),
                [],
                what_if.FROM_SPACE,
            )
        else:
            grid = what_if.GRIDS[name]
            base = load_machine(grid.base)
            design, most = grid_design(base, grid.values), what_if.FROM_GRID
            first = first_points(design, base)
        wall, processor = time.perf_counter(), time.process_time()
        budget.answer(Known(), design.columns, np.inf, lambda: np.empty(0), first=first, limit=most, progress=False)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        print(f"{name}: {design.columns.count:,} points, {most} simulated: {wall:.1f} s, {processor:.1f} s of CPU time")


if __name__ == "__main__":
    main(sys.argv[1:] or ["core", "space"])
