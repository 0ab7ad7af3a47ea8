"""Pictures as data: what a figure shows, described once and drawn by two back ends.

`figure_matplotlib` draws files (`--picture`), `figure_plotly` an interactive page (`--html`). A
figure is panels, a panel is marks on two axes. Marks of one name have one colour and one entry in the legend, in all
panels; a mark without a name has the first colour and no entry. NaN stands for no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Okabe & Ito (2008), which colour-blind readers can tell apart; their black is a grey that dark pages show too. Then
# two of Tol's (SRON/EPS/TN/09-002, 2021).
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#888888", "#882255", "#999933")
DIVERGING = ("#0072B2", "#F2F2F2", "#D55E00")  # below 0, 0, above


@dataclass(frozen=True)
class Lines:
    """A line through points [n] in their order; `x` are numbers, or names of categories."""

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None  # [n] of a band around the line
    high: ArrayLike | None = None
    points: bool = False  # each is marked
    steps: bool = False  # a value holds until the next point
    text: Sequence[str] = ()  # [n] shown beside the numbers where a reader points


FEW = 200  # a faint cloud of no more points than this is drawn larger


@dataclass(frozen=True)
class Points:
    """Points [n]; `text` is shown where a reader points or, if `labelled`, beside each; `faint`: a cloud of many."""

    name: str
    x: ArrayLike
    y: ArrayLike
    text: Sequence[str] = ()
    labelled: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Bars:
    """A bar a category [n], from 0 to its value; bars of several marks stand side by side or, in a `stacked` panel, on
    one another.
    """

    name: str
    category: Sequence[str]
    value: ArrayLike
    low: ArrayLike | None = None  # [n] the ends of an interval
    high: ArrayLike | None = None
    text: Sequence[str] = ()


@dataclass(frozen=True)
class FloatingBars:
    """Bars [n] from `begin` to `end` of the x axis, in the row of this category: phases over time. A name
    that is its row's has no entry in the legend.
    """

    name: str
    begin: ArrayLike
    end: ArrayLike
    row: str = ""


@dataclass(frozen=True)
class HeatMap:
    """A colour a cell: `value` [Y, X] of the columns `x` and rows `y` (names or numbers, evenly spaced; row 0 below).

    `diverging`: two colours around 0 instead of one scale. `numbers`: written into the cells. `scale`: the values at
    the ends of the colour scale; by default the least and the greatest.
    """

    x: Sequence[Any]
    y: Sequence[Any]
    value: ArrayLike
    label: str  # of the colour scale
    diverging: bool = False
    numbers: bool = False
    scale: tuple[float, float] | None = None


@dataclass(frozen=True)
class Dendrogram:
    """A tree of `names` [P] from scipy's linkage [P - 1, 4], leaves on the left, distances along x."""

    names: Sequence[str]
    tree: ArrayLike

    def branches(self) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
        """[P - 1, 4] distances and heights of the joins' corners; the leaves from below, at heights 5, 15, 25, …"""
        from scipy.cluster.hierarchy import dendrogram  # takes a while, which every command would wait for

        drawn = dendrogram(np.asarray(self.tree, float), labels=list(self.names), no_plot=True)
        return np.array(drawn["dcoord"]), np.array(drawn["icoord"]), [str(name) for name in drawn["ivl"]]


@dataclass(frozen=True)
class ReferenceLine:
    """A line across the panel at one x or one y."""

    name: str
    x: float | None = None
    y: float | None = None


Mark = Lines | Points | Bars | FloatingBars | HeatMap | Dendrogram | ReferenceLine


@dataclass(frozen=True)
class Axis:
    """`zero`: it begins at 0; `range`: its ends. `unit` follows the numbers where a reader points."""

    title: str = ""
    log: bool = False
    zero: bool = False
    unit: str = ""
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """Marks on common axes, `x` across and `y` up. `sideways`: categories of bars run down the left side."""

    marks: Sequence[Mark]
    title: str = ""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    stacked: bool = False
    sideways: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels in rows of `columns`; `width` and `height` of the whole in inches (a page stretches the width)."""

    panels: Sequence[Panel]
    columns: int = 1
    width: float = 8.0
    height: float = 4.0

    @property
    def rows(self) -> int:
        return -(-len(self.panels) // self.columns)

    def colours(self) -> dict[str, str]:
        """The colour of each name, in the order of their first marks."""
        names = [name for panel in self.panels for mark in panel.marks if (name := getattr(mark, "name", ""))]
        return {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(dict.fromkeys(names))}


def categories(panel: Panel) -> list[str]:
    """Names of the panel's bars and floating bars, in the order of their first appearance."""
    found: dict[str, None] = {}
    for mark in panel.marks:
        if isinstance(mark, Bars):
            found |= dict.fromkeys(map(str, mark.category))
        elif isinstance(mark, FloatingBars):
            found[mark.row] = None
    return list(found)


def label(value: Any) -> str:
    """A number or a name on an axis."""
    return f"{value:g}" if isinstance(value, int | float | np.number) else str(value)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where they repeat (two runs of one program, two files of one name)."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if names.count(name) == 1 else f"{name}#{seen[name]}")
    return result
