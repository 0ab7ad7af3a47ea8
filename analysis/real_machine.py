"""Whole runs of the suite on this computer, timed and represented, so that `fit-uarch --times` makes a machine of it.

What is timed is what is represented: the same command and input, from the executable's first instruction to its last.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from perfvec.model import Model
from perfvec.representation.sample import HALF_WIDTH, represent_stream_sampled
from perfvec.representation.vector import load_vector
from tracegen.files import atomic_path
from tracegen.qemu import stream
from tracegen.suite.timing import time_workloads
from tracegen.suite.workloads import Workload, select
from uarch.errors import InputError

TIMES = "times.csv"


def time_suite(
    model: Model,
    names: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    repeats: int = 11,
    half_width: float = HALF_WIDTH,
    progress: bool = True,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Vectors `NAME.vector.npz` (`represent --sample auto`) of whole runs of these workloads, then their times in
    `times.csv`, as `perfvec.machines.times.read_times` reads them.

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
            instructions[workload.name] = _represent(model, workload, folder, half_width)
        except InputError as error:
            failures[workload.name] = str(error)
    frame, failed = time_workloads(list(instructions), folder / "inputs", repeats=repeats, progress=progress)
    failures |= failed
    if not len(frame):
        raise InputError(f"nothing could be timed: {next(iter(failures.values()))}")
    frame.insert(1, "instructions", [instructions[name] for name in frame["program"]])
    times = pd.DataFrame(
        {
            "target": [f"{name}.vector.npz" for name in frame["program"]], "seconds": frame["seconds"],
            "uncertainty": frame["uncertainty"],
        }
    )  # fmt: skip
    with atomic_path(folder / TIMES) as temporary:
        times.to_csv(temporary, index=False)
    return frame, failures


def _represent(model: Model, workload: Workload, folder: Path, half_width: float) -> int:
    """Instructions of the whole run, whose vector is in the folder then."""
    path = folder / f"{workload.name}.vector.npz"
    if path.exists() and (known := load_vector(path)).model == model.digest:
        return known.instructions
    with tempfile.TemporaryDirectory(prefix="perfvec-") as scratch:
        command, stdin = workload.prepare(folder / "inputs", Path(scratch))
        with (
            Path(stdin or os.devnull).open("rb") as given,
            Path(os.devnull).open("wb") as unheard,
            stream(command, stdin=given, stdout=unheard, stderr=unheard, env={**os.environ, **workload.env}) as running,
        ):
            vector = represent_stream_sampled(model, running, half_width=half_width, progress=False)
    if running.outcome is None:
        raise KeyboardInterrupt
    if running.outcome.exit_status not in workload.status:
        raise InputError(f"{command[0]} ended with status {running.outcome.exit_status}")
    replace(vector, program=workload.name).save(path)
    return vector.instructions
