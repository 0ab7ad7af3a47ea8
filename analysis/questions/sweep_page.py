"""A sweep as a page: the best point in a sentence, and sections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.designs.table import fields_of, is_of_time_alone, outcome_of, told_sources
from analysis.questions.sweep_figures import plot, plot_front, plot_front_points, plot_sensitivity, plot_trends
from analysis.results.figure import label
from analysis.results.headline import Headline, duration, interval, joined, percent
from analysis.results.intervals import readable, told_of_best
from analysis.results.page import Section
from perfvec.intervals.level import DEFAULT_LEVEL
from uarch.columns import of_machine
from uarch.configuration import Machine

_MOST_IN_PAGE = 2000


def headline(
    frame: pd.DataFrame,
    chosen: pd.DataFrame,
    importance: pd.DataFrame,
    base: Machine | None = None,
    level: float = DEFAULT_LEVEL,
    *,
    searched: bool = False,
) -> Headline:
    """The best point for the programs together, beside the base, and the field that matters most.

    Together: by the sum of the logarithms of the outcomes, or of the outcomes where some are not positive.
    """
    outcome, programs = outcome_of(frame), list(dict.fromkeys(map(str, frame["program"])))
    values = frame[outcome].to_numpy(float).reshape(len(programs), -1)
    together = (np.log(values) if (values > 0).all() else values).sum(axis=0)
    place = int(together.argmin())
    point, fields = frame.iloc[place], fields_of(frame)
    matter = importance.groupby("field", sort=False)["first_order"].mean().sort_values(ascending=False)
    named = [f"{field} {label(point[field])}" for field in matter.index if point[field] == point[field]][:3]
    told = joined(named) if named else "The one found"
    if named and len(fields) > 3:
        told = f"A machine with {told}"
    number, unit = duration(float(point["seconds"])) if outcome == "seconds" else (f"{point[outcome]:.4g}", "objective")
    sentence = f"{told} is the best of {values.shape[1]:,} points for {joined(programs)}"
    own = _row_of(frame.iloc[: values.shape[1]], base)
    if own is not None and base is not None and (values > 0).all():
        less = 1 - float(np.exp((together[place] - together[own]) / len(programs)))
        tied = "is this point" if own == place else f"is as {'fast' if outcome == 'seconds' else 'good'}"
        sentence += f", {percent(less)} below {base.name}" if less > 0 else f"; {base.name} {tied}"
    elif (values > 0).all():
        worst = float(np.exp((together.max() - together[place]) / len(programs)))
        sentence += f"; the worst is {worst:.2f} times as high"
    if len(matter) > 1 and matter.iloc[0] > 0 and not searched:
        sentence += f". {matter.index[0]} matters most: {percent(float(matter.iloc[0]))} of the variance"
    source = str(point["source"])
    if outcome == "seconds" and place in chosen.index:
        row = chosen[chosen.index == place].iloc[0]
        if "low" in row:
            source += f", {interval(float(row['seconds']), float(row['low']), float(row['high']), level)}"
    if values.shape[1] > 1:
        source += f" (all points: {told_sources(frame)})"
    return Headline(number, unit if len(programs) == 1 else f"{unit} for {programs[0]}", f"{sentence}.", source)


def _row_of(points: pd.DataFrame, base: Machine | None) -> int | None:
    """The row that is the base itself, if one is."""
    if base is None:
        return None
    flat = of_machine(base)
    same = np.ones(len(points), bool)
    for field in fields_of(points):
        same &= np.asarray(points[field] == flat.get(field))
    return int(np.flatnonzero(same)[0]) if same.any() else None


def sections(
    frame: pd.DataFrame,
    chosen: pd.DataFrame,
    importance: pd.DataFrame,
    heat: Sequence[str] = (),
    *,
    searched: bool = False,
) -> list[Section]:
    """The parts of the HTML report; of more than a page's points only the front and the best.

    `searched`: the points are where a search looked, so that fields are not independent.
    """
    kept = frame if len(frame) <= _MOST_IN_PAGE else frame.loc[frame.index[frame["pareto"]].union(chosen.index)]
    kept = kept.head(_MOST_IN_PAGE)
    told = "A cell is the best over the other fields." if heat else ""
    if len(kept) < len(frame):
        told = f"{len(frame):,} points; the numbers of the front and the best are below. {told}".rstrip()
    source = told_sources(frame)
    parts = [
        Section("Time" if outcome_of(frame) == "seconds" else "Objective", told, plot(frame, heat), kept, source=source)
    ]
    text = "Share of the variance that a field alone explains (first-order Sobol' index); those of tied fields overlap."
    if searched:
        text = "Share of the variance over the points that the search tried: fields go together, so shares overlap."
    if len(importance):
        parts.append(Section("What matters", text, plot_sensitivity(importance), importance, source=source))
    parts.append(_front_section(frame, importance, source))
    text = f"The best of each program come first. {told_of_best(chosen)}"
    parts.append(Section("Best points", text, table=_fields_first(readable(chosen)), source=source))
    text = "Mean time of all points with this value (of many: of a class at its middle one), over the best time. "
    text += "A flat line: the field does not matter."
    if len(fields_of(frame)) > 1 and len(importance):
        parts.append(Section("Trend of each field", text, plot_trends(frame, importance), source=source, wide=True))
    return parts


def _front_section(frame: pd.DataFrame, importance: pd.DataFrame, source: str) -> Section:
    """The Pareto front: over the cost, or over the size of every field."""
    if "cost" in frame:
        text = "The line is the Pareto front: no other point is both as fast and as cheap."
        return Section("Pareto front: time over cost", text, plot_front(frame), source=source)
    front_rows = frame[frame["pareto"]].sort_values(["program", "seconds"], kind="stable").head(_MOST_IN_PAGE)
    table = _fields_first(readable(front_rows).drop(columns="pareto"))
    if is_of_time_alone(frame):
        text = "Over so many fields or points no front is told; these are the fastest."
        return Section("Fastest points", text, table=table, source=source)
    text = "No other point is as fast with nothing larger, and no latency shorter."
    order = importance.groupby("field", sort=False)["first_order"].mean().sort_values(ascending=False).index
    sizes = [str(field) for field in order if pd.api.types.is_numeric_dtype(frame[field])]
    if not sizes or len(front_rows) <= frame["program"].nunique():
        return Section("Pareto front", text, None, table, source=source)
    text += f" Drawn over {sizes[0]}, the number that matters most; the others are told where you point."
    return Section("Pareto front", text, plot_front_points(front_rows, sizes[0]), table, source=source)


def _fields_first(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the program and the fields, which tell points apart, before the results."""
    results = ("time, ", "from, ", "to, ", "change", "cost", "objective", "pareto", "source", "cycles")
    behind = [column for name in results for column in table.columns if str(column).startswith(name)]
    fields = [column for column in table.columns if column not in {"program", *behind}]
    return table[["program", *fields, *behind]].reset_index(drop=True)
