"""Losses of a trace by way of ChampSim's format, and the rate of its import. Run by hand.

python -m benchmarks.tracegen.compare_champsim TRACE… [--machines base zen4 cortex-a53]

Each x86-64 trace becomes the records that ChampSim's Pin tool would have written, these are imported, and both traces
run on the machines.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.tracegen.formats.champsim_records import champsim_records
from tracegen.features import SCHEMAS
from tracegen.formats.champsim import import_champsim
from tracegen.formats.trace import Trace
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation


def read(path, machines):
    """Stored features, CPI on each machine, executed operations, length."""
    with Trace(path) as trace:
        program = trace.static
        extractor = SCHEMAS["default"].extractor(program)
        features, operations = [], []
        simulations = [Simulation(load_machine(name), program) for name in machines]
        for chunk in trace.chunks():
            features.append(extractor.extract(chunk))
            operations.append(program.operation[chunk.static_id])
            for simulation in simulations:
                simulation.run(chunk)
        cpi = [simulation.counters["cycles"] / len(trace) for simulation in simulations]
        return np.concatenate(features), np.array(cpi), np.concatenate(operations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--machines", nargs="+", default=["base", "zen4", "cortex-a53"])
    arguments = parser.parse_args()
    print(f"{'':12} records  plain  xz (M/s)  operation  features", *(f"{name:>20}" for name in arguments.machines))
    with tempfile.TemporaryDirectory() as folder:
        raw, packed, back = (Path(folder) / name for name in ("t.champsimtrace", "t.xz", "t.trace.h5"))
        for path in arguments.traces:
            with Trace(path) as trace, raw.open("wb") as stream:
                for words in champsim_records(trace):
                    stream.write(words.tobytes())
            packed.write_bytes(lzma.compress(raw.read_bytes(), preset=1))
            rates = []
            for source in (raw, packed):
                import_champsim(source, back, progress=False)  # once to compile
                begin = time.process_time()
                result = import_champsim(source, back, progress=False)
                rates.append(result.records / (time.process_time() - begin) / 1e6)
            first, cpi, operations = read(path, arguments.machines)
            second, imported, guessed = read(back, arguments.machines)
            columns = [f"{a:8.3f} {b:6.3f} {b / a - 1:+.1%}" for a, b in zip(cpi, imported, strict=True)]
            print(
                f"{path.name.split('.')[0]:12} {result.records:>7,} {rates[0]:6.1f} {rates[1]:6.1f}"
                f"{(operations == guessed).mean():13.1%}{(first == second).mean():10.1%}",
                *(f"{column:>20}" for column in columns),
            )


if __name__ == "__main__":
    main()
