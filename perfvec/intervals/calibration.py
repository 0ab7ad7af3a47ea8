"""Calibration of a model by its own errors: how far a prediction may be off, by the way to the machine's vector, by how
unlike the training set program and machine are, and by the level that is asked for.

Locally weighted conformal prediction (Lei et al., Distribution-free predictive inference for regression, JASA 2018,
§5.2; Papadopoulos et al., ECML 2002): the scores are |log(simulated / predicted)| / s, where the scale s says how large
errors are there, and the interval is predicted · exp(± q s), q a quantile of the scores (perfvec.intervals.conformal).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from perfvec.intervals.conformal import hierarchical_quantiles
from support.errors import InputError

LEVELS = np.round(np.arange(0.5, 0.9951, 0.005), 3)
FORMAT = "perfvec-calibration/1"
_SMALLEST = 1e-6  # of an error, before its logarithm
_STEEPEST = 1.0


@dataclass(frozen=True)
class Scale:
    """s = max(program distance, `least`) ^ `slope` · max(machine distance, 1); distances as multiples of the usual.

    The slope is fitted. Held-out machines hardly differ in their distance, so beyond the usual one s is taken to grow
    in proportion: an assumption, which nothing measured. An unknown distance (NaN) counts as the usual one.
    """

    slope: float
    least: float

    def of(self, program_distance: ArrayLike, machine_distance: ArrayLike) -> NDArray[np.float64]:
        program = np.nan_to_num(np.asarray(program_distance, float), nan=1.0)
        machine = np.nan_to_num(np.asarray(machine_distance, float), nan=1.0)
        return np.maximum(program, self.least) ** self.slope * np.maximum(machine, 1.0)


@dataclass(frozen=True)
class Errors:
    """Held-out errors by one way to the machines' vectors, of n pairs."""

    error: NDArray[np.float64]  # log(simulated / predicted), infinite where the prediction is not positive
    program: NDArray[np.int64]  # numbers of the programs
    machine: NDArray[np.int64]
    program_distance: NDArray[np.float64]
    machine_distance: NDArray[np.float64]
    new_machines: bool  # whether the machines too stand for new ones, or are those of the table

    def rows(self, chosen: NDArray[np.bool_]) -> Errors:
        return Errors(
            self.error[chosen],
            self.program[chosen],
            self.machine[chosen],
            self.program_distance[chosen],
            self.machine_distance[chosen],
            self.new_machines,
        )


@dataclass(frozen=True)
class WayCalibration:
    """The calibration of one way to a machine's vector."""

    scale: Scale
    quantiles: NDArray[np.float64]  # [LEVELS] of the scores; infinite where the programs or machines are too few
    programs: int
    machines: int
    pairs: int

    def quantile(self, level: float) -> float:
        """Return that at the next of LEVELS that is not below `level`; infinite beyond the last."""
        return _at(self.quantiles, level)

    def half_width(self, level: float, program_distance: ArrayLike, machine_distance: ArrayLike) -> NDArray[np.float64]:
        """Return what to add to and subtract from the logarithm of a time."""
        return self.quantile(level) * self.scale.of(program_distance, machine_distance)


@dataclass(frozen=True)
class UnlikeCalibration:
    """The errors of programs of kinds that trained no model: those farther than `distance` from the `neighbours`-th
    nearest training program (perfvec.intervals.novelty). Their half width is the quantile itself, where that is more
    than the way's.
    """

    distance: float
    neighbours: int
    quantiles: NDArray[np.float64]  # [LEVELS] of |log(simulated / predicted)|; infinite where the programs are too few
    programs: int
    machines: int
    pairs: int

    def half_width(self, level: float, isolation: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n] the least half width of programs at these distances; 0 for those that are not unlike."""
        return np.where(isolation > self.distance, _at(self.quantiles, level), 0.0)


def _at(quantiles: NDArray[np.float64], level: float) -> float:
    return float(np.append(quantiles, np.inf)[np.searchsorted(LEVELS, level - 1e-9)])


@dataclass(frozen=True)
class Calibration:
    """Errors by way (`table`, `fitted`, `encoder`), and of programs `unlike` the others; `provenance` says what it
    was made from, and how often it held.
    """

    ways: Mapping[str, WayCalibration]
    provenance: dict[str, Any] = field(default_factory=dict)
    unlike: UnlikeCalibration | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the document in a model's file; an infinite quantile is null."""
        ways = {
            name: {"slope": way.scale.slope, "least": way.scale.least, **_written(way)}
            for name, way in self.ways.items()
        }
        document = {"format": FORMAT, "levels": LEVELS.tolist(), "ways": ways, "provenance": self.provenance}
        if (unlike := self.unlike) is not None:
            written = _written(unlike)
            document["unlike"] = {"distance": unlike.distance, "neighbours": unlike.neighbours, **written}
        return document


