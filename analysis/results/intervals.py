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


def changes(frame: pd.DataFrame) -> list[str]:
    """`change` of each row in per cent, with half of its interval in points where it is known: "-2.2% ±0.3"; "" where
    there is none.
    """
    halves = (frame["change_high"] - frame["change_low"]) / 2
    return [_change(100 * change, 100 * half) for change, half in zip(frame["change"], halves, strict=True)]


def _change(change: float, half: float) -> str:
    if math.isnan(change):
        return ""
    places = 1 if not half >= 10 else 0
    told = f"{round(change, places) + 0.0:+.{places}f}%"  # a zero is not negative
    return f"{told} ±{half:.{places}f}" if half > 0 else told


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
    told = "The columns from and to are the interval of the time."
    return f"{told} A change's is narrower, for a change is told better." if "change" in chosen else told


def readable(chosen: pd.DataFrame) -> pd.DataFrame:
    """The table with its times, and the ends of their intervals, in the unit in which the shortest is at least 1.

    Ends that are all the times themselves are left out. Changes are text, with their intervals.
    """
    if "change" in chosen:
        chosen = chosen.assign(change=changes(chosen)).drop(columns=["change_low", "change_high"])
    if "low" in chosen and not (chosen["low"] < chosen["high"]).any():
        chosen = chosen.drop(columns=["low", "high"])
    unit, factor = time_unit(float(chosen["seconds"].min()))
    found = {"seconds": "time", "low": "from", "high": "to"}
    names = {name: f"{head}, {unit}" for name, head in found.items() if name in chosen}
    return chosen.assign(**{name: chosen[name] * factor for name in names}).rename(columns=names)
