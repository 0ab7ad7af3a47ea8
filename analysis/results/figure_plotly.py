"""Figures for a page: `figure.py` as plotly.js's JSON, and plotly.js itself, packed, from the installed package.

Colours of text, grid and background are left to the page, which knows whether it is light or dark.
"""

from __future__ import annotations

import base64
import html
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.results.figure import (
    DIVERGING,
    FEW,
    PALETTE,
    Axis,
    Bars,
    Dendrogram,
    Figure,
    FloatingBars,
    HeatMap,
    Lines,
    Mark,
    Panel,
    Points,
    ReferenceLine,
    categories,
    label,
)

_INCH = 96  # CSS pixels
_GAP = 0.1  # of the width between panels beside one another: room for their ticks
_SCALE = 0.09  # of the width: a heat map's colour scale
_PHONE, _ROW = 220, 29  # pixels: the width of a legend on a phone, and the height of its rows
_BETWEEN, _MARGINS = 98, 116  # pixels: between rows, for ticks, their title and a panel's; above and below all
_TITLE = 24  # pixels of a panel's title
_LETTER, _KEY = 7, 46  # pixels: of a letter, and of a colour with its gap, in a legend
_FEW_DIGITS, _FEW_DECADES = 0.7, 2.5  # decades of a logarithmic axis up to which every digit, and 1, 2, 5 have a tick
_LABEL, _LINE = 0.02, 0.06  # of a panel's width and height: a letter of a point's label, and its line
_AROUND = (("top right", 0, 1), ("bottom right", 0, -1), ("top left", 1, 1), ("bottom left", 1, -1))
Trace = dict[str, Any]


@cache
def packed_library() -> str:
    """plotly.min.js, deflated, in base64: 1.9 MB instead of 4.8 MB."""
    code = resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    return base64.b64encode(zlib.compress(code, 9)).decode("ascii")


def document(figure: Figure) -> dict[str, Any]:
    """`data` and `layout` of plotly.js; only JSON's own types (NaN is null).

    `crowded`: panels stand beside one another whose names or colour scales need more than a small screen's width.
    """
    colours = figure.colours()
    traces: list[Trace] = []
    layout: dict[str, Any] = {
        "height": _height(figure),
        "barmode": "group",
        "bargap": 0.2,
        "hovermode": "closest",
        "margin": {"l": 60, "r": 20, "t": 36, "b": 50},
        "annotations": [],
        "shapes": [],
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
    }
    for number, panel in enumerate(figure.panels):
        where = _domain(figure, number)
        names = _axes(layout, number, panel, where)
        if panel.stacked:
            layout["barmode"] = "relative"
        for mark in panel.marks:
            colour = colours.get(getattr(mark, "name", ""), PALETTE[0])
            for trace in _traces(mark, panel, colour, where):
                traces.append(trace | {"xaxis": names[0], "yaxis": names[1]})
            if isinstance(mark, ReferenceLine):
                layout["shapes"].append(_rule(mark, colour, names))
        if panel.title:
            layout["annotations"].append(
                {
                    "text": _escaped(panel.title),
                    "showarrow": False,
                    "xref": "paper",
                    "yref": "paper",
                    "x": (where[0] + where[1]) / 2,
                    "y": where[3],
                    "xanchor": "center",
                    "yanchor": "bottom",
                    "font": {"size": 14},
                }
            )
    _one_entry_a_name(traces)
    if any(trace["showlegend"] for trace in traces):
        layout["margin"]["t"] += 30
    if any(panel.title for panel in figure.panels):  # above the titles; in heights of the plot without its margins
        layout["legend"]["y"] = 1 + _TITLE / (layout["height"] - layout["margin"]["t"] - layout["margin"]["b"])
    wide = any(panel.sideways or any(isinstance(mark, HeatMap) for mark in panel.marks) for panel in figure.panels)
    return {"data": traces, "layout": layout, "crowded": figure.columns > 1 and wide}


def narrow(figure: Figure) -> dict[str, Any]:
    """Differences of `document` on a phone: the layout, panels below one another, and heat maps' scales.

    Room is added for the rows that a legend takes there.
    """
    stacked = replace(figure, columns=1, height=figure.height / figure.rows * len(figure.panels))
    found = document(stacked)
    layout = found["layout"]
    shown = sum(len(trace["name"]) * _LETTER + _KEY for trace in found["data"] if trace["showlegend"])
    layout["height"] += _ROW * int(shown / _PHONE) + 20
    layout["margin"] |= {"l": 30, "r": 24, "b": layout["margin"]["b"] + 20}  # a title of two lines
    scales = any(trace["type"] == "heatmap" for trace in found["data"])
    return {"layout": layout} | ({"data": found["data"]} if figure.columns > 1 and scales else {})


