"""Selection of tasks, schedules or records to measure or to learn from where all are too many.

| selection | takes |
|---|---|
| `joint_probability` | tasks by the joint probability of FLOPs, shape and time, those of many FLOPs first (Verma et al., "Cross-Feature Transfer Learning for Efficient Tensor Program Generation") |
| `fast_schedules` | of each task the schedules that are not slow (the same) |
| `flops_first` | the tasks of most FLOPs (the same, for tuning) |
| `cdmpp_tasks` | tasks that stand for clusters of programs (CDMPP: Hu et al., EuroSys 2024) |
| `kmeans_tasks` | tasks that stand for clusters of tasks' means: ours, of the same idea |
| `random_tasks` | what they are compared with |
| `even_records` | in place of tasks, some records of every task |

Each returns indices, ascending, a function of its arguments and seed alone. Tasks are chosen `among` those given, all
by default. Times are read of the devices `devices` only: where tasks are selected to be measured on a new device, its
own times are not known yet.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from support.errors import InputError
from tracegen.statistics.kmeans import kmeans
from tracegen.tensor.dataset import Dataset

_BATCH = 1 << 14  # schedules at a time


def random_tasks(
    dataset: Dataset, count: int, *, seed: int = 0, devices: Sequence[str] | None = None, among: ArrayLike | None = None
) -> NDArray[np.int64]:
    """`count` tasks, all equally likely."""
    return _drawn(dataset, count, np.ones(len(dataset.tasks)), seed, among)


def flops_first(
    dataset: Dataset, count: int, *, seed: int = 0, devices: Sequence[str] | None = None, among: ArrayLike | None = None
) -> NDArray[np.int64]:
    """The `count` tasks of most FLOPs; of equal ones the first. Tasks of unknown FLOPs come last."""
    allowed = _allowed(dataset, count, among)
    flops = np.nan_to_num(dataset.tasks["flops"].to_numpy(np.float64), nan=-1.0)
    return np.sort(allowed[np.argsort(-flops[allowed], kind="stable")[:count]])


def joint_probability(
    dataset: Dataset,
    count: int,
    *,
    seed: int = 0,
    bins: int = 8,
    devices: Sequence[str] | None = None,
    among: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """`count` tasks drawn without replacement by the joint probability of FLOPs, shape and execution time.

    FLOPs come first: the probability of a task grows with its place when all are ordered by FLOPs. Tasks alike in
    FLOPs, in their tensors' elements and in the median of their times on `devices` (all by default; logarithms, in
    `bins` equally wide bins each; what is not known is a bin of its own) share what one of them would have. So what
    dominates a network's latency is likely to be drawn, and few stand for many alike.
    """
    quantities = _quantities(dataset, devices)
    cells = pd.DataFrame({name: _binned(values, bins) for name, values in quantities.items()})
    alike = cells.groupby(list(cells.columns))[cells.columns[0]].transform("size").to_numpy(np.float64)
    place = pd.Series(quantities["flops"]).fillna(0.0).rank(method="average").to_numpy(np.float64)
    return _drawn(dataset, count, place / alike, seed, among)


def fast_schedules(
    dataset: Dataset, factor: float = 10.0, *, devices: Sequence[str] | None = None
) -> NDArray[np.bool_]:
    """[schedules] whether a schedule takes at most `factor` times as long as the best of its task, in the median over
    `devices` (all by default) where both ran. False for one that ran on none of them.
    """
    if not factor >= 1:
        raise InputError(f"slow is {factor} times the best; a factor of at least 1 is expected")
    records = _of_devices(dataset, devices)
    ratio = records["seconds"] / records.groupby(["task", "device"])["seconds"].transform("min")
    fast = ratio.groupby(records["schedule"]).median() <= factor
    found = np.zeros(dataset.schedule_count, bool)
    found[fast.index.to_numpy(np.int64)] = fast.to_numpy()
    return found


def cdmpp_tasks(
    dataset: Dataset,
    count: int,
    *,
    features: ArrayLike | None = None,
    seed: int = 0,
    devices: Sequence[str] | None = None,
    among: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """`count` tasks by CDMPP's sampling: programs (schedules) are divided into `count` clusters by their features;
    from the largest cluster to the smallest, the task whose programs are nearest to the centre in the mean is taken, of
    those with a program in the cluster that were not taken yet. Where a cluster has none left, further rounds fill up.

    `features` [schedules, d]: by default the mean row of each schedule's compact AST, statements or primitives.
    Columns are standardised.
    """
    allowed = _allowed(dataset, count, among)
    points = program_means(dataset) if features is None else np.asarray(features, np.float64)
    if points.shape[0] != dataset.schedule_count or points.ndim != 2 or not np.isfinite(points).all():
        raise InputError(
            f"features of programs are {list(points.shape)}; finite [{dataset.schedule_count}, d] is expected"
        )
    task = dataset.task_of.astype(np.int64)
    inside = np.isin(task, allowed)
    points, task = standardised(points[inside]), task[inside]
    clusters = kmeans(points.astype(np.float32), min(count, len(points)), seed=seed)
    there = np.bincount(task, minlength=len(dataset.tasks))
    queues = []
    for cluster in np.argsort(-clusters.size, kind="stable"):
        distance = np.linalg.norm(points - clusters.centre[cluster], axis=1)
        mean = np.bincount(task, distance, len(there)) / np.maximum(there, 1)
        members = np.unique(task[clusters.label == cluster])
        queues.append(members[np.argsort(mean[members], kind="stable")].tolist())
    taken: dict[int, None] = {}
    while len(taken) < count and any(queues):
        for queue in queues:
            while queue and queue[0] in taken:
                queue.pop(0)
            if queue and len(taken) < count:
                taken[queue.pop(0)] = None
    return np.sort(np.array(list(taken), np.int64))


def kmeans_tasks(
    dataset: Dataset,
    count: int,
    *,
    features: ArrayLike | None = None,
    seed: int = 0,
    devices: Sequence[str] | None = None,
    among: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """`count` tasks, or as many as differ: the nearest to the centre of each cluster of the tasks.

    `features` [tasks, d]: by default each task's mean row of the dataset's compact AST, statements or primitives (the
    first that is there) over all its schedules. Columns are standardised.
    """
    allowed = _allowed(dataset, count, among)
    points = _means(dataset) if features is None else np.asarray(features, np.float64)
    if points.shape[0] != len(dataset.tasks) or points.ndim != 2 or not np.isfinite(points).all():
        raise InputError(f"features of tasks are {list(points.shape)}; finite [{len(dataset.tasks)}, d] is expected")
    points = standardised(points[allowed])
    clusters = kmeans(points.astype(np.float32), count, seed=seed)
    order = np.lexsort((np.arange(len(points)), clusters.distance, clusters.label))
    first = np.unique(clusters.label[order], return_index=True)[1]
    return np.sort(allowed[order[first]])


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


def _allowed(dataset: Dataset, count: int, among: ArrayLike | None) -> NDArray[np.int64]:
    """The tasks that may be taken, ascending. Raises InputError where they are fewer than `count`."""
    allowed = np.arange(len(dataset.tasks)) if among is None else np.unique(np.asarray(among, np.int64))
    if not 1 <= count <= len(allowed):
        raise InputError(f"{dataset.path}: {count} tasks are asked for; there are {len(allowed)}")
    return allowed


def _drawn(
    dataset: Dataset, count: int, weight: NDArray[np.float64], seed: int, among: ArrayLike | None
) -> NDArray[np.int64]:
    allowed = _allowed(dataset, count, among)
    own = weight[allowed]
    return np.sort(np.random.default_rng(seed).choice(allowed, count, replace=False, p=own / own.sum()))


def standardised(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, d] points with mean 0 and deviation 1 in every column that varies."""
    spread = points.std(axis=0)
    return (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1)


