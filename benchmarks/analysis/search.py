"""Best design found within a budget, by a search, by the model alone, and among sampled points (a tool, not a test):

    python benchmarks/analysis/search.py TRACE|LIVE-POINTS… [--seeds 2] [--budget 15]

For each program and seed: the least objective among simulated points. The search by the model alone has its best points
simulated within the same budget.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import pandas as pd

from analysis.designs.judge import SHARE_OF_BEST
from analysis.designs.search import search, search_space
from analysis.designs.sweep import answered
from analysis.programs.targets import Target, target_of
from analysis.questions.sweep import SweepQuestion
from perfvec.model import load_model

OBJECTIVE = "time * (1000 + 10*l1d.size_kib + l2.size_kib)"
POINTS, SAMPLED = 200, 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=15.0)
    parser.add_argument("--space", default="default")
    arguments = parser.parse_args()
    model = load_model()

    def by_search(target: Target, seed: int) -> pd.DataFrame:
        question = SweepQuestion(space=arguments.space, search=POINTS, seed=seed, objective=OBJECTIVE, best=3)
        return question.ask(model, [target], arguments.budget, progress=False).table

    def by_model(target: Target, seed: int) -> pd.DataFrame:
        over = search_space(arguments.space)
        design = search(model, [target.vector], over, POINTS, seed=seed, objective=OBJECTIVE, progress=False)
        return answered(
            model,
            [target],
            design,
            arguments.budget,
            objective=OBJECTIVE,
            best=3,
            share_of_best=SHARE_OF_BEST,
            progress=False,
        )

    def sampled(target: Target, seed: int) -> pd.DataFrame:
        question = SweepQuestion(space=arguments.space, sample=SAMPLED, seed=seed, objective=OBJECTIVE, best=3)
        return question.ask(model, [target], arguments.budget, progress=False).table

    ways: dict[str, Callable[[Target, int], pd.DataFrame]] = {
        "search": by_search,
        "model alone": by_model,
        "sampled": sampled,
    }
    rows = []
    for path in arguments.targets:
        for seed in range(arguments.seeds):
            for way, ask in ways.items():
                target = target_of(model, path, progress=False)
                began = time.perf_counter()
                table = ask(target, seed)
                simulated = table[table["source"] == "simulated"]
                rows.append(
                    {
                        "program": target.name,
                        "seed": seed,
                        "way": way,
                        "objective": float(simulated["objective"].min()),
                        "simulated": len(simulated),
                        "seconds": time.perf_counter() - began,
                    }
                )
                print(rows[-1], flush=True)
    found = pd.DataFrame(rows)
    print(found.groupby(["program", "way"], sort=False)["objective"].mean().unstack().round(3).to_string())
    print(found.groupby("way", sort=False)[["simulated", "seconds"]].mean().round(1).to_string())


if __name__ == "__main__":
    main()
