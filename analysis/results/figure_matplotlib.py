"""Figures as files: `figure.py` drawn by matplotlib as PNG, SVG or PDF."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from analysis.results.figure import (
    DIVERGING,
    FEW,
    PALETTE,
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
from support.errors import InputError
from support.files import atomic_path

PICTURES = (".png", ".svg", ".pdf")
_MOST_TICKS = 16  # of a heat map's side


def write_picture(path: str | os.PathLike[str], figure: Figure) -> Path:
    """Draw into a file as PNG, SVG or PDF by its suffix, atomically. Raises InputError for another suffix."""
    require_picture(path)
    with atomic_path(path) as temporary:
        canvas(figure).savefig(temporary, format=Path(path).suffix[1:], dpi=150)
    return Path(path)


def require_picture(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless the name ends as a picture's: call it before the work."""
    if Path(path).suffix not in PICTURES:
        raise InputError(f"{path}: a picture must end in {', '.join(PICTURES)}")


def canvas(figure: Figure) -> Canvas:
    """Matplotlib's figure. No pyplot: nothing global, no display needed."""
    drawn = Canvas(figsize=(figure.width, figure.height), layout="constrained")
    colours = figure.colours()
    for number, panel in enumerate(figure.panels):
        axes = drawn.add_subplot(figure.rows, figure.columns, number + 1)
        axes.spines[["top", "right"]].set_visible(False)
        _panel(axes, panel, colours)
    # The last mark of a name is the telling one: the line, not the cloud behind it.
    found = {
        name: handle for axes in drawn.axes for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if len(found) > 1:
        ordered = {name: found[name] for name in map(_label, colours) if name in found}
        wide = max(1, int(figure.width * 8 / (max(map(len, ordered)) + 6)))
        drawn.legend(
            list(ordered.values()), list(ordered), loc="outside upper left", ncols=wide, frameon=False, fontsize=8
        )
    return drawn


def _text(name: str) -> str:
    """Return what Matplotlib draws as this name: between two $ it takes it for a formula."""
    return name.replace("$", r"\$")


def _label(name: str) -> str:
    """Return a legend's entry, of which Matplotlib leaves out what begins with _."""
    return (" " if name.startswith("_") else "") + _text(name)


def _panel(axes: Axes, panel: Panel, colours: dict[str, str]) -> None:
    bars = [mark for mark in panel.marks if isinstance(mark, Bars)]
    names = categories(panel)
    below = np.zeros((2, len(names)))  # where the next bar of a stack begins: above 0, below 0
    for mark in panel.marks:
        colour = colours.get(getattr(mark, "name", ""), PALETTE[0])
        if isinstance(mark, Bars):
            place = np.array([names.index(str(name)) for name in mark.category])
            value = np.nan_to_num(np.asarray(mark.value, float))
            wide = 0.8 if panel.stacked else 0.8 / len(bars)
            side = 0.0 if panel.stacked else (bars.index(mark) - (len(bars) - 1) / 2) * wide
            start = np.zeros(len(value))
            if panel.stacked:
                sign = (value < 0).astype(int)
                start = below[sign, place].copy()
                np.add.at(below, (sign, place), value)
            draw = axes.barh if panel.sideways else axes.bar
            draw(place + side, value, wide * 0.92, start, color=colour, label=_label(mark.name) or None)
            _interval(axes, panel, place + side, value + start, mark)
        else:
            _mark(axes, mark, colour, names)
    if names:
        side_axis = axes.yaxis if panel.sideways or not bars else axes.xaxis
        side_axis.set_ticks(np.arange(len(names)), list(map(_text, names)))
        if panel.sideways:
            axes.invert_yaxis()  # the first category on top
    elif not any(isinstance(mark, HeatMap | Dendrogram) for mark in panel.marks):
        axes.yaxis.set_major_locator(MaxNLocator(7)) if not panel.y.log else None
    axes.set_title(_text(panel.title), fontsize=10)
    axes.set_xlabel(_text(panel.x.title))
    axes.set_ylabel(_text(panel.y.title))
    for axis, scale, limit in ((panel.x, axes.set_xscale, axes.set_xlim), (panel.y, axes.set_yscale, axes.set_ylim)):
        if axis.log:
            scale("log")
        elif axis.range is not None:
            limit(axis.range)
        elif axis.zero:
            limit(0)


def _interval(axes: Axes, panel: Panel, place: NDArray[np.float64], top: NDArray[np.float64], mark: Bars) -> None:
    if mark.low is None or mark.high is None:
        return
    error = np.stack([top - np.asarray(mark.low, float), np.asarray(mark.high, float) - top])
    error = np.maximum(error, 0)  # of rounding
    given = np.isfinite(error).all(axis=0)
    if not given.any():
        return
    style: dict[str, Any] = {"fmt": "none", "ecolor": "#555555", "capsize": 2, "lw": 1}
    if panel.sideways:
        axes.errorbar(top[given], place[given], xerr=error[:, given], **style)
    else:
        axes.errorbar(place[given], top[given], yerr=error[:, given], **style)


def _mark(axes: Axes, mark: Mark, colour: str, names: list[str]) -> None:
    if isinstance(mark, Lines):
        axes.plot(
            _values(mark.x),
            np.asarray(mark.y, float),
            "o-" if mark.points else "-",
            color=colour,
            ms=4,
            lw=1.5,
            drawstyle="steps-post" if mark.steps else "default",
            label=_label(mark.name) or None,
        )
        if mark.low is not None and mark.high is not None:
            band = (np.asarray(mark.low, float), np.asarray(mark.high, float))
            axes.fill_between(_values(mark.x), *band, color=colour, alpha=0.2, lw=0)
    elif isinstance(mark, Points):
        x, y = _values(mark.x), np.asarray(mark.y, float)
        size, alpha = (5, 1.0) if not mark.faint else (4, 0.4) if len(x) <= FEW else (3, 0.25)
        axes.plot(x, y, "o", color=colour, ms=size, alpha=alpha, mew=0, label=_label(mark.name) or None)
        for text, a, b in zip(mark.text, x, y, strict=False) if mark.labelled else ():
            axes.annotate(_text(text), (a, b), xytext=(4, 3), textcoords="offset points", fontsize=8)
    elif isinstance(mark, FloatingBars):
        begin, end = np.asarray(mark.begin, float), np.asarray(mark.end, float)
        told = _label(mark.name) if mark.name != mark.row else None
        axes.barh(np.full(len(begin), names.index(mark.row)), end - begin, 0.8, begin, color=colour, label=told)
    elif isinstance(mark, HeatMap):
        _heat_map(axes, mark)
    elif isinstance(mark, Dendrogram):
        distance, height, leaves = mark.branches()
        for join, corner in zip(distance, height, strict=True):
            axes.plot(join, corner, color=colour, lw=1.5)
        axes.set_yticks(5 + 10 * np.arange(len(leaves)), list(map(_text, leaves)))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    elif isinstance(mark, ReferenceLine):
        look: dict[str, Any] = {"color": colour, "lw": 1, "ls": "--", "label": _label(mark.name) or None}
        if mark.x is not None:
            axes.axvline(mark.x, **look)
        elif mark.y is not None:
            axes.axhline(mark.y, **look)


def _heat_map(axes: Axes, mark: HeatMap) -> None:
    value = np.asarray(mark.value, float)
    most = float(np.nanmax(np.abs(value), initial=0.0)) or 1.0
    colours = LinearSegmentedColormap.from_list("diverging", DIVERGING)
    low, high = mark.scale or (None, None)
    limits: dict[str, Any] = {"cmap": "cividis", "vmin": low, "vmax": high}
    if mark.diverging:
        limits = {"cmap": colours, "vmin": -most, "vmax": most}
    image = axes.imshow(value, origin="lower", aspect="auto", **limits)
    for axis, values in ((axes.xaxis, mark.x), (axes.yaxis, mark.y)):
        step = -(-len(values) // _MOST_TICKS)
        axis.set_ticks(range(0, len(values), step), [_text(label(one)) for one in values[::step]])
    if any(len(label(one)) > 5 for one in mark.x):
        axes.tick_params(axis="x", rotation=45)
    if mark.numbers:
        for row, column in np.argwhere(np.isfinite(value)):
            red, green, blue, _ = image.cmap(image.norm(value[row, column]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            axes.text(
                column,
                row,
                f"{value[row, column]:.3g}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else "black",
            )
    axes.figure.colorbar(image, ax=axes, label=_text(mark.label))


def _values(values: object) -> NDArray:
    """Numbers as they are, names as text."""
    array = np.asarray(values)
    return array if np.issubdtype(array.dtype, np.number) else array.astype(str)