def _of_devices(dataset: Dataset, devices: Sequence[str] | None) -> pd.DataFrame:
    """The successful records on these devices, of all by default, with their tasks."""
    records = dataset.table()
    if devices is None:
        return records
    return records[records["device"].map(dataset.devices["name"]).isin(list(devices))]


def _quantities(dataset: Dataset, devices: Sequence[str] | None) -> dict[str, NDArray[np.float64]]:
    """{quantity: [tasks]}, NaN where it is not known."""
    records = _of_devices(dataset, devices)
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
    sums, rows = _sums(dataset, dataset.task_of.astype(np.int64), len(dataset.tasks))
    return sums / np.maximum(rows, 1)[:, None]


def program_means(dataset: Dataset) -> NDArray[np.float64]:
    """[schedules, d] the mean row of each schedule, 0 where it has none."""
    sums, rows = _sums(dataset, np.arange(dataset.schedule_count), dataset.schedule_count)
    return sums / np.maximum(rows, 1)[:, None]


def _sums(dataset: Dataset, owner_of: NDArray[np.int64], owners: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(sums of the rows of a feature group by their schedules' owners [owners, d], numbers of rows [owners])."""
    group = next((name for name in ("ast", "statements", "primitives") if name in dataset.groups), None)
    if group is None:
        raise InputError(f"{dataset.path}: has no features to tell tasks apart by")
    sums: NDArray[np.float64] | None = None
    rows = np.zeros(owners, np.int64)
    for begin in range(0, len(owner_of), _BATCH):
        found = dataset.features(group, np.arange(begin, min(begin + _BATCH, len(owner_of))))
        owner = np.repeat(owner_of[begin : begin + _BATCH], found.length)
        if sums is None:
            sums = np.zeros((owners, found.values.shape[1]))
        np.add.at(sums, owner, found.values)
        rows += np.bincount(owner, minlength=owners)
    if sums is None:
        raise InputError(f"{dataset.path}: has no schedule")
    return sums, rows
