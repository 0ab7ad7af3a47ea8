"""Rates of sweeps, in points a second of CPU time: python benchmarks/analysis/sweep.py [--points N].

Threads: as many as torch has (OMP_NUM_THREADS) and the process may run on (taskset).
"""

import argparse
import time

import numpy as np
import torch

from analysis.designs import sweep
from analysis.designs.design import grid_design, space_design
from perfvec.model import load_model
from perfvec.representation.vector import ProgramVector
from support.processors import processors
from uarch.machine_files import load_machine

_GRID = {
    "l1d.size_kib": [8, 16, 32, 64, 128],
    "l2.size_kib": [128, 256, 512, 1024, 2048],
    "l2.latency": list(range(4, 24)),
    "pipeline.rob_entries": list(range(64, 564, 2)),
    "branch_predictor.kind": ["local", "bimode", "tage", "ltage"],
    "frequency_ghz": [2.0, 3.0],
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1_000_000)
    points = parser.parse_args().points
    print(f"{torch.get_num_threads()} threads of torch, {processors()} processors")
    model = load_model()
    vector = np.linalg.lstsq(model.table(), np.full(len(model.machines), 1000.0), rcond=1e-2)[0]
    program = ProgramVector("p", "x86-64", model.digest, "t", 1000, vector, np.array([1000]), vector[None])
    grid = {**_GRID, "pipeline.rob_entries": _GRID["pipeline.rob_entries"][: max(1, points // 4000)]}
    for name, make in (
        ("grid", lambda: grid_design(load_machine("base"), grid)),
        ("space default", lambda: space_design("default", points)),
    ):
        began, wall = time.process_time(), time.perf_counter()
        design = make()
        made = time.process_time() - began
        frame = sweep.run(model, [program], design, cost="2*l1d.size_kib + l2.size_kib")
        total, wall = time.process_time() - began, time.perf_counter() - wall
        print(
            f"{name}: {len(frame):,} points, {total:.2f} s of CPU time ({made:.2f} s to make the points), "
            f"{wall:.2f} s of wall time: {len(frame) / total:,.0f} points/s"
        )


if __name__ == "__main__":
    main()
