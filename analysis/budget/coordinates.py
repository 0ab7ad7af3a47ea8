"""Coordinates of the points of a design: what a surface over them reads of each.

A number is its logarithm and, where it has few values, besides a step at each: a machine is as slow as its narrowest
part, so that beyond some value a field often changes nothing. Names are one-hot, what a machine lacks is 0. Where many
fields vary, what a model predicts is one more, of which a surface learns how far it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfvec.machines.features import features_of_columns
from uarch.columns import Columns

_FEW_VALUES = 8  # of a field: a step at each. Of more, steps cost more points than they are worth
_FEW_FIELDS = 12  # that vary; of more, what they mean together is added, and no steps
_COMBINED = range(70, 93)  # of `perfvec.machines.features.features`: of several fields, or of memory in common units
_BLOCK = 1 << 16
MODEL = "the model"
_STILL = 1e-6  # deviation of the logarithms: a model that tells nothing apart


@dataclass(frozen=True)
class Coordinates:
    """`values` [n, F], from -1 to 1 over the design; `steps` [F] which are one of two values; how many `fields` they
    stand for. Of a wide design, of many fields, the coordinates have `names`.
    """

    values: NDArray[np.float32]
    steps: NDArray[np.bool_]
    fields: int
    names: tuple[str, ...] = ()

    def with_model(self, cycles: NDArray[np.float64], count: int | None = None) -> Coordinates:
        """Return these and, of a wide design, the logarithm of the cycles [n] that a model predicts, as the last one:
        less its mean, in its standard deviations, both over the first `count` points.
        """
        log = np.log(np.maximum(cycles, 1.0))
        some = log[:count]
        if not self.names or some.std() < _STILL:
            return self
        last = ((log - some.mean()) / some.std()).astype(np.float32)
        return replace(
            self,
            values=np.column_stack([self.values, last]),
            steps=np.append(self.steps, False),
            fields=self.fields + 1,
            names=(*self.names, MODEL),
        )


def coordinates(points: Columns, count: int | None = None) -> Coordinates:
    """Return the coordinates of every point, from the fields that vary among them, or among the first `count`.

    Where many fields vary the encoder's features that combine several (memory's latency in cycles, the narrowest
    width, misses in flight, …; `perfvec.machines.features`) are added, each as a field of its own.
    """
    count = points.count if count is None else count
    fields = [field for field in points.varied if _differs(points[field][:count])]
    wide = len(fields) > _FEW_FIELDS
    columns: list[NDArray[np.floating]] = []
    steps: list[bool] = []
    names: list[str] = []
    stands_for = len(fields)
    for field in fields:
        values = points[field]
        named = isinstance(values, pd.Categorical)
        for name, column in _of_names(values, count) if named else _of_numbers(values, wide, count):
            columns.append(column.astype(np.float32))
            steps.append(bool(name))
            names.append(f"{field} {name}".strip())
    if wide:
        for name, column in _combined(points, count):
            columns.append(column)
            steps.append(False)
            names.append(name)
            stands_for += 1
    if not columns:  # all points are equal
        columns, steps, stands_for = [np.zeros(points.count, np.float32)], [False], 1
    return Coordinates(np.stack(columns, axis=1), np.array(steps), stands_for, tuple(names) if wide else ())


def _differs(values: NDArray | pd.Categorical) -> bool:
    codes = values.codes if isinstance(values, pd.Categorical) else np.nan_to_num(values, nan=-1.0)
    return bool(codes.min() != codes.max())


_Named = list[tuple[str, NDArray[np.floating]]]  # with a name: one of two values


def _of_names(values: pd.Categorical, count: int) -> _Named:
    names = {code: str(values.categories[code]) if code >= 0 else "none" for code in np.unique(values.codes[:count])}
    return [(name, (values.codes == code) - 0.5) for code, name in names.items()]


def _of_numbers(values: NDArray[np.floating], wide: bool, count: int) -> _Named:
    numbers = np.asarray(values, np.float64)
    lacking = np.isnan(numbers)
    found: _Named = []
    if lacking[:count].any():
        found.append(("present", np.where(lacking, -0.5, 0.5)))
    levels = np.unique(numbers[:count][~lacking[:count]])
    if len(levels) < 2:
        return found
    logs = np.log2(1.0 + numbers)
    low, high = np.log2(1.0 + levels[[0, -1]])
    found.append(("", np.where(lacking, 0.0, 2 * (logs - low) / (high - low) - 1)))
    if not wide and 2 < len(levels) <= _FEW_VALUES:
        found += [(f">= {level:g}", np.where(lacking, 0.0, (numbers >= level) - 0.5)) for level in levels[1:]]
    return found


def _combined(points: Columns, count: int) -> list[tuple[str, NDArray[np.float32]]]:
    """Return those of the features that vary, from -1 to 1."""
    blocks = range(0, points.count, _BLOCK)
    values = np.concatenate(
        [features_of_columns(points.rows(slice(begin, begin + _BLOCK)))[:, _COMBINED] for begin in blocks]
    )
    low, high = values[:count].min(axis=0), values[:count].max(axis=0)
    return [
        (f"feature {_COMBINED[number]}", 2 * (values[:, number] - low[number]) / (high[number] - low[number]) - 1)
        for number in np.flatnonzero(high > low).tolist()
    ]
