"""Answers within a budget of seconds: every point simulated, or those that teach most and the rest corrected by them.

Every number that comes out says which it is, its `source`:

    simulated   by the embedded simulator
    corrected   the surface through the simulated points (`corrected.py`), with a 95 % interval
    scaled      the model's, times what it is off on the simulated points, which are too few for a surface
    table, fitted, zero-shot   the model's alone: of a machine that trained it, a fitted vector, the encoder's
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.budget.coordinates import Coordinates, coordinates
from analysis.budget.corrected import CANDIDATES, LEAST, LEVEL, factor, monotone
from analysis.budget.gaussian_process import GaussianProcess
from analysis.programs.changes import half_widths
from analysis.programs.kept import Kept
from analysis.programs.simulable import Simulable
from support.processors import processors
from uarch.columns import Columns
from uarch.configuration import Machine

MOST = 256  # simulated points, where not all can be
SURFACE = 64  # simulated points that a surface should go through
MOST_FITTED = 512  # simulated points that a surface goes through
RATE = 1.5e7  # instructions a second of one machine, at most: what would not end in time at this rate is not begun
SET_UP = 1_000_000  # instructions that take about as long as what comes before a program's first
SHARE_OF_BEST = 0.15  # of the simulated points, those that look best
_LOOKED_AT = 20_000
_RECALLED = 1024  # points of a design, at most, of which those that are kept are looked for
_BATCH = 64  # points that are simulated together, at most; more where there are many threads
_TURNS_OF_BEST = 4  # surfaces at the end, each after those that looked best by the one before were simulated
_TURNS = (16, 32, 64, 128)  # simulated points after which the process is fitted anew
SOURCES = ("simulated", "corrected", "table", "fitted", "zero-shot", "scaled")


@dataclass(frozen=True)
class Answer:
    """Cycles [n] of one program on n points, the ends of their intervals (NaN where there is none), and sources.

    `base`: cycles of the machine against which changes are told, NaN where they are not known; `apart` [n]: half of the
    interval of the logarithm of a point's cycles over those, NaN too.
    """

    cycles: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    source: NDArray[np.int8]  # an index of SOURCES
    apart: NDArray[np.float64]
    base: float = np.nan
    seconds: float = 0.0

    @property
    def simulated(self) -> int:
        """Number of simulated points."""
        return int((self.source == SOURCES.index("simulated")).sum())

    @property
    def sources(self) -> NDArray[np.object_]:
        """[n] names."""
        return np.array(SOURCES, object)[self.source]


Prediction = Callable[[], NDArray[np.float64]]  # cycles [n] by the model, made when they are needed
Score = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # what is smallest at the best point, from cycles [n]


def by_model(predicted: NDArray[np.float64], sources: Sequence[str] | str = "zero-shot") -> Answer:
    """The model's numbers, with no interval here."""
    nothing = np.full(len(predicted), np.nan)
    names = [sources] * len(predicted) if isinstance(sources, str) else sources
    number = np.array([SOURCES.index(name) for name in names], np.int8)
    return Answer(predicted, nothing, nothing, number, nothing)


def answer(
    program: Simulable,
    points: Columns,
    seconds: float,
    predicted: Prediction,
    *,
    where: Coordinates | None = None,
    score: Score | None = None,
    first: Sequence[int] = (),
    base: Machine | None = None,
    level: float = LEVEL,
    sources: Sequence[str] | str = "zero-shot",
    seed: int = 0,
    best: int = 0,
    share_of_best: float = SHARE_OF_BEST,
    least: int = LEAST,
    limit: int | None = None,
    names: Sequence[str] = (),
    threads: int | None = None,
    modelled: bool = False,
    told: bool = True,
    progress: bool = True,
) -> Answer:
    """The program's cycles on all points, by the best that so many seconds allow (infinity: all are simulated).

    No more than `limit` points are simulated, where it is given; `first` are rows that come before all others. Changes
    are told against `base`, which is one of `first` or is simulated too. `score` says which points look best, a
    `share_of_best` of those simulated are such, and the `best` of them are simulated at the end. `modelled`: the
    surface over a wide design reads what the model predicts, for which there must be time. `names` are the points', if
    they have any.
    Where not one point fits, one line on stderr says so (if `told`) and the model answers, its rows of these `sources`.
    Where fewer than `least` fit, or a field that varies over `first` has one value in all of them, the others stay the
    model's, and one line warns of that; with a `score` they are scaled, so that points of both sources can be ranked.
    """
    run = SimulatedPoints(program, points, names, seconds, limit, threads or processors(), level, progress)
    if not run.recall() and run.affordable() < 1:
        if told:
            _tell(
                f"{program.name}: not one point of {program.work:,} instructions can be simulated in {seconds:.3g} s; "
                "the model answers (raise --budget)"
            )
        return by_model(predicted(), sources)
    with run:
        program.prepare()
        if not run.count:
            begin = np.unique(np.array([*first, 0, *range(points.count)][: run.threads], np.int64))
            run.simulate(begin[begin < points.count])
        run.compare_with(base, first[0] if len(first) else None)
        if run.affordable() >= points.count - run.count:
            run.simulate(run.left())
        if run.count == points.count:
            return run.answer(None)
        where = where or coordinates(points)
        if modelled and where.names:
            where = where.with_model(predicted())
        return _corrected(
            run, where, predicted, sources, score, list(first), best, share_of_best, least, level, seed, told
        )


