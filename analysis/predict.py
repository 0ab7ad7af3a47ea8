"""How fast each program runs on each machine: dot products of program and machine vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import style
from perfvec.model import Model
from perfvec.vector import ProgramVector
from uarch.configuration import Machine


def predict(model: Model, programs: Sequence[ProgramVector], machines: Sequence[Machine]) -> pd.DataFrame:
    """One row per program and machine.

    Columns: `program`, `uarch`, `instructions`, `cycles` (core cycles), `seconds`, `cpi`, `ipc`, `machine_vector`
    (`table`: the machine trained the model; `encoder`: zero-shot from its configuration).
    """
    machine_vectors, origin = model.machine_vectors(list(machines))
    rows = []
    for program in programs:
        for machine, cycles, source in zip(machines, machine_vectors @ program.vector, origin, strict=True):
            rows.append(
                {
                    "program": program.program, "uarch": machine.name, "instructions": program.instructions,
                    "cycles": float(cycles), "seconds": float(cycles) / (machine.frequency_ghz * 1e9),
                    "cpi": float(cycles) / program.instructions, "ipc": program.instructions / float(cycles),
                    "machine_vector": source,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def to_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document; `interval` is null for a vector of the whole trace."""
    rows = frame.to_dict(orient="records")
    return {"predictions": [{**row, "interval": None} for row in rows]}


def plot(frame: pd.DataFrame) -> Figure:
    """CPI of every program on every machine, machines sorted by their geometric mean."""
    table = frame.pivot_table(index="uarch", columns="program", values="cpi", sort=False)
    table = table.loc[np.log(table).mean(axis=1).sort_values(ascending=False).index]
    figure, axes = style.axes(width=8, height=1.2 + 0.22 * len(table) * (0.6 + 0.4 * len(table.columns)))
    positions = np.arange(len(table), dtype=float)
    bar = 0.8 / len(table.columns)
    for index, program in enumerate(table.columns):
        offset = (index - (len(table.columns) - 1) / 2) * bar
        axes.barh(positions - offset, table[program], bar * 0.9, color=style.colour(index), label=str(program))
    axes.set_yticks(positions, [str(name) for name in table.index])
    axes.set_xlabel("predicted cycles per instruction")
    axes.legend(frameon=False)
    return figure
