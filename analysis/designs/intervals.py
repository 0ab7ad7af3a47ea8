"""Confidence intervals of a sweep's best points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.programs.targets import Target
from perfvec.intervals.level import DEFAULT_LEVEL
from perfvec.intervals.novelty import feature_neighbours
from perfvec.intervals.predicted import around, half_widths
from perfvec.machines.columns import partly_unseen
from perfvec.machines.features import features_of_columns
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from uarch.columns import Columns


def of_points(
    model: Model,
    programs: Sequence[ProgramVector | None],
    points: Columns,
    chosen: pd.DataFrame,
    level: float = DEFAULT_LEVEL,
) -> pd.DataFrame:
    """`chosen`, few rows of the table that a sweep (`sweep.run`) made of these programs and points (as `best` gives
    them), with the ends of their interval: `low` and `high` in seconds.

    NaN where the model is not calibrated for zero-shot machines, or has no input of a field that a point has. An
    interval is of one point's time: what the points share (a program that is missed is missed on all) says nothing of
    which is the faster.
    """
    assert model.encoder is not None
    found = chosen.assign(low=np.nan, high=np.nan)
    for number, program in enumerate(programs):
        mine = np.flatnonzero(chosen.index // points.count == number)
        if not mine.size or program is None:
            continue
        own = points.rows(chosen.index[mine].to_numpy() % points.count)
        features = features_of_columns(own)
        near = feature_neighbours(model, features)
        assert near is not None
        (width,) = half_widths(model, [program], ["encoder"] * len(mine), near.relative(), level)
        width[partly_unseen(own)] = np.nan
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
