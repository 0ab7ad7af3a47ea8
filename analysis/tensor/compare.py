"""Searches of one network beside each other: what each found, and how soon it had what another found in the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.results.result import Result, of_table, to_rows
from analysis.tensor.history import History, read
from support.errors import InputError


def compare(folders: Sequence[Path], reference: int = 0) -> pd.DataFrame:
    """A row for every search folder: model, seed, trials, elapsed_s, latency_s (estimated, at the end), and
    `trials_to_reference` and `s_to_reference`: when its latency was first as good as that of the search number
    `reference` in the end (NaN: never).

    Raises InputError for folders that hold no search, or searches of different networks or devices.
    """
    searches = [read(folder) for folder in folders]
    if not 0 <= reference < len(searches):
        raise InputError(f"the reference is search {reference}; there are {len(searches)}, counted from 0")
    for found in searches:
        for name in ("network", "device", "tasks"):
            if found.header.get(name) != searches[0].header.get(name):
                shown = f"{name} {found.header.get(name)}" if name != "tasks" else "other tasks"
                raise InputError(
                    f"{found.folder}: searched {shown}, {searches[0].folder} did not; compare like with like"
                )
    goal = latency(searches[reference])
    rows = []
    for found in searches:
        trials, seconds = reached(found, goal)
        rows.append(
            {
                "search": found.folder.name,
                "model": found.header["model"],
                "seed": found.header["seed"],
                "trials": found.trials,
                "elapsed_s": found.elapsed_s,
                "latency_s": latency(found),
                "trials_to_reference": trials,
                "s_to_reference": seconds,
            }
        )
    return pd.DataFrame(rows)


def latency(found: History) -> float:
    """Estimated latency at the end, seconds; NaN where some task never ran."""
    curve = found.curve()
    return float(curve["latency_s"].iloc[-1]) if len(curve) else float("nan")


def reached(found: History, goal: float) -> tuple[float, float]:
    """(trials, seconds) after which the estimated latency was first at most `goal`; NaN where it never was."""
    curve = found.curve()
    good = np.flatnonzero(curve["latency_s"].to_numpy() <= goal)
    if not len(good):
        return float("nan"), float("nan")
    row = curve.iloc[int(good[0])]
    return float(row["trials"]), float(row["elapsed_s"])


def ask(folders: Sequence[Path], reference: int = 0) -> Result:
    """Answer which search was the best and the fastest; the table is that of `compare`, unknown numbers are null."""
    frame = compare(folders, reference)
    return of_table("Searches beside each other", frame, lambda: {"searches": to_rows(frame)})
