"""A sweep's points as tables on the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.designs.table import best, fields_of
from analysis.results.figure import distinct, label
from analysis.results.intervals import changes, relative
from analysis.results.result import filled, to_rows
from uarch.columns import of_machine
from uarch.configuration import Machine

MOST_LISTED = 200_000  # points in a JSON document; of more, the front's and the best


def terminal_tables(frame: pd.DataFrame, order: Sequence[str], width: int = 80) -> list[pd.DataFrame]:
    """Tables of few points for the terminal, as many as the fields in this order need; the first has the results.

    Times are in milliseconds; `pareto` is a star. Rows of several tables are numbered, `#`.
    """
    results = pd.DataFrame({"program": frame["program"].map(_shortened(frame)), "ms": frame["seconds"] * 1e3})
    results.index = frame.index
    results["source"] = frame["source"].astype(str)
    if "low" in frame and (frame["low"] < frame["high"]).any():
        results["interval"] = relative(frame, "seconds")
    if "change" in frame and frame["change"].notna().any():
        results["change"] = changes(frame)
    for column in ("cost", "objective"):
        if column in frame:
            results[column] = frame[column]
    results["pareto"] = np.where(frame["pareto"], "*", "")
    fields = pd.DataFrame({field: _text(frame[field]) for field in order}, index=frame.index)
    table, left = _filled(results, fields, width)
    tables = [table]
    if left:
        number = pd.DataFrame({"#": range(1, len(frame) + 1)}, index=frame.index)
        table, left = _filled(number.join(results), fields, width)
        tables = [table]
        while left:
            table, left = _filled(number, fields[left], width)
            tables.append(table)
    return [table.reset_index(drop=True) for table in tables]


def _shortened(frame: pd.DataFrame, most: int = 16) -> dict[Any, str]:
    """Return the programs' names as a table has room for them; the ends are kept, where they differ from others."""
    names = list(dict.fromkeys(frame["program"]))
    short = [str(name) if len(str(name)) <= most else f"…{str(name)[1 - most :]}" for name in names]
    return dict(zip(names, distinct(short), strict=True))


def _filled(table: pd.DataFrame, fields: pd.DataFrame, width: int) -> tuple[pd.DataFrame, list[str]]:
    """The table with as many of the fields as fit, at least one where it has nothing else, and the fields left."""
    left = [str(field) for field in fields]
    while left:
        wider = table.join(fields[left[0]])
        text = wider.to_string(index=False, float_format="{:.4g}".format)
        if len(text.partition("\n")[0]) > width and len(table.columns) > 1:
            break
        table, left = wider, left[1:]
    return table, left


def changed_fields(chosen: pd.DataFrame, base: Machine | None) -> list[str]:
    """Return a paragraph for each program: the fields of its best point, but those that are as in the base."""
    flat = {} if base is None else of_machine(base)
    found = []
    for program, part in chosen.groupby("program", sort=False):
        best = part.iloc[0]
        told = [
            f"{field}={label(value)}"
            for field, value in ((field, best[field]) for field in fields_of(chosen))
            if value == value and value != flat.get(field)
        ]
        found.append(filled(f"best for {program}: {', '.join(told)}"))
    return found


def _text(values: pd.Series) -> pd.Series:
    return values.map(lambda value: "-" if value != value else f"{value:g}" if isinstance(value, float) else str(value))


def to_json(
    frame: pd.DataFrame, *, k: int = 10, sensitivities: pd.DataFrame | None = None, chosen: pd.DataFrame | None = None
) -> dict[str, Any]:
    """The `--json` document: `points`, and the indices of those on the Pareto front and of the `k` best (or of
    `chosen`, whose intervals are in `best_intervals`). Intervals are seconds, those of a change fractions, or null.

    Of more than MOST_LISTED points only the front and the best are in it; `evaluated` counts all.
    """
    chosen, evaluated = best(frame, k) if chosen is None else chosen, len(frame)
    if len(frame) > MOST_LISTED:
        kept = np.union1d(np.flatnonzero(frame["pareto"]), chosen.index)
        frame, places = frame.iloc[kept], {int(index): place for place, index in enumerate(kept)}
        chosen_places = [places[int(index)] for index in chosen.index]
    else:
        chosen_places = [int(index) for index in chosen.index]
    fields = fields_of(frame)
    results = [name for name in ("seconds", "cycles", "cost", "objective") if name in frame]
    points = [
        {
            "uarch": {field: _plain(row[field]) for field in fields},
            "program": row["program"],
            "source": row["source"],
            **{name: row[name] for name in results},
            **({"interval": _interval(row["low"], row["high"])} if "low" in frame else {}),
            **(_change(row) if "change" in frame else {}),
        }
        for row in frame.to_dict(orient="records")
    ]
    document = {
        "points": points,
        "pareto": np.flatnonzero(frame["pareto"]).tolist(),
        "best": chosen_places,
        "evaluated": evaluated,
    }
    if "low" in chosen:
        ends = zip(chosen["low"].tolist(), chosen["high"].tolist(), strict=True)
        document["best_intervals"] = [_interval(low, high) for low, high in ends]
    if sensitivities is not None:
        document["sensitivity"] = to_rows(sensitivities)
    return document


def _interval(low: float, high: float) -> list[float] | None:
    return [low, high] if low < high else None


def _change(row: dict[Any, Any]) -> dict[str, Any]:
    change = None if math.isnan(row["change"]) else row["change"]
    return {"change": change, "change_interval": _interval(row["change_low"], row["change_high"])}


def _plain(value: Any) -> Any:
    """A field's value for JSON: null where the machine does not have it, whole numbers whole."""
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return value
