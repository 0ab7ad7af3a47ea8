"""Agreement of two runs of the simulator on the order of a grid's points (a tool, not a test):

    python benchmarks/analysis/order_of_runs.py T.trace.h5… --grids core mixed

The runs of a point differ only in when the DRAM's first refresh begins. No surface can be expected to agree with the
one more than the other does. Printed: Kendall's tau of the two, over all pairs of 100 points and over those that are
more than 1 % apart, and the standard deviation of the differences of their times.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from analysis.designs.design import grid_design
from analysis.questions.what_if import GRIDS, Told
from tracegen.formats.trace import Trace
from uarch.configuration import Machine
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

POINTS = 100
SEED = 7
LATER = 0.5  # of a refresh interval


def seconds(trace: Trace, machine: Machine, instructions: int, passed: float) -> float:
    """Simulate the first instructions; at the beginning so much of a refresh interval has passed."""
    simulation = Simulation(machine, trace.static)
    if passed:
        simulation.set_refresh(passed)
    for chunk in trace.chunks(stop=min(instructions, len(trace))):
        simulation.run(chunk)
    return float(simulation.counts[0]) / machine.frequency_ghz / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--grids", nargs="+", default=list(GRIDS), choices=list(GRIDS))
    parser.add_argument("--instructions", type=int, default=500_000, help="of each trace, at most")
    arguments = parser.parse_args()
    print(f"{'grid':10} {'program':12} {'tau':>6} {'clear tau':>10} {'times off by':>13}")
    for name in arguments.grids:
        design = grid_design(load_machine(GRIDS[name].base), GRIDS[name].values)
        rows = np.random.default_rng(SEED).choice(design.columns.count, POINTS, replace=False)
        machines = [design.columns.machine(int(row), f"point {row}") for row in rows]
        for path in arguments.traces:

            def run(task: tuple[Machine, float], path: Path = path) -> float:
                with Trace(path) as trace:
                    return seconds(trace, task[0], arguments.instructions, task[1])

            with ThreadPoolExecutor(2) as threads:
                both = list(threads.map(run, [(machine, passed) for passed in (0.0, LATER) for machine in machines]))
            first, second = np.reshape(both, (2, POINTS))
            agreed = Told(first, second, np.full(POINTS, -1)).orders()
            print(
                f"{name:10} {path.name.removesuffix('.trace.h5'):12} {agreed['tau']:6.3f} "
                f"{agreed['clear_tau']:10.3f} {np.std(np.log(second / first)):13.2%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
