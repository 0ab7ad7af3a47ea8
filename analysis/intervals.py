"""Confidence intervals of predictions, in tables: intervals in per cent, and those of a sweep's best points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.headline import time_unit
from analysis.targets import Target
from perfvec.intervals.level import DEFAULT_LEVEL
from perfvec.intervals.novelty import feature_neighbours
from perfvec.intervals.predicted import around, half_widths
from perfvec.machines.columns import features_of_columns
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from uarch.columns import Columns


def relative(frame: pd.DataFrame, of: str) -> list[str]:
    """`low` and `high` of each row in per cent below and above its prediction, the column `of`: "-12% +14%"; "" where
    there is none or the two are equal.
    """
    ends = ((frame[end] / frame[of] - 1) * 100 for end in ("low", "high"))
    return ["" if math.isnan(low) or low == high else _ends(low, high) for low, high in zip(*ends, strict=True)]


def _ends(low: float, high: float) -> str:
    places = 0 if high - low >= 4 else 1
    return f"{low:+.{places}f}% {high:+.{places}f}%"


def of_points(
    model: Model,
    programs: Sequence[ProgramVector | None],
    points: Columns,
    chosen: pd.DataFrame,
    level: float = DEFAULT_LEVEL,
) -> pd.DataFrame:
    """`chosen`, few rows of the table that `analysis.sweep.run` made of these programs and points (as `best` gives
    them), with the ends of their interval: `low` and `high` in seconds.

    NaN where the model is not calibrated for zero-shot machines. An interval is of one point's time: what the points
    share (a program that is missed is missed on all) says nothing of which is the faster.
    """
    assert model.encoder is not None
    found = chosen.assign(low=np.nan, high=np.nan)
    for number, program in enumerate(programs):
        mine = np.flatnonzero(chosen.index // points.count == number)
        if not mine.size or program is None:
            continue
        features = features_of_columns(points.rows(chosen.index[mine].to_numpy() % points.count))
        near = feature_neighbours(model, features)
        assert near is not None
        (width,) = half_widths(model, [program], ["encoder"] * len(mine), near.relative(), level)
        sampling = program.sampling.half_width(model.encoder.encode(features), level) if program.sampling else 0.0
        cycles, seconds = (chosen[column].to_numpy(float)[mine] for column in ("cycles", "seconds"))
        for name, end in zip(("low", "high"), around(cycles, width, sampling), strict=True):
            found.iloc[mine, list(found.columns).index(name)] = end / cycles * seconds
    return found


def of_best(
    model: Model, targets: Sequence[Target], points: Columns, chosen: pd.DataFrame, level: float = DEFAULT_LEVEL
) -> pd.DataFrame:
    """Return the `chosen` points of a sweep (as `best` gives them) with their intervals, `low` and `high` in seconds:
    those that the table has, and the model's of points that it answered for.
    """
    if "low" not in chosen:
        chosen = chosen.assign(low=np.nan, high=np.nan)
    alone = chosen["source"] == "zero-shot"
    if alone.any():
        programs = [
            target.vector if alone[chosen.index // points.count == number].any() else None
            for number, target in enumerate(targets)
        ]
        chosen[alone] = of_points(model, programs, points, chosen[alone], level)
    return chosen


def told_of_best(chosen: pd.DataFrame) -> str:
    """Return a page's sentence on the intervals of the best points."""
    if "low" not in chosen:
        return ""
    if chosen["low"].isna().any():
        return "Points without an interval: too few were simulated, or the model has no calibration for them."
    if not (chosen["low"] < chosen["high"]).any():
        return ""
    return "The columns from and to are the interval of the time."


def readable(chosen: pd.DataFrame) -> pd.DataFrame:
    """The table with its times, and the ends of their intervals, in the unit in which the shortest is at least 1.

    Ends that are all the times themselves are left out.
    """
    if "low" in chosen and not (chosen["low"] < chosen["high"]).any():
        chosen = chosen.drop(columns=["low", "high"])
    unit, factor = time_unit(float(chosen["seconds"].min()))
    found = {"seconds": "time", "low": "from", "high": "to"}
    names = {name: f"{head}, {unit}" for name, head in found.items() if name in chosen}
    return chosen.assign(**{name: chosen[name] * factor for name in names}).rename(columns=names)
