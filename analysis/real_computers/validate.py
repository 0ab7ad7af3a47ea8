"""Errors of programs timed on this computer beside the simulator and the model, with what the cycles go to.

A program is timed whole, in user mode, and sampled whole in QEMU (live-points), with the same code on both sides
(`tracegen.suite.host_cpu`). Measured cycles are those that the processor counts, else seconds by the clock that was
measured around each timing. Nothing is fitted to the programs. Errors are of user mode, where simulated system calls
take no time. User and kernel time are compared besides, of machines that have times of system calls.
"""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from tqdm import tqdm

from analysis.questions.simulate import groups_of, simulate
from support.errors import InputError
from support.files import write_text
from tracegen.live_points.live_points import load
from tracegen.suite.host_clock import Clock
from tracegen.suite.host_cpu import HostCpu, matched
from tracegen.suite.whole_run import (
    LEAST_SECONDS,
    Disturbed,
    Timed,
    WholeRun,
    others_busy,
    recorded,
    require_names,
    run_of,
    timed,
)
from tracegen.suite.workloads import select
from uarch.configuration import Machine
from uarch.host.counters import CYCLES, Event, refusal
from uarch.host.told import Told, told
from uarch.stated_error import StatedError
from uarch.timing.stack import GROUPS

SET = "validate"
PASSES = 3
TIMES = "times.json"  # in the folder: times by the name of the live-points
MODEL = "model"  # the column of the model's predictions, of the first machine
_LEAST_FREE = 0.9  # processors: that must be free
_BUILDS = ("_O1", "_O3")  # endings of names of two builds of one program


@dataclass(frozen=True)
class Validation:
    """`table` has a row a program, `stacks` [program, machine] → cycles an instruction by group of causes."""

    table: pd.DataFrame
    stacks: dict[tuple[str, str], dict[str, float]]
    machines: tuple[str, ...]  # columns of errors: machines, and MODEL
    left_out: dict[str, str]
    told: Told
    ghz: float
    date: str
    busy: float = 0.0  # processors that others used as the timing began
    counted: bool = False  # all cycles by the processor's counter

    def summary(self) -> list[dict[str, Any]]:
        """Return for each machine `programs`, `median` and `mean` error (absolute), `bias` (the median with its sign),
        `rank` (Spearman's, of CPI; None of less than three), `builds` and `ratio`, the median error of speed ratios,
        and `with_kernel`, the median error of user and kernel time together (None without times of system calls).
        """
        return [self._summary(machine) for machine in self.machines]

    def _summary(self, machine: str) -> dict[str, Any]:
        error = self.table[f"error.{machine}"]
        rank = spearmanr(self.table["cpi"], self.table[f"cpi.{machine}"]).statistic if len(error) > 2 else None
        ratios = self.ratios()
        with_kernel = self.table.get(f"with_kernel.{machine}")
        return {
            "uarch": machine,
            "programs": len(error),
            "median": float(error.abs().median()),
            "mean": float(error.abs().mean()),
            "bias": float(error.median()),
            "rank": None if rank is None or rank != rank else float(rank),
            "builds": len(ratios),
            "ratio": float(ratios[f"error.{machine}"].abs().median()) if len(ratios) else None,
            "with_kernel": None if with_kernel is None else float(with_kernel.abs().median()),
        }

    def ratios(self) -> pd.DataFrame:
        """A row a program of which two builds were timed: `measured`, the slow build's time over the fast one's, and
        of each machine `ratio.M` and `error.M`.
        """
        rows = []
        known = self.table.set_index("program")
        for name in known.index:
            other = name.removesuffix(_BUILDS[0]) + _BUILDS[1]
            if not name.endswith(_BUILDS[0]) or other not in known.index:
                continue
            slow, fast = known.loc[name], known.loc[other]
            row: dict[str, Any] = {
                "program": name.removesuffix(_BUILDS[0]),
                "measured": slow["cycles"] / fast["cycles"],
            }
            for machine in self.machines:
                row[f"ratio.{machine}"] = slow[f"cycles.{machine}"] / fast[f"cycles.{machine}"]
                row[f"error.{machine}"] = row[f"ratio.{machine}"] / row["measured"] - 1
            rows.append(row)
        return pd.DataFrame(rows)


