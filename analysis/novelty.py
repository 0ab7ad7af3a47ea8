"""Whether a program or a machine is like what trained the model, so that one knows when not to believe a number.

The distance to the nearest of the training set is held against the distances at which its members themselves have their
nearest neighbours (nearest-neighbour novelty detection: Tax & Duin, ICPR 2000; Pimentel et al., Signal Processing 99,
2014): farther than the farthest of them is outside. Programs are told apart by the angle between their vectors, as
`analysis.compare` does, machines by the encoder's normalised features (root mean square over the features).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.report import Section
from perfvec.machines.features import features_of_machines
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from uarch.configuration import Machine

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
    if model.program_vectors is not None:
        there = np.flatnonzero(model.program_vectors.any(axis=1))
        known = _directions(model.program_vectors[there])
        usual = _usual(_cosine(known, known))
        names = [model.programs[row].name for row in there]
        for program, distances in zip(
            programs, _cosine(_directions(np.stack([p.vector for p in programs])), known), strict=True
        ):
            rows.append(_row("program", program.program, names, distances, usual))
    configured = [machine for machine in machines if isinstance(machine, Machine)]
    if model.encoder is not None and configured:
        known_machines = (*model.machines, *model.fitted_machines)
        trained = _normalised(model, known_machines)
        usual = _usual(_root_mean_square(trained, trained))
        names = [machine.name for machine in known_machines]
        for machine, distances in zip(
            configured, _root_mean_square(_normalised(model, configured), trained), strict=True
        ):
            row = _row("machine", machine.name, names, distances, usual)
            beyond = model.encoder.outside(machine) if row["distance"] > 0 else []
            rows.append(row | {"beyond": ", ".join(beyond), "outside": row["outside"] or bool(beyond)})
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "beyond"])
    return frame


def warnings(frame: pd.DataFrame) -> list[str]:
    """One line for each that lies outside by its distance."""
    far = frame[frame["outside"] & (frame["distance"] > frame["usual"])]
    return [
        f"{row.what} {row.name_}: unlike what trained the model: {row.distance:.3g} from the nearest, {row.nearest} "
        f"(within the training set at most {row.usual:.3g}); the prediction is a guess"
        for row in far.rename(columns={"name": "name_"}).itertuples()
    ]


def to_json(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """What `predict --json` holds under `outside`."""
    rows = frame[frame["outside"]].drop(columns="outside").to_dict(orient="records")
    return [{str(column): value for column, value in row.items()} for row in rows]


def sections(frame: pd.DataFrame) -> list[Section]:
    """The part of the HTML report; none where all is like what trained the model."""
    outside = frame[frame["outside"]].drop(columns="outside").reset_index(drop=True)
    text = (
        "Programs and machines farther from the nearest of the training set than any of that is from its own nearest, "
        "or with fields beyond the encoder's ranges: predictions of them are guesses."
    )
    return [Section("Unlike what trained the model", text, table=outside)] if len(outside) else []


def _row(what: str, name: str, names: Sequence[str], distances: NDArray[np.float64], usual: float) -> dict[str, Any]:
    nearest = int(np.argmin(distances))
    distance = float(distances[nearest])
    return {
        "what": what, "name": name, "nearest": names[nearest], "distance": distance, "usual": usual,
        "outside": distance > usual, "beyond": "",
    }  # fmt: skip


def _usual(distances: NDArray[np.float64]) -> float:
    """The largest distance of one of them to its nearest other, of their distances [n, n]."""
    if len(distances) < 2:
        return float("inf")
    others = distances + np.diag(np.full(len(distances), np.inf))
    return float(others.min(axis=1).max())


def _directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(1.0 - one @ other.T, 0.0)


def _root_mean_square(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(((one[:, None] - other[None]) ** 2).mean(axis=2))


def _normalised(model: Model, machines: Sequence[Machine]) -> NDArray[np.float64]:
    encoder = model.encoder
    assert encoder is not None
    mean, scale = encoder.mean.double().numpy(), encoder.scale.double().numpy()
    features = features_of_machines(machines)[:, : len(mean)]
    return (features - mean) * scale
