"""Programs that can be simulated on any machine: the contract, and those that are a trace or live-points.

An analysis asks a `Simulable` for the cycles of some machines and gets them with an interval each. A trace simulates
every instruction, so its interval is a point; live-points, which are sampled units, have one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from tqdm import tqdm

from analysis.programs.span import Span, require_time, timed
from support.processors import processors
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import LivePoints, load
from tracegen.live_points.own import own_live_points
from tracegen.live_points.simulate import ESTIMATOR, LivePointsSimulator
from uarch.configuration import Machine
from uarch.instructions import StaticInstructions
from uarch.timing.simulations import Simulations

_TOGETHER = 64  # machines that go through a trace side by side; their caches are in memory
_DEGREES = 30  # of freedom of a sample's intervals, about


@dataclass(frozen=True)
class Estimates:
    """Cycles [K] of K machines and the ends of their 95 % intervals, equal to them where the whole run is simulated.

    `deviations` [K, R]: how far two machines' errors are apart (`changes.py`); with R = 0 where the whole is simulated.
    """

    cycles: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    deviations: NDArray[np.float64]

    @classmethod
    def exact(cls, cycles: NDArray[np.float64]) -> Estimates:
        """Return cycles of the whole run."""
        return cls(cycles, cycles, cycles, np.zeros((len(cycles), 0)))

    def at(self, level: float) -> Estimates:
        """Return the same with intervals of this level, by Student's quantiles."""
        width = quantile(level) / quantile(0.95)
        low, high = (self.cycles + width * (end - self.cycles) for end in (self.low, self.high))
        return Estimates(self.cycles, low, high, self.deviations)


def quantile(level: float) -> float:
    """Return half the width of a sample's interval of this level, in standard deviations."""
    return float(stdtrit(_DEGREES, 0.5 + level / 2))


class Simulable(Protocol):
    """One program that can be simulated on any machine."""

    @property
    def name(self) -> str:
        """The program's name in tables."""

    @property
    def isa(self) -> str:
        """The instruction set, as a trace names it."""

    @property
    def instructions(self) -> int:
        """Number of instructions that the cycles are of."""

    @property
    def work(self) -> int:
        """Instructions that one machine's simulation passes; its time is about proportional to them."""

    @property
    def identity(self) -> str:
        """Equal where the cycles of all machines are."""

    def prepare(self) -> None:
        """Make what all machines share, so that simulations take time for machines alone."""

    def simulate(self, machines: Sequence[Machine], threads: int | None = None) -> Estimates:
        """The program's cycles on these machines, side by side on so many threads (all processors by default)."""


class SimulableTrace:
    """A trace, or a `span` of it, every instruction of which is simulated. Raises InputError as `Trace` does.

    The file is read once for each 64 machines, in bounded memory; its static instructions are decoded once.
    """

    def __init__(self, path: str | os.PathLike[str], span: Span | None = None, *, progress: bool = False) -> None:
        self.path, self.span, self._progress = Path(path), span or Span(), progress
        with Trace(path) as trace:
            self.name, self.cut_short = trace.name, trace.cut_short
            self.digest, self.isa = trace.digest, trace.isa
            self.work = self.span.stop(trace)
            self.instructions = self.work - self.span.start
            self.whole = self.instructions == len(trace)
        self.identity = f"{self.digest} {self.work} {self.span.start} {self.span.warmup}"
        self._decoded: StaticInstructions | None = None
        self._sampled: SimulableLivePoints | None = None

    def sampled(self) -> SimulableLivePoints:
        """Return it by its own live-points, made now where none are kept (`tracegen.live_points.own`)."""
        if self._sampled is None:
            self._sampled = SimulableLivePoints(self.path, own_live_points(self.path, progress=self._progress))
        return self._sampled

    def prepare(self) -> None:
        """Decode the static instructions."""
        self._instructions()

    def _instructions(self) -> StaticInstructions:
        if self._decoded is None:
            with Trace(self.path) as trace:
                self._decoded = trace.static
        return self._decoded

    def simulate(self, machines: Sequence[Machine], threads: int | None = None) -> Estimates:
        """Return the cycles, with a point for an interval."""
        cycles: list[float] = []
        instructions = self._instructions()
        hidden = None if self._progress else True
        with Trace(self.path) as trace, tqdm(total=len(machines), desc="simulate", unit="point", disable=hidden) as bar:
            for first in range(0, len(machines), _TOGETHER):
                some = machines[first : first + _TOGETHER]
                with Simulations(some, instructions, threads or processors()) as running:
                    for chunk in timed(trace, running, self.span, progress=False):
                        running.run(chunk)
                    cycles += [simulation.counters["cycles"] for simulation in running.each]
                require_time(trace, self.span, cycles[first:])
                bar.update(len(some))
        return Estimates.exact(np.array(cycles))


class SimulableLivePoints:
    """A live-points file, or live-points that are in memory. Raises InputError as `load` does."""

    def __init__(self, path: str | os.PathLike[str], points: LivePoints | None = None) -> None:
        self.path = Path(path)
        self._simulator = LivePointsSimulator(points or load(path))
        self.points = points = self._simulator.points
        self.name, self.digest, self.isa = points.name, points.digest, points.isa
        self.instructions = points.instructions
        self.identity = f"{self.digest} {self.instructions} live-points {ESTIMATOR} {points.seed} {self.work}"

    @property
    def work(self) -> int:
        """Instructions that one machine's simulation passes."""
        return self._simulator.work

    def prepare(self) -> None:
        """Nothing is left to be made."""

    def simulate(self, machines: Sequence[Machine], threads: int | None = None) -> Estimates:
        """Return the cycles; the interval is of the sampling."""
        found = self._simulator.simulate(machines, threads)
        low, high = found.cycles - found.half_width, found.cycles + found.half_width
        return Estimates(found.cycles, low, high, found.deviations)
