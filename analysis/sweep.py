"""A grid over configuration fields: every point's time from the machine encoder, without simulation."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis import style
from perfvec.model import Model
from perfvec.vector import ProgramVector
from uarch.configuration import Machine, parse_value, replace_field
from uarch.errors import InputError

MOST_POINTS = 200_000


def parse_vary(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`FIELD=V1,V2,…` of the command line → field and values. Raises InputError for anything else."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        field, equals, values = text.partition("=")
        words = [word.strip() for word in values.split(",") if word.strip()]
        if not equals or not words:
            raise InputError(f"--vary {text!r} must read FIELD=V1,V2,… such as l1d.size_kib=16,32,64")
        if field in grid:
            raise InputError(f"--vary names {field!r} twice; list all its values once")
        grid[field] = [parse_value(field, word) for word in words]
    if not grid:
        raise InputError("an empty sweep: give at least one --vary FIELD=V1,V2,…")
    return grid


def grid_machines(base: Machine, grid: Mapping[str, Sequence[Any]]) -> list[Machine]:
    """`base` with every combination of the values; the first field varies slowest."""
    size = int(np.prod([len(values) for values in grid.values()]))
    if size > MOST_POINTS:
        raise InputError(f"the grid has {size:,} points; at most {MOST_POINTS:,}: vary fewer fields or values")
    machines = []
    for point in itertools.product(*grid.values()):
        machine = base
        for field, value in zip(grid, point, strict=True):
            machine = replace_field(machine, field, value)
        machines.append(machine)
    return machines


def sweep(
    model: Model, programs: Sequence[ProgramVector], base: Machine, grid: Mapping[str, Sequence[Any]]
) -> pd.DataFrame:
    """One row per program and grid point: a column per field, then `program`, `cycles`, `seconds`, `pareto`.

    All points, the base too, go through the encoder, so that differences are between like and like. `pareto` marks the
    points that no other of the program matches or beats in time with no varied number larger and no kind different.
    """
    if model.encoder is None:
        raise InputError("this model has no machine encoder; a sweep needs one (perfvec train fits it)")
    machines = grid_machines(base, grid)
    vectors = model.encoder.vectors(machines)
    points = pd.DataFrame(list(itertools.product(*grid.values())), columns=list(grid))
    frequency = np.array([machine.frequency_ghz for machine in machines]) * 1e9
    frames = []
    for program in programs:
        cycles = vectors @ program.vector
        frame = points.assign(program=program.program, cycles=cycles, seconds=cycles / frequency)
        frames.append(frame.assign(pareto=_pareto(frame, list(grid))))
    return pd.concat(frames, ignore_index=True)


def _pareto(frame: pd.DataFrame, fields: Sequence[str]) -> NDArray[np.bool_]:
    """Points not dominated in (seconds, every numeric field), each the smaller the better, among equal kinds."""
    numeric = [field for field in fields if pd.api.types.is_numeric_dtype(frame[field])]
    kinds = [field for field in fields if field not in numeric]
    front = np.zeros(len(frame), bool)
    groups = frame.groupby(kinds, sort=False).indices.values() if kinds else [np.arange(len(frame))]
    for rows in groups:
        values = frame.iloc[rows][["seconds", *numeric]].to_numpy(float)
        order = np.lexsort(values.T[::-1])
        kept = np.empty((0, values.shape[1]))
        for position in order:
            if not (kept <= values[position]).all(axis=1).any():
                front[rows[position]] = True
                kept = np.vstack([kept, values[position]])
    return front


def to_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document of DESIGN: `points` and the indices of those on the Pareto front."""
    fields = [column for column in frame.columns if column not in ("program", "cycles", "seconds", "pareto")]
    points = [
        {
            "uarch": {field: row[field] for field in fields},
            "program": row["program"], "seconds": row["seconds"], "cycles": row["cycles"],
        }
        for row in frame.to_dict(orient="records")
    ]  # fmt: skip
    return {"points": points, "pareto": np.flatnonzero(frame["pareto"]).tolist()}


def plot(frame: pd.DataFrame) -> Figure:
    """Each program's predicted time: a heat map over the first two fields, or a curve over one.

    Where more fields vary, the best over them is shown.
    """
    fields = [column for column in frame.columns if column not in ("program", "cycles", "seconds", "pareto")]
    programs = list(dict.fromkeys(frame["program"]))
    if len(fields) == 1:
        figure, axes = style.axes(width=7, height=3.6)
        for index, program in enumerate(programs):
            part = frame[frame["program"] == program]
            labels = [str(value) for value in part[fields[0]]]
            axes.plot(labels, part["seconds"] * 1e3, "o-", color=style.colour(index), label=program)
        axes.set_xlabel(fields[0])
        axes.set_ylabel("predicted time, ms")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        return figure
    figure = Figure(figsize=(4.2 * len(programs) + 0.6, 3.6), layout="constrained")
    for index, program in enumerate(programs):
        axes = figure.add_subplot(1, len(programs), index + 1)
        part = frame[frame["program"] == program]
        table = part.pivot_table(index=fields[1], columns=fields[0], values="seconds", aggfunc="min", sort=False) * 1e3
        image = axes.imshow(table.to_numpy(), cmap=style.HEAT_MAP, origin="lower", aspect="auto")
        axes.set_xticks(range(len(table.columns)), [str(value) for value in table.columns])
        axes.set_yticks(range(len(table.index)), [str(value) for value in table.index])
        axes.set_xlabel(fields[0])
        axes.set_ylabel(fields[1])
        axes.set_title(f"{program}: predicted time, ms", fontsize=10)
        figure.colorbar(image, ax=axes)
    return figure