def shares(programs: Sequence[Simulable | None], seconds: float) -> list[float]:
    """Return each program's share of the budget, by its simulation's work and set-up; 0 where it has none."""
    work = [0 if program is None else program.work + SET_UP for program in programs]
    whole = max(sum(work), 1)
    return [seconds if np.isinf(seconds) and one else seconds * one / whole if one else 0.0 for one in work]


def _corrected(
    run: SimulatedPoints,
    where: Coordinates,
    predicted: Prediction,
    sources: Sequence[str] | str,
    score: Score | None,
    first: list[int],
    best: int,
    share_of_best: float,
    least: int,
    level: float,
    seed: int,
    told: bool,
) -> Answer:
    generator = np.random.default_rng(seed)
    every = np.arange(run.points.count)
    candidates = every
    if len(every) > CANDIDATES:
        candidates = np.sort(generator.choice(len(every), CANDIDATES, replace=False))
    rows = run.rows if run.count >= LEAST else run.rows[:0]
    process = GaussianProcess(where, rows, np.log(run.cycles[: len(rows)]))
    most = MOST if run.limit is None else run.limit
    run.wanted = min(most, run.points.count)
    if score is not None:
        _look_best_first(run, predicted, score, best, least)
    room = min(most, run.count + run.affordable())
    ends = first if len(first) <= min(most // 2, room) else first[: 1 + len(run.moving(first))]
    if len(ends) <= room:  # fewer would leave a field at one value
        run.simulate(run.within(np.array(ends, np.int64)))
    turns = iter(_TURNS)
    for_best = 0
    kept = min(best, min(most, run.count + run.affordable()) // 4) if score is not None else 0  # points for the end
    while (room := min(most - run.count, run.affordable()) - kept) >= 1:
        goal = next((turn for turn in turns if turn > run.count), most)
        count = min(goal - run.count, room)
        chosen = process.most_informative(np.setdiff1d(candidates, run.rows), count)
        if not run.simulate(chosen):
            break
        if run.count < min(least, LEAST):
            continue
        began = time.perf_counter()
        process = GaussianProcess(where, run.rows, np.log(run.cycles), process.state)
        run.reserve = 3 * (time.perf_counter() - began)
        if score is not None and for_best < share_of_best * run.count:
            some = run.within(_best(run, process, score, int(share_of_best * run.count) - for_best))
            for_best += run.simulate(some)
    if run.count == run.points.count:
        return run.answer(None)
    still = [field for field in run.moving(first) if field not in run.moving(run.rows.tolist())]
    if run.count < least or still:
        found = others = by_model(predicted(), sources)
        if score is not None:
            found = _scaled(run, others)
            while run.affordable() >= 1:
                run.simulate(_leading(run, found, score, best))
                found = _scaled(run, others)
        lacking = f", none with another {' or '.join(still)}" if still and run.count >= least else ""
        if told:
            _tell(
                f"{run.program.name}: only {run.count} of {run.points.count} points were simulated in time{lacking}; "
                f"the model answers for the others{'' if score is None else ', scaled to these'} (raise --budget)"
            )
        return run.answer(found)
    for turn in range(_TURNS_OF_BEST):
        began = time.perf_counter()
        process = GaussianProcess(where, *run.fitted(generator), process.state)
        log, deviation = process.predict()
        log[run.rows] = np.log(run.cycles)
        shown = monotone(run.points, log, run.is_simulated)
        run.reserve = 2 * (time.perf_counter() - began)
        if score is None or not best or turn == _TURNS_OF_BEST - 1 or run.affordable() < 1:
            break
        leading = np.argsort(score(np.exp(shown)), kind="stable")[:best]
        if not run.simulate(run.within(leading)):
            break
    surface, moved = factor(process, level) * deviation, np.abs(shown - log)
    half = np.hypot(surface, run.sampling_error()) + moved
    number = np.full(len(every), SOURCES.index("corrected"), np.int8)
    cycles = np.exp(shown)
    cycles[~run.is_simulated] *= 1 + 1e-14  # rounding puts none before a simulated point that is as fast
    apart = np.hypot(surface, run.error_of_changes()) + moved
    return run.answer(Answer(cycles, np.exp(shown - half), np.exp(shown + half), number, apart))


def _tell(what: str) -> None:
    print(f"perfvec: {what}", file=sys.stderr)


def _scaled(run: SimulatedPoints, model: Answer) -> Answer:
    """The model's numbers times the geometric mean of simulated over predicted, `monotone`, without intervals."""
    log = np.log(np.maximum(model.cycles, 1.0))  # a dot product may be below 0
    log += np.mean(np.log(run.cycles) - log[run.rows])
    log[run.rows] = np.log(run.cycles)
    number = np.full(len(log), SOURCES.index("scaled"), np.int8)
    return replace(model, cycles=np.exp(monotone(run.points, log, run.is_simulated)), source=number)


def _look_best_first(run: SimulatedPoints, predicted: Prediction, score: Score, best: int, least: int) -> None:
    """Simulate what looks best by the model, while there is no time for as many points as a surface needs."""
    model: Answer | None = None
    while 1 <= run.affordable() < least - run.count and least < run.points.count:
        model = model or by_model(predicted())
        run.simulate(_leading(run, _scaled(run, model), score, best))


def _leading(run: SimulatedPoints, shown: Answer, score: Score, count: int) -> NDArray[np.int64]:
    """The rows of so many points, one at least, that look best and are to be simulated."""
    order = np.argsort(score(run.answer(shown).cycles), kind="stable")
    return run.within(order)[: max(count, 1)]


def _best(run: SimulatedPoints, process: GaussianProcess, score: Score, count: int) -> NDArray[np.int64]:
    """The points whose score, a standard deviation down, is least; of many points a part is looked at."""
    rows = np.arange(run.points.count)
    if len(rows) > _LOOKED_AT:
        rows = np.sort(np.random.default_rng(run.count).choice(len(rows), _LOOKED_AT, replace=False))
    log, deviation = process.predict(rows)
    cycles = np.ones(run.points.count)
    cycles[rows] = np.exp(log - deviation)
    value = score(cycles)[rows]
    value[np.isin(rows, run.rows)] = np.inf
    count = max(min(count, len(value)), 0)
    return rows[np.argpartition(value, count - 1)[:count]] if count else np.zeros(0, np.int64)


class SimulatedPoints:
    """The simulated points so far, with intervals of this `level`, and what the rest of the budget allows."""

    def __init__(
        self,
        program: Simulable,
        points: Columns,
        names: Sequence[str],
        seconds: float,
        limit: int | None,
        threads: int,
        level: float,
        progress: bool,
    ) -> None:
        self._level, self._names = level, names
        self.program, self.points, self._seconds, self.threads = program, points, seconds, threads
        self.limit = limit
        self._began = time.perf_counter()
        self._low: list[float] = []
        self._high: list[float] = []
        self._apart: list[float] = []
        self._waiting: list[NDArray[np.float64]] | None = []  # deviations, until it is known what to compare with
        self._base: tuple[float, NDArray[np.float64]] | None = None  # its cycles, and their deviations
        self._base_row: int | None = None  # where it is a point
        self._cycles: list[float] = []
        self._rows: list[int] = []
        self._spent, self._recalled, self._compared = 0.0, 0, 0
        self.reserve = 0.0  # seconds kept for the surface
        self.wanted = points.count  # points, where there is time for them
        self._bar = tqdm(desc=f"simulate {program.name}", unit="point", disable=None if progress else True)

    def __enter__(self) -> SimulatedPoints:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    @property
    def count(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> NDArray[np.int64]:
        return np.array(self._rows, np.int64)

    @property
    def is_simulated(self) -> NDArray[np.bool_]:
        """[n] which points are."""
        return np.isin(np.arange(self.points.count), self._rows)

    @property
    def cycles(self) -> NDArray[np.float64]:
        return np.array(self._cycles)

    def fitted(self, generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows that a surface goes through, and the logarithm of their cycles; of too many some at random."""
        kept = np.arange(self.count)
        if self.count > MOST_FITTED:
            kept = generator.choice(kept, MOST_FITTED, replace=False)
        return self.rows[kept], np.log(self.cycles[kept])

    def moving(self, rows: Sequence[int]) -> list[str]:
        """Return the fields that vary over these rows."""
        some = self.points.rows(np.array(rows, np.int64))
        return [field for field in some.varied if pd.Series(some[field]).nunique(dropna=False) > 1]

    def sampling_error(self) -> float:
        """Return the half width of the simulated points' intervals, as a mean logarithm: other points share it."""
        return float(np.mean(np.log(self._high) - np.log(self._cycles)))

    def compare_with(self, base: Machine | None, row: int | None) -> None:
        """Changes are told against this machine, which may be the point `row`; it is simulated now if there is time."""
        waiting = [] if self._waiting is None else self._waiting
        if base is not None:
            if row is not None and self.points.machine(row, base.name) == base:
                if row in self._rows or self.simulate(self.within(np.array([row]))):
                    place = self._rows.index(row)
                    self._base, self._base_row = (self._cycles[place], waiting[place]), row
            elif self.time_for() >= 1 + (self.count < self.points.count):  # another point comes first
                began = time.perf_counter()
                found = self.program.simulate([base], self.threads)
                self._spent += time.perf_counter() - began
                self._compared = 1
                self._base = float(found.cycles[0]), found.deviations[0]
        self._waiting = None
        self._apart = self._compared_with_base(self.rows, self.cycles, waiting)

    def _compared_with_base(
        self, rows: NDArray[np.int64], cycles: NDArray[np.float64], deviations: Sequence[NDArray[np.float64]]
    ) -> list[float]:
        """Return `Answer.apart` of these points; what follows keeps no deviations, which are many."""
        if self._base is None or not len(rows):
            return [math.nan] * len(rows)
        half = half_widths(np.log(cycles / self._base[0]), np.stack(deviations), self._base[1], self._level)
        half[rows == self._base_row] = 0.0
        return list(half.tolist())

    def error_of_changes(self) -> float:
        """Return what `sampling_error` is of a change."""
        others = np.array(self._apart)[self.rows != self._base_row]
        return float(np.sqrt((others**2).mean())) if len(others) else 0.0

    def left(self) -> NDArray[np.int64]:
        return np.setdiff1d(np.arange(self.points.count), self.rows)

    def within(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the rows that are not simulated yet, as many as the budget allows."""
        return rows[~np.isin(rows, self.rows)][: self.affordable()]

    def affordable(self) -> int:
        """Return how many more points the rest of the budget allows, by the rate so far."""
        room = self.points.count - self.count
        if self.limit is not None:
            room = min(room, self.limit - self.count)
        return max(min(self.time_for(), room), 0)

    def time_for(self) -> int:
        """Return how many machines there is time for."""
        if np.isinf(self._seconds):
            return sys.maxsize
        left = self._seconds - (time.perf_counter() - self._began) - self.reserve
        timed = self.count - self._recalled + self._compared
        before = self.program.seconds_each if isinstance(self.program, Kept) else 0.0
        each = self._spent / timed if timed else before or self.program.work / RATE
        return int(left / max(each, 1e-9))

    def simulate(self, rows: NDArray[np.int64]) -> int:
        """Simulate these rows and return how many were: a batch at a time, until the budget is spent."""
        done = 0
        batch = max(self.threads, 1)
        while done < len(rows) and (done == 0 or self.affordable() >= 1):
            some = rows[done : done + min(batch, max(self.affordable(), 1))]
            began = time.perf_counter()
            self._take(some)
            self._spent += time.perf_counter() - began
            done += len(some)
            self._bar.total = max(min(self.count + self.affordable(), self.wanted), self.count)
            self._bar.update(len(some))
            batch = min(2 * batch, max(_BATCH, 4 * self.threads))
        return done

    def recall(self) -> int:
        """Take the points that the program keeps and return how many there are; of many points none are looked for."""
        if isinstance(self.program, Kept) and self.program.count and self.points.count <= _RECALLED:
            rows = np.arange(self.points.count)
            self._take(rows[self.program.keeps(self._machines(rows))])
        self._recalled = self.count
        return self.count

    def _machines(self, rows: NDArray[np.int64]) -> list[Machine]:
        return [self.points.machine(int(row), self._names[row] if self._names else f"point {row}") for row in rows]

    def _take(self, rows: NDArray[np.int64]) -> None:
        found = self.program.simulate(self._machines(rows), self.threads).at(self._level)
        self._rows += rows.tolist()
        if self._waiting is None:
            self._apart += self._compared_with_base(rows, found.cycles, list(found.deviations))
        else:
            self._waiting += list(found.deviations)
        for kept, values in ((self._cycles, found.cycles), (self._low, found.low), (self._high, found.high)):
            kept += values.tolist()

    def answer(self, others: Answer | None) -> Answer:
        """The simulated points, and the others by a surface or by the model."""
        n = self.points.count
        begin = others or by_model(np.full(n, np.nan))
        cycles, low, high, apart = (values.copy() for values in (begin.cycles, begin.low, begin.high, begin.apart))
        number = begin.source.copy()
        cycles[self._rows], low[self._rows], high[self._rows] = self._cycles, self._low, self._high
        number[self._rows], apart[self._rows] = SOURCES.index("simulated"), self._apart
        base = np.nan if self._base is None else self._base[0]
        return Answer(cycles, low, high, number, apart, base, time.perf_counter() - self._began)
