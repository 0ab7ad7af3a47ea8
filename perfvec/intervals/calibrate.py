"""Calibrating a model on what its folds left out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from perfvec.intervals.calibration import Calibration, Errors, calibrate_way, left_out_half_widths
from perfvec.intervals.held_out import held_out_errors
from perfvec.intervals.level import DEFAULT_LEVEL, least_groups, require_level
from perfvec.model import Model
from support.errors import InputError

_OLDEST = "table"  # the way whose machines are the model's own, not examples of new ones


@dataclass(frozen=True)
class Calibrated:
    """The model with its calibration; `coverage` (a row a way and kind of core), `pairs` (a row a held-out pair) and
    `warnings` say how good that is.
    """

    model: Model
    coverage: pd.DataFrame
    pairs: pd.DataFrame
    warnings: list[str]


def calibrate(
    model: Model,
    folds: Sequence[Model],
    traces: str | os.PathLike[str],
    latencies: str | os.PathLike[str],
    *,
    level: float = DEFAULT_LEVEL,
    progress: bool = True,
) -> Calibrated:
    """`model` with the calibration that the held-out errors of `folds` give; nothing of it is changed but that.

    The folds should be made as the model was, each from other programs (`perfvec train --fold K/N`); machines of the
    labels that are not in a fold's table calibrate the ways `encoder` and `fitted`. `level` is that of the coverage
    which is shown; the calibration serves every level. Raises InputError where a fold left no program out.
    """
    if not folds:
        raise InputError("no fold model: give models that left programs out (perfvec train --fold K/N)")
    require_level(level)
    if not model.digest:
        raise InputError("a model is calibrated once it is saved and loaded: its file's digest names it")
    pairs = held_out_errors(folds, traces, latencies, progress=progress)
    warnings = _differences(model, folds)
    ways, parts = {}, []
    for name, group in pairs.groupby("way", sort=False):
        errors = errors_of(group, new_machines=name != _OLDEST)
        ways[str(name)] = way = calibrate_way(errors)
        if not np.isfinite(way.quantile(level)):
            warnings.append(
                f"{name}: {way.programs} programs and {way.machines} machines are too few for {level:.4g}: "
                f"{least_groups(level)} are needed{'' if name == _OLDEST else ' of each'}"
            )
        parts.append(group.assign(half_width=left_out_half_widths(errors, level)))
    pairs = pd.concat(parts).sort_index()
    table = coverage(pairs, level)
    provenance = {"folds": [fold.digest for fold in folds], "level": level, "coverage": _finite(table)}
    return Calibrated(replace(model, calibration=Calibration(ways, provenance)), table, pairs, warnings)


def errors_of(frame: pd.DataFrame, *, new_machines: bool) -> Errors:
    """Return the errors in rows of `held_out_errors` by one way."""
    names = ("program", "machine_digest")
    program, machine = (pd.factorize(frame[name])[0].astype(np.int64) for name in names)
    error, *distances = (frame[name].to_numpy(np.float64) for name in ("error", "program_distance", "machine_distance"))
    return Errors(error, program, machine, distances[0], distances[1], new_machines)


def coverage(pairs: pd.DataFrame, level: float) -> pd.DataFrame:
    """Return how often the intervals of left-out programs held, by `way` and `core` (and all of a way together).

    Columns: `way`, `core`, `level`, `covered` (mean over the programs of the share of their pairs), `least_program`
    (the smallest of these shares), `programs_below` (programs of which less than the level is covered), `median_low`
    and `median_high` (the median interval, relative to the prediction: -0.2 is 20 % below), `programs`, `machines`,
    `pairs`.
    """
    rows = []
    for way, of_way in pairs.groupby("way", sort=False):
        cores = sorted(of_way["core"].unique())
        for core in ["all", *cores] if len(cores) > 1 else ["all"]:
            part = of_way if core == "all" else of_way[of_way["core"] == core]
            held = (part["error"].abs() <= part["half_width"]).groupby(part["program"]).mean()
            median = float(part["half_width"].median())
            rows.append(
                {
                    "way": way,
                    "core": core,
                    "level": level,
                    "covered": float(held.mean()),
                    "least_program": float(held.min()),
                    "programs_below": int((held < level).sum()),
                    "median_low": float(np.expm1(-median)),
                    "median_high": float(np.expm1(median)),
                    "programs": len(held),
                    "machines": part["machine_digest"].nunique(),
                    "pairs": len(part),
                }
            )
    return pd.DataFrame(rows)


def terminal_table(table: pd.DataFrame) -> pd.DataFrame:
    """`coverage` for the terminal: in per cent, what was judged as programs × machines."""
    low, high = (table[column].map("{:+.1%}".format) for column in ("median_low", "median_high"))
    known = np.isfinite(table["median_high"])
    return table[["way", "core"]].assign(
        covered=table["covered"].map("{:.1%}".format),
        least_program=table["least_program"].map("{:.1%}".format),
        median=(low + " " + high).where(known, "-"),
        judged=table["programs"].map(str) + " × " + table["machines"].map(str),
        pairs=table["pairs"],
    )


def to_json(found: Calibrated) -> dict[str, Any]:
    """The `--json` document of `perfvec calibrate`."""
    return {"coverage": _finite(found.coverage), "warnings": found.warnings, "pairs": _finite(found.pairs)}


def _finite(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON: what is infinite or unknown is null."""

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return [{str(name): plain(value) for name, value in row.items()} for row in frame.to_dict(orient="records")]


def _differences(model: Model, folds: Sequence[Model]) -> list[str]:
    found = []
    for number, fold in enumerate(folds, 1):
        if (fold.schema.identity, fold.foundation.shape) != (model.schema.identity, model.foundation.shape):
            found.append(f"fold {number} is of another schema or architecture than the model: its errors may be others")
        if fold.digest == model.digest:
            found.append(f"fold {number} is the model itself, not one like it that was made of fewer programs")
    return found
