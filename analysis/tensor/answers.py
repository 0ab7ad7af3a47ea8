"""Answers about datasets of tensor programs and cost models of them (`tracegen.tensor`, `perfvec.tensor`)."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.results.result import Result, filled, of_table, table_text, to_rows
from perfvec.tensor import evaluate, limits
from perfvec.tensor.autotune import Tuned
from perfvec.tensor.pruning import Pruned, means
from perfvec.tensor.train import Trained
from tracegen.tensor.card import card as markdown_card
from tracegen.tensor.dataset import Dataset, summary


def card(path: str | os.PathLike[str], *, markdown: bool = False) -> Result:
    """Answer what a dataset holds, a row a device; the text is its card in Markdown where that is asked for."""
    with Dataset(path) as data:
        document, devices = summary(data)
        written = markdown_card(data) if markdown else ""

    def text() -> str:
        counts = [f"{name}: {_told(value)}" for name, value in document.items() if not isinstance(value, list)]
        return "\n".join([*map(filled, counts), table_text(devices)])

    return of_table("A dataset of tensor programs", devices, lambda: document, written.rstrip if markdown else text)


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(count)}" for name, count in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def of_pruned(done: Pruned, judged: pd.DataFrame | None = None) -> Result:
    """Answer what was kept of a dataset and, by `perfvec.tensor.pruning.judge`, what a model loses."""
    first, second = done.explained
    table = done.sizes if judged is None else done.sizes.merge(means(judged), on="data")

    def document() -> dict[str, Any]:
        losses = {} if judged is None else {"judged": to_rows(judged)}
        return {"sizes": to_rows(done.sizes), **losses, "explained": [first, second], "coverage": done.coverage}

    text = (
        f"principal components: {first:.1%} and {second:.1%} of the variance; the part has programs in "
        f"{done.coverage:.1%} of the cells in which there are any"
    )
    return of_table("Selected tensor programs", table, document, lambda: f"{filled(text)}\n{table_text(table)}")


def of_trained(done: Trained, output: str | os.PathLike[str], epochs: int) -> Result:
    """Answer what a model was trained on, of at most so many epochs; the table is its curve, a row a pass."""
    text = f"{output}: {done.model}, {done.records:,} records, {done.seconds:.1f} s; knows {', '.join(done.devices)}"
    if done.fine_tuned is not None:
        factor = "a factor of the device and " if done.fine_tuned.factor else ""
        text += f"\nfine-tuned by {factor}{done.fine_tuned.passes} of {epochs} passes, by cross-validation"
    curve = pd.DataFrame(done.curve)

    def document() -> dict[str, Any]:
        return {**asdict(done), "curve": to_rows(curve), "output": str(output)}

    return of_table("Training", curve, document, lambda: filled(text))


def of_tuned(done: Tuned, output: str | os.PathLike[str]) -> Result:
    """Answer which hyper-parameters are best; the table is one row."""
    text = f"{output}: the best of {done.trials} trials has {done.shortfall:.4f}, untuned {done.before:.4f}"
    row = {**done.parameters, "shortfall": done.shortfall, "before": done.before, "trials": done.trials}
    document = {**asdict(done), "output": str(output)}
    return of_table("Hyper-parameters", pd.DataFrame([row]), lambda: document, lambda: filled(text))


def of_evaluation(rows: pd.DataFrame) -> Result:
    """Answer how well models rank and predict; the table has a row a model, the document those of every seed too."""
    table = evaluate.summary(rows)
    return of_table(
        "Tensor cost models",
        table,
        lambda: {"summary": to_rows(table), "rows": to_rows(rows)},
        lambda: table_text(evaluate.terminal_table(table)),
    )


def of_predictions(rows: pd.DataFrame) -> Result:
    """Answer which candidates are fast; the table is that of `perfvec.tensor.predict`."""
    document = {"predictions": to_rows(rows)}
    return of_table("Predicted candidates", rows, lambda: document, lambda: table_text(rows.drop(columns="task_id")))


def of_limits(dataset: str | os.PathLike[str], seed: int = 0) -> Result:
    """Answer how good a cost model of a dataset can be; the table has a row a device, of errors from other devices."""
    found = limits.limits(dataset, seed)
    table = pd.DataFrame.from_dict(found["devices"], orient="index").rename_axis("device").reset_index()
    return of_table("Limits of cost models", table, lambda: found, lambda: _limits_text(found))


def _limits_text(found: dict[str, Any]) -> str:
    deviate = "unknown" if found["spread"] is None else f"{found['spread']:.2f}"
    lines = [f"{found['records']:,} records; deviation of the log latencies of a task on a device: {deviate}"]
    if (twins := found["twins"]) is None:
        lines.append("no two schedules of a task have the same features: nothing says how noisy they are")
    else:
        lines += [
            f"{twins['pairs']:,} pairs of the same features: {twins['median']:.1%} apart (median), {twins['p90']:.1%} "
            f"(90th percentile); {found['close']:.1%} of all pairs are closer than that median",
            f"pairwise accuracy of one measurement by another: {found['pairwise']:.3f}",
        ]
    if (again := found["again"]) is not None:
        lines.append(
            f"records measured again differ by {again['median']:.1%} (median): pairwise accuracy of one measurement by "
            f"another {again['pairwise']:.3f}, of the true latencies {again['model']:.3f}"
        )
    for device, errors in found["devices"].items():
        said = ", ".join(f"{way} {error:.1%}" for way, error in errors.items() if way != "schedules")
        lines.append(
            f"{device} from the other devices' measured latencies of {errors['schedules']:,} schedules, MAPE: {said}"
        )
    return "\n".join(map(filled, lines))
