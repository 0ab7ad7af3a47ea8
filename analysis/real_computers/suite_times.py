"""Whole runs of the suite on this computer, timed and represented, so that `fit-uarch --times` makes a machine of it.

What is timed is what is represented: the same command and input, from the executable's first instruction to its last.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from analysis.results.figure import Axis, Bars, Figure, Lines, Mark, Panel, Points, distinct
from analysis.results.headline import Headline, percent
from analysis.results.page import Section
from analysis.results.result import Result, of_table, table_text
from perfvec.machines.fit_uarch import Fitted
from perfvec.model import Model
from perfvec.representation.sample import HALF_WIDTH, represent_stream_sampled
from perfvec.representation.vector import load_vector
from support.errors import InputError
from support.files import atomic_path
from tracegen.qemu import Execution, stream
from tracegen.suite.host_clock import clock_ghz
from tracegen.suite.timing import time_workloads
from tracegen.suite.workloads import Workload, select

TIMES = "times.csv"


def time_suite(
    model: Model,
    names: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    repeats: int = 11,
    half_width: float = HALF_WIDTH,
    units: int | None = None,
    progress: bool = True,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Vectors `NAME.vector.npz` (`represent --sample auto`, or of so many `units`) of whole runs of these workloads,
    then their times in `times.csv`, as `perfvec.machines.times.read_times` reads them.

    The table of `tracegen.suite.timing.time_workloads` with the runs' `instructions`, and why workloads are missing
    from it. A vector that is there already, of the same model, stays. Times are measured last, all in one go. Raises
    InputError for an unknown name, or where nothing could be timed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    failures: dict[str, str] = {}
    instructions: dict[str, int] = {}
    for workload in tqdm(select(names), desc="represent", unit="program", disable=None if progress else True):
        try:
            instructions[workload.name] = _represent(model, workload, folder, half_width, units)
        except InputError as error:
            failures[workload.name] = str(error)
    frame, failed = time_workloads(list(instructions), folder / "inputs", repeats=repeats, progress=progress)
    failures |= failed
    if not len(frame):
        raise InputError(f"nothing could be timed: {next(iter(failures.values()))}")
    frame.insert(1, "instructions", [instructions[name] for name in frame["program"]])
    times = pd.DataFrame(
        {
            "target": [f"{name}.vector.npz" for name in frame["program"]],
            "seconds": frame["seconds"],
            "uncertainty": frame["uncertainty"],
        }
    )
    with atomic_path(folder / TIMES) as temporary:
        times.to_csv(temporary, index=False)
    return frame, failures


def timed(folder: str | os.PathLike[str], found: pd.DataFrame, failures: Mapping[str, str]) -> Result:
    """Answer how long workloads take on this computer by what `time_suite` found and put into the folder; the clock,
    and what is left out, are notes.
    """
    clock = clock_ghz()
    return of_table(
        "Times of this computer",
        found,
        lambda: found.to_dict(orient="records"),
        lambda: table_text(found.drop(columns="repeats")),
        notes=[
            *(f"{name} is left out: {' '.join(reason.split())}" for name, reason in failures.items()),
            f"its clock is {clock:.2f} GHz, measured; now perfvec fit-uarch --times {Path(folder) / TIMES} "
            f"--frequency-ghz {clock:.2f} -o HOST.machine.npz",
        ],
    )


def _represent(model: Model, workload: Workload, folder: Path, half_width: float, units: int | None) -> int:
    """Instructions of the whole run, whose vector is in the folder then."""
    path = folder / f"{workload.name}.vector.npz"
    if path.exists() and (known := load_vector(path)).model == model.digest:
        return known.instructions
    with tempfile.TemporaryDirectory(prefix="perfvec-") as scratch:
        command, stdin = workload.prepare(folder / "inputs", Path(scratch))
        environment = {**os.environ, **workload.env}
        with (
            Path(stdin or os.devnull).open("rb") as given,
            Path(os.devnull).open("wb") as unheard,
            stream(Execution(command, stdin=given, stdout=unheard, stderr=unheard, env=environment)) as running,
        ):
            vector = represent_stream_sampled(model, running, half_width=half_width, units=units, progress=False)
    if running.outcome is None:
        raise KeyboardInterrupt
    if running.outcome.exit_status not in workload.status:
        raise InputError(f"{command[0]} ended with status {running.outcome.exit_status}")
    replace(vector, program=workload.name).save(path)
    return vector.instructions


def result(fitted: Fitted) -> Result:
    """Answer how well a fitted machine tells times; the table is that of `Fitted`."""
    table = fitted.table
    return Result(
        f"{fitted.machine.name}, fitted",
        table,
        document=fitted.to_json,
        text=lambda: shown(table),
        sections=lambda: sections(table),
        picture=lambda: plot(table),
        notes=tuple(fitted.warnings),
        headline=lambda: headline(fitted.machine.name, table),
    )


def headline(name: str, table: pd.DataFrame) -> Headline:
    """The mean error of programs predicted from the times of the others."""
    left_out, prior = float(table["left_out_error"].abs().mean()), float(table["prior_error"].abs().mean())
    sentence = f"A program's time on {name}, predicted from the times of the other {len(table) - 1}, is "
    sentence += f"{percent(left_out)} off on average; without any time {percent(prior)}."
    return Headline(
        percent(left_out), "mean error", sentence, f"measured times of {len(table)} programs, each left out"
    )


def shown(table: pd.DataFrame) -> str:
    """The table of a fit (`perfvec.machines.fit_uarch.Fitted`) for the terminal, and how far off predictions are."""
    text = table.assign(
        **{name: table[name].map("{:+.1%}".format) for name in ("prior_error", "left_out_error")}
    ).to_string(index=False, float_format="{:.4g}".format)
    errors = {"predicted from the others": table["left_out_error"].abs(), "by the prior": table["prior_error"].abs()}
    lines = [f"{how}: mean {each.mean():.1%}, median {each.median():.1%}" for how, each in errors.items()]
    return "\n".join([text, f"errors of {len(table)} programs", *lines])


def sections(table: pd.DataFrame) -> list[Section]:
    """The parts of the HTML report of a fit."""
    text = "Each program predicted from the times of all others, and by the prior alone, beside its measured time."
    return [Section("Measured and predicted", text, plot(table), table)]


def plot(table: pd.DataFrame) -> Figure:
    """Predicted over measured time of each program left out, and the errors, the largest below."""
    names = distinct([str(name) for name in table["program"]])
    seconds = table["seconds"].to_numpy()
    ends = [float(seconds.min()), float(seconds.max())]
    errors = table[["left_out_error", "prior_error"]].set_axis(names) * 100
    errors = errors.loc[errors["left_out_error"].abs().sort_values(ascending=False).index]
    against: list[Mark] = [
        Points("from the others", seconds, np.maximum(table["left_out"], 1e-9), names),
        Points("by the prior", seconds, np.maximum(seconds * (1 + table["prior_error"]), 1e-9), names),
        Lines("as measured", ends, ends),
    ]
    bars: list[Mark] = [
        Bars("from the others", list(errors.index), errors["left_out_error"]),
        Bars("by the prior", list(errors.index), errors["prior_error"]),
    ]
    panels = [
        Panel(against, x=Axis("measured seconds", log=True), y=Axis("predicted seconds", log=True)),
        Panel(bars, x=Axis("error, %"), sideways=True),
    ]
    return Figure(panels, 2, width=10.0, height=max(4.0, 1.4 + 0.3 * len(names)))
