"""Search for the best point where there are too many to list: differential evolution (Storn and Price, *Journal of
Global Optimization* 1997), by SciPy, over the coordinates of a grid or a design space.

What it minimises is what the model predicts. With a judge (`judge.py`) a search has two fidelities and goes on in
rounds: of each round's best points some are simulated, and the next round minimises the surface through all of those.
A round ends early where the judge has no more time for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.designs.design import Design, fields_of_columns
from analysis.designs.outcome import Outcome
from analysis.designs.sweep import encoder_of, require_model
from perfvec.machines.columns import cycles_of_columns
from perfvec.machines.features import narrowest
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from uarch.columns import Columns, Grid, concatenate, possible
from uarch.configuration import Machine
from uarch.space import Constraint, base_of, load_space
from uarch.space_columns import columns_of

_MOST = 100_000
_POPULATION, _GENERATIONS = 64, 100  # points tried together; fewer generations where the last round's best begin
_MORE_GENERATIONS = 50
_CHOSEN_FROM = 10  # times as many of the best points, of which every so many-th is taken: neighbours teach little
_LOOKED_AT = 2048
_IMPOSSIBLE = 1e30
_BELOW_ONE = 1.0 - 1e-9
_ROUNDS = 5  # of a search with a judge, the first by the model alone
Score = Callable[[Columns], NDArray[np.float64]]  # what is smallest at the best point, [n]


class Judge(Protocol):
    """The second fidelity of a search, and its time."""

    def __call__(self, design: Design) -> Score | None:
        """Return the score that the next round minimises, by points of the design; nothing: the one before."""

    def seconds_to_search(self, share: float) -> float:
        """Return the seconds for a round that is such a share of the rounds still to come."""


@dataclass(frozen=True)
class Searchable:
    """Machines that a search may try: points [n, coordinates] in [0, 1) become columns, not all of them possible."""

    coordinates: int
    columns: Callable[[NDArray[np.float64]], Columns]
    constraints: tuple[Constraint, ...]


def search_grid(base: Machine, grid: Mapping[str, Sequence[Any]], constraints: Sequence[Constraint] = ()) -> Searchable:
    """Combinations of the values: numbers by their rank."""
    ordered = {
        field: sorted(values) if all(isinstance(value, int | float) for value in values) else list(values)
        for field, values in grid.items()
    }
    whole = Grid(base, ordered)
    sizes = np.array([len(values) for values in ordered.values()])
    return Searchable(
        len(sizes), lambda points: whole.columns(list((points * sizes).astype(np.int64).T)), tuple(constraints)
    )


def search_space(
    space: str | Path, *, base: str | Machine | None = None, constraints: Sequence[Constraint] = ()
) -> Searchable:
    """The machines of a design space, by the coordinates of its dimensions."""
    content = load_space(space)
    start = base_of(content, base)
    return Searchable(
        content.coordinates, lambda points: columns_of(content, points, start), (*content.constraints, *constraints)
    )


def search(
    model: Model,
    programs: Sequence[ProgramVector],
    over: Searchable,
    count: int,
    *,
    seed: int = 0,
    cost: str | None = None,
    objective: str | None = None,
    judge: Judge | None = None,
    progress: bool = True,
) -> Design:
    """Up to `count` of the best points, for `analysis.designs.sweep.run`; the same for the same seed and judge.

    What is minimised is the objective, by default the time; of several programs its geometric mean. Raises InputError
    where no point was possible.
    """
    if not 1 <= count <= _MOST:
        raise InputError(f"--search {count} must be from 1 to {_MOST:,} points")
    encoder = encoder_of(model)
    require_model(model, programs)
    vectors = np.stack([program.vector for program in programs])
    instructions = np.array([program.instructions for program in programs])

    def predicted(columns: Columns) -> NDArray[np.float64]:
        """The model's score, beyond reach where it says what no machine of that width can do: there it is wrong."""
        cycles = cycles_of_columns(encoder, columns, vectors)
        least = instructions / narrowest(columns)[:, None]
        outcome = Outcome(columns, cost, objective)
        scores = mean_score(np.stack([outcome.score(one) for one in np.maximum(cycles, least).T]))
        return np.where((cycles < least).any(axis=1), _IMPOSSIBLE, scores)

    score: Score = predicted
    rounds = 1 if judge is None else rounds_of(count)
    with _Evolution(over, seed, rounds, progress) as evolution:
        for number in range(rounds):
            seconds = math.inf if judge is None else judge.seconds_to_search(evolution.share)
            evolution.go_on(score, count * (number + 1) // rounds - count * number // rounds, seconds)
            if judge is not None and number < rounds - 1:
                score = judge(evolution.design()) or score
        return evolution.design()


def rounds_of(count: int) -> int:
    """Return the number of rounds of a search for so many points, with a judge."""
    return min(_ROUNDS, count)


class _Evolution:
    """Rounds of a search: each adds the best points that it came to and that are new."""

    def __init__(self, over: Searchable, seed: int, rounds: int, progress: bool) -> None:
        self._over, self._seed = over, seed
        self._points = np.empty((0, over.coordinates))
        self._found: list[Columns] = []
        self._first: list[Columns] = []
        self._tried = self._impossible = 0
        self._reason = ""
        self._left = [_GENERATIONS] + (rounds - 1) * [_MORE_GENERATIONS]  # generations of the rounds still to come
        self._bar = tqdm(total=sum(self._left), desc="search", unit="generation", disable=None if progress else True)

    def __enter__(self) -> _Evolution:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    @property
    def share(self) -> float:
        """The next round's generations over those of all rounds still to come."""
        return self._left[0] / sum(self._left)

    def go_on(self, score: Score, count: int, seconds: float) -> None:
        """Minimise the score for so many seconds at most and keep up to `count` points more.

        Raises InputError where none was ever possible.
        """
        from scipy.optimize import differential_evolution  # takes a while, which every command would wait for

        ends = time.perf_counter() + seconds
        points, columns, values = [], [], []
        wrong: list[InputError] = []

        def tried(population: NDArray[np.float64]) -> NDArray[np.float64]:
            try:
                return judged(population)
            except InputError as error:  # a ValueError, which SciPy takes for one of its own
                wrong.append(error)
                raise

        def judged(population: NDArray[np.float64]) -> NDArray[np.float64]:
            here = np.minimum(population.T, _BELOW_ONE)
            machines = self._over.columns(here)
            good, broken = possible(machines, self._over.constraints)
            self._reason = broken or self._reason
            self._tried += len(good)
            self._impossible += int((~good).sum())
            found = np.full(len(good), _IMPOSSIBLE)
            if good.any():
                points.append(here[good])
                columns.append(machines.rows(good))
                found[good] = score(columns[-1])
                values.append(found[good])
            return found

        def late(intermediate_result: object) -> bool:
            self._bar.update()
            return time.perf_counter() >= ends

        random = np.random.default_rng(self._seed + len(self._found))
        population = random.random((_POPULATION, self._over.coordinates))
        population[: len(self._points)] = self._points
        try:
            differential_evolution(
                tried,
                [(0.0, 1.0)] * self._over.coordinates,
                init=population,
                maxiter=self._left.pop(0) - 1,
                vectorized=True,
                updating="deferred",
                polish=False,
                rng=random,
                callback=late,
            )
        except RuntimeError:
            if wrong:
                raise wrong[0] from None
            raise
        if not columns:
            raise InputError(f"an empty sweep: none of {self._tried:,} points can be (the last breaks {self._reason})")
        self._first = self._first or columns[:1]
        scores = np.concatenate(values)
        order = np.argsort(scores, kind="stable")
        order = order[: np.count_nonzero(scores < _IMPOSSIBLE) or None]  # the others would look best in a table
        self._points = np.concatenate(points)[order[: _POPULATION // 2]]
        self._take(concatenate(columns).rows(order), count)

    def _take(self, best: Columns, count: int) -> None:
        """Keep `count` of these points, the best first, that are not kept."""
        kept = sum(one.count for one in self._found)
        some = best.rows(slice(max(2 * _CHOSEN_FROM * count + kept, _LOOKED_AT)))  # many of a late generation are alike
        new = ~_repeats(concatenate([*self._found, some]))[kept:]
        distinct = np.flatnonzero(new)[: _CHOSEN_FROM * count]
        if len(distinct):
            self._found.append(some.rows(distinct[:: max(len(distinct) // count, 1)][:count]))

    def design(self) -> Design:
        """Return what was kept so far, with the fields in which the machines first tried differ."""
        columns = concatenate(self._found)
        fields = fields_of_columns(concatenate([columns, *self._first])).iloc[: columns.count]
        share = self._impossible / self._tried
        told = (
            f"{share:.0%} of {self._tried:,} points tried were no machine or broke a constraint" if self._reason else ""
        )
        return Design(columns, fields, False, told)


def _repeats(columns: Columns) -> NDArray[np.bool_]:
    fields = fields_of_columns(columns)
    return fields.astype(str).duplicated().to_numpy() if len(fields.columns) else np.arange(columns.count) > 0


def mean_score(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean [n] of programs' scores [P, n]; of several the geometric. Raises InputError where there is none."""
    if len(scores) == 1:
        return scores[0]
    if (scores <= 0).any():
        raise InputError("--objective: over several programs it must be above 0 for each; search for one at a time")
    return np.asarray(np.exp(np.log(scores).mean(axis=0)))