def _height(figure: Figure) -> int:
    """Pixels; rows of panels need more than the same rows of a picture for what stands between them."""
    return round(figure.height * _INCH) + _BETWEEN // 2 * (figure.rows - 1)


def _domain(figure: Figure, number: int) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of a panel in the whole, from 0 to 1; a colour scale's room is taken off."""
    row, column = divmod(number, figure.columns)
    wide = (1 - _GAP * (figure.columns - 1)) / figure.columns
    gap = min(_BETWEEN / (_height(figure) - _MARGINS), 0.4) if figure.rows > 1 else 0.0
    high = (1 - gap * (figure.rows - 1)) / figure.rows
    left, top = column * (wide + _GAP), 1 - row * (high + gap)
    scale = _SCALE if any(isinstance(mark, HeatMap) for mark in figure.panels[number].marks) else 0.0
    return left, min(left + wide, 1.0) - scale, max(top - high, 0.0), top


def _axes(
    layout: dict[str, Any], number: int, panel: Panel, where: tuple[float, float, float, float]
) -> tuple[str, str]:
    suffix = "" if number == 0 else str(number + 1)
    for letter, axis, other, domain in (("x", panel.x, "y", where[:2]), ("y", panel.y, "x", where[2:])):
        given: dict[str, Any] = {
            "domain": list(domain),
            "anchor": f"{other}{suffix}",
            "title": {"text": _escaped(axis.title), "standoff": 8},
            "automargin": True,
            "zeroline": False,
        }
        if axis.log:
            given |= {"type": "log", "exponentformat": "power", "dtick": _log_ticks(panel, letter)}
        if axis.zero:
            given["rangemode"] = "tozero"
        if axis.range is not None:
            given["range"] = list(axis.range)
        layout[f"{letter}axis{suffix}"] = given
    names = categories(panel)
    heat = [mark for mark in panel.marks if isinstance(mark, HeatMap)]
    if names:
        bars = any(isinstance(mark, Bars) for mark in panel.marks)
        on_y = panel.sideways or not bars
        side = layout[f"{'y' if on_y else 'x'}axis{suffix}"]
        side |= {"type": "category", "categoryorder": "array", "categoryarray": _plain(names)}
        if on_y:
            side["autorange"] = "reversed"  # the first category on top
            side["ticklabelstandoff"] = 4
    for letter in "xy":
        side = layout[f"{letter}axis{suffix}"]
        if heat:
            values = [_escaped(label(value)) for value in getattr(heat[0], letter)]
            side |= {"type": "category", "categoryorder": "array", "categoryarray": values, "showgrid": False}
        elif any(isinstance(mark, Lines | Points) and not _numeric(getattr(mark, letter)) for mark in panel.marks):
            side["type"] = "category"
    for mark in panel.marks:
        if isinstance(mark, Dendrogram):
            distance, _, leaves = mark.branches()
            layout[f"xaxis{suffix}"]["range"] = [0, 1.02 * float(distance.max()) or 1.0]
            layout[f"yaxis{suffix}"] |= {
                "tickmode": "array",
                "tickvals": [5 + 10 * k for k in range(len(leaves))],
                "ticktext": _plain(leaves),
                "showgrid": False,
                "range": [0, 10 * len(leaves)],
            }
    return f"x{suffix}", f"y{suffix}"


def _log_ticks(panel: Panel, letter: str) -> str | int:
    """Return plotly's name for ticks at every digit, at 1, 2 and 5, or at decades: what the values leave room for."""
    own = [np.ravel(getattr(mark, letter)) for mark in panel.marks if isinstance(mark, Lines | Points)]
    values = np.concatenate([part for part in own if _numeric(part)] or [np.ones(1)]).astype(float)
    values = values[np.isfinite(values) & (values > 0)]
    decades = float(np.log10(values.max() / values.min())) if len(values) else 0.0
    return "D1" if decades < _FEW_DIGITS else "D2" if decades < _FEW_DECADES else 1


def _places(x: ArrayLike, y: ArrayLike, text: Sequence[str], axes: tuple[Axis, Axis]) -> list[str]:
    """Return where each point's label stands (plotly's `textposition`): inside the panel, and off those before it."""
    (across, right), (up, _) = (_within(values, axis) for values, axis in zip((x, y), axes, strict=True))
    taken: list[tuple[float, float, float]] = []  # left end, right end, height
    found = []
    for a, b, name in zip(across, up, text, strict=True):
        long, places = _LABEL * len(name), []
        for place, left, side in _AROUND:
            begin, height = a - left * long, b + side * _LINE / 2
            clash = sum(begin < end and first < begin + long and abs(height - at) < _LINE for first, end, at in taken)
            outside = begin < 0 or begin + long > right
            places.append((outside, clash, place, (begin, begin + long, height)))
        _, _, place, box = min(places, key=lambda one: one[:2])
        taken.append(box)
        found.append(place)
    return found