def validate(
    machines: Sequence[Machine],
    names: Sequence[str] = (),
    program: Sequence[str] = (),
    *,
    set_name: str = SET,
    folder: str | os.PathLike[str] = "validation",
    model: Any = None,
    least_seconds: float = LEAST_SECONDS,
    passes: int = PASSES,
    keep_times: bool = False,
    progress: bool = True,
    event: Event = CYCLES,
) -> Validation:
    """Time workloads (all of a set by default) or a `program` on this computer, and simulate them on `machines`.

    Live-points and times are kept in `folder`: a second call only times and simulates, or with `keep_times` times only
    what was not timed before, and leaves that out while the computer is busy. All are timed in each of `passes`, and
    the quickest is kept: what other tenants of a computer do lasts longer than one program's repeats. Cycles are the
    `event`'s where the kernel counts it. `model` adds the predictions of a loaded model for the first machine. Raises
    InputError where no program is left, or for an unknown name.
    """
    known = told()
    cpu = matched(known)
    folder = Path(folder)
    if not keep_times:
        require_quiet(known)  # before programs are recorded
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="perfvec-") as scratch:
        runs = [] if program else _runs(names, set_name, folder / "inputs", Path(scratch), left_out)
        if program:
            runs = [WholeRun(Path(program[0]).name, tuple(program))]
        require_names(runs)
        points: dict[str, Path] = {}
        record = recorded if model is None else _recorder_with_vectors(model)
        for run in tqdm(runs, desc="record", unit="program", disable=None if progress else True):
            try:
                points[run.name] = record(run, cpu, folder)
            except InputError as error:
                left_out[run.name] = str(error)
        known_times = _known_times(folder)
        kept = _of_points(known_times, points) if keep_times else {}
        lacking = [run for run in runs if run.name in points and run.name not in kept]
        new: dict[str, Timed] = {}
        busy = 0.0
        if lacking:
            try:
                new, busy = timed_runs(lacking, known, least_seconds, passes, left_out, progress, event)
            except InputError as error:  # the computer is busy
                if not kept:
                    raise
                left_out |= {run.name: str(error) for run in lacking}
        times = {run.name: (kept | new)[run.name] for run in runs if run.name in kept | new}
        _keep_times(folder, known_times | {points[name].name: asdict(time) for name, time in new.items()})
    if not times:
        raise InputError(f"no program is left to judge by: {next(iter(left_out.values()), 'none was given')}")
    table, stacks = _compared(times, points, machines, progress)
    ghz = float(np.mean([time.ghz for time in times.values()]))
    columns_of = [machine.name for machine in machines]
    if model is not None:
        _add_model(table, {name: points[name] for name in times}, machines[0], model)
        columns_of.append(MODEL)
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    counted = all(time.counted for time in times.values())
    return Validation(table, stacks, tuple(columns_of), left_out, known, ghz, date, busy, counted)


def _recorder_with_vectors(model: Any) -> Callable[[WholeRun, HostCpu, Path], Path]:
    """Return `recorded` for live-points that hold the program's vector by the model."""
    from analysis.programs.targets import target_of
    from perfvec.representation.live_points import live_points_of_stream

    def usable(path: Path) -> bool:
        try:
            return bool(target_of(model, path).vector)
        except InputError:  # none, or another model's
            return False

    return partial(recorded, sample=partial(live_points_of_stream, model, progress=False), usable=usable)


def _runs(names: Sequence[str], set_name: str, inputs: Path, scratch: Path, left_out: dict[str, str]) -> list[WholeRun]:
    found = []
    for workload in select(names, None if names else set_name):
        try:
            found.append(run_of(workload, inputs, scratch))
        except InputError as error:
            left_out[workload.name] = str(error)
    return found


