"""How pictures look: one palette that colour-blind readers can tell apart (Okabe & Ito), no frame, no clutter."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HEAT_MAP = "cividis"


def colour(index: int) -> str:
    """The index-th colour of the palette, repeating."""
    return _PALETTE[index % len(_PALETTE)]


def axes(*, width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches with one pair of axes. No pyplot: nothing global, no display needed."""
    figure = Figure(figsize=(width, height), layout="constrained")
    one = figure.add_subplot()
    one.spines[["top", "right"]].set_visible(False)
    return figure, one