def _within(values: ArrayLike, axis: Axis) -> tuple[NDArray[np.float64], float]:
    """Return values as shares of their range on an axis, and where the axis ends: plotly leaves a margin."""
    numbers = np.asarray(values, float)
    low = min(float(numbers.min()), 0.0) if axis.zero else float(numbers.min())
    return (numbers - low) / max(float(numbers.max()) - low, 1e-30), 1.06


def _traces(mark: Mark, panel: Panel, colour: str, where: tuple[float, float, float, float]) -> list[Trace]:
    if isinstance(mark, Lines):
        return _lines(mark, panel, colour)
    if isinstance(mark, Points):
        size, opacity = (8, 1.0) if not mark.faint else (6, 0.7) if np.size(mark.x) <= FEW else (4, 0.35)
        return [
            {
                "type": "scatter",
                "mode": "markers+text" if mark.labelled else "markers",
                "name": _escaped(mark.name),
                "x": _plain(mark.x),
                "y": _plain(mark.y),
                "textposition": _places(mark.x, mark.y, mark.text, (panel.x, panel.y))
                if mark.labelled
                else "top right",
                "cliponaxis": False,
                "marker": {"color": colour, "size": size, "opacity": opacity},
                **_hover(panel, mark.text, mark.x, mark.y),
            }
        ]
    if isinstance(mark, Bars):
        return [_bars(mark, panel, colour)]
    if isinstance(mark, FloatingBars):
        begin, end, name = np.asarray(mark.begin, float), np.asarray(mark.end, float), _escaped(mark.name)
        return [
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "base": _plain(begin),
                "x": _plain(end - begin),
                "y": [_escaped(mark.row)] * len(begin),
                "marker": {"color": colour},
                "width": 0.8,
                "offset": -0.4,
                "customdata": _plain(end),
                "showlegend": mark.name != mark.row,
                "hovertemplate": f"%{{base:,}} to %{{customdata:,}}{_unit(panel.x)}<extra>{name}</extra>",
            }
        ]
    if isinstance(mark, HeatMap):
        return [_heat_map(mark, panel, where)]
    if isinstance(mark, Dendrogram):
        distance, height, _ = mark.branches()
        x = np.concatenate([distance, np.full((len(distance), 1), np.nan)], axis=1)
        y = np.concatenate([height, np.full((len(height), 1), np.nan)], axis=1)
        return [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "",
                "x": _plain(x.ravel()),
                "y": _plain(y.ravel()),
                "line": {"color": colour, "width": 2},
                "cliponaxis": False,
                "hovertemplate": f"{_escaped(panel.x.title)} %{{x:,.4~r}}<extra></extra>",
            }
        ]
    return []


def _lines(mark: Lines, panel: Panel, colour: str) -> list[Trace]:
    traces: list[Trace] = []
    if mark.low is not None and mark.high is not None:
        x = _plain(mark.x)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "fill": "toself",
                "x": x + x[::-1],
                "hoverinfo": "skip",
                "y": _plain(mark.high) + _plain(mark.low)[::-1],
                "fillcolor": colour,
                "opacity": 0.2,
                "name": "",
                "line": {"width": 0},
            }
        )
    line: Trace = {"color": colour, "width": 2}
    if mark.steps:
        line["shape"] = "hv"
    traces.append(
        {
            "type": "scatter",
            "mode": "lines+markers" if mark.points else "lines",
            "name": _escaped(mark.name),
            "line": line,
            "x": _plain(mark.x),
            "y": _plain(mark.y),
            "marker": {"color": colour, "size": 7},
            **_hover(panel, mark.text, mark.x, mark.y),
        }
    )
    return traces


def _bars(mark: Bars, panel: Panel, colour: str) -> Trace:
    value, names = _plain(mark.value), _plain([str(name) for name in mark.category])
    along, across = ("x", "y") if panel.sideways else ("y", "x")
    trace: Trace = {
        "type": "bar",
        "name": _escaped(mark.name),
        along: value,
        across: names,
        "orientation": "h" if panel.sideways else "v",
        "marker": {"color": colour},
        "textposition": "none",
        **_hover(panel, mark.text, *((mark.value, names) if panel.sideways else (names, mark.value))),
    }
    if mark.low is not None and mark.high is not None:
        middle = np.asarray(mark.value, float)
        above, below = np.asarray(mark.high, float) - middle, middle - np.asarray(mark.low, float)
        if np.isfinite(above).any():
            trace[f"error_{along}"] = {
                "type": "data",
                "symmetric": False,
                "array": _plain(above),
                "arrayminus": _plain(below),
                "thickness": 1,
                "width": 3,
                "color": "#888888",
            }
    return trace


