"""Metrics of predictions, in the papers' own terms.

`group` [n] tells which records are compared with each other: one task on one device. `score` [n] is higher for
candidates that are believed to be faster, `seconds` [n] > 0 is what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_ROWS = 512  # of a comparison matrix at once


def mape(predicted: Floats, seconds: Floats) -> float:
    """Mean of |predicted − measured| / measured; a fraction."""
    return float(np.mean(np.abs(predicted - seconds) / seconds))


def bias(predicted: Floats, seconds: Floats) -> float:
    """Median of predicted / measured, less 1: how much too high (or, below 0, too low) predictions are as a whole."""
    return float(np.median(predicted / seconds)) - 1.0


def rmse(predicted: Floats, seconds: Floats) -> float:
    """Root of the mean squared error, in the unit of its arguments."""
    return float(np.sqrt(np.mean(np.square(predicted - seconds))))


def pairwise_accuracy(score: Floats, seconds: Floats, group: Integers, *, apart: float = 0.0) -> float:
    """Share of pairs of a group that the scores order as the measurements do (Verma et al., eq. 5).

    Pairs that were measured equal say nothing and are left out, with `apart` all whose slower one takes less than
    1 + `apart` times as long as the faster; a pair with equal scores counts half. Groups count by
    their number of records, as in TenSet. NaN where no group has two different measurements.
    """
    shares, sizes = [], []
    for rows in groups_of(group):
        right, pairs = _ordered(score[rows], seconds[rows], 1.0 + apart)
        if pairs:
            shares.append(right / pairs)
            sizes.append(len(rows))
    return float(np.average(shares, weights=sizes)) if shares else float("nan")


def top_k(score: Floats, seconds: Floats, group: Integers, k: int, weight: Mapping[int, float] | None = None) -> float:
    """TenSet's top-k: Σ weight · best latency / Σ weight · best latency among the k best-scored, over groups.

    1 says that measuring k candidates of each task finds the best of all. `weight` [group] is how often a network runs
    the task; 1 where absent. Groups of k records or fewer, whose best any scores find, are left out; NaN where no
    other is.
    """
    best, found = 0.0, 0.0
    for rows in groups_of(group):
        if len(rows) <= k:
            continue
        times = 1.0 if weight is None else weight.get(int(group[rows[0]]), 1.0)
        chosen = rows[np.argsort(-score[rows], kind="stable")[:k]]
        best += times * float(seconds[rows].min())
        found += times * float(seconds[chosen].min())
    return best / found if found > 0 else float("nan")


def groups_of(group: Integers) -> list[Integers]:
    """The positions of each group's members, in order of the groups' numbers."""
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    return [np.asarray(rows, np.int64) for rows in np.split(order, cuts)] if len(group) else []


def _ordered(score: Floats, seconds: Floats, factor: float) -> tuple[float, int]:
    """Rightly ordered pairs, and pairs that have an order; a few rows of the comparison matrix at a time."""
    right, pairs = 0.0, 0
    for start in range(0, len(score), _ROWS):
        stop = start + _ROWS
        faster = factor * seconds[start:stop, None] < seconds[None, :]
        difference = score[start:stop, None] - score[None, :]
        right += float(np.sum(faster & (difference > 0)) + 0.5 * np.sum(faster & (difference == 0)))
        pairs += int(np.sum(faster))
    return right, pairs
