"""Mispredictions of branches without a core beside those of the whole simulation, on the first instructions of traces.

    python benchmarks/uarch/timeless_branches.py ../shared/gem5-x86/*.trace.h5 --machines zen4 base

Live-points find beforehand which branches are redirected (`uarch/timing/core/branch/timeless_branches.hpp`). Here all
branches are there, and on average as many are in flight, so that what differs is when each teaches. Programs with less
than half a misprediction in 1,000 instructions are left out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from tracegen.formats.trace import Trace
from tracegen.live_points.simulate import USUAL, timeless_branches
from uarch.configuration import Machine
from uarch.instructions import Chunk, Flag, StaticInstructions
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

_FEWEST = 5e-4  # mispredictions an instruction
_EXECUTE = 2  # where a misprediction is found


def mispredictions(machine: Machine, static: StaticInstructions, chunks: list[Chunk]) -> tuple[int, int]:
    """Return those of the whole simulation, and of the predictor alone."""
    simulation = Simulation(replace(machine, system_calls=None), static)
    for chunk in chunks:
        simulation.run(chunk)
    place = np.concatenate(
        [np.flatnonzero(static.flags[chunk.static_id] & Flag.BRANCH) + chunk.start for chunk in chunks]
    )
    ids, following = (
        np.concatenate([getattr(chunk, name)[(static.flags[chunk.static_id] & Flag.BRANCH) != 0] for chunk in chunks])
        for name in ("static_id", "next_static_id")
    )
    steps = np.minimum(np.diff(place, prepend=-1), np.iinfo(np.uint16).max).astype(np.uint16)
    columns = static.address, static.length, static.flags, ids, following, steps
    usual = timeless_branches(machine)
    usual.outcomes(*columns)
    late = USUAL * (simulation.in_flight_before + 1) / (usual.in_flight_before + 1)
    found = timeless_branches(machine, late).outcomes(*columns)
    return simulation.statistics["mispredictions"], int(((found & 3) == _EXECUTE).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--machines", nargs="+", default=["zen4", "skylake-sp", "neoverse-n1", "base", "boom-large"])
    parser.add_argument("--instructions", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rows = []
    for path in arguments.traces:
        with Trace(path) as trace:
            static, chunks = trace.static, list(trace.chunks(stop=min(arguments.instructions, len(trace))))
        executed = sum(map(len, chunks))
        for name in arguments.machines:
            whole, alone = mispredictions(load_machine(name), static, chunks)
            if whole > _FEWEST * executed:
                rows.append({"machine": name, "error": 100 * (alone / whole - 1)})
    errors = pd.DataFrame(rows).groupby("machine", sort=False)["error"]
    table = pd.DataFrame(
        {"programs": errors.size(), "bias": errors.mean(), "mean |error|": errors.agg(lambda e: e.abs().mean())}
    )
    print(table.round(1).to_string())


if __name__ == "__main__":
    main()
