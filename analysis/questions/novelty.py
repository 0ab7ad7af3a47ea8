"""Novelty: whether a program or a machine is like what trained the model, or a number should not be believed.

A machine that is farther from the nearest of the training set than any of that is from its own nearest lies outside. So
does a program that has fewer training programs near it than those that the model was calibrated on
(`UnlikeCalibration`); without such a calibration, one by the rule of machines. Distances are
`perfvec.intervals.novelty`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.results.page import Section
from perfvec.intervals.novelty import Neighbours, machine_neighbours, program_isolation, program_neighbours
from perfvec.machines.encoder import no_inputs
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from uarch.configuration import Machine, flatten

COLUMNS = ("what", "name", "nearest", "distance", "usual", "outside")


def novelty(
    model: Model, programs: Sequence[ProgramVector], machines: Sequence[Machine | MachineVector]
) -> pd.DataFrame:
    """One row per program and machine: `what` (program or machine), `name`, `nearest` (of the training set), `distance`
    to it, `usual` (the largest such distance within the training set), `outside`, and `beyond`, a text of the fields
    that lie outside the encoder's ranges ("" where none does).

    Programs are judged where the model holds its training programs' vectors, machines where it has an encoder;
    machines that are known by a fitted vector are not.
    """
    rows: list[dict[str, Any]] = []
    vectors = np.stack([program.vector for program in programs]) if programs else None
    near = program_neighbours(model, vectors) if vectors is not None else None
    if near is not None and vectors is not None:
        unlike = model.calibration.unlike if model.calibration is not None else None
        isolation = program_isolation(model, vectors, unlike.neighbours) if unlike is not None else None
        if unlike is not None and isolation is not None:
            near = replace(near, distance=isolation, usual=unlike.distance)
        trained = {program.digest for program in model.programs}
        for program, row in zip(programs, _rows("program", [p.program for p in programs], near), strict=True):
            rows.append(row | {"outside": row["outside"] and program.trace_digest not in trained})
    configured = [machine for machine in machines if isinstance(machine, Machine)]
    near = machine_neighbours(model, configured)
    if near is not None and model.encoder is not None:
        for machine, row in zip(configured, _rows("machine", [m.name for m in configured], near), strict=True):
            known = row["distance"] == 0  # but for what is no input
            beyond = no_inputs(flatten(machine.to_dict())) if known else model.encoder.outside(machine)
            rows.append(row | {"beyond": ", ".join(beyond), "outside": row["outside"] or bool(beyond)})
    return pd.DataFrame(rows, columns=[*COLUMNS, "beyond"]).astype({"outside": bool})


def _rows(what: str, names: Sequence[str], near: Neighbours) -> list[dict[str, Any]]:
    return [
        {
            "what": what,
            "name": name,
            "nearest": nearest,
            "distance": distance,
            "usual": near.usual,
            "outside": distance > near.usual,
            "beyond": "",
        }
        for name, nearest, distance in zip(names, near.names, near.distance.tolist(), strict=True)
    ]


def warnings(frame: pd.DataFrame) -> list[str]:
    """One line for each that lies outside by its distance."""
    far = frame[frame["outside"] & (frame["distance"] > frame["usual"])]
    return [
        f"{row.what} {row.name_}: unlike what trained the model: distance {row.distance:.3g}, where {row.usual:.3g} is "
        f"usual (the nearest is {row.nearest}); the prediction is a guess"
        for row in far.rename(columns={"name": "name_"}).itertuples()
    ]


def unlike(model: Model, programs: Sequence[ProgramVector]) -> list[str]:
    """One line for each program that is unlike what trained the model, for questions over many machines."""
    return warnings(novelty(model, programs, ()))


def to_json(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what `predict --json` holds under `outside`."""
    rows = frame[frame["outside"]].drop(columns="outside").to_dict(orient="records")
    return [{str(column): None if value == np.inf else value for column, value in row.items()} for row in rows]


def sections(frame: pd.DataFrame) -> list[Section]:
    """The part of the HTML report; none where all is like what trained the model."""
    outside = frame[frame["outside"]].drop(columns="outside").reset_index(drop=True)
    text = (
        "Programs and machines farther from the training set than is usual, or with fields beyond the encoder's "
        "ranges: predictions of them are guesses."
    )
    source = "distances to the nearest of the model's training set"
    return [Section("Unlike what trained the model", text, table=outside, source=source)] if len(outside) else []
