"""The judge of a search: surfaces through the points that it has simulated so far, some more each time it is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.budget.budget import SURFACE
from analysis.budget.coordinates import Coordinates, coordinates
from analysis.budget.corrected import LEAST
from analysis.budget.gaussian_process import GaussianProcess
from analysis.budget.within import RATE, within
from analysis.designs.design import Design
from analysis.designs.outcome import Outcome
from analysis.designs.search import Score, mean_score, rounds_of
from analysis.designs.sweep import answered, encoder_of, simulated_by
from analysis.programs.kept import Kept
from analysis.programs.targets import Target
from perfvec.machines.columns import cycles_of_columns
from perfvec.model import Model
from support.executor import Dask
from support.processors import processors
from uarch.columns import Columns, concatenate

SHARE_OF_BEST = 0.5  # of the points that are simulated, those that look best; the others teach most
_SEARCHED = 1 / 3  # of the seconds left, at most: the searches still to come
_LEAST_LAST = 0.1  # of all seconds, whatever the rounds took: the best points are simulated


class Judge:
    """Judges the points of a search for so many within a budget of seconds, which begins when the judge is made.

    A round's simulations have one share of what is left, the last's, when the best points are simulated, two shares.
    `targets` are the programs, which keep what has been simulated.
    """

    def __init__(
        self,
        model: Model,
        targets: Sequence[Target],
        count: int,
        seconds: float,
        *,
        cost: str | None = None,
        objective: str | None = None,
        cluster: Dask | None = None,
        keep: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> None:
        self._model, self._cost, self._objective = model, cost, objective
        self._cluster, self._progress = cluster, progress
        threads = max(cluster.workers, 1) if cluster is not None else processors()
        self.targets = [_keeping(simulated_by(one, cluster, keep)) for one in within(targets, count, seconds, threads)]
        self._seconds, self._began = seconds, time.perf_counter()
        self._shares = rounds_of(count) + 1  # those still to come
        work = [0 if one.simulable is None else one.simulable.work for one in self.targets]
        self.simulates = all(work) and SURFACE * sum(work) <= seconds * RATE * threads  # else the model judges alone

    def __call__(self, design: Design) -> Score | None:
        """Simulate some of the points; return the score by the surfaces through all that were simulated.

        It is that of a standard deviation down: what is not known well is worth a try. Nothing where they are too few.
        """
        seconds = (1 - _SEARCHED) * max(self._left, 0.0) / self._shares
        self._shares -= 1
        frame = answered(
            self._model,
            self.targets,
            design,
            seconds,
            cost=self._cost,
            objective=self._objective,
            share_of_best=SHARE_OF_BEST,
            cluster=self._cluster,
            told=False,
            progress=self._progress,
        )
        shape = (len(self.targets), design.columns.count)
        simulated = (frame["source"] == "simulated").to_numpy().reshape(shape)
        if simulated.sum(axis=1).min() < LEAST:
            return None
        known, count = self._predicted(design.columns), design.columns.count

        def located(*others: Columns) -> list[Coordinates]:
            """The coordinates of the design's points, and of others behind them, for each program."""
            where = coordinates(concatenate([design.columns, *others]), count)
            predicted = np.concatenate([known, *map(self._predicted, others)], axis=1)
            return [where.with_model(cycles, count) for cycles in predicted]

        surfaces = []
        for where, rows, cycles in zip(located(), simulated, frame["cycles"].to_numpy().reshape(shape), strict=True):
            surfaces.append(GaussianProcess(where, np.flatnonzero(rows), np.log(cycles[rows])))

        def score(columns: Columns) -> NDArray[np.float64]:
            outcome = Outcome(columns, self._cost, self._objective)
            scores = []
            for where, surface in zip(located(columns), surfaces, strict=True):
                log, deviation = surface.predict(np.arange(count, len(where.values)), where)
                scores.append(outcome.score(np.exp(log - deviation)))
            return mean_score(np.stack(scores))

        return score

    def seconds_to_search(self, share: float) -> float:
        """Return the seconds for a search that is such a share of those still to come."""
        return _SEARCHED * share * self._left

    @property
    def last(self) -> float:
        """Seconds for the end, when the best points are simulated."""
        return max(self._left, _LEAST_LAST * self._seconds)

    @property
    def _left(self) -> float:
        return self._seconds - (time.perf_counter() - self._began)

    def _predicted(self, columns: Columns) -> NDArray[np.float64]:
        """The model's cycles [programs, n]."""
        vectors = np.stack([target.vector.vector for target in self.targets])
        return cycles_of_columns(encoder_of(self._model), columns, vectors).T


def _keeping(target: Target) -> Target:
    program = target.simulable
    if program is None or isinstance(program, Kept):
        return target
    return target.simulated_by(Kept(program))
