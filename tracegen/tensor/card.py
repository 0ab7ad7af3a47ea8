"""The card of a collected dataset, in Markdown: what it holds, how noisy it is, how it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracegen.tensor import primitives
from tracegen.tensor.dataset import Dataset, Outcome, history, summary

Sources = Sequence[tuple[str, Mapping[str, Any]]]  # file and provenance


def card(dataset: Dataset) -> str:
    """Counts, networks, devices, failures, noise and provenance of a dataset."""
    document, devices = summary(dataset)
    sources = list(history(dataset.provenance))
    lines = [f"# {dataset.path.name}", "", f"Digest `{dataset.digest}`.", ""]
    lines += _counted(dataset, document)
    lines += ["", "## Networks", "", *_networks(dataset)]
    if used := primitives_used(dataset):
        lines += ["", "## Schedule primitives", "", *_primitives(*used)]
    lines += ["", "## Devices", "", *_devices(devices)]
    lines += ["", "## Noise", "", *_noise(dataset.table(), sources)]
    if compared := [part for _, made in sources if (part := made.get("compared")) and part["records"]]:
        lines += ["", "## Results", "", _results(compared)]
    lines += ["", "## How it was made", "", *_sessions(sources)]
    return "\n".join(lines) + "\n"


def _counted(dataset: Dataset, document: Mapping[str, Any]) -> list[str]:
    schedules = dataset.schedules()
    tasks_of: dict[str, int] = {}
    for networks in dataset.tasks["networks"]:
        for name in networks:
            tasks_of[name] = tasks_of.get(name, 0) + 1
    return [
        *_table(
            ["tasks", "schedules", "records", "failures"],
            [[len(dataset.tasks), len(schedules), dataset.record_count, _counts(document["failures"])]],
        ),
        "",
        f"Operators: {_counts(document['operators'])}.",
        "",
        f"Schedules by origin: {_counts(schedules['origin'].value_counts().to_dict())}.",
        "",
        f"Tasks by network: {_counts(tasks_of)}.",
    ]


def _networks(dataset: Dataset) -> list[str]:
    return _table(
        ["network", "tasks", "calls", "MFLOP of a task", "MFLOP of an inference"],
        [[row["network"], row["tasks"], row["calls"], row["task"], row["inference"]] for row in networks_of(dataset)],
    )


def _primitives(lengths: tuple[int, int, int], counts: list[list[Any]]) -> list[str]:
    table = _table(["primitive", "schedules with it", "a schedule"], counts)
    return [*table, "", f"Primitives of a schedule: {lengths[0]:,} to {lengths[2]:,}, median {lengths[1]:,}."]


def _devices(devices: pd.DataFrame) -> list[str]:
    return _table(
        ["device", "tasks", "records", "failed", "fastest", "median", "slowest", "median spread"],
        [
            [
                *(row[name] for name in ("device", "tasks", "records", "failed")),
                *(_seconds(row[name]) for name in ("fastest_s", "median_s", "slowest_s")),
                _share(row["median_spread"]),
            ]
            for row in devices.to_dict("records")
        ],
    )


def _noise(records: pd.DataFrame, sources: Sources) -> list[str]:
    lines = []
    spread = records[(records["repeats"] > 1) & (records["error"] == Outcome.OK)]["spread"].dropna()
    if len(spread):
        low, high = np.percentile(spread, (50, 90))
        lines.append(f"Spread of a record's repeats: median {_share(low)}, 90th percentile {_share(high)}.")
    for file, provenance in sources:
        if again := provenance.get("again"):
            lines.append(
                f"{again['pairs']:,} records {f'of {file} ' if len(sources) > 1 else ''}measured a second time differ "
                f"by {_share(again['median'])} (median), {_share(again['p90'])} (90th percentile)."
            )
    return lines


def _results(compared: Sequence[Mapping[str, Any]]) -> str:
    return (
        f"Those of {sum(part['records'] for part in compared):,} records were compared with the unscheduled program's; "
        f"the right ones deviate by {max(part['largest'] for part in compared):.2g} at most (tolerance "
        f"{max(part['tolerance'] for part in compared):g})."
    )


def _sessions(sources: Sources) -> list[str]:
    lines = []
    for session in (session for _, provenance in sources for session in provenance.get("sessions", [])):
        plan = json.dumps({name: value for name, value in session["plan"].items() if value not in (None, [], ())})
        lines.append(
            f"- {session['date']}, {session['processor']}, TVM {session['tvm']}, tvm-ffi {session['tvm_ffi']}: `{plan}`"
        )
    return lines


def networks_of(dataset: Dataset) -> list[dict[str, Any]]:
    """A row a network: its tasks, their calls of one inference, and FLOPs (millions) of a task (smallest, median and
    largest) and of an inference.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for weights, flops in zip(dataset.tasks["networks"], dataset.tasks["flops"], strict=True):
        for name, calls in weights.items():
            found.setdefault(name, []).append((float(calls), float(flops)))
    rows = []
    for name, tasks in found.items():
        calls, flops = np.array(tasks).T
        known = flops[np.isfinite(flops)] / 1e6
        quantiles = np.percentile(known, (0, 50, 100)) if len(known) else [float("nan")] * 3
        low, middle, high = (f"{value:,.4g}" for value in quantiles)
        rows.append(
            {
                "network": name,
                "tasks": len(tasks),
                "calls": int(calls.sum()),
                "task": f"{low} / {middle} / {high}",
                "inference": f"{np.nansum(calls * flops) / 1e6:,.4g}",
            }
        )
    return rows


def primitives_used(dataset: Dataset) -> tuple[tuple[int, int, int], list[list[Any]]] | None:
    """((smallest, median, largest number of primitives of a schedule), a row a primitive: its name, the share of the
    schedules that have it, how often those have it in the mean), the most frequent first; None without primitives.
    """
    if "primitives" not in dataset.groups or not dataset.schedule_count:
        return None
    rows = dataset.features("primitives")
    names = np.array(primitives.PRIMITIVES)
    counts = np.zeros((len(rows), len(names)))
    owner = np.repeat(np.arange(len(rows)), rows.length)
    np.add.at(counts, owner, rows.values[:, : len(names)])
    has = (counts > 0).sum(0)
    order = [index for index in np.argsort(-counts.sum(0), kind="stable") if has[index]]
    table = [[names[i], f"{100 * has[i] / len(rows):.0f} %", f"{counts[:, i].sum() / has[i]:.2f}"] for i in order]
    low, middle, high = np.percentile(rows.length, (0, 50, 100)).astype(int).tolist()
    return (low, middle, high), table


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) + " |")
    return lines


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value * 1e6:,.4g} µs"


def _share(value: float | None) -> str:
    return "–" if value is None or value != value else f"{100 * value:.2g} %"
