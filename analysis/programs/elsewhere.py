"""Programs whose machines are simulated on the workers of a Dask cluster (docs/how-to/cluster.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from analysis.programs.simulable import Estimates, Simulable, SimulableLivePoints, SimulableTrace
from analysis.programs.span import Span
from support.errors import InputError
from support.executor import Dask
from tracegen.live_points.live_points import is_live_points
from uarch.configuration import Machine

_OF_LIVE_POINTS, _OF_A_TRACE = 8, 64  # machines of a task, at most


@dataclass(frozen=True)
class _Program:
    """A file that a worker opens: live-points, or a trace, itself or by its own live-points."""

    path: Path
    digest: str
    span: Span
    sampled: bool


@dataclass(frozen=True)
class _Task:
    program: _Program
    machines: Sequence[Machine]


class SimulableElsewhere:
    """A trace or live-points, in a file that all workers see."""

    def __init__(self, program: SimulableTrace | SimulableLivePoints, cluster: Dask) -> None:
        self._cluster = cluster
        self.name, self.isa, self.instructions = program.name, program.isa, program.instructions
        self.work, self.identity = program.work, program.identity
        sampled = isinstance(program, SimulableLivePoints)
        span = program.span if isinstance(program, SimulableTrace) else Span()
        self._program = _Program(program.path.absolute(), program.digest, span, sampled)
        self._most = _OF_LIVE_POINTS if sampled else _OF_A_TRACE

    def prepare(self) -> None:
        """Nothing: each worker opens the program once."""

    def simulate(self, machines: Sequence[Machine], threads: int | None = None) -> Estimates:
        """Return the cycles; raises InputError where a worker sees another file, and as `Dask.map` does."""
        count = max(self._cluster.workers, -(-len(machines) // self._most), 1)
        parts = [part for part in np.array_split(np.arange(len(machines)), count) if len(part)]
        tasks = [_Task(self._program, machines[part[0] : part[-1] + 1]) for part in parts]
        found = dict(self._cluster.map(_simulated, tasks, lambda task: [task.program.path]))
        if not tasks:
            return Estimates.exact(np.zeros(0))
        names = ("cycles", "low", "high", "deviations")
        return Estimates(*(np.concatenate([getattr(found[k], name) for k in range(len(tasks))]) for name in names))


def elsewhere(program: Simulable, cluster: Dask) -> Simulable:
    """Return the program as the cluster simulates it; one that is no file as it is."""
    if isinstance(program, SimulableTrace | SimulableLivePoints):
        return SimulableElsewhere(program, cluster)
    return program


def _simulated(task: _Task) -> Estimates:
    return _opened(task.program).simulate(task.machines, 1)


@lru_cache(maxsize=1)  # of a worker, whose tasks are of one program after another
def _opened(program: _Program) -> SimulableTrace | SimulableLivePoints:
    if is_live_points(program.path):
        found: SimulableTrace | SimulableLivePoints = SimulableLivePoints(program.path)
    else:
        trace = SimulableTrace(program.path, program.span)
        found = trace.sampled() if program.sampled else trace
    if found.digest != program.digest:
        raise InputError(f"{program.path}: a worker sees another program there; give all machines the same folder")
    return found
