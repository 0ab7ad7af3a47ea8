"""Million instructions a second of CPU time of the timing model (a tool, not a test):

python tests/uarch/benchmark_timing.py ../shared/gem5-x86/perl.trace.h5 --machines base zen4 cortex-a53
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tracegen.decode import decode
from tracegen.trace import Trace
from uarch.configuration import load_machine, replace_field
from uarch.timing.simulation import Simulation

PREDICTORS = ("local", "bimode", "tournament", "tage", "ltage", "tage-sc-l", "perceptron")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--machines", nargs="*", default=["base", "golden-cove", "cortex-a53"])
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("--predictors", action="store_true", help="each machine with every predictor")
    arguments = parser.parse_args()
    trace = Trace(arguments.trace)
    instructions = decode(trace.address, trace.code, trace.isa)
    chunks = list(trace.chunks(1 << 18, 0, min(arguments.instructions, len(trace))))
    millions = sum(len(chunk) for chunk in chunks) / 1e6
    machines = [load_machine(name) for name in arguments.machines]
    if arguments.predictors:
        machines = [replace_field(m, "branch_predictor.kind", kind) for m in machines for kind in PREDICTORS]
    compiled: set[str] = set()
    for machine in machines:
        simulation = Simulation(machine, instructions)
        begin = time.process_time()
        if machine.core not in compiled:
            compiled.add(machine.core)
            Simulation(machine, instructions).warm(chunks[0])
            Simulation(machine, instructions).run(chunks[0])
            print(f"{machine.core}: {time.process_time() - begin:.1f} s to compile or load")
        begin = time.process_time()
        for chunk in chunks:
            simulation.run(chunk)
        run = millions / (time.process_time() - begin)
        begin = time.process_time()
        for chunk in chunks:
            simulation.warm(chunk)
        warm = millions / (time.process_time() - begin)
        kind = machine.branch_predictor.kind
        cpi = simulation.counters["cycles"] / simulation.counters["instructions"]
        print(f"{machine.name:16s} {kind:12s} timed {run:6.2f} M/s  warmed {warm:6.2f} M/s  CPI {cpi:.3f}")


if __name__ == "__main__":
    main()
