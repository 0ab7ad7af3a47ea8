"""Where the points of a design lie: what a surface over them reads of each.

A number is its logarithm and, where it has few values, besides a step at each: a machine is as slow as its narrowest
part, so that beyond some value a field often changes nothing. Names are one-hot, what a machine lacks is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfvec.machines.columns import features_of_columns
from uarch.columns import Columns

_FEW_VALUES = 16  # of a field: a step at each
_FEW_FIELDS = 12  # that vary; of more, what they mean together is added, and no steps
_COMBINED = 23  # the last of `perfvec.machines.features.features`: of several fields, or of memory in common units
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Coordinates:
    """`values` [n, F] from -1 to 1 over the design; `steps` [F] which are one of two values; how many `fields` they
    stand for.
    """

    values: NDArray[np.float32]
    steps: NDArray[np.bool_]
    fields: int


def coordinates(points: Columns) -> Coordinates:
    """Of every point, from the fields that vary among them.

    Where many fields vary the encoder's features that combine several (memory's latency in cycles, the narrowest
    width, misses in flight, …; `perfvec.machines.features`) are added, each as a field of its own.
    """
    fields = [own for own in map(points.__getitem__, points.varied) if _differs(own)]
    wide = len(fields) > _FEW_FIELDS
    columns: list[NDArray[np.floating]] = []
    steps: list[bool] = []
    count = len(fields)
    for values in fields:
        for column, is_step in _of_names(values) if isinstance(values, pd.Categorical) else _of_numbers(values, wide):
            columns.append(column.astype(np.float32))
            steps.append(is_step)
    if wide:
        combined = _combined(points)
        columns += list(combined.T)
        steps += [False] * combined.shape[1]
        count += combined.shape[1]
    if not columns:  # all points are equal
        columns, steps, count = [np.zeros(points.count, np.float32)], [False], 1
    return Coordinates(np.stack(columns, axis=1), np.array(steps), count)


def _differs(values: NDArray | pd.Categorical) -> bool:
    codes = values.codes if isinstance(values, pd.Categorical) else np.nan_to_num(values, nan=-1.0)
    return bool(codes.min() != codes.max())


def _of_names(values: pd.Categorical) -> list[tuple[NDArray[np.floating], bool]]:
    return [((values.codes == code) - 0.5, True) for code in np.unique(values.codes)]


def _of_numbers(values: NDArray[np.floating], wide: bool) -> list[tuple[NDArray[np.floating], bool]]:
    numbers = np.asarray(values, np.float64)
    lacking = np.isnan(numbers)
    found: list[tuple[NDArray[np.floating], bool]] = []
    if lacking.any():
        found.append((np.where(lacking, -0.5, 0.5), True))
    levels = np.unique(numbers[~lacking])
    if len(levels) < 2:
        return found
    logs = np.log2(1.0 + numbers)
    low, high = np.log2(1.0 + levels[[0, -1]])
    found.append((np.where(lacking, 0.0, 2 * (logs - low) / (high - low) - 1), False))
    if not wide and 2 < len(levels) <= _FEW_VALUES:
        found += [(np.where(lacking, 0.0, (numbers >= level) - 0.5), True) for level in levels[1:]]
    return found


def _combined(points: Columns) -> NDArray[np.float32]:
    """Those of the features that vary, from -1 to 1."""
    blocks = range(0, points.count, _BLOCK)
    values = np.concatenate(
        [features_of_columns(points.rows(slice(begin, begin + _BLOCK)))[:, -_COMBINED:] for begin in blocks]
    )
    low, high = values.min(axis=0), values.max(axis=0)
    varied = high > low
    scaled: NDArray[np.float32] = 2 * (values[:, varied] - low[varied]) / (high - low)[varied] - 1
    return scaled
