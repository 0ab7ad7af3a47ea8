"""Pareto fronts: the points that no other one matches or beats in everything, the smaller the better."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def front(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[n] of two quantities, in O(n log n): sorted by the first, a point is on the front if its second is below all
    before it. Of points equal in both, the first one is on it. Points with a NaN are not.
    """
    order = np.lexsort((second, first))
    order = order[~(np.isnan(first[order]) | np.isnan(second[order]))]
    ordered = second[order]
    least = np.minimum.accumulate(np.concatenate([[np.inf], ordered]))[:-1]
    found = np.zeros(len(first), bool)
    found[order[ordered < least]] = True
    return found


def front_over_fields(
    seconds: NDArray[np.float64], numbers: Sequence[NDArray[np.float64]], kinds: Sequence[NDArray]
) -> NDArray[np.bool_]:
    """[n] points of a (not necessarily full) grid that none matches or beats in time with no number larger and all
    kinds equal.

    The points are laid out as an array with an axis for each number and one for the kinds; the least time of all points
    with no larger number is then a running minimum along each axis: O(n) an axis, for any number of fields.
    """
    axes = [np.unique(values, return_inverse=True) for values in numbers]
    shape = [len(values) for values, _ in axes]
    group = pd.MultiIndex.from_arrays(list(kinds)).factorize()[0] if len(kinds) else np.zeros(len(seconds), int)
    index = (*(place for _, place in axes), group)
    times = np.full((*shape, int(group.max(initial=0)) + 1), np.inf)
    np.minimum.at(times, index, seconds)
    least = times
    for axis in range(len(shape)):
        least = np.minimum.accumulate(least, axis=axis)
    best = np.isfinite(times)
    for axis in range(len(shape)):  # below in this number, and not above in any other
        ahead = [slice(None)] * times.ndim
        behind = list(ahead)
        ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
        best[tuple(ahead)] &= times[tuple(ahead)] < least[tuple(behind)]
    found = best[index] & (seconds == times[index])
    _, first = np.unique(np.ravel_multi_index(index, times.shape), return_index=True)
    if len(first) < len(seconds):  # of equal points one is enough
        cell = np.asarray(np.ravel_multi_index(index, times.shape))
        order = np.lexsort((seconds, cell))
        places = cell[order]
        repeated = np.zeros(len(seconds), bool)
        repeated[order[1:][places[1:] == places[:-1]]] = True
        found &= ~repeated
    return found


def front_over_points(
    seconds: NDArray[np.float64], numbers: Sequence[NDArray[np.float64]], kinds: Sequence[NDArray]
) -> NDArray[np.bool_]:
    """[n] the points of `front_over_fields`, each compared with all others: for points that lie on no small grid."""
    order = np.lexsort((*numbers, seconds))  # of equal points the first one beats the others
    values = np.column_stack([seconds, *numbers])[order]
    group = np.column_stack([np.zeros(len(order), int), *kinds])[order]
    found = np.zeros(len(order), bool)
    for place in range(len(order)):
        faster = (values[:place] <= values[place]).all(axis=1) & (group[:place] == group[place]).all(axis=1)
        found[order[place]] = not faster.any()
    return found


def cells(numbers: Sequence[NDArray[np.float64]]) -> int:
    """Return the size of the array of `front_over_fields`."""
    return math.prod(len(np.unique(values)) for values in numbers)
