"""Searches ranked by a trained cost model, by TVM's own XGBoost model and at random, with the same trials: a table.

    python -m benchmarks.analysis.tensor_tuning -o DIR --model M.safetensors --network squeezenet:size=96 \
        --network bert_tiny --network mobilenet_v2:size=96 --rounds 2 --seeds 1 --cpu 1 --builder-cpu 0

Every search is a folder of DIR; killed, the same command goes on. The reference, whose final latency is the goal of
"trials" and "seconds", is TVM's model with the same seed. `shares.csv` has for each model the median over networks (of
the medians over seeds) of its trials to that latency, as a share of the trials of TVM's model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from analysis.tensor.compare import compare
from analysis.tensor.graph import network_graph
from analysis.tensor.tune import RANDOM, XGB, Plan, largest, tune_graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--model", action="append", default=[], help="a trained model; several times")
    parser.add_argument("--network", action="append", required=True)
    parser.add_argument("--device", default="x86-64-v3")
    parser.add_argument("--rounds", type=float, default=2.0, help="a task, on average")
    parser.add_argument("--round", type=int, default=32)
    parser.add_argument("--population", type=int, default=128)
    parser.add_argument("--generations", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=None, help="of a network, those of most FLOPs")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None, help="of each search, at most")
    parser.add_argument("--cpu", type=int, default=None)
    parser.add_argument("--builder-cpu", type=int, default=None)
    given = parser.parse_args()
    tables = []
    for network in given.network:
        graph = network_graph(network)
        if given.tasks is not None:
            graph = largest(graph, given.tasks)
        trials = round(given.rounds * given.round * len(graph.tasks))
        for seed in range(given.seeds):
            folders = []
            for model in (XGB, RANDOM, *given.model):
                name = f"{network}-{Path(model).name.removesuffix('.safetensors')}-{seed}".replace(":", "-")
                plan = Plan(
                    network,
                    model,
                    given.device,
                    trials=trials,
                    minutes=given.minutes,
                    round=given.round,
                    population=given.population,
                    generations=given.generations,
                    seed=seed,
                    cpu=given.cpu,
                    builder_cpu=given.builder_cpu,
                    tasks=given.tasks,
                )
                tune_graph(plan, graph, given.output / name)
                folders.append(given.output / name)
            tables.append(compare(folders).assign(network=network))
            print(tables[-1].to_string(index=False), flush=True)
    table = pd.concat(tables)
    table.to_csv(given.output / "searches.csv", index=False)
    found = shares(table)
    found.to_csv(given.output / "shares.csv", index=False)
    print(found.to_string(index=False), flush=True)


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """A row a model: networks, and the median share of trials; infinite where more than half never got there."""
    rows = []
    for model, part in table.groupby("model", sort=False):
        share = (part["trials_to_reference"] / part["trials"]).fillna(float("inf"))
        each = share.groupby(part["network"]).median()
        rows.append({"model": model, "networks": len(each), "median_share_of_trials": each.median()})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
