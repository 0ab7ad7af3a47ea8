"""A program's cycles over a whole design from a few simulated points: the surface that sweeps and searches read.

The logarithm of the cycles is a Gaussian process over the design's fields (`coordinates`, `gaussian_process`). Which
points are simulated is chosen in turns, those that lower the mean variance over the design most (active learning after
Cohn, *Neural Computation* 1996, and Seo et al., IJCNN 2000; `budget.py`). An interval is the process's standard
deviation times the factor within which that share of the simulated points were when processes without them predicted
them (cross-conformal prediction, Vovk, *Annals of Mathematics and Artificial Intelligence* 2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget.gaussian_process import GaussianProcess
from uarch.columns import Columns

CANDIDATES = 1000  # points that are weighed for simulation
LEVEL = 0.95
LEAST = 6  # simulated points under which there is no surface
_PAIRS, _MOST_PAIRS = 1 << 20, 3 * 10**7  # of points: at once, and in all (two seconds)
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
    order: _Order
    shape = (*(int(axis.max()) + 1 for axis in axes), int(own.max()) + 1)
    if math.prod(shape) <= 16 * len(repeated) + 1024:
        order = _Grid(shape, (*axes, own))
    elif (np.bincount(own) ** 2).sum() <= _MOST_PAIRS:
        order = _Pairs(own, axes)
    else:
        return log
    found = log.copy()
    found[repeated] = _monotone(order, log[repeated], fixed[repeated])
    return np.where(fixed, log, found)


class _Order(Protocol):
    """Points, some of which have larger caches than others and are otherwise alike."""

    def bounds(self, known: NDArray[np.bool_], values: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
        """For each point [n] the largest value of those known that are it or have larger caches, and the least of
        those with smaller ones; the `values` are of the known points.
        """


def _monotone(order: _Order, log: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    low, high = order.bounds(known, log[known])
    within = np.clip(log, low, high)
    contrary = low > high  # the simulator has a larger cache slower
    within[contrary] = (low[contrary] + high[contrary]) / 2
    upper, lower = order.bounds(np.ones_like(known), np.where(known, log, within))
    return np.asarray((upper + lower) / 2)


class _Grid:
    """Points of a grid, most of which are there: the last of the axes tells alike ones."""

    def __init__(self, shape: tuple[int, ...], index: tuple[NDArray[np.int64], ...]) -> None:
        self._shape, self._index = shape, index

    def bounds(self, known: NDArray[np.bool_], values: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
        upper, lower = np.full(self._shape, -np.inf), np.full(self._shape, np.inf)
        some = tuple(axis[known] for axis in self._index)
        upper[some] = lower[some] = values
        for axis in range(len(self._shape) - 1):
            upper = np.flip(np.maximum.accumulate(np.flip(upper, axis), axis), axis)
            lower = np.minimum.accumulate(lower, axis)
        return upper[self._index], lower[self._index]


class _Pairs:
    """Any points; `own` [n] is the same number for alike ones."""

    def __init__(self, own: NDArray[np.int64], axes: list[NDArray[np.int64]]) -> None:
        self._axes = axes
        self._sorted = np.argsort(own, kind="stable")
        count = np.bincount(own)
        self._begin = np.repeat(np.cumsum(count) - count, count)  # [n] of the group, in sorted order
        self._alike = np.repeat(count, count)

    def bounds(self, known: NDArray[np.bool_], values: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
        upper, lower = np.full(len(known), -np.inf), np.full(len(known), np.inf)
        every = np.zeros(len(known))
        every[known] = values
        for small, large in self._pairs():
            of_larger, of_smaller = known[large], known[small]
            np.maximum.at(upper, small[of_larger], every[large[of_larger]])
            np.minimum.at(lower, large[of_smaller], every[small[of_smaller]])
        return upper, lower

    def _pairs(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pairs of alike points, the second of which has no smaller cache, some points' at once."""
        blocks = np.cumsum(self._alike) // _PAIRS
        for rows in np.split(np.arange(len(blocks)), np.flatnonzero(np.diff(blocks)) + 1):
            alike = self._alike[rows]
            small = np.repeat(rows, alike)
            place = np.arange(len(small)) - np.repeat(np.cumsum(alike) - alike, alike)
            large = np.repeat(self._begin[rows], alike) + place
            small, large = self._sorted[small], self._sorted[large]
            larger = np.ones(len(small), bool)
            for axis in self._axes:
                larger &= axis[small] <= axis[large]
            yield small[larger], large[larger]


def _group(kinds: list[NDArray], count: int) -> NDArray[np.int64]:
    """[count] a number for each combination of values, told apart by 64 bits of a hash."""
    key = np.zeros(count, np.uint64)
    for values in kinds:
        key = key * np.uint64(0x9E3779B97F4A7C15) + pd.util.hash_array(np.asarray(values, np.float64), categorize=False)
    return np.asarray(pd.factorize(key)[0], np.int64)
