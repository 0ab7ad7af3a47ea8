"""Results of the tensor commands, as sections of a page: predictions, replays, evaluations, searches.

A result is a file of `perfvec tensor predict|replay|evaluate --json`, known by its keys, or the work folder of `tune`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.results.figure import Axis, Bars, Figure, Lines, Panel, Points, ReferenceLine, distinct
from analysis.results.headline import Headline
from analysis.results.page import Section
from analysis.tensor.compare import compare
from analysis.tensor.history import History, read
from perfvec.tensor import metrics
from support.errors import InputError
from support.text import parse_json

_PREDICTED = "predicted by the cost model"


def sections(paths: Sequence[str | os.PathLike[str]]) -> list[Section]:
    """The sections of these results; searches of one network and device are compared with each other.

    Raises InputError for a path that is no result.
    """
    found: list[Section] = []
    searches: dict[tuple[str, str], list[History]] = {}
    for path in map(Path, paths):
        if path.is_dir():
            search = read(path)
            searches.setdefault((str(search.header.get("network")), str(search.header.get("device"))), []).append(
                search
            )
        else:
            found += _of_document(path)
    for (network, device), group in searches.items():
        found.append(searched(f"{network} on {device}", group))
    return found


def headline(found: Sequence[Section]) -> Headline:
    """The head of a page of these results."""
    sentence = f"{', '.join(section.title for section in found)}."
    sentence += f" {found[0].text}" if len(found) == 1 else ""
    source = found[0].source if len(found) == 1 else "each result names its own"
    return Headline(str(len(found)), "result" if len(found) == 1 else "results", sentence, source)


def _of_document(path: Path) -> list[Section]:
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file; expected JSON of a tensor command, or the folder of a search"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no JSON of a tensor command ({' '.join(str(error).split())[:80]})") from error
    keys = document.keys() if isinstance(document, dict) else set()
    name = path.name.removesuffix(".json")
    if "predictions" in keys:
        rows = _frame(
            document, "predictions", path, ("task", "device"), ("score", "predicted_s", "measured_s"), ("task_id",)
        )
        return [predictions(name, rows)]
    if {"kernels", "streams"} <= keys:
        kernels = _frame(document, "kernels", path, ("name",), ("calls", "predicted_s"), ("measured_s", "error"))
        streams = _frame(document, "streams", path, (), ("streams", "predicted_s"), ("measured_s",))
        return [replay(name, kernels, streams, document)]
    if {"kernels", "network"} <= keys:
        kernels = _frame(document, "kernels", path, ("name", "uarch"), ("calls", "seconds"))
        network = _frame(document, "network", path, ("uarch",), ("streams", "seconds"))
        return [on_machines(name, kernels, network)]
    if {"summary", "rows"} <= keys:
        summary = _frame(
            document, "summary", path, ("split", "variant", "model"), ("pairwise", "pairwise_interval", "top1", "mape")
        )
        return [evaluation(name, summary)]
    raise InputError(f"{path}: is no result of perfvec tensor predict, replay or evaluate --json")


def _frame(
    document: Mapping[str, Any],
    key: str,
    path: Path,
    names: Sequence[str],
    numbers: Sequence[str],
    optional: Sequence[str] = (),
) -> pd.DataFrame:
    """The rows at `key` with columns of names and of numbers (null is NaN). Raises InputError where they are not so."""
    rows = document[key]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: {key} must be a list of rows; it is damaged, or was written by something else")
    frame = pd.DataFrame(rows)
    for column in (*names, *numbers):
        if column not in frame:
            raise InputError(f"{path}: the rows of {key} have no {column}; it is damaged, or of another version")
    for column in names:
        frame[column] = frame[column].astype(str)
    for column in (*numbers, *(column for column in optional if column in frame)):
        try:
            frame[column] = pd.to_numeric(frame[column]).astype(float)
        except (TypeError, ValueError):
            raise InputError(f"{path}: {column} of {key} must be numbers") from None
    return frame


def predictions(name: str, rows: pd.DataFrame) -> Section:
    """Predicted over measured time of each candidate, and how well each task's candidates are ranked."""
    rows = rows[rows["measured_s"].notna()].reset_index(drop=True)
    if rows.empty:
        return Section(f"{name}: candidates", "None of them was measured.")
    before = rows.shift()  # best first in each task and device; files of before had no task_id, but scores that rise
    begins = (rows["task"] != before["task"]) | (rows["device"] != before["device"]) | (rows["score"] > before["score"])
    if "task_id" in rows:
        begins |= rows["task_id"] != before["task_id"]
    table = pd.DataFrame([_ranking(part) for _, part in rows.groupby(begins.cumsum())])
    what = "predicted_s" if rows["predicted_s"].notna().all() else "score"
    factor = 1e3 if what == "predicted_s" else 1.0
    marks: list[Lines | Points] = [
        Points(str(device), part["measured_s"] * 1e3, part[what] * factor, list(part["task"]), faint=True)
        for device, part in rows.groupby("device", sort=False)
    ]
    title = "score"
    if what == "predicted_s":
        ends = np.array([rows["measured_s"].min(), rows["measured_s"].max()]) * 1e3
        marks.append(Lines("as measured", ends, ends))
        title = "predicted time, ms"
    group = np.cumsum(begins.to_numpy(), dtype=np.int64)
    score, seconds = rows["score"].to_numpy(), rows["measured_s"].to_numpy()
    accuracy, top = metrics.pairwise_accuracy(score, seconds, group), metrics.top_k(score, seconds, group, 1)
    text = f"{len(rows):,} measured candidates of {len(table):,} tasks and devices are in the file. "
    if np.isnan(accuracy) or np.isnan(top):
        text += "One candidate a task leaves nothing to rank."
    else:
        text += f"Of them: pairwise accuracy {accuracy:.3f}; the best-scored candidates take {1 / top:.2f} times what "
        text += "the best measured ones take."
    panel = Panel(marks, x=Axis("measured time, ms", log=True), y=Axis(title, log=what == "predicted_s"))
    title = f"{name}: candidates, predicted and measured"
    return Section(title, text, Figure([panel], height=5), table, source=f"{_PREDICTED}; measured")


