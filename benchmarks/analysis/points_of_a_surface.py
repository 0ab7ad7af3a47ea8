"""Error of a surface against its simulated points, on a grid of the what-if protocol (a tool, not a test):

    python benchmarks/analysis/points_of_a_surface.py TRACE… --grid core -o WORK --csv docs/data/points.csv

Each program's 100 judged points are simulated in any case, as are the points that the surface goes through. The first
row of a program, of no points, is the model alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau
from tqdm import tqdm

from analysis.budget import budget
from analysis.designs.design import first_points, grid_design
from analysis.questions.what_if import GRIDS, TRUTH_SEED, TRUTHS, programs_of
from perfvec.model import load_model
from uarch.machine_files import load_machine

POINTS = (8, 12, 16, 24, 32, 48, 64, 96, 128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--grid", choices=list(GRIDS), default="core")
    parser.add_argument("--max-instructions", type=int, default=500_000)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder that keeps the simulations")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    grid = GRIDS[arguments.grid]
    base = load_machine(grid.base)
    design = grid_design(base, grid.values)
    points = design.columns
    drawn = np.random.default_rng(TRUTH_SEED).choice(points.count, TRUTHS, replace=False)
    machines = [points.machine(int(row), f"point {row}") for row in drawn]
    rows = []
    programs = programs_of(
        load_model(), arguments.traces, arguments.output, max_instructions=arguments.max_instructions, progress=False
    )
    for program in tqdm(programs, total=len(arguments.traces), unit="program"):
        true = program.truth.simulate(machines).cycles
        predicted = program.by_model(points)
        for count in (0, *POINTS):
            cycles = predicted
            if count:
                found = budget.answer(
                    program.truth,
                    points,
                    np.inf,
                    lambda predicted=predicted: predicted,
                    first=first_points(design, base),
                    limit=count,
                    progress=False,
                )
                cycles = found.cycles
            off = np.abs(cycles[drawn] / true - 1)
            tau = float(kendalltau(cycles[drawn], true).statistic)
            rows.append({"program": program.truth.name, "points": count, "error": off.mean(), "tau": tau})
    table = pd.DataFrame(rows)
    if arguments.csv is not None:
        table.to_csv(arguments.csv, index=False, float_format="%.4f")
    print(table.groupby("points")[["error", "tau"]].agg(["mean", "min", "max"]).round(4).to_string())


if __name__ == "__main__":
    main()
