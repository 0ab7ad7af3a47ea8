"""The interval of a prediction: the model's calibration where it has one, and the sampling's error with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfvec.intervals.level import least_groups
from perfvec.intervals.novelty import program_isolation, program_neighbours
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector

_FARTHEST = 2.0  # times the usual distance of a machine


def half_widths(
    model: Model,
    programs: Sequence[ProgramVector],
    ways: Sequence[str],
    machine_distances: NDArray[np.float64],
    level: float,
) -> NDArray[np.float64]:
    """[P, M] what to add and subtract to the logarithm of each program's cycles on each machine, whose vector comes by
    `ways` [M] and which lies at `machine_distances` [M] (multiples of the usual one, NaN: unknown).

    NaN where the model has no calibration of that way, or none that reaches the level, and for machines so far from all
    that the model was judged on that its errors there tell nothing.
    """
    found = np.full((len(programs), len(ways)), np.nan)
    if model.calibration is None or not programs:
        return found
    vectors = np.stack([program.vector for program in programs])
    near = program_neighbours(model, vectors)
    distances = np.full(len(programs), np.nan) if near is None else near.relative()
    for number, way in enumerate(ways):
        known = model.calibration.ways.get(way)
        if known is not None:
            width = known.half_width(level, distances, machine_distances[number])
            width = np.maximum(width, unlike_half_widths(model, vectors, level))
            told = np.isfinite(width) & ~(machine_distances[number] > _FARTHEST)
            found[:, number] = np.where(told, width, np.nan)
    return found


def unlike_half_widths(model: Model, vectors: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """[P] the least half widths of programs by their vectors [P, d]: 0 for those like what the model was judged on."""
    unlike = model.calibration.unlike if model.calibration is not None else None
    isolation = program_isolation(model, vectors, unlike.neighbours) if unlike is not None else None
    return np.zeros(len(vectors)) if unlike is None or isolation is None else unlike.half_width(level, isolation)


def around(
    cycles: NDArray[np.float64], half_width: NDArray[np.float64], sampling: NDArray[np.float64] | float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`low` and `high` of `cycles`, from the half width of their logarithm and that of the sampling, in cycles.

    The two errors are independent, so half widths add up in quadrature, both relative to the prediction. NaN where a
    half width is, or the prediction is not positive, or `high` would be beyond what a number holds.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        both = np.where(cycles > 0, np.hypot(half_width, sampling / cycles), np.nan)
        high = cycles * np.exp(both)
        bounded = np.isfinite(high)
        return np.where(bounded, cycles * np.exp(-both), np.nan), np.where(bounded, high, np.nan)


def missing(model: Model, ways: Sequence[str], level: float) -> list[str]:
    """One line for each reason why machines by one of these ways have no interval by the model."""
    if model.calibration is None:
        return ["the model carries no calibration (perfvec calibrate makes one): nothing tells how far it may be off"]
    lines = []
    for way in dict.fromkeys(ways):
        known = model.calibration.ways.get(way)
        if known is None:
            lines.append(f"the model's calibration has no machine by way of {way!r}: no interval there")
        elif not np.isfinite(known.quantile(level)):
            lines.append(
                f"the model's calibration is of {known.programs} programs and {known.machines} machines, {level:.4g} "
                f"needs {least_groups(level)} of each: no interval by way of {way!r}"
            )
    return lines
