"""Sensitivity to each field over a sweep's points: first-order Sobol' indices from given data.

The index of field X is the share of the outcome's variance that its conditional mean explains,
S = Var(E[Y | X]) / Var(Y) (Sobol', Mathematical Modelling and Computational Experiment 1993). On a full grid it is
exact. On sampled points the values of a number are cut into classes of equal size, as in Plischke, Borgonovo & Smith
(European Journal of Operational Research 226, 2013), and what chance alone would explain is taken off: for C
classes of n points (C − 1) / (n − C) of the unexplained rest (the adjusted R² of a one-way analysis of variance).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_CLASSES = 32
_LEAST = 8  # points in a class


def sensitivity(
    frame: pd.DataFrame, fields: Sequence[str], outcome: str, *, exact: bool, searched: bool = False
) -> pd.DataFrame:
    """One row per program and field, the most important first.

    Columns: `program`, `field`, `first_order` (0 to 1), `best` (the value, or the middle of the class, with the least
    mean outcome) and `range` (largest mean outcome over the least, if that is above 0, else NaN). `exact`: the points
    are a full grid. `searched`: they are where a search looked, so that means compare unlike points, `best` is the best
    point's value, and a field with one value in all of them has no row.
    """
    rows = []
    for program, part in frame.groupby("program", sort=False):
        y = part[outcome].to_numpy(float)
        found: list[dict[str, Any]] = []
        for field in fields:
            if searched and part[field].nunique(dropna=False) == 1:
                continue
            most = max(2, min(_CLASSES, len(part) // _LEAST))
            place, values = classes(part[field], exact=exact, most=most)
            count = np.bincount(place, minlength=len(values))
            mean = np.bincount(place, y, minlength=len(values)) / np.maximum(count, 1)
            share = first_order(y, place, exact=exact)
            ordered = np.where(count > 0, mean, np.nan)
            least = int(np.nanargmin(ordered))
            found.append(
                {
                    "program": program,
                    "field": field,
                    "first_order": share,
                    "best": _plain(part[field].iloc[int(y.argmin())]) if searched else values[least],
                    "range": float(np.nanmax(ordered) / ordered[least]) if ordered[least] > 0 else np.nan,
                }
            )
        rows += sorted(found, key=lambda row: -row["first_order"])
    numbers = {"first_order": float, "range": float}  # where there is no row, too
    return pd.DataFrame(rows, columns=["program", "field", "first_order", "best", "range"]).astype(numbers)


def _plain(value: Any) -> object:
    """Return a value of a table as Python has it, `none` where there is none."""
    return "none" if pd.isna(value) else value.item() if hasattr(value, "item") else value


def first_order(y: NDArray[np.float64], place: NDArray[np.int64], *, exact: bool) -> float:
    """Var(E[Y | class]) / Var(Y) of the points' outcomes [n] and classes [n]; 0 where nothing varies."""
    count = np.bincount(place)
    count, total = count[count > 0], np.bincount(place, y)[count > 0]
    variance = float(((y - y.mean()) ** 2).sum())
    if variance <= 1e-24 * float((y**2).sum()):
        return 0.0
    explained = float((count * (total / count - y.mean()) ** 2).sum()) / variance
    if not exact and len(y) > len(count):
        explained -= (1.0 - explained) * (len(count) - 1) / (len(y) - len(count))
    return min(max(explained, 0.0), 1.0)


def classes(values: pd.Series, *, exact: bool = False, most: int = _CLASSES) -> tuple[NDArray[np.int64], list[object]]:
    """[n] class of each value, and what stands for each class: the value itself, or a class's median.

    A number without a value (of a machine that lacks the field) is a class of its own, `none`.
    """
    number = pd.api.types.is_numeric_dtype(values)
    code, distinct = pd.factorize(values, sort=number, use_na_sentinel=True)
    names: list[object] = [value.item() if hasattr(value, "item") else value for value in distinct]
    if number and not exact and len(distinct) > most:
        numbers = values.to_numpy(float)
        edges = np.unique(np.nanquantile(numbers, np.linspace(0, 1, most + 1)))
        code = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
        code = np.where(np.isnan(numbers), -1, code)
        medians = pd.Series(numbers).groupby(code).quantile(0.5, interpolation="lower")  # values that occur
        names = [
            medians.get(number, float((edges[number] + edges[number + 1]) / 2)) for number in range(len(edges) - 1)
        ]
    if (code < 0).any():
        code, names = np.where(code < 0, len(names), code), [*names, "none"]
    return code.astype(np.int64), names
