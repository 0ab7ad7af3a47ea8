"""Fastest value of a kernel's parameter on each machine, as PerfVec analyses loop tiling.

Every value is one build or one run, one trace of the region of interest, one vector; times on all machines follow
without simulating any. Beside them, where wanted, the embedded timing model's cycles of the same traces, and this
computer's time. Where the model has seen no loop like the kernel's, simulating a few values may help: each machine's
vector is fitted to their cycles (`perfvec.machines.posterior`), which moves the other values' times too.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau
from tqdm import tqdm

from analysis.budget.budget import RATE
from analysis.results.figure import Axis, Figure, Lines, Panel
from analysis.results.headline import Headline
from analysis.results.page import Section
from analysis.results.result import Result, to_rows
from perfvec.machines.machine_vector import MachineVector, vectors_of
from perfvec.machines.posterior import Observations, fit
from perfvec.model import Model
from perfvec.representation.library import estimate
from perfvec.representation.represent import represent
from support.errors import InputError
from support.processors import processors
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, Region, parse_place, trace
from tracegen.suite.host_time import host_time
from tracegen.suite.inputs import compile_c
from uarch.configuration import Machine
from uarch.timing.simulations import simulated_cycles

KERNEL = Path(__file__).parents[2] / "tracegen" / "suite" / "kernels" / "tiled_matmul.c"
VALUES = ("4", "8", "16", "32", "64", "128", "256")
COMMAND = ("{program}", "{value}", "8", "256", "{rounds}")
REGION = "multiply"
ROUNDS = 200
_TOLD = (("cycles", "predicted"), ("fitted", "fitted"), ("simulated", "simulated"), ("host", "this computer"))
_NAMED = {
    "cycles": "predicted_cycles",
    "fitted": "fitted_cycles",
    "simulated": "simulated_cycles",
    "host": "host_seconds",
}
_FLAGS = ("-O2", "-ftree-vectorize", "-g")


@dataclass(frozen=True)
class Experiment:
    """Run for each of `values`: `command`, in whose words {value}, {rounds} and, of a `source` that is compiled
    (with -D`define`=value where it is given), {program} are filled in.
    """

    values: tuple[str, ...] = VALUES
    command: tuple[str, ...] = COMMAND
    source: Path | None = KERNEL
    define: str | None = None
    flags: tuple[str, ...] = _FLAGS
    region: str | None = REGION

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values) or len(self.values) < 2:
            raise InputError(f"--values {','.join(self.values)} must be at least two different values")
        if not self.command:
            raise InputError(
                "no command to run: give -- PROGRAM ARGS… with {value} among them, or a kernel with --source"
            )
        words = " ".join(self.command)
        if "{value}" not in words and self.define is None:
            raise InputError("the command has no {value}; write it where the parameter goes, or give --define NAME")
        if "{program}" in words and self.source is None:
            raise InputError("{program} is the compiled --source; there is none")

    def prepare(self, value: str, folder: Path, rounds: int) -> list[str]:
        """The command for a value; compiles the source into `folder` first."""
        program = folder / f"program-{value if self.define else ''}"
        if self.source is not None and not program.exists():
            defined = [f"-D{self.define}={value}"] if self.define else []
            compile_c(self.source, program, [*self.flags, *defined])
        filled = {"{value}": value, "{rounds}": str(rounds), "{program}": str(program)}
        words = []
        for word in self.command:
            for name, text in filled.items():
                word = word.replace(name, text)
            words.append(word)
        return words


def result(frame: pd.DataFrame) -> Result:
    """Answer which value of the parameter is the fastest, by the table of `tiling`.

    In the answer's, and in JSON, numbers carry their source and unit: `predicted_cycles`, `fitted_cycles`,
    `simulated_cycles`, `host_seconds`.
    """
    return Result(
        "Time over a kernel's parameter",
        frame.rename(columns=_NAMED),
        document=lambda: to_json(frame),
        text=lambda: shown(frame),
        sections=lambda: sections(frame),
        picture=lambda: plot(frame),
        headline=lambda: headline(frame),
    )


def headline(frame: pd.DataFrame) -> Headline:
    """The best value on the first machine, by the best source that has every value."""
    machine = str(frame["uarch"].iloc[0])
    own = frame[frame["uarch"] == machine]
    told = [(c, name) for c, name in _TOLD if c != "host"]  # this computer is another machine
    column, source = next((c, name) for c, name in reversed(told) if c in own and own[c].notna().all())
    times = own[column].to_numpy(float)
    fastest, slowest = own.iloc[int(times.argmin())], own.iloc[int(times.argmax())]
    ratio = float(slowest[column]) / float(fastest[column])
    sentence = f"On {machine} the value {fastest['value']} is the fastest of {len(own)}; {slowest['value']} takes "
    return Headline(
        str(fastest["value"]), f"is the best value on {machine}", f"{sentence}{ratio:.2f} times as long.", source
    )


def tiling(
    model: Model,
    experiment: Experiment,
    machines: Sequence[Machine | MachineVector],
    *,
    seconds: float = math.inf,
    learn: Sequence[str] = (),
    repeats: int = 0,
    rounds: int = ROUNDS,
    units: int | None = None,
    max_instructions: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """A row per value and machine: `value`, `uarch`, `instructions`, `cycles` (predicted), `fitted` (cycles by the
    machine's vector once it is fitted to the simulated cycles of the values `learn`; NaN without), `simulated` (cycles;
    NaN where only the machine's vector is known, and of values beyond a budget of so many `seconds` of simulation, but
    for `learn`), `source` (of the best number known: `simulated`, or the model's `table`, `zero-shot` or `fitted`) and
    `host` (seconds; NaN without `repeats`).

    `units`: represent only so many units of 1,024 instructions, at equal distances; all instructions by default. `host`
    is the user time of a whole run of `rounds` less that of one round, over `rounds` − 1, where the command has
    {rounds}; else that of the whole run. Raises InputError.
    """
    for value in learn:
        if value not in experiment.values:
            raise InputError(f"--learn {value}: is none of the values {','.join(experiment.values)}")
    for machine in machines:
        if learn and not isinstance(machine, Machine):
            raise InputError(f"--learn: {machine.name} is a fitted vector, which cannot be simulated; name a machine")
    vectors: list[NDArray[np.float64]] = []
    rows = []
    spent = slowest = 0.0
    count, known = 0, [machine for machine in machines if isinstance(machine, Machine)]
    machine_vectors, ways = vectors_of(model, machines)
    sources = ["zero-shot" if way == "encoder" else way for way in ways]
    with tempfile.TemporaryDirectory(prefix="perfvec-") as scratch:
        folder = Path(scratch)
        for value in tqdm(experiment.values, desc="values", disable=None if progress else True):
            path = folder / f"{len(vectors)}.trace.h5"
            _trace(experiment, value, path, max_instructions)
            with Trace(path) as opened:
                vector = represent(model, opened, progress=False) if units is None else estimate(model, opened, units)
                began = time.perf_counter()
                least = len(opened) * len(known) / (RATE * processors())
                wanted = (bool(known) and spent + max(slowest, least) < seconds) or value in learn
                simulated = np.full(len(machines), np.nan)
                if wanted:
                    simulated = _simulated(opened, machines)
                    count += 1
                    slowest = max(slowest, time.perf_counter() - began)
                spent += time.perf_counter() - began
            vectors.append(vector.vector)
            host = _host(experiment, value, folder, repeats, rounds) if repeats else np.nan
            cycles = machine_vectors @ vector.vector
            rows += [
                {
                    "value": value,
                    "uarch": machine.name,
                    "instructions": vector.instructions,
                    "cycles": float(cycles[number]),
                    "fitted": np.nan,
                    "simulated": float(simulated[number]),
                    "source": sources[number] if np.isnan(simulated[number]) else "simulated",
                    "host": host,
                }
                for number, machine in enumerate(machines)
            ]
            path.unlink()
    frame = pd.DataFrame(rows)
    if known and seconds > 0 and count < len(experiment.values):
        print(
            f"perfvec: {count or 'not one'} of {len(experiment.values)} values could be simulated in {seconds:g} s; "
            "the model answers for the others (raise --budget)",
            file=sys.stderr,
        )
    if learn:
        for number in range(len(machines)):
            own = frame.iloc[number :: len(machines)]
            frame.loc[own.index, "fitted"] = _fitted(np.stack(vectors), own, machine_vectors[number], learn)
    return frame


def _trace(experiment: Experiment, value: str, path: Path, max_instructions: int | None) -> None:
    """Trace the experiment's region, or all, with this value. Raises InputError where the program fails."""
    region = Region(parse_place(experiment.region), returns=True) if experiment.region else None
    command = experiment.prepare(value, path.parent, 1)
    with Path(os.devnull).open("wb") as unheard:
        execution = Execution(command, stdout=unheard, region=region, max_instructions=max_instructions)
        result = trace(execution, path, progress=False)
    if result.exit_status not in (0, None) and not result.stopped:
        raise InputError(f"{' '.join(command)} ended with status {result.exit_status}")


def _fitted(
    vectors: NDArray[np.float64], own: pd.DataFrame, machine_vector: NDArray[np.float64], learn: Sequence[str]
) -> NDArray[np.float64]:
    """[V] cycles of all values on a machine, `own` its rows, once its vector is fitted to those of `learn`."""
    taught = np.flatnonzero(own["value"].isin(learn).to_numpy())
    observed = Observations(vectors[taught], own["simulated"].to_numpy()[taught], np.arange(len(taught)))
    found: NDArray[np.float64] = vectors @ fit(observed, machine_vector).mean
    return found


def _simulated(opened: Trace, machines: Sequence[Machine | MachineVector]) -> NDArray[np.float64]:
    """[K] cycles of the whole trace; NaN for a machine whose configuration is not known."""
    known = {number: machine for number, machine in enumerate(machines) if isinstance(machine, Machine)}
    cycles = np.full(len(machines), np.nan)
    if known:
        instructions = opened.static
        cycles[list(known)] = simulated_cycles(list(known.values()), instructions, opened.chunks())
    return cycles


def _host(experiment: Experiment, value: str, folder: Path, repeats: int, rounds: int) -> float:
    counted = any("{rounds}" in word for word in experiment.command)
    many = host_time(experiment.prepare(value, folder, rounds), repeats=repeats).seconds
    if not counted or rounds < 2:
        return many
    return (many - host_time(experiment.prepare(value, folder, 1), repeats=repeats).seconds) / (rounds - 1)


def best(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a machine and way of telling (`by`: `predicted`, and `fitted` where there is that): the `best` value by it;
    where it was simulated the best by that (`simulated`), what is `lost_simulated` by taking the former (a fraction of
    the least cycles) and Kendall's `tau_simulated` over all values; the same of `host`.
    """
    rows = []
    for uarch, part in frame.groupby("uarch", sort=False):
        part = part.reset_index(drop=True)
        for by, told in (("predicted", part["cycles"]), ("fitted", part["fitted"])):
            if told.isna().any():
                continue
            chosen = int(told.to_numpy().argmin())
            row: dict[str, Any] = {"uarch": uarch, "by": by, "best": part["value"][chosen]}
            for name in ("simulated", "host"):
                truth = part[name]
                if truth.notna().all():
                    row[name] = part["value"][int(truth.to_numpy().argmin())]
                    row |= {
                        f"lost_{name}": float(truth[chosen] / truth.min() - 1.0),
                        f"tau_{name}": float(kendalltau(told, truth).statistic),
                    }
            rows.append(row)
    return pd.DataFrame(rows)


def to_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document: `points` and `best`, null where there is no number."""
    return {name: to_rows(table) for name, table in (("points", frame.rename(columns=_NAMED)), ("best", best(frame)))}


def shown(frame: pd.DataFrame) -> str:
    """The tables of the terminal: time beside the machine's fastest value, values across, and the best values. What is
    not known of every value is left out: the fastest may be another.
    """
    rows = {
        (str(uarch), name): part[column].to_numpy()
        for uarch, part in frame.groupby("uarch", sort=False)
        for column, name in _TOLD[:-1]
    }
    rows["", _TOLD[-1][1]] = frame.drop_duplicates("value")["host"].to_numpy()
    table = pd.DataFrame(rows, list(dict.fromkeys(frame["value"]))).T.dropna(how="any")
    table = table.div(table.min(axis=1), axis=0)
    winners = best(frame)
    for column in winners.columns:
        if column.startswith("lost"):
            winners[column] = winners[column].map("{:.1%}".format, na_action="ignore")
        if column.startswith("tau"):
            winners[column] = winners[column].map("{:.2f}".format, na_action="ignore")
    winners.columns = pd.Index([name.removesuffix("_simulated").removesuffix("_host") for name in winners.columns])
    text = table.to_string(float_format="{:.2f}".format, na_rep="", line_width=80)
    return f"time beside the fastest value's\n{text}\n\n{winners.to_string(index=False, na_rep='')}"


def plot(frame: pd.DataFrame) -> Figure:
    """Predicted and simulated time over the values, a panel a machine."""
    panels = []
    for uarch, part in frame.groupby("uarch", sort=False):
        values = list(part["value"])
        marks = [
            Lines(name, values, part[column] / part[column].min(), points=True)
            for column, name in _TOLD
            if part[column].notna().all()
        ]
        panels.append(Panel(marks, str(uarch), Axis("value"), Axis("time / fastest", zero=True)))
    columns = min(3, len(panels))
    return Figure(panels, columns, width=3.2 * columns + 0.6, height=2.8 * -(-len(panels) // columns))


def sections(frame: pd.DataFrame) -> list[Section]:
    """The parts of the HTML report."""
    return [
        Section("Time over the parameter", "Beside the fastest value's, on each machine.", plot(frame), frame),
        Section("The best value on each machine", table=best(frame)),
    ]
