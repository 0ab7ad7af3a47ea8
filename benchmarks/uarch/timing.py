"""Million instructions a second of the timing model (a tool, not a test):

python benchmarks/uarch/timing.py ../shared/gem5-x86/perl.trace.h5 --machines base zen4 cortex-a53
python benchmarks/uarch/timing.py ../shared/gem5-x86/perl.trace.h5 --presets --threads 2

The first prints rates of CPU time, each machine alone, the best of `--repeats`; the second runs all machines side by
side and prints how many times as fast so many threads are as one, by the clock.

Set PERFVEC_UNSEALED=1 for data without a seal.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tracegen.formats.trace import Trace
from uarch.configuration import Machine, replace_field
from uarch.instructions import Chunk, StaticInstructions
from uarch.machine_files import load_machine, preset_names
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.simulations import Simulations

PREDICTORS = ("local", "bimode", "tournament", "tage", "ltage", "tage-sc-l", "perceptron")


def alone(machine: Machine, instructions: StaticInstructions, chunks: list[Chunk], repeats: int) -> str:
    """Rates of one machine: timed, with a CPI stack, and warmed."""
    millions = sum(len(chunk) for chunk in chunks) / 1e6
    best = dict.fromkeys(("timed", "with a stack", "warmed"), 0.0)
    for _ in range(repeats):
        plain, stacked, warmed = (Simulation(machine, instructions) for _ in range(3))
        stack = new_stack(len(instructions))
        acts = {
            "timed": plain.run,
            "with a stack": lambda chunk: stacked.run_with_stacks(chunk, [(stack, chunk.static_id)]),  # noqa: B023
            "warmed": warmed.warm,
        }
        for name, act in acts.items():
            begin = time.process_time()
            for chunk in chunks:
                act(chunk)
            best[name] = max(best[name], millions / (time.process_time() - begin))
    cpi = plain.counters["cycles"] / plain.counters["instructions"]
    rates = "  ".join(f"{name} {rate:6.2f} M/s" for name, rate in best.items())
    return f"{machine.name:16s} {machine.branch_predictor.kind:12s} {rates}  CPI {cpi:.3f}"


def together(machines: list[Machine], instructions: StaticInstructions, chunks: list[Chunk], threads: int) -> float:
    """Seconds of all machines side by side."""
    with Simulations(machines, instructions, threads) as simulations:
        begin = time.perf_counter()
        for chunk in chunks:
            simulations.run(chunk)
        return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--machines", nargs="*", default=["base", "golden-cove", "cortex-a53"])
    parser.add_argument("--presets", action="store_true", help="all presets instead")
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("--predictors", action="store_true", help="each machine with every predictor")
    parser.add_argument("--threads", type=int, help="all machines side by side, with one thread and with so many")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    trace = Trace(arguments.trace)
    instructions = trace.static
    chunks = list(trace.chunks(1 << 16, 0, min(arguments.instructions, len(trace))))
    machines = [load_machine(name) for name in (preset_names() if arguments.presets else arguments.machines)]
    if arguments.predictors:
        machines = [replace_field(m, "branch_predictor.kind", kind) for m in machines for kind in PREDICTORS]
    if arguments.threads is None:
        for machine in machines:
            print(alone(machine, instructions, chunks, arguments.repeats))
        return
    millions = len(machines) * sum(len(chunk) for chunk in chunks) / 1e6
    counts = (1, arguments.threads)
    pairs = [[together(machines, instructions, chunks, n) for n in counts] for _ in range(arguments.repeats)]
    one, many = (min(pair[side] for pair in pairs) for side in (0, 1))
    ratio = max(pair[0] / pair[1] for pair in pairs)
    print(
        f"{len(machines)} machines: one thread {millions / one:.2f} M/s, {arguments.threads} threads "
        f"{millions / many:.2f} M/s, {one / many:.2f} times as fast (best pair {ratio:.2f})"
    )


if __name__ == "__main__":
    main()
