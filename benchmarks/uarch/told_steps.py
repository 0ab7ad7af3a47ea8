"""Weight of the steps of divisions that a trace tells, against those that are assumed without (a tool, not a test):

    python benchmarks/uarch/told_steps.py FOLDER diff [--machines 12] [--seed 1127]

Programs of the suite are traced by QEMU; machines and window are those of `label_unseen.py`. Prints the window's
divisions by steps, and how much too fast the assumed steps make each machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracegen.formats.trace import Trace
from tracegen.qemu import Execution
from tracegen.qemu import trace as trace_by_qemu
from tracegen.suite.workloads import Workload, select
from uarch.configuration import Machine
from uarch.gem5.simulated import as_simulated
from uarch.instructions import Chunk
from uarch.space import sample
from uarch.timing.simulation import Simulation

START, WARM_UP, COUNT = 3_050_000, 50_000, 200_000


def traced(workload: Workload, folder: Path) -> Path:
    output = folder / f"{workload.name}.trace.h5"
    if not output.exists():
        command, stdin = workload.prepare(folder / "inputs", folder)
        with Path(stdin or os.devnull).open("rb") as given:
            execution = Execution(
                command,
                stdin=given,
                stdout=subprocess.DEVNULL,
                env=os.environ | dict(workload.env),
                cwd=folder,
                max_instructions=START + COUNT + WARM_UP,
            )
            trace_by_qemu(execution, output, progress=False)
    return output


def without_steps(chunk: Chunk) -> Chunk:
    return replace(chunk, division_instruction=np.empty(0, np.uint64), division_steps=np.empty(0, np.uint8))


def too_fast(trace: Trace, machines: list[Machine]) -> NDArray[np.float64]:
    """[K] the share of the window's cycles that is missing with assumed steps."""
    instructions = trace.static
    before = list(trace.chunks(1 << 18, 0, START - WARM_UP))
    timed = list(trace.chunks(WARM_UP, START - WARM_UP, START + COUNT))
    shares = []
    for machine in machines:
        cycles = []
        for chunks in (timed, [without_steps(chunk) for chunk in timed]):
            simulation = Simulation(machine, instructions)
            for chunk in before:
                simulation.warm(chunk)
            each = [int(simulation.run(chunk).sum(dtype=np.int64)) for chunk in chunks]
            cycles.append(sum(each[1:]))  # without the warm-up
        shares.append(1 - cycles[1] / cycles[0])
    return np.array(shares)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--machines", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1127)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    machines = [as_simulated(machine)[0] for machine in sample(arguments.machines, seed=arguments.seed)]
    for workload in select(arguments.programs):
        with Trace(traced(workload, arguments.folder)) as trace:
            (window,) = trace.chunks(COUNT, START, START + COUNT)
            steps = ", ".join(f"{times} of {n}" for n, times in sorted(Counter(window.division_steps.tolist()).items()))
            shares = too_fast(trace, machines)
        print(f"{workload.name}: {len(window.division_steps)} divisions (steps: {steps or 'none'})")
        print(f"{workload.name}: {shares.mean():.1%} too fast with assumed steps, at most {shares.max():.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
