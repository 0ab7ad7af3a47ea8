"""Dataset pruning (Verma et al.): a part of a dataset that trains nearly as well as the whole, and the proof of it.

Tasks are selected (`tracegen.tensor.selection`), slow schedules dropped, and what is left is a dataset of its own. Its
comparison with the whole: numbers of tasks, schedules, records and bytes; the programs in the first two principal
components; and a model trained on either, judged on the same tasks that neither has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfvec.tensor.configuration import Entry
from perfvec.tensor.contract import Budget
from perfvec.tensor.evaluate import SELECTIONS, measure
from perfvec.tensor.models import make
from perfvec.tensor.records import read_records
from support.errors import InputError
from support.kinds import require_output
from tracegen.tensor import splits
from tracegen.tensor.dataset import Dataset, DatasetWriter
from tracegen.tensor.dataset.format import FORMAT
from tracegen.tensor.dataset.merge import copy
from tracegen.tensor.selection import fast_schedules, program_means, standardised

_CELLS = 10  # of a side of the grid that coverage is counted on


@dataclass(frozen=True)
class Choice:
    """Choice of what is kept: a share of the tasks by a selection of `evaluate.SELECTIONS` (all tasks by "all"), and of
    them the schedules at most `slow` times as slow as the best (0: all). Times are read of `devices` only, by default
    of all.
    """

    by: str = "verma"
    share: float = 0.5
    slow: float = 10.0
    devices: tuple[str, ...] = ()
    seed: int = 0

    def check(self) -> None:
        """Raise InputError for a selection or a share that there is not."""
        if self.by != "all" and self.by not in SELECTIONS:
            raise InputError(f"selection {self.by!r}: expected all or one of {', '.join(SELECTIONS)}")
        if not 0 < self.share <= 1:
            raise InputError(f"share {self.share}: expected above 0 and at most 1")


@dataclass(frozen=True)
class Pruned:
    """`sizes`: tasks, schedules, records, bytes and GFLOP of the whole and of what is kept; `points`: a row for every
    schedule (pc1, pc2, kept); `explained` [2]: the components' shares of the variance; `coverage`: the share of the
    cells of a grid over both components with a program in which a kept one is.
    """

    sizes: pd.DataFrame
    points: pd.DataFrame
    explained: tuple[float, float]
    coverage: float


def prune(path: str | os.PathLike[str], output: str | os.PathLike[str], choice: Choice) -> Pruned:
    """Write what `choice` keeps of a dataset. Raises InputError where nothing is left."""
    choice.check()
    require_output(output, FORMAT)
    with Dataset(path) as dataset:
        keep = kept(dataset, choice)
        if not keep.any():
            raise InputError(f"{path}: the selection keeps no schedule; take a larger share, or a larger --slow")
        provenance = {"selected": vars(choice), "merged": [_source(dataset)]}
        with DatasetWriter(output, provenance=provenance, features=dataset.groups) as writer:
            copy(dataset, writer, keep=keep)
        points, explained = _components(program_means(dataset))
        frame = pd.DataFrame({"pc1": points[:, 0], "pc2": points[:, 1], "kept": keep})
        sizes = [_sizes("all", dataset, path)]
    with Dataset(output) as part:
        sizes.append(_sizes("kept", part, output))
    return Pruned(pd.DataFrame(sizes), frame, explained, coverage(points, keep))


def kept(dataset: Dataset, choice: Choice) -> NDArray[np.bool_]:
    """[schedules] what `choice` keeps."""
    devices = list(choice.devices) or None
    for name in choice.devices:
        if name not in dataset.devices["name"].tolist():
            raise InputError(f"{dataset.path}: no device {name!r}; there are: {', '.join(dataset.devices['name'])}")
    keep = np.ones(dataset.schedule_count, bool)
    if choice.by != "all":
        count = max(round(choice.share * len(dataset.tasks)), 1)
        tasks = SELECTIONS[choice.by](dataset, count, seed=choice.seed, devices=devices)
        keep &= np.isin(dataset.task_of, tasks)
    if choice.slow:
        keep &= fast_schedules(dataset, choice.slow, devices=devices)
    return keep


def judge(
    path: str | os.PathLike[str], choice: Choice, entry: Entry, budget: Budget, seeds: int, on: str = "cpu"
) -> pd.DataFrame:
    """A row per seed for the whole and for what is kept: training records and seconds, metrics on a tenth of the tasks,
    which neither was trained on.
    """
    choice.check()
    records = read_records(path, [make(entry.model, entry.parameters, where=entry.name).kind])
    rows = []
    with Dataset(path) as dataset:
        keep = kept(dataset, choice)
        for seed in range(seeds):
            share = 0.1 if budget.patience else 0.0
            parts = splits.by_task(dataset, validation=share, seed=seed)
            test = records.take(parts.test)
            held = records.take(parts.validation) if len(parts.validation) else None
            whole = records.take(parts.train)
            for name, train in (("all", whole), ("kept", whole.take(keep[whole.candidate]))):
                model = make(entry.model, entry.parameters)
                model.use(on)
                began = time.process_time()
                model.fit(train, budget=budget, seed=seed, validation=held)
                spent = time.process_time() - began
                row = {"data": name, "seed": seed, "train_records": len(train), "train_seconds": spent}
                rows.append(row | measure(model, test))
    return pd.DataFrame(rows)


def coverage(points: NDArray[np.float64], keep: NDArray[np.bool_]) -> float:
    """The share of the cells with a point [n, 2] that have a kept one; the grid spans all points."""
    low, span = points.min(0), np.ptp(points, axis=0)
    place = np.minimum(((points - low) / np.where(span > 0, span, 1) * _CELLS).astype(np.int64), _CELLS - 1)
    cell = place[:, 0] * _CELLS + place[:, 1]
    return len(np.unique(cell[keep])) / len(np.unique(cell))


def _components(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """(coordinates in the first two principal components [n, 2], their shares of the variance)."""
    values = standardised(points)
    _, scale, axes = np.linalg.svd(values, full_matrices=False)
    variance = np.square(scale)
    shares = np.zeros(2)
    shares[: len(variance)] = (variance / max(variance.sum(), 1e-12))[:2]
    found = np.zeros((len(values), 2))
    found[:, : min(2, len(axes))] = values @ axes[:2].T
    return found, (float(shares[0]), float(shares[1]))


def _sizes(name: str, dataset: Dataset, path: str | os.PathLike[str]) -> dict[str, object]:
    flops = dataset.tasks["flops"].to_numpy(np.float64)
    return {
        "data": name,
        "tasks": len(dataset.tasks),
        "schedules": dataset.schedule_count,
        "records": dataset.record_count,
        "megabytes": Path(path).stat().st_size / 1e6,
        "gflop": float(np.nansum(flops)) / 1e9,
    }


def _source(dataset: Dataset) -> dict[str, object]:
    return {"file": dataset.path.name, "digest": dataset.digest, "provenance": dataset.provenance}


def means(rows: pd.DataFrame, columns: Sequence[str] = ("pairwise", "top1", "top5", "mape", "rmse_ms")) -> pd.DataFrame:
    """`judge`'s rows as a table: the mean over seeds."""
    names = ["train_records", "train_seconds", *columns]
    return rows.groupby("data", sort=False)[names].mean().reset_index()
