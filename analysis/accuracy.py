"""How good a model is, as answers: the accuracy protocol, its intervals, the what-if protocol (`perfvec.evaluate`)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pandas as pd

from analysis import what_if
from analysis.report import Section
from analysis.result import Result, table_text
from perfvec import evaluate
from perfvec.intervals import calibrate
from perfvec.model import Model


def of_models(
    models: Sequence[Model], traces: str | os.PathLike[str], latencies: str | os.PathLike[str], *,
    group: str | None = None, files: Sequence[str] = (),
) -> Result:  # fmt: skip
    """Answer how far predictions are off; the table is that of `perfvec.evaluate.evaluate`, a row a pair.

    The text is the summary, or a table by `group` (program, uarch or model, of these `files`). Raises InputError.
    """
    if group is not None:
        evaluate.require_group(group)
    pairs = evaluate.evaluate(models, traces, latencies)
    names = {model.digest: path for model, path in zip(models, files, strict=False)}
    summary = evaluate.summary(pairs) if group is None else evaluate.by(pairs, group, names)
    return Result(
        "Accuracy of the model",
        pairs,
        document=lambda: evaluate.to_json(pairs),
        text=lambda: table_text(summary),
        sections=lambda: [Section("Errors", evaluate.describe(pairs), table=summary)],
    )


def of_intervals(found: calibrate.Calibrated) -> Result:
    """Answer how often a calibrated model's intervals hold; the table has a row a held-out pair."""
    return Result(
        "Intervals of held-out programs",
        found.pairs,
        document=lambda: calibrate.to_json(found),
        text=lambda: table_text(calibrate.shown(found.coverage)),
        sections=lambda: [Section("How often the intervals hold", table=found.coverage)],
        notes=tuple(found.warnings),
    )


def of_changes(changes: pd.DataFrame, orders: pd.DataFrame) -> Result:
    """Answer how well changes of a machine are told; the table is that of `analysis.what_if.summary`."""
    table = what_if.summary(changes, orders)
    return Result(
        "Changes of a machine",
        table,
        document=lambda: what_if.to_json(changes, orders),
        text=lambda: what_if.shown(table),
        sections=lambda: [Section("Changes of a machine", table=table)],
    )
