"""Pictures of a sweep: heat maps and curves, the front, each field's trend and its share of the variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.designs.sensitivity import classes
from analysis.designs.table import fields_of, outcome_of
from analysis.results.figure import Axis, Bars, Figure, HeatMap, Lines, Panel, Points, label
from analysis.results.headline import time_unit
from support.errors import InputError
from support.text import nearest

_HEAT_CLASSES = 12


def plot(frame: pd.DataFrame, heat: Sequence[str] = ()) -> Figure:
    """Each program's predicted time or objective: a heat map over two fields, or a curve.

    Where more fields vary, the best over them is shown. Colours of heat maps are the same multiples of a program's
    least time, up to the largest of any program. Titles state the range.
    """
    fields = list(heat) or fields_of(frame)[:2]
    programs = list(dict.fromkeys(frame["program"]))
    outcome = outcome_of(frame)
    told, factor = "objective", 1.0
    if outcome == "seconds":
        unit, factor = time_unit(float(frame["seconds"].min()))
        told = f"{_of_source(frame)} time, {unit}"
    if not fields:  # one point
        heights = (frame[outcome] * factor).tolist()
        return Figure([Panel([Bars(told, programs, heights)], x=Axis(told, zero=True), sideways=True)])
    if len(fields) == 1:
        lines = [
            Lines(program, _places(part[fields[0]]), part[outcome] * factor, points=True)
            for program, part in ((str(name), frame[frame["program"] == name]) for name in programs)
        ]
        values = frame[fields[0]]
        wide = pd.api.types.is_numeric_dtype(values) and values.min() > 0 and values.max() >= 8 * values.min()
        return Figure([Panel(lines, x=Axis(fields[0], log=bool(wide)), y=Axis(told, zero=True))])
    tables = [heat_map(frame, program, fields[0], fields[1]) * factor for program in programs]
    ends = [(float(np.nanmin(table)), float(np.nanmax(table))) for table in tables]
    positive = all(low > 0 for low, _ in ends)  # an objective may be anything
    reach = max(high / low for low, high in ends) if positive else 0.0
    panels = []
    for program, table, (low, high) in zip(programs, tables, ends, strict=True):
        scale = (low, low * reach) if reach > 1 else None
        cells = HeatMap(
            list(table.columns), list(table.index), table.to_numpy(), told, numbers=table.size <= 64, scale=scale
        )
        title = f"{program}: {low:.4g} to {high:.4g}" + (f" (+{high / low - 1:.1%})" if positive else "")
        panels.append(Panel([cells], title, Axis(fields[0]), Axis(fields[1])))
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    return Figure(panels, columns=columns, width=5.0 * columns + 0.6, height=4.0 * rows)


def heat_fields(frame: pd.DataFrame, text: str | None, importance: pd.DataFrame) -> list[str]:
    """`FIELD,FIELD` of the command line; without it, of more than two fields, the two that matter most (`importance`).

    None for two fields or fewer, and where fewer than two matter. Raises InputError.
    """
    if text is None:
        if len(fields_of(frame)) <= 2:
            return []
        main = list(importance.groupby("field", sort=False)["first_order"].mean().nlargest(2).index)
        return [field for field in fields_of(frame) if field in main] if len(main) == 2 else []
    return require_heat(text, fields_of(frame))


def require_heat(text: str, varied: Sequence[str]) -> list[str]:
    """Return the two fields of `FIELD,FIELD`. Raises InputError where it is not that, or one is not `varied`."""
    fields = [word.strip() for word in text.split(",")]
    if len(fields) != 2 or fields[0] == fields[1]:
        raise InputError(f"--heat {text!r} must read FIELD,FIELD, two fields that vary")
    for field in fields:
        _require_varied(varied, field)
    return fields


def heat_map(frame: pd.DataFrame, program: str, x: str, y: str) -> pd.DataFrame:
    """The best outcome of a program over two fields: columns are x's values, rows y's, of many values classes.

    Raises InputError for a field that did not vary.
    """
    for field in (x, y):
        _require_varied(fields_of(frame), field)
    part = frame[frame["program"] == program]
    places, names = zip(*(classes(part[field], most=_HEAT_CLASSES) for field in (x, y)), strict=True)
    table = pd.DataFrame({"x": places[0], "y": places[1], "value": part[outcome_of(frame)].to_numpy()})
    result = table.pivot_table(index="y", columns="x", values="value", aggfunc="min")
    result.index = pd.Index([names[1][place] for place in result.index], name=y)
    result.columns = pd.Index([names[0][place] for place in result.columns], name=x)
    return result


def _require_varied(known: Sequence[str], field: str) -> None:
    if field not in known:
        hint = nearest(field, known) or f" (varied: {', '.join(known)})"
        raise InputError(f"{field} does not vary in this sweep{hint}")


def _places(values: pd.Series) -> Any:
    """Numbers, or the names of what is none."""
    return values if pd.api.types.is_numeric_dtype(values) else [label(value) for value in values]


def plot_front(frame: pd.DataFrame) -> Figure:
    """Time over cost: the points, and the Pareto front as a line."""
    marks: list[Points | Lines] = []
    fields = fields_of(frame)
    unit, factor = time_unit(float(frame["seconds"].min()))
    for program, part in frame.groupby("program", sort=False):
        cloud = part.sample(min(len(part), 3000), random_state=0)
        line = part[part["pareto"]].sort_values("cost")
        marks.append(Points(str(program), cloud["cost"], cloud["seconds"] * factor, _points(cloud, fields), faint=True))
        marks.append(
            Lines(
                str(program),
                line["cost"],
                line["seconds"] * factor,
                points=True,
                steps=True,
                text=_points(line, fields),
            )
        )
    return Figure([Panel(marks, x=Axis("cost"), y=Axis(f"{_of_source(frame)} time, {unit}"))], height=4.5)


def plot_front_points(rows: pd.DataFrame, field: str) -> Figure:
    """The points of a front without a cost: time over one field; the line goes through the fastest of each value."""
    marks: list[Points | Lines] = []
    unit, factor = time_unit(float(rows["seconds"].min()))
    fields = fields_of(rows)
    for program, part in rows.groupby("program", sort=False):
        best = part.sort_values("seconds").drop_duplicates(field).sort_values(field)
        marks.append(Points(str(program), part[field], part["seconds"] * factor, _points(part, fields), faint=True))
        marks.append(
            Lines(str(program), best[field], best["seconds"] * factor, points=True, text=_points(best, fields))
        )
    low, high = float(rows[field].min()), float(rows[field].max())
    axis = Axis(field, log=low > 0 and high >= 8 * low)
    return Figure([Panel(marks, x=axis, y=Axis(f"{_of_source(rows)} time, {unit}"))], height=4.0)


def plot_trends(frame: pd.DataFrame, importance: pd.DataFrame, most: int = 12) -> Figure:
    """The mean outcome over each field's values, a panel a field, the most important first; axes are alike."""
    outcome = outcome_of(frame)
    order = importance.groupby("field", sort=False)["first_order"].mean().sort_values(ascending=False).index[:most]
    programs = list(dict.fromkeys(frame["program"]))
    parts = {program: frame[frame["program"] == program] for program in programs}
    positive = bool((frame[outcome] > 0).all())
    title = ("time" if outcome == "seconds" else "objective") + (" / best" if positive else "")
    found: dict[str, list[Lines]] = {}
    for field in map(str, order):
        for program, part in parts.items():
            place, names = classes(part[field], most=_HEAT_CLASSES)
            value = part[outcome].to_numpy(float) / (float(part[outcome].min()) if positive else 1.0)
            number = np.bincount(place, minlength=len(names))
            mean = np.bincount(place, value, minlength=len(names))[number > 0] / number[number > 0]
            shown = [label(name) for name, own in zip(names, number, strict=True) if own]
            found.setdefault(field, []).append(Lines(str(program), shown, mean, points=True))
    ends = [float(end) for lines in found.values() for line in lines for end in np.asarray(line.y)]
    room = 0.06 * (max(ends) - min(ends)) or 0.05 * abs(max(ends))
    axis = Axis(title, range=(min(ends) - room, max(ends) + room))
    panels = [Panel(lines, x=Axis(field), y=axis) for field, lines in found.items()]
    columns = min(3, len(panels))
    return Figure(panels, columns, width=4.0 * columns, height=0.5 + 2.7 * -(-len(panels) // columns))


def plot_sensitivity(importance: pd.DataFrame, most: int = 12) -> Figure:
    """The first-order index of the fields that matter most, programs beside one another."""
    order = importance.groupby("field", sort=False)["first_order"].mean().nlargest(most).index
    bars = []
    for program, part in importance.groupby("program", sort=False):
        rows = part.set_index("field").loc[order]
        text = [f"best at {label(best)}" for best in rows["best"]]
        bars.append(Bars(str(program), [str(field) for field in order], rows["first_order"], text=text))
    height = 1.2 + 0.16 * len(order) * (1 + len(bars))
    return Figure([Panel(bars, x=Axis("share of the variance explained", zero=True), sideways=True)], height=height)


def _points(frame: pd.DataFrame, fields: Sequence[str]) -> list[str]:
    """Return each point's name: the first six fields that vary."""
    shown = list(fields[:6])
    rows = zip(*(frame[field] for field in shown), strict=True)
    return [", ".join(f"{field} {label(value)}" for field, value in zip(shown, row, strict=True)) for row in rows]


def _of_source(frame: pd.DataFrame) -> str:
    return "simulated" if (frame["source"] == "simulated").all() else "predicted"
