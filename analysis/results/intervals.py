"""Confidence intervals in tables: in per cent, or as two columns."""

from __future__ import annotations

import math

import pandas as pd

from analysis.results.headline import time_unit


def relative(frame: pd.DataFrame, of: str) -> list[str]:
    """`low` and `high` of each row in per cent below and above its prediction, the column `of`: "-12% +14%"; "" where
    there is none or the two are equal.
    """
    ends = ((frame[end] / frame[of] - 1) * 100 for end in ("low", "high"))
    return ["" if math.isnan(low) or low == high else _ends(low, high) for low, high in zip(*ends, strict=True)]


def _ends(low: float, high: float) -> str:
    places = 0 if high - low >= 4 else 1
    return f"{low:+.{places}f}% {high:+.{places}f}%"


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
