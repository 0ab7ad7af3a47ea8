"""Learning curves of the foundation model, over windows of other programs and over their machines:

    python benchmarks/perfvec/learning_curves.py TRACES LATENCIES SAMPLED SHARDS WINDOWSxMACHINES… [--fold 1/5]

SAMPLED holds windows on machines of their own (`tools/label_sampled.py`). Each point trains a model like the shipped
one, all with as many steps, on so many of them, drawn at random, and on the first so many machines of each, and judges
it by the accuracy protocol. The windows of a point are among those of a larger one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

from perfvec.evaluate import evaluate
from perfvec.training import train as training
from perfvec.training.data import SampledShard
from perfvec.training.recipe import Recipe
from perfvec.training.split import Split


def narrowed(one: SampledShard, machines: int) -> SampledShard:
    """The window on the first of its machines."""
    kept = tuple(range(machines))
    shard = replace(one.shard, latency=replace(one.shard.latency, columns=kept), mean=one.shard.mean[:machines])
    return SampledShard(shard, one.machines[:machines], one.features[:machines])


def point(arguments: argparse.Namespace, windows: int, machines: int, folder: Path) -> str:
    """Train and judge one model; return its row of the table."""
    whole = training.prepare_sampled
    schema = training.get_schema("timed")

    def some(traces: Path, latencies: Path, *others, **options) -> Sequence[SampledShard]:
        """So many windows, where those that are held out are left out before."""
        found = whole(traces, latencies, *others, **options)
        kept = [one for one in found if one.shard.program not in held and len(one.machines) >= machines]
        order = np.random.default_rng(arguments.seed).permutation(len(kept))
        if windows > len(kept):
            raise SystemExit(f"{windows} windows on {machines} machines: only {len(kept)} have as many")
        return tuple(narrowed(kept[k], machines) for k in order[:windows])

    split = Split(fold=arguments.fold, hold_machines=16, machine_seed=int(arguments.fold.partition("/")[0]))
    labels = training.prepare(arguments.traces, arguments.latencies, schema, arguments.shards, progress=False)
    held = split.divide(labels).held_programs
    recipe = Recipe(
        schema=schema.name,
        architecture="mlp",
        width=128,
        skip_connection=True,
        instructions=arguments.instructions,
        seed=arguments.seed,
    )
    with patch.object(training, "prepare_sampled", some):
        model = training.train(
            arguments.traces,
            arguments.latencies,
            folder / "model.safetensors",
            recipe=recipe,
            split=split,
            sampled_latencies=arguments.sampled,
            shards=arguments.shards,
        )
    found = evaluate(model, arguments.traces, arguments.latencies)
    cells = []
    for programs, uarchs in (("seen", "seen"), ("unseen", "seen"), ("unseen", "zero-shot")):
        error = 100 * found[(found.programs == programs) & (found.uarchs == uarchs)].error
        cells.append(f"{error.mean():5.1f} / {error.median():4.1f} %")
    return f"{windows:8,} {machines:8} {windows * machines:8,}   " + "   ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("traces", "latencies", "sampled", "shards"):
        parser.add_argument(name, type=Path)
    parser.add_argument("points", nargs="+", help="WINDOWSxMACHINES, as 125x8")
    parser.add_argument("--fold", default="1/5")
    parser.add_argument("--instructions", type=int, default=6_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(" windows machines in all      seen programs   unseen   zero-shot", flush=True)
    for text in arguments.points:
        windows, _, machines = text.partition("x")
        with TemporaryDirectory() as folder:
            print(point(arguments, int(windows), int(machines), Path(folder)), flush=True)


if __name__ == "__main__":
    main()