def _known_times(folder: Path) -> dict[str, Any]:
    """Times of the folder by the name of the live-points."""
    try:
        return dict(json.loads((folder / TIMES).read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def _of_points(known: dict[str, Any], points: dict[str, Path]) -> dict[str, Timed]:
    try:
        return {name: Timed(**known[path.name]) for name, path in points.items() if path.name in known}
    except TypeError:
        return {}


def _keep_times(folder: Path, times: dict[str, Any]) -> None:
    write_text(folder / TIMES, json.dumps(times, indent=1))


def require_quiet(known: Told) -> float:
    """Return how many processors others keep busy. Raises InputError where they leave none to time a program on."""
    busy = others_busy()
    if busy > known.processors - _LEAST_FREE:
        raise InputError(f"this computer is busy: others use {busy:.1f} of its processors; wait until it is quiet")
    return busy


def timed_runs(
    runs: Sequence[WholeRun],
    known: Told,
    least_seconds: float,
    passes: int,
    left_out: dict[str, str],
    progress: bool,
    event: Event,
) -> tuple[dict[str, Timed], float]:
    """Times of the runs in the quickest of their passes, with cycles counted or the clock measured around each, and the
    processors that others kept busy.
    """
    counted = None if refusal(event) else event
    cpu = matched(known)
    busy = require_quiet(known)
    found: dict[str, list[Timed]] = {}
    refused: dict[str, str] = {}
    with Clock() as clock, tqdm(total=passes * len(runs), desc="time", disable=None if progress else True) as bar:
        before = 0.0 if counted else clock.ghz(3)
        for _ in range(passes):
            for run in runs:
                bar.update()
                if run.name in left_out:
                    continue
                try:
                    time = timed(run, cpu, least_seconds, counted)
                except Disturbed as error:
                    refused[run.name] = str(error)
                    continue
                except InputError as error:  # of no use in another pass either
                    left_out[run.name] = str(error)
                    found.pop(run.name, None)
                    continue
                if not counted:
                    after = clock.ghz()
                    time, before = replace(time, ghz=(before + after) / 2), after
                found.setdefault(run.name, []).append(time)
    left_out |= {name: why for name, why in refused.items() if name not in found and name not in left_out}
    return {name: _quickest(times) for name, times in found.items()}, busy


def _quickest(passes: Sequence[Timed]) -> Timed:
    """Return the pass of the least cycles: what disturbs only adds."""
    least = min(passes, key=lambda time: time.cycles)
    return replace(least, between=max(time.cycles for time in passes) / least.cycles - 1)


def _compared(
    times: dict[str, Timed], points: dict[str, Path], machines: Sequence[Machine], progress: bool
) -> tuple[pd.DataFrame, dict[tuple[str, str], dict[str, float]]]:
    rows, stacks = [], {}
    in_user_mode = [replace(machine, system_calls=None) for machine in machines]
    for name in tqdm(times, desc="simulate", unit="program", disable=None if progress else True):
        time = times[name]
        frame = simulate([points[name]], in_user_mode, progress=False)
        sampled = load(points[name])
        groups = groups_of(frame)
        instructions = float(frame["instructions"].iloc[0])
        cycles = time.cycles
        row: dict[str, Any] = {
            "program": name,
            "instructions": instructions,
            "seconds": time.seconds,
            "spread": time.spread,
            "between": time.between,
            "kernel": time.kernel,
            "repeats": time.repeats,
            "cycles": cycles,
            "cpi": cycles / instructions,
        }
        for k, machine in enumerate(machines):
            simulated = float(frame["cycles"].iloc[k])
            row[f"cycles.{machine.name}"] = simulated
            row[f"cpi.{machine.name}"] = simulated / instructions
            row[f"error.{machine.name}"] = simulated / cycles - 1
            if machine.system_calls is not None:
                kernel = float(sampled.system_calls.cycles(machine, sampled.isa).sum())
                row[f"with_kernel.{machine.name}"] = (simulated + kernel) * (1 - time.kernel) / cycles - 1
            stacks[name, machine.name] = {group: float(groups[group].iloc[k]) for group in GROUPS}
        rows.append(row)
    return pd.DataFrame(rows), stacks


def _add_model(table: pd.DataFrame, points: dict[str, Path], machine: Machine, model: Any) -> None:
    """Add the model's predictions of the machine, from the live-points' vectors."""
    from analysis.programs.targets import targets_of
    from analysis.questions import predict

    found = []
    for path in points.values():
        with targets_of(model, [path]) as targets:
            answer = predict.predict(model, [target.vector for target in targets], [machine])
        found.append(float(answer["cycles"].iloc[0]))
    table[f"cycles.{MODEL}"] = found
    table[f"cpi.{MODEL}"] = table[f"cycles.{MODEL}"] / table["instructions"]
    table[f"error.{MODEL}"] = table[f"cycles.{MODEL}"] / table["cycles"] - 1


def stated(found: Validation, machine: str) -> StatedError:
    """A machine's error as its preset states it."""
    summary = next(each for each in found.summary() if each["uarch"] == machine)
    errors = {str(row["program"]): round(float(row[f"error.{machine}"]), 3) for _, row in found.table.iterrows()}
    return StatedError(
        machine,
        found.told.model_name,
        found.told.family,
        found.date,
        round(summary["median"], 3),
        round(summary["mean"], 3),
        None if summary["rank"] is None else round(summary["rank"], 3),
        errors,
    )