def _heat_map(mark: HeatMap, panel: Panel, where: tuple[float, float, float, float]) -> Trace:
    value = np.asarray(mark.value, float)
    trace: Trace = {
        "type": "heatmap",
        "x": [_escaped(label(one)) for one in mark.x],
        "y": [_escaped(label(one)) for one in mark.y],
        "z": [_plain(row) for row in value],
        "colorscale": _diverging() if mark.diverging else "Cividis",
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "name": "",
        "colorbar": {
            "title": {"text": _escaped(mark.label), "side": "right"},
            "x": where[1] + 0.01,
            "xanchor": "left",
            "y": (where[2] + where[3]) / 2,
            "yanchor": "middle",
            "len": where[3] - where[2],
            "thickness": 12,
            "outlinewidth": 0,
        },
        "hovertemplate": f"{_escaped(panel.x.title)} %{{x}}<br>{_escaped(panel.y.title)} %{{y}}<br>"
        f"{_escaped(mark.label)} %{{z:,.6~r}}<extra></extra>",
    }
    if mark.diverging:
        most = float(np.nanmax(np.abs(value), initial=0.0)) or 1.0
        trace |= {"zmin": -most, "zmax": most, "zmid": 0}
    elif mark.scale is not None:
        trace |= {"zmin": mark.scale[0], "zmax": mark.scale[1]}
    if mark.numbers:
        trace["texttemplate"] = "%{z:,.3~r}"
    return trace


def _diverging() -> list[list[Any]]:
    return [[k / (len(DIVERGING) - 1), colour] for k, colour in enumerate(DIVERGING)]


def _rule(mark: ReferenceLine, colour: str, names: tuple[str, str]) -> dict[str, Any]:
    """Across the panel; its name stands at the end of it."""
    line = {"type": "line", "line": {"color": colour, "width": 1, "dash": "dash"}}
    text = {"label": {"text": _escaped(mark.name), "textposition": "end", "font": {"color": colour, "size": 11}}}
    if mark.x is not None:
        return (
            line | text | {"xref": names[0], "yref": f"{names[1]} domain", "x0": mark.x, "x1": mark.x, "y0": 0, "y1": 1}
        )
    return line | text | {"xref": f"{names[0]} domain", "yref": names[1], "x0": 0, "x1": 1, "y0": mark.y, "y1": mark.y}


def _hover(panel: Panel, text: Sequence[str], x: ArrayLike, y: ArrayLike) -> Trace:
    """Return the text shown where a reader points; only numbers have a format, which would make NaN of a name."""
    lines = ["%{text}"] if len(text) else []
    for letter, axis, values in (("x", panel.x, x), ("y", panel.y, y)):
        value = f"%{{{letter}:,.6~r}}" if _numeric(values) else f"%{{{letter}}}"
        lines.append(f"{_escaped(axis.title)} {value}{_unit(axis)}".strip())
    found: Trace = {"hovertemplate": "<br>".join(lines)}
    if len(text):
        found["text"] = [_escaped(str(one)) for one in text]
    return found


def _unit(axis: Axis) -> str:
    return f" {_escaped(axis.unit)}" if axis.unit else ""


def _one_entry_a_name(traces: list[Trace]) -> None:
    """The legend has each name once, and is there only where names are to be told apart."""
    names = {trace["name"] for trace in traces if trace["name"]}
    seen: set[str] = set()
    for trace in reversed(traces):  # the last mark of a name is the telling one: the line, not the cloud behind it
        name = trace["name"]
        trace["showlegend"] = trace.get("showlegend", True) and bool(name) and len(names) > 1 and name not in seen
        if name:
            trace["legendgroup"] = name
            seen.add(name)


def _escaped(name: object) -> str:
    """Return what Plotly draws as this name: it takes <i> for markup, and knows no &quot;."""
    return html.escape(str(name), quote=False)


def _numeric(values: ArrayLike) -> bool:
    return bool(np.issubdtype(np.asarray(values).dtype, np.number))


def _plain(values: ArrayLike) -> list[Any]:
    """JSON's types: names as Plotly shows them unchanged, numbers of at most six digits more than a reader sees, NaN as
    null.
    """
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.number):
        return [_escaped(value) for value in array.tolist()]
    if np.issubdtype(array.dtype, np.integer):
        return array.tolist()
    return [float(f"{value:.8g}") if np.isfinite(value) else None for value in array.tolist()]
