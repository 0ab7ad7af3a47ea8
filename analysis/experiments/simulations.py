"""Intervals of programs, timed on many machines by the embedded timing model and represented by a model; both kept in a
folder, so that a run that was stopped goes on.

An interval is 2^16 consecutive instructions. Caches are warmed by everything before the first one, as labels are
(`tracegen.label`). All intervals are timed; every EVERY-th is represented (a systematic sample), as the model takes a
hundred times as long for an instruction as the timing model of a small core does.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.model import Model
from perfvec.representation.represent import Pass
from support.errors import InputError
from support.files import atomic_path
from tracegen.formats.trace import Trace
from tracegen.label import WARMUP
from uarch.configuration import Machine, configuration_key
from uarch.instructions import Chunk
from uarch.timing.simulation import SIMULATOR, Simulation

INTERVAL_INSTRUCTIONS = 1 << 16
EVERY = 8


@dataclass(frozen=True)
class Intervals:
    """A program's intervals on the machines, and what they took to know (seconds of CPU time here)."""

    program: str
    cycles: NDArray[np.float64]  # [K, W]
    vectors: NDArray[np.float64]  # [⌈W / EVERY⌉, d] of intervals 0, EVERY, 2·EVERY, …
    simulation_seconds: NDArray[np.float64]  # [K]
    representation_seconds: float

    @property
    def vector(self) -> NDArray[np.float64]:
        """[d] of the program, estimated from the intervals represented."""
        return self.vectors.mean(axis=0) * self.cycles.shape[1]

    @property
    def cycles_represented(self) -> NDArray[np.float64]:
        """[K, ⌈W / EVERY⌉] cycles of the intervals that `vectors` are of."""
        return self.cycles[:, ::EVERY]


def measure(
    model: Model,
    traces: Sequence[str | os.PathLike[str]],
    machines: Sequence[Machine],
    folder: str | os.PathLike[str],
    *,
    start: int,
    count: int,
    progress: bool = True,
) -> list[Intervals]:
    """Return the intervals of the first `count` instructions from `start` on of each trace that has as many.

    Raises InputError for less than one interval, two traces of one name, or where no trace is long enough.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot keep simulations in {folder}: {error.strerror}") from None
    if count < INTERVAL_INSTRUCTIONS:
        raise InputError(f"--count {count} must be at least an interval of {INTERVAL_INSTRUCTIONS:,} instructions")
    stop = start + count // INTERVAL_INSTRUCTIONS * INTERVAL_INSTRUCTIONS
    found: dict[str, Intervals] = {}
    with tqdm(traces, desc="simulate", unit="program", disable=None if progress else True) as bar:
        for path in bar:
            with Trace(path) as trace:
                bar.set_postfix_str(trace.name, refresh=False)
                if len(trace) < stop:
                    continue
                if trace.name in found:
                    raise InputError(f"{path}: a second trace called {trace.name!r}; give each a name of its own")
                what = f"{trace.digest} {start} {stop}"
                cycles, seconds = _kept(
                    folder,
                    f"{trace.name}.cycles",
                    f"{what} {INTERVAL_INSTRUCTIONS} {SIMULATOR} {_identity(machines)}",
                    partial(simulate_intervals, trace, machines, start, stop),
                )
                vectors, spent = _kept(
                    folder,
                    f"{trace.name}.vectors",
                    f"{what} {model.digest} {INTERVAL_INSTRUCTIONS} {EVERY}",
                    partial(_represent, model, trace, start, stop),
                )
                found[trace.name] = Intervals(trace.name, cycles, vectors, seconds, float(spent))
    if not found:
        raise InputError(f"every trace is shorter than {stop:,} instructions; lower --start or --count")
    return list(found.values())


def _identity(machines: Sequence[Machine]) -> str:
    return hashlib.sha256(json.dumps([configuration_key(machine) for machine in machines]).encode()).hexdigest()


Arrays = tuple[NDArray[np.float64], NDArray[np.float64]]


def _kept(folder: Path, name: str, what: str, make: Callable[[], Arrays]) -> Arrays:
    """Two arrays from the folder where they are of the same thing, else made and put there."""
    path = folder / f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:12]}.npz"
    if path.exists():
        try:
            with np.load(path, allow_pickle=False) as file:
                if str(file["what"]) == what:
                    return file["values"], file["seconds"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            pass  # damaged: made again
    values, seconds = make()
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, what=np.asarray(what), values=values, seconds=np.asarray(seconds))
    return values, np.asarray(seconds)


def _cycles(simulation: Simulation, chunk: Chunk) -> float:
    return float(simulation.run(chunk).sum(dtype=np.float64))


def simulate_intervals(trace: Trace, machines: Sequence[Machine], start: int, stop: int) -> Arrays:
    """[K, W] cycles, and [K] seconds, of one pass over the trace with all machines side by side."""
    instructions = trace.static
    simulations = [Simulation(machine, instructions) for machine in machines]
    seconds = np.zeros(len(machines))
    timed = max(0, start - WARMUP)

    def each(act: Callable[[Simulation, Chunk], object], chunk: Chunk) -> list[object]:
        results = []
        for row, simulation in enumerate(simulations):
            began = time.process_time()
            results.append(act(simulation, chunk))
            seconds[row] += time.process_time() - began
        return results

    for chunk in trace.chunks(stop=timed):
        each(Simulation.warm, chunk)
    for chunk in trace.chunks(start=timed, stop=start):
        each(Simulation.run, chunk)
    cycles = [each(_cycles, chunk) for chunk in trace.chunks(INTERVAL_INSTRUCTIONS, start=start, stop=stop)]
    return np.array(cycles, np.float64).T, seconds


def _represent(model: Model, trace: Trace, start: int, stop: int) -> Arrays:
    """[⌈W / EVERY⌉, d] vectors of intervals, and the seconds that they took."""
    running = Pass(model, trace.static)
    began = time.process_time()
    for chunk in trace.chunks(stop=start):
        running.take(chunk)
    vectors = []
    for number, chunk in enumerate(trace.chunks(INTERVAL_INSTRUCTIONS, start=start, stop=stop)):
        if number % EVERY:
            running.take(chunk)
        else:
            vectors.append(running.add(chunk))
    return np.array(vectors), np.asarray(time.process_time() - began)
