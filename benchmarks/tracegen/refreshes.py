"""Share of a DRAM's refreshes in the noise of a unit's change of cycles (a tool, not a test):

    python -m benchmarks.tracegen.refreshes T.trace.h5… --instructions 50000000 [--truth FOLDER]

Every instruction is simulated on `base` and with one field changed (`compare_live_points.py`, whose `--truth` serves).
Printed of each change: its standard deviation over units, and the share of its variance in units into which a refresh
falls in one of the two simulations only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tracegen.compare_live_points import changed, cycles_by_unit
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT
from uarch.configuration import DramMemory, Machine
from uarch.constraints import dram_models
from uarch.machine_files import load_machine


def refreshes(cycles: NDArray[np.int64], machine: Machine) -> NDArray[np.int64]:
    """[units] how many refreshes begin in each unit of `cycles` [units]."""
    if not isinstance(machine.memory, DramMemory):
        return np.zeros_like(cycles)
    picoseconds = int(1000 / machine.frequency_ghz + 0.5)  # a cycle's, as the simulator has it
    interval = 1000 * dram_models()[machine.memory.model]["t_refi"] / picoseconds
    end = np.cumsum(cycles)
    return (end // interval - (end - cycles) // interval).astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--instructions", type=int, default=50_000_000, help="of each trace, at most")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--truth", type=Path, help="folder that keeps the simulations of every instruction")
    arguments = parser.parse_args()
    machines = [load_machine("base"), *changed(policies=False)]
    for path in arguments.traces:
        with Trace(path) as trace:
            units = min(arguments.instructions, len(trace)) // UNIT
        cycles = cycles_by_unit(path, machines, units, arguments.threads, arguments.truth)
        fall = np.stack([refreshes(row, machine) for row, machine in zip(cycles, machines, strict=True)])
        mean = cycles[0].mean()
        print(f"\n{path.name}: {mean:.0f} cycles a unit of base, of which {np.mean(fall[0] > 0):.1%} have a refresh")
        print(f"{'change':30} {'mean':>8} {'deviation':>10} {'share':>6}")
        for machine, row, those in zip(machines[1:], cycles[1:], fall[1:], strict=True):
            change = row - cycles[0]
            squares = (change - change.mean()) ** 2
            share = squares[those != fall[0]].sum() / squares.sum()
            print(f"{machine.name:30} {change.mean() / mean:+8.2%} {change.std() / mean:10.1%} {share:6.0%}")


if __name__ == "__main__":
    main()
