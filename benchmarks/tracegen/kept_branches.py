"""Mispredictions with the branches that live-points keep beside those with all branches of the run, without a core.

    python benchmarks/tracegen/kept_branches.py cc1.trace.h5 --instructions 200000000 --machines base zen4

Both have the predictor learn equally late, so what differs is the branches that were left out
(`tracegen/live_points/core/branch_history.hpp`).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT, LivePoints
from tracegen.live_points.record import of_trace
from tracegen.live_points.simulate import LivePointsSimulator, timeless_branches
from uarch.configuration import Machine
from uarch.instructions import Flag
from uarch.machine_files import load_machine

_EXECUTE, _BY_DIRECTION = 2, 0  # where a misprediction is found, and by what (timeless_branches.hpp)


def of_all(path: Path, machines: list[Machine], units: int) -> NDArray[np.int64]:
    """[K, units] directions mispredicted in each unit."""
    predictors = [timeless_branches(machine) for machine in machines]
    found, last = np.zeros((len(machines), units), np.int64), -1
    with Trace(path) as trace:
        static = trace.static
        for chunk in trace.chunks(stop=units * UNIT):
            place = np.flatnonzero(static.flags[chunk.static_id] & Flag.BRANCH)
            steps = np.minimum(np.diff(chunk.start + place, prepend=last), np.iinfo(np.uint16).max).astype(np.uint16)
            last = chunk.start + int(place[-1])
            columns = chunk.static_id[place], chunk.next_static_id[place], steps
            for k, predictor in enumerate(predictors):
                outcome = predictor.outcomes(static.address, static.length, static.flags, *columns)
                np.add.at(found[k], (chunk.start + place[_wrong(outcome)]) // UNIT, 1)
    return found


def of_kept(points: LivePoints, machine: Machine) -> NDArray[np.int64]:
    """[n] directions mispredicted in each counted unit."""
    outcomes = LivePointsSimulator(points).outcomes(machine)
    return np.array([_wrong(outcomes[k]).sum() for k in np.flatnonzero(points.pieces.counted)])


def _wrong(outcome: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return ((outcome & 3) == _EXECUTE) & (outcome >> 2 == _BY_DIRECTION)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--machines", nargs="+", default=["base", "zen4", "cortex-a53"])
    parser.add_argument("--instructions", type=int, default=200_000_000)
    arguments = parser.parse_args()
    machines = [load_machine(name) for name in arguments.machines]
    rows = []
    for path in arguments.traces:
        points = of_trace(path, max_instructions=arguments.instructions)
        points = replace(points, in_flight=0.0)  # as many as usual, as with all branches
        unit, weight = points.pieces.unit[points.pieces.counted].astype(np.int64), points.sample.weight
        for machine, every in zip(machines, of_all(path, machines, points.units), strict=True):
            kept, true = of_kept(points, machine), every[unit]
            rows.append(
                {
                    "program": points.name,
                    "machine": machine.name,
                    "kept, millions": len(points.pieces.branch) / 1e6,
                    "a unit": weight @ true / weight.sum(),
                    "error, %": 100 * (weight @ kept / (weight @ true) - 1),
                    "rms of a unit": np.sqrt(weight @ (kept - true) ** 2 / weight.sum()),
                }
            )
    print(pd.DataFrame(rows).round(1).to_string(index=False))


if __name__ == "__main__":
    main()