def _written(found: WayCalibration | UnlikeCalibration) -> dict[str, Any]:
    return {
        "programs": found.programs,
        "machines": found.machines,
        "pairs": found.pairs,
        "quantiles": [q if math.isfinite(q) else None for q in found.quantiles.tolist()],
    }


def calibration_from_json(document: dict[str, Any]) -> Calibration:
    """Raises InputError for what `to_json` did not write."""
    try:
        if document["format"] != FORMAT or not np.array_equal(document["levels"], LEVELS):
            raise InputError(f"a calibration of the format {document['format']!r}; this release reads {FORMAT!r}")
        ways = {}
        for name, way in document["ways"].items():
            quantiles = _quantiles(way)
            slope, least = float(way["slope"]), float(way["least"])
            if quantiles is None or not 0 <= slope <= _STEEPEST or not 0 < least < np.inf:
                raise InputError(f"the calibration of {name!r} holds numbers that cannot be")
            ways[str(name)] = WayCalibration(Scale(slope, least), quantiles, *_counts(way))
        return Calibration(ways, dict(document["provenance"]), _unlike(document.get("unlike")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a damaged calibration: {error!r}") from error


def _counts(way: dict[str, Any]) -> tuple[int, int, int]:
    """Numbers of programs, machines and pairs."""
    return int(way["programs"]), int(way["machines"]), int(way["pairs"])


def _quantiles(way: dict[str, Any]) -> NDArray[np.float64] | None:
    """[LEVELS] None where they cannot be quantiles."""
    found = np.array([np.inf if q is None else q for q in way["quantiles"]], float)
    rising = found.shape == LEVELS.shape and bool((found[1:] >= found[:-1]).all())
    return found if rising and found[0] >= 0 else None


def _unlike(document: dict[str, Any] | None) -> UnlikeCalibration | None:
    if document is None:
        return None
    quantiles, distance, neighbours = _quantiles(document), float(document["distance"]), int(document["neighbours"])
    if quantiles is None or not 0 < distance < 2 or neighbours < 1:
        raise InputError("the calibration of unlike programs holds numbers that cannot be")
    return UnlikeCalibration(distance, neighbours, quantiles, *_counts(document))


def calibrate_way(errors: Errors) -> WayCalibration:
    """The scale, and the scores' quantiles by programs; of new machines the larger of these and those by machines."""
    scale = fit_scale(errors)
    scores = np.abs(errors.error) / scale.of(errors.program_distance, errors.machine_distance)
    quantiles = hierarchical_quantiles(scores, errors.program, LEVELS)
    if errors.new_machines:
        quantiles = np.maximum(quantiles, hierarchical_quantiles(scores, errors.machine, LEVELS))
    return WayCalibration(
        scale, quantiles, len(np.unique(errors.program)), len(np.unique(errors.machine)), len(errors.error)
    )


def fit_scale(errors: Errors) -> Scale:
    """Least squares of the logarithm of each program's median error on that of its distance, the slope in [0, 1]."""
    frame = (
        pd.DataFrame({"program": errors.program, "error": np.abs(errors.error), "distance": errors.program_distance})
        .groupby("program")
        .median()
    )
    frame = frame[np.isfinite(frame["error"]) & (frame["distance"] > 0)]
    if len(frame) < 3:
        return Scale(0.0, 1.0)
    x, y = np.log(frame["distance"].to_numpy()), np.log(np.maximum(frame["error"].to_numpy(), _SMALLEST))
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / spread) if spread > 0 else 0.0
    return Scale(min(max(slope, 0.0), _STEEPEST), float(np.exp(x.min())))


def left_out_half_widths(errors: Errors, level: float) -> NDArray[np.float64]:
    """[n] the half width that each pair would get had its program (and its machine, if it stands for a new one) not
    been there to calibrate on; infinite where the rest is too few.
    """
    found = np.full(len(errors.error), np.inf)
    for program in np.unique(errors.program):
        mine = errors.program == program
        if not errors.new_machines:
            found[mine] = _half_width(errors.rows(~mine), errors.rows(mine), level)
            continue
        for machine in np.unique(errors.machine[mine]):
            here = mine & (errors.machine == machine)
            found[here] = _half_width(errors.rows(~mine & (errors.machine != machine)), errors.rows(here), level)
    return found


def _half_width(others: Errors, these: Errors, level: float) -> NDArray[np.float64]:
    if not len(others.error):
        return np.full(len(these.error), np.inf)
    return calibrate_way(others).half_width(level, these.program_distance, these.machine_distance)
