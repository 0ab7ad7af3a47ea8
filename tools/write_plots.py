"""Draw the documentation's plots from its data: docs/data and the presets' stated errors.

python tools/write_plots.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "data"
PICTURES = ROOT / "docs" / "images"
ERRORS = ROOT / "uarch" / "presets" / "errors"
GREY = "#777777"  # readable on light and on dark pages, as are the others
BLUE, ORANGE, GREEN = "#2f81c7", "#d9822b", "#2a9d6f"
LOOK: dict[Any, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY),
    "grid.color": GREY,
    "grid.alpha": 0.3,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "plots",
    "savefig.transparent": True,
}


def data(name: str) -> pd.DataFrame:
    return pd.read_csv(DATA / f"{name}.csv", comment="#")


def programs() -> Figure:
    """Return the error by program of the simulator and of the model, sorted by the model's."""
    table = data("programs").sort_values("model")
    figure = Figure((6.6, 5.6), layout="constrained")
    axes: Axes = figure.subplots()
    place = np.arange(len(table))
    axes.hlines(place, table["simulator"], table["model"], color=GREY, lw=0.8, alpha=0.5)
    axes.plot(table["simulator"], place, "o", color=BLUE, ms=4, label="simulator")
    axes.plot(table["model"], place, "o", color=ORANGE, ms=4, label="model alone, program unseen")
    axes.set_yticks(place, table["program"], fontsize=7)
    axes.set_ylim(-1, len(table))
    axes.set_xscale("log")
    ticks = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    axes.set_xticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("mean CPI error against gem5")
    axes.legend(loc="lower right")
    return figure


def surface() -> Figure:
    """Return error and rank correlation against simulated points of a grid, the programs' mean and range."""
    table = data("points")
    figure = Figure((6.6, 2.8), layout="constrained")
    for axes, column, label in zip(
        figure.subplots(1, 2), ("error", "tau"), ("mean error of time, ten programs", "Kendall's τ"), strict=True
    ):
        groups = table.groupby("points")[column]
        alone, told = groups.median()[0], groups.median().drop(0)
        low, high = groups.min().drop(0), groups.max().drop(0)
        axes.fill_between(told.index, low, high, color=BLUE, alpha=0.2, lw=0)
        axes.plot(told.index, told, "o-", color=BLUE, ms=3.5, label="corrected (range)")
        axes.axhline(alone, color=ORANGE, ls="--", label="model alone")
        axes.set_xscale("log", base=2)
        axes.set_xticks([8, 16, 32, 64, 128], ["8", "16", "32", "64", "128"])
        axes.set_xlabel("simulated points of 10,080")
        axes.set_ylabel(label)
        if column == "error":
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            axes.set_ylim(bottom=0)
        axes.legend()
    return figure


def stacks() -> Figure:
    """Return the cycles that an ideal cause saves against its component, a panel a cause."""
    table = data("stacks")
    figure = Figure((6.6, 4.4), layout="constrained")
    panels = figure.subplots(2, 3)
    for axes, (ideal, rows) in zip(panels.flat, table.groupby("ideal", sort=False), strict=True):
        for core, color in (("out-of-order", BLUE), ("in-order", ORANGE)):
            of_core = rows[rows["core"] == core]
            x, y = of_core["component"], of_core["saved"]
            axes.plot(x, y, ".", color=color, ms=3, alpha=0.6, label=core, rasterized=True)
        end = max(rows["component"].max(), rows["saved"].max())
        axes.plot([0, end], [0, end], color=GREY, lw=0.8)
        axes.set_title(f"{ideal} made ideal", fontsize=9)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    panels[0, 0].legend(markerscale=3, handletextpad=0.1)
    figure.supxlabel("component, share of cycles", fontsize=9)
    figure.supylabel("cycles saved", fontsize=9)
    return figure


def real_computers() -> Figure:
    """Return simulated over measured cycles of each processor's own preset by program."""
    figure = Figure((6.6, 5.6), layout="constrained")
    axes: Axes = figure.subplots()
    found: dict[str, Any] = {
        name: yaml.safe_load((ERRORS / f"{name}-native-on-epyc-{name}.yaml").read_text()) for name in ("zen4", "zen5")
    }
    table = 1 + pd.DataFrame({name: pd.Series(of["programs"]) for name, of in found.items()})
    table = table.sort_values("zen4")
    place = np.arange(len(table))
    axes.axvspan(0.9, 1.1, color=GREEN, alpha=0.15, lw=0)
    axes.axvline(1, color=GREY, lw=0.8)
    for name, title, color in (("zen4", "zen4-native on a Zen 4", BLUE), ("zen5", "zen5-native on a Zen 5", ORANGE)):
        axes.plot(table[name], place, "o", color=color, ms=4, label=f"{title}, {found[name]['date']}")
    axes.set_yticks(place, [name.removeprefix("v_") for name in table.index], fontsize=6.5)
    axes.set_ylim(-1, len(table))
    axes.set_xlabel("simulated / measured cycles; shaded: within 10 %")
    axes.legend(loc="lower right")
    return figure


def tensor_models() -> Figure:
    """Return pairwise accuracy of cost models on held-out tasks, with intervals, and the ceiling by the data."""
    table = data("tensor-models").set_index("model")
    limit = float(table["pairwise"]["limit"])
    table = table.drop("limit").iloc[::-1]
    figure = Figure((6.6, 2.9), layout="constrained")
    axes: Axes = figure.subplots()
    place = np.arange(len(table))
    axes.errorbar(table["pairwise"], place, xerr=table["interval"], fmt="o", color=BLUE, ms=4, capsize=2, lw=1)
    axes.axvline(limit, color=GREEN, ls="--", label="limit: candidates with equal features")
    axes.axvline(0.5, color=GREY, ls=":", label="chance")
    axes.set_yticks(place, table.index)
    axes.set_xlabel("pairs in order, held-out tasks; 95 % intervals of three seeds")
    axes.legend(loc="lower right", fontsize=8)
    return figure


PLOTS: dict[str, Callable[[], Figure]] = {
    "plot-programs": programs,
    "plot-points": surface,
    "plot-stacks": stacks,
    "plot-real-computers": real_computers,
    "plot-tensor-models": tensor_models,
}


def main() -> None:
    matplotlib.rcParams.update(LOOK)
    for name, draw in PLOTS.items():
        draw().savefig(PICTURES / f"{name}.svg", dpi=150, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
