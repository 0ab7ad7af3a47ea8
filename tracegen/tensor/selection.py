"""Selection of tasks or records to measure or to learn from where all are too many.

`joint_probability` is Verma et al.'s pruning ("Cross-Feature Transfer Learning for Efficient Tensor Program
Generation"): tasks are drawn with a probability that is joint over FLOPs, tensor shape and execution time, so that few
stand for many alike. `kmeans_tasks` is CDMPP's (Hu et al., EuroSys 2024): clusters of tasks by their features, one task
each, the nearest to the centre. `random_tasks` is what both are compared with. Each returns task indices, ascending, a
function of its arguments and seed alone. `even_records` chooses records in place of tasks: some of every task.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from support.errors import InputError
from tracegen.statistics.kmeans import kmeans
from tracegen.tensor.dataset import Dataset

_CHUNK = 1 << 14  # schedules at a time


def random_tasks(dataset: Dataset, count: int, *, seed: int = 0) -> NDArray[np.int64]:
    """`count` tasks, all equally likely."""
    return _drawn(dataset, count, None, seed)


def joint_probability(dataset: Dataset, count: int, *, seed: int = 0, bins: int = 8) -> NDArray[np.int64]:
    """`count` tasks drawn without replacement so that FLOPs, shape and execution time are covered evenly.

    Each task falls into a cell of its FLOPs, its tensors' elements and the median of its measured times (logarithms, in
    `bins` equally wide ones; what is not known is a bin of its own). The joint probability of a cell is its share of
    tasks; a task's probability to be drawn is inverse to that of its cell, so that every cell that occurs is as likely
    as any other and what is rare is not lost.
    """
    cells = pd.DataFrame({name: _binned(values, bins) for name, values in _quantities(dataset).items()})
    share = cells.groupby(list(cells.columns))[cells.columns[0]].transform("size").to_numpy(np.float64)
    return _drawn(dataset, count, 1 / share, seed)


def kmeans_tasks(
    dataset: Dataset, count: int, *, features: ArrayLike | None = None, seed: int = 0
) -> NDArray[np.int64]:
    """`count` tasks, or as many as differ: the nearest to the centre of each cluster of the tasks.

    `features` [tasks, d]: by default each task's mean row of the dataset's compact AST, statements or primitives (the
    first that is there) over all its schedules. Columns are standardised.
    """
    _check(dataset, count)
    points = _means(dataset) if features is None else np.asarray(features, np.float64)
    if points.shape[0] != len(dataset.tasks) or points.ndim != 2 or not np.isfinite(points).all():
        raise InputError(f"features of tasks are {list(points.shape)}; finite [{len(dataset.tasks)}, d] is expected")
    spread = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1)
    clusters = kmeans(points.astype(np.float32), count, seed=seed)
    order = np.lexsort((np.arange(len(points)), clusters.distance, clusters.label))
    first = np.unique(clusters.label[order], return_index=True)[1]
    return np.sort(order[first])


def even_records(task: ArrayLike, count: int, *, seed: int = 0) -> NDArray[np.int64]:
    """`count` positions, ascending, of the records of these tasks [n], drawn at random: every task has its first one
    before any has a second.
    """
    tasks = np.asarray(task, np.int64)
    if not 1 <= count <= len(tasks):
        raise InputError(f"{count} records are asked for; there are {len(tasks)}")
    order = np.random.default_rng(seed).permutation(len(tasks))
    turn = pd.Series(tasks[order]).groupby(tasks[order]).cumcount().to_numpy()
    return np.sort(order[np.argsort(turn, kind="stable")[:count]])


def _check(dataset: Dataset, count: int) -> None:
    if not 1 <= count <= len(dataset.tasks):
        raise InputError(f"{dataset.path}: {count} tasks are asked for; there are {len(dataset.tasks)}")


def _drawn(dataset: Dataset, count: int, weight: NDArray[np.float64] | None, seed: int) -> NDArray[np.int64]:
    _check(dataset, count)
    random = np.random.default_rng(seed)
    probability = None if weight is None else weight / weight.sum()
    return np.sort(random.choice(len(dataset.tasks), count, replace=False, p=probability))


def _quantities(dataset: Dataset) -> dict[str, NDArray[np.float64]]:
    """{quantity: [tasks]}, NaN where it is not known."""
    records = dataset.table()
    seconds = np.full(len(dataset.tasks), np.nan)
    medians = records.groupby("task")["seconds"].median()
    seconds[medians.index.to_numpy(np.int64)] = medians.to_numpy()
    elements = np.array([element_count(shape) for shape in dataset.tasks["shape"]])
    return {"flops": dataset.tasks["flops"].to_numpy(np.float64), "elements": elements, "seconds": seconds}


def element_count(shape: Any) -> float:
    """Elements of all tensors of a task: a shape lists extents or [type, extents] of each; NaN where it does not."""
    total = 0.0
    for tensor in shape if isinstance(shape, list) else []:
        extents = tensor[1] if isinstance(tensor, list) and len(tensor) == 2 and isinstance(tensor[0], str) else tensor
        if not isinstance(extents, list) or not all(type(extent) is int for extent in extents):
            return math.nan
        total += math.prod(extents)
    return total or math.nan


def _binned(values: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """[n] bin of each value's logarithm, −1 where it is not known."""
    known = np.isfinite(values) & (values > 0)
    logarithm = np.log(np.where(known, values, 1))
    low, high = (logarithm[known].min(), logarithm[known].max()) if known.any() else (0.0, 0.0)
    place = np.floor((logarithm - low) / max(high - low, 1e-9) * bins).astype(np.int64)
    return np.where(known, np.clip(place, 0, bins - 1), -1)


def _means(dataset: Dataset) -> NDArray[np.float64]:
    """[tasks, d] mean rows of a feature group over all schedules of each task, 0 where it has none."""
    group = next((name for name in ("ast", "statements", "primitives") if name in dataset.groups), None)
    if group is None:
        raise InputError(f"{dataset.path}: has no features to tell tasks apart by")
    tasks = dataset.task_of.astype(np.int64)
    sums: NDArray[np.float64] | None = None
    rows = np.zeros(len(dataset.tasks))
    for begin in range(0, len(tasks), _CHUNK):
        found = dataset.features(group, np.arange(begin, min(begin + _CHUNK, len(tasks))))
        owner = np.repeat(tasks[begin : begin + _CHUNK], found.length)
        if sums is None:
            sums = np.zeros((len(dataset.tasks), found.values.shape[1]))
        np.add.at(sums, owner, found.values)
        rows += np.bincount(owner, minlength=len(rows))
    if sums is None:
        raise InputError(f"{dataset.path}: has no schedule")
    return sums / np.maximum(rows, 1)[:, None]
