"""Answers about a model's quality: the accuracy protocol, its intervals, the what-if protocol (`perfvec.evaluate`)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pandas as pd

from analysis.questions import what_if
from analysis.results.result import Result, of_table, table_text
from perfvec import evaluate
from perfvec.intervals import calibrate
from perfvec.model import Model


def of_models(
    models: Sequence[Model],
    traces: str | os.PathLike[str],
    latencies: str | os.PathLike[str],
    *,
    group: str | None = None,
    files: Sequence[str] = (),
) -> Result:
    """Answer how far predictions are off; the table is that of `perfvec.evaluate.evaluate`, a row a pair.

    The text is the summary, or a table by `group` (program, uarch or model, of these `files`). Raises InputError.
    """
    if group is not None:
        evaluate.require_group(group)
    pairs = evaluate.evaluate(models, traces, latencies)
    names = {model.digest: path for model, path in zip(models, files, strict=False)}
    summary = evaluate.summary(pairs) if group is None else evaluate.by(pairs, group, names)
    return of_table(
        "Accuracy of the model",
        pairs,
        lambda: evaluate.to_json(pairs),
        lambda: table_text(evaluate.terminal_table(summary)),
    )


def of_intervals(found: calibrate.Calibrated) -> Result:
    """Answer how often a calibrated model's intervals hold; the table has a row a held-out pair."""
    return of_table(
        "Intervals of held-out programs",
        found.pairs,
        lambda: calibrate.to_json(found),
        lambda: table_text(calibrate.terminal_table(found.coverage)),
        notes=found.warnings,
    )


def of_changes(changes: pd.DataFrame, orders: pd.DataFrame) -> Result:
    """Answer how well changes of a machine are told; the table is that of `analysis.questions.what_if.summary`."""
    table = what_if.summary(changes, orders)
    return of_table(
        "Changes of a machine", table, lambda: what_if.to_json(changes, orders), lambda: what_if.shown(table)
    )