def _ranking(part: pd.DataFrame) -> dict[str, Any]:
    score, seconds = part["score"].to_numpy(), part["measured_s"].to_numpy()
    one = np.zeros(len(part), np.int64)
    return {
        "task": part["task"].iloc[0],
        "device": part["device"].iloc[0],
        "candidates": len(part),
        "pairwise": metrics.pairwise_accuracy(score, seconds, one),
        "top1": metrics.top_k(score, seconds, one, 1),
        "best_s": seconds.min(),
        "chosen_s": seconds[score.argmax()],
    }


def replay(name: str, kernels: pd.DataFrame, streams: pd.DataFrame, document: Mapping[str, Any]) -> Section:
    """Milliseconds of an inference in each kernel, and of the network over the number of streams."""
    ways = [(column, column.removesuffix("_s")) for column in ("predicted_s", "measured_s") if column in kernels]
    names = distinct(list(kernels["name"]))
    bars = [Bars(way, names, kernels[column] * kernels["calls"] * 1e3) for column, way in ways]
    lines: list[Lines | ReferenceLine] = [
        Lines(way, list(streams["streams"].map("{:g}".format)), streams[column] * 1e3, points=True)
        for column, way in ways
        if column in streams
    ]
    text = "Time of a kernel's calls in one inference; the network's, replayed on streams."
    whole = document.get("network_s")
    if isinstance(whole, int | float):
        one = float((kernels["predicted_s"] * kernels["calls"]).sum())
        lines.append(ReferenceLine("measured end to end", y=1e3 * whole))
        text += f" Measured end to end {1e3 * whole:.3f} ms, predicted {1e3 * one:.3f} ms ({one / whole - 1:+.1%})."
    panels = [
        Panel(bars, x=Axis("ms in one inference", zero=True), sideways=True),
        Panel(lines, x=Axis("streams"), y=Axis("ms", zero=True)),
    ]
    figure = Figure(panels, 2, width=10.0, height=max(3.5, 1.4 + 0.4 * len(names)))
    measured = len(ways) > 1
    title = f"{name}: kernels, predicted{' and measured' if measured else ''}"
    return Section(title, text, figure, kernels, source=f"{_PREDICTED}{'; measured' if measured else ''}")


