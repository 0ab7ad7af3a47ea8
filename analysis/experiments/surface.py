"""The way of a budget: some designs simulated, the rest by a surface through them (`analysis.budget`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.budget import budget
from analysis.experiments.study import MethodTimes, Study
from analysis.programs.simulable import Estimates
from support.errors import InputError
from uarch.columns import of_machines
from uarch.configuration import Machine

SIMULATIONS = 4  # of each program: fewer than the 83 of Dubach et al. in all
_BEST = 1  # of them, for the design that looks best


class _Measured:
    """A program of the study, whose simulations are there."""

    isa = "x86-64"

    def __init__(self, study: Study, program: int) -> None:
        self.name, self._cycles = study.programs[program], study.cycles[program]
        self.instructions = self.work = 1
        self.identity = self.name

    def prepare(self) -> None:
        pass

    def simulate(self, machines: Sequence[Machine], threads: int | None = None) -> Estimates:
        cycles = self._cycles[[int(machine.name.split()[-1]) for machine in machines]]
        return Estimates.exact(cycles)


def answer(study: Study, seed: int, simulations: int = SIMULATIONS, seconds: float | None = None) -> MethodTimes:
    """Each program by itself; nothing is learned from others.

    `seconds`: of a processor, in which each program's designs are simulated, instead of a number of `simulations`.
    Raises InputError where not one is.
    """
    points = of_machines(study.designs)
    time = np.empty_like(study.cycles)
    simulated = np.zeros(time.shape, bool)

    def score(cycles: NDArray[np.float64]) -> NDArray[np.float64]:
        return cycles * study.cost

    for program, name in enumerate(study.programs):
        limit = simulations if seconds is None else int(seconds / study.seconds[program].mean())
        if limit < 1:
            raise InputError(
                f"--budget {seconds:g}: not one design of {name} is simulated in it; each takes about "
                f"{study.seconds[program].mean():.2g} s"
            )
        found = budget.answer(
            _Measured(study, program),
            points,
            np.inf,
            lambda: np.full(points.count, np.nan),
            score=score,
            best=_BEST,
            least=2,
            limit=limit,
            threads=1,
            seed=seed,
            progress=False,
        )
        time[program] = found.cycles
        simulated[program] = found.source == 0
    return MethodTimes(time, simulated)
