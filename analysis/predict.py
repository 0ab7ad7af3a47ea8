"""How fast each program runs on each machine: dot products of program and machine vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.figure import Axis, Bars, Figure, Panel
from analysis.report import Section
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from uarch.configuration import Machine


def predict(
    model: Model, programs: Sequence[ProgramVector], machines: Sequence[Machine | MachineVector]
) -> pd.DataFrame:
    """One row per program and machine.

    Columns: `program`, `uarch`, `instructions`, `cycles` (core cycles), `seconds`, `cpi`, `ipc`, `machine_vector`
    (`table`: the machine trained the model; `encoder`: zero-shot from its configuration; `fitted`: to times), `low` and
    `high` (cycles of a 95 % interval, NaN where there is none).
    """
    configured = [machine for machine in machines if not isinstance(machine, MachineVector)]
    known = zip(*model.machine_vectors(configured), strict=True)
    vectors = [(m.vector, "fitted") if isinstance(m, MachineVector) else next(known) for m in machines]
    rows = []
    for program in programs:
        for machine, (vector, source) in zip(machines, vectors, strict=True):
            cycles = float(vector @ program.vector)
            low, high = math.nan, math.nan
            if isinstance(machine, MachineVector):
                low, high = machine.interval(program.vector[None])[0].tolist()
            if program.sampling is not None:  # independent of the machine's error
                own = 0.0 if math.isnan(low) else (high - low) / 2
                half = math.hypot(own, float(program.sampling.half_width(vector[None])[0]))
                low, high = cycles - half, cycles + half
            rows.append(
                {
                    "program": program.program, "uarch": machine.name, "instructions": program.instructions,
                    "cycles": cycles, "seconds": cycles / (machine.frequency_ghz * 1e9),
                    "cpi": cycles / program.instructions, "ipc": program.instructions / cycles,
                    "machine_vector": source, "low": low, "high": high,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def to_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document; `interval` (cycles) is null where only a point is known."""
    rows = frame.to_dict(orient="records")
    for row in rows:
        low, high = row.pop("low"), row.pop("high")
        row["interval"] = None if math.isnan(low) else [low, high]
    return {"predictions": rows}


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The table of the terminal; `±` where an interval is known."""
    table = frame[["program", "uarch", "instructions", "cycles", "seconds", "cpi", "ipc"]]
    if frame["low"].isna().all():
        return table
    share = (frame["high"] - frame["low"]) / 2 / frame["cycles"]
    return table.assign(**{"±": share.map(lambda value: "" if math.isnan(value) else f"{value:.1%}")})


def sections(frame: pd.DataFrame) -> list[Section]:
    """The parts of the HTML report."""
    return [
        Section(
            "Cycles per instruction", "Machines in the order of their mean; the fastest is last.", plot(frame), frame
        ),
        Section("Time", "Cycles at each machine's frequency.", plot(frame, "seconds")),
    ]


def plot(frame: pd.DataFrame, what: str = "cpi") -> Figure:
    """`cpi`, or `seconds` as milliseconds, of every program on every machine, machines sorted by the geometric mean."""
    programs, machines = (list(dict.fromkeys(frame[column])) for column in ("program", "uarch"))
    mean = np.log(frame[what].clip(lower=1e-30)).groupby(frame["uarch"], sort=False).mean()
    machines = [str(name) for name in mean.sort_values(ascending=False).index]
    title, factor = ("predicted cycles per instruction", 1.0) if what == "cpi" else ("predicted time, ms", 1e3)
    bars = []
    for program in programs:
        rows = frame[frame["program"] == program].drop_duplicates("uarch").set_index("uarch").loc[machines]
        each = rows[what] * factor / rows["cycles"]  # of a cycle
        bars.append(Bars(str(program), machines, rows[what] * factor, rows["low"] * each, rows["high"] * each))
    height = 1.4 + 0.22 * len(machines) * (0.6 + 0.4 * len(programs))
    return Figure([Panel(bars, x=Axis(title, zero=True), sideways=True)], height=height)