def on_machines(name: str, kernels: pd.DataFrame, network: pd.DataFrame) -> Section:
    """The same on machines of uarch/, by program vectors."""
    machines = list(dict.fromkeys(kernels["uarch"]))
    bars, lines = [], []
    for machine in machines:
        own, whole = kernels[kernels["uarch"] == machine], network[network["uarch"] == machine]
        bars.append(Bars(machine, distinct(list(own["name"])), own["seconds"] * own["calls"] * 1e3))
        lines.append(Lines(machine, list(whole["streams"].map("{:g}".format)), whole["seconds"] * 1e3, points=True))
    panels = [
        Panel(bars, x=Axis("ms in one inference", zero=True), sideways=True),
        Panel(lines, x=Axis("streams"), y=Axis("ms", zero=True)),
    ]
    height = max(3.5, 1.4 + 0.2 * len(kernels) + 0.2 * len(kernels) / len(machines))
    return Section(
        f"{name}: kernels on machines",
        "Predicted from the kernels' program vectors.",
        Figure(panels, 2, width=10.0, height=height),
        kernels,
        source="predicted by the foundation model",
    )


def evaluation(name: str, summary: pd.DataFrame) -> Section:
    """Pairwise accuracy of each model, a panel for each split and variant."""
    panels = []
    for (split, variant), part in summary.groupby(["split", "variant"], sort=False):
        half = part["pairwise_interval"]
        low, high = part["pairwise"] - half, part["pairwise"] + half
        title = split if variant == "-" else f"{split}, {variant}"
        bars = Bars("", list(part["model"]), part["pairwise"], low, high)
        panels.append(Panel([bars], str(title), Axis("pairwise accuracy", zero=True), sideways=True))
    half_known = summary["pairwise_interval"].notna().any()
    columns = min(2, len(panels))
    most = int(summary.groupby(["split", "variant"]).size().max())
    figure = Figure(panels, columns, width=5.0 * columns, height=(1.2 + 0.3 * most) * -(-len(panels) // columns))
    text = "Share of the pairs of candidates that a model orders as they were measured"
    text += ", with 95 % intervals over seeds." if half_known else "."
    return Section(
        f"{name}: how well models rank", text, figure, summary, source=f"{_PREDICTED}, beside measured times"
    )


def searched(name: str, searches: Sequence[History]) -> Section:
    """Estimated latency of the network over trials and over time, a line a search."""
    table = compare([search.folder for search in searches])
    labels = distinct([search.folder.name for search in searches])
    curves = [search.curve() for search in searches]
    panels = [
        Panel(
            [
                Lines(label, curve[column], curve["latency_s"] * 1e3, steps=True, points=True)
                for label, curve in zip(labels, curves, strict=True)
            ],
            x=Axis(title, zero=True),
            y=Axis("estimated latency, ms"),
        )
        for column, title in (("trials", "trials"), ("elapsed_s", "seconds"))
    ]
    text = (
        "The sum of the tasks' best times, weighted by their calls, once every task has run. Numbers beside the first."
    )
    figure = Figure(panels, 2, width=10.0, height=4.0)
    return Section(f"{name}: searches", text, figure, table, source="measured by the searches")
