"""A program's cycles over a whole design from a few simulated points: the surface that sweeps and searches read.

The logarithm of the cycles is a Gaussian process over the design's fields (`coordinates`, `gaussian_process`). Which
points are simulated is chosen in turns, those that lower the mean variance over the design most (active learning after
Cohn, *Neural Computation* 1996, and Seo et al., IJCNN 2000; `budget.py`). An interval is the process's standard
deviation times the factor within which that share of the simulated points were when processes without them predicted
them (cross-conformal prediction, Vovk, *Annals of Mathematics and Artificial Intelligence* 2015).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget.gaussian_process import GaussianProcess
from uarch.columns import Columns

CANDIDATES = 1000  # points that are weighed for simulation
LEVEL = 0.95
LEAST = 6  # simulated points under which there is no surface
_SIZES = ("l1i.size_kib", "l1d.size_kib", "l2.size_kib", "l3.size_kib")


def factor(process: GaussianProcess, level: float = LEVEL) -> float:
    """Return by how many of their standard deviations `level` of the left-out points are missed at most."""
    residual, deviation = process.left_out()
    ratio = np.sort(np.abs(residual) / deviation)
    place = min(math.ceil((len(ratio) + 1) * level), len(ratio)) - 1
    return float(ratio[place])


def monotone(points: Columns, log: NDArray[np.float64], fixed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """`log` [n] changed, least in the largest change, so that of two points that differ only in cache sizes the one
    with larger caches is not slower; `fixed` points (simulated) keep their values, so it is where they say so.

    First no point is above a simulated one with smaller caches, or below one with larger. Then the mean of two monotone
    bounds, the largest of all that are larger and the least of all that are smaller, is the monotone function nearest
    in the largest difference (isotonic regression in the maximum norm).
    """
    sizes = [field for field in points.varied if field in _SIZES and not np.isnan(points[field]).all()]
    if not sizes:
        return log
    kinds = [
        values.codes if isinstance(values := points[field], pd.Categorical) else np.nan_to_num(values, nan=-1.0)
        for field in points.varied
        if field not in sizes
    ]
    group = _group(kinds, points.count)
    repeated = np.flatnonzero(np.bincount(group)[group] > 1)
    if not repeated.size:
        return log
    axes = [np.unique(np.nan_to_num(points[field][repeated]), return_inverse=True)[1] for field in sizes]
    own = np.unique(group[repeated], return_inverse=True)[1]
    shape = (*(int(axis.max()) + 1 for axis in axes), int(own.max()) + 1)
    if math.prod(shape) > 16 * len(repeated) + 1024:
        return log  # a sparse sample: hardly any two points are comparable
    index = (*axes, own)
    known = fixed[repeated]
    simulated = tuple(axis[known] for axis in index)
    above, below = _bounds(shape, simulated, log[repeated][known])
    low, high = above[index], below[index]
    within = np.clip(log[repeated], low, high)
    contrary = low > high  # the simulator has a larger cache slower
    within[contrary] = (low[contrary] + high[contrary]) / 2
    upper, lower = _bounds(shape, index, np.where(known, log[repeated], within))
    found = log.copy()
    found[repeated] = (upper[index] + lower[index]) / 2
    return np.where(fixed, log, found)


def _bounds(
    shape: tuple[int, ...], index: tuple[NDArray[np.int64], ...], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest value at a point or at larger caches (all axes but the last), and the least at smaller ones."""
    upper, lower = np.full(shape, -np.inf), np.full(shape, np.inf)
    upper[index] = lower[index] = values
    for axis in range(len(shape) - 1):
        upper = np.flip(np.maximum.accumulate(np.flip(upper, axis), axis), axis)
        lower = np.minimum.accumulate(lower, axis)
    return upper, lower


def _group(kinds: list[NDArray], count: int) -> NDArray[np.int64]:
    """[count] a number for each combination of values, told apart by 64 bits of a hash."""
    key = np.zeros(count, np.uint64)
    for values in kinds:
        key = key * np.uint64(0x9E3779B97F4A7C15) + pd.util.hash_array(np.asarray(values, np.float64), categorize=False)
    return np.asarray(pd.factorize(key)[0], np.int64)
