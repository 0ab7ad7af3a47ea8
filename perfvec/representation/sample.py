"""A program's vector from a part of its instructions, with its error (docs/explanation/representation.md).

Units of UNIT instructions are stratified by what they execute and how; the model runs over units drawn at random from
every stratum, each after a warm-up, until the 95 % confidence interval of the prediction on every machine of the
model's table is as narrow as asked for, or all units are represented. The few units with by far the most accesses are
represented whatever is drawn (`Pool.take_all`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.model import Model
from perfvec.representation.memory import keep_freed_memory
from perfvec.representation.pool import CAPACITY, SIMULATED, Listed, Pool
from perfvec.representation.regression import Regression
from perfvec.representation.represent import INTERVAL, OVERLAP, reference_machine
from perfvec.representation.signatures import Reservoir
from perfvec.representation.stratified import Estimate, allocate, estimate, relative_variance, suffices, variances
from perfvec.representation.vector import ProgramVector, Sampling
from support.errors import InputError
from support.progress import instruction_bar
from tracegen.features.schema import extracted
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT
from tracegen.live_points.sampling import UNITS_A_STRATUM
from tracegen.qemu.stream import ProgramStream
from tracegen.statistics.kmeans import kmeans

HALF_WIDTH = 0.02
STRATA = 48  # at most
_FAR = 0.1  # of the units, by distance to their cluster's centre, are strata apart
_FAR_STRATA = 24  # at most
_POOLED_A_STRATUM = 6  # units in the pool, at least
PILOT = 192  # units of the first round, by the strata's sizes, and
LEAST = 24  # of each stratum, as far as the pool has them: of fewer, rare ones that cost much are missed
_ROUNDS = 12
_QUANTILE = 2.02  # Student's, at the degrees of freedom of a finished sample
_PASS, _SIMULATED_PASS = 0.005, 0.04  # of its instructions represented take as long as a pass over a run
_SECOND_PHASE = 0.1  # of the variance that is wanted, at least
_KEPT_AN_INTERVAL = 64  # signatures, about, of a run that has more units than those
_WORTHWHILE = 0.7  # of all units: where more are needed, all are represented


def capacity(model: Model) -> int:
    """Units in a pool for this model."""
    return CAPACITY if model.schema.along is model.schema else SIMULATED


def represent_sampled(
    model: Model,
    path: str | os.PathLike[str],
    *,
    half_width: float = HALF_WIDTH,
    max_instructions: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> ProgramVector:
    """The estimated vector of a trace (or of its first `max_instructions`); `half_width` is relative.

    Raises InputError for a bad trace or a half-width outside (0, 1).
    """
    with Trace(path) as trace:
        require_half_width(half_width)
        keep_freed_memory()  # a chunk's features, too, are megabytes that live for a moment
        total = len(trace) if max_instructions is None else min(max_instructions, len(trace))
        instructions = trace.static

        def collect(slots: Reservoir | Listed) -> Pool:
            pool = Pool(model, instructions, slots)
            with instruction_bar(f"features {trace.name}", total, progress) as bar:
                for chunk, stored in extracted(pool.extractor, trace.chunks(stop=total)):
                    pool.observe(chunk, stored)
                    bar.update(len(chunk))
            return pool

        drawn = Sample(model, collect(Reservoir(capacity(model), seed)), seed=seed, collect=collect)
        drawn.reach(half_width, progress=progress)
        return drawn.vector(trace.name, trace.isa, trace.digest)


def represent_stream_sampled(
    model: Model,
    stream: ProgramStream,
    *,
    half_width: float = HALF_WIDTH,
    units: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> ProgramVector:
    """The estimated vector of a program while it runs, in one pass: nothing is written, memory is bounded.

    The same as of its trace, except that it can draw no more units than the pool holds: where these do not reach
    `half_width`, a line on stderr says so. After Ctrl-C it is that of what was executed until then. With `units`, so
    many of all units are drawn instead, without strata.
    """
    require_half_width(half_width)
    keep_freed_memory()
    pool = Pool(model, stream.instructions, Reservoir(capacity(model), seed), signatures=units is None)
    looked = 1 << 24
    random = np.random.default_rng([seed, 2])
    name, machine = reference_machine(model)
    with instruction_bar(f"features {stream.program}", None, progress) as bar:
        for chunk in stream.chunks():
            pool.grow(stream.instructions)
            pool.observe(chunk)
            if (
                not bar.disable and pool.complete and pool.instructions >= looked
            ):  # a glance each time it has run twice as long
                looked *= 2
                glance = pool.represent(random.choice(len(pool.unit), min(32, len(pool.unit)), replace=False))
                bar.set_postfix_str(f"CPI on {name} about {(glance @ machine).mean() / UNIT:.2f}")
            bar.update(len(chunk))
            if stream.interrupted:
                break
    if units is None:
        drawn = Sample(model, pool, seed=seed)
        drawn.reach(half_width, progress=progress)
    else:
        pooled = len(np.setdiff1d(pool.unit, pool.take_all))
        size = np.array([pooled] if pooled else [], np.int64)
        drawn = Sample(model, pool, seed=seed, strata=Strata(np.zeros(pooled, np.int32), size))
        drawn.draw(units, progress=progress)
    return drawn.vector(stream.program, stream.isa, stream.digest)


def parse_half_width(text: str) -> float:
    """`2%` or `0.02`; InputError where it is neither."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError as error:
        raise InputError(f"half-width {text!r} must be a number such as 2% or 0.02") from error
    require_half_width(value)
    return value


def require_half_width(half_width: float) -> None:
    """Raise InputError unless it is a usable fraction."""
    if not 0 < half_width < 1:
        raise InputError(f"half-width {half_width} must lie between 0 and 1, as 0.02 for 2 %")


@dataclass(frozen=True)
class Strata:
    """`label` [N]: the stratum of each unit; `size` [H]."""

    label: NDArray[np.int32]
    size: NDArray[np.int64]


def stratify(signatures: NDArray[np.float32], pooled: NDArray[np.int64], *, seed: int = 0) -> Strata:
    """Strata of units with `signatures` [N, …], those with the numbers `pooled` being in the pool.

    Clusters of signatures; units far from their cluster's centre, among which are those that cost much more than their
    neighbours, make strata of their own. A stratum so small that hardly any of its units would be in the pool
    becomes part of the nearest one.
    """
    units = len(signatures)
    clusters = kmeans(signatures, max(1, min(STRATA, units // UNITS_A_STRATUM)), seed=seed, starts=2)
    label = clusters.label.copy()
    far = np.argsort(-clusters.distance, kind="stable")[: int(_FAR * units)]
    if len(far) >= LEAST:
        label[far] = (
            len(clusters.centre)
            + kmeans(signatures[far], max(1, min(_FAR_STRATA, len(far) // UNITS_A_STRATUM)), seed=seed, starts=2).label
        )
    size, there = np.bincount(label), np.bincount(label[pooled], minlength=label.max() + 1)
    keep = there >= np.minimum(_POOLED_A_STRATUM, np.maximum(size, 2))
    if not keep.any():
        keep[np.argmax(size)] = True
    sums = np.stack([np.bincount(label, column, len(size)) for column in signatures.T], axis=1)
    centre = sums / np.maximum(size, 1)[:, None]
    square = ((centre[:, None] - centre[keep][None]) ** 2).sum(axis=2)
    nearest = np.argmin(square, axis=1).astype(np.int32)
    nearest[keep] = np.arange(keep.sum())
    label = nearest[label]
    return Strata(label, np.bincount(label, minlength=int(keep.sum())))


class Sample:
    """A growing stratified sample of a pool's run; `collect` makes another pass over it, where that is possible.

    It is drawn from the units that have signatures, which of a long run are themselves a sample: the first phase of
    two. With `strata` these are of the pool's units, in their order in the run, and there are no others. Units of
    `take_all` are in no stratum, but known, as what is left at the run's end is.
    """

    def __init__(
        self,
        model: Model,
        pool: Pool,
        *,
        seed: int = 0,
        collect: Callable[[Reservoir | Listed], Pool] | None = None,
        strata: Strata | None = None,
    ) -> None:
        self._model, self._first, self._pool, self._collect = model, pool, pool, collect
        self._table = model.table()
        self._random = np.random.default_rng([seed, 1])
        self._remainder = pool.represent_remainder()
        self._taken = pool.take_all
        order = np.argsort(pool.unit)
        slots = order[np.searchsorted(pool.unit, self._taken, sorter=order)]
        if not np.array_equal(pool.unit[slots], self._taken):
            raise AssertionError("the pool lacks units that are taken")
        self._of_taken = pool.represent(slots)
        self._known = self._remainder + self._of_taken.sum(axis=0)
        self._population = pool.units - len(self._taken)
        self._regression: Regression | None = None
        if strata is not None or self._population == 0:
            # [m] numbers of the units that may be drawn; a place is one in this list
            self._numbers = np.setdiff1d(pool.unit, self._taken)
            self._strata = strata or Strata(np.empty(0, np.int32), np.empty(0, np.int64))
        else:
            numbers, signatures = pool.signatures()
            others = ~np.isin(numbers, self._taken)
            self._numbers, signatures = numbers[others], signatures[others]
            pooled = np.setdiff1d(pool.unit, self._taken)
            self._strata = stratify(signatures, self._places(pooled), seed=seed)
            self._regression = Regression(signatures, self._strata.label, self._strata.size)
        self._drawn: list[NDArray[np.float64]] = [np.empty((0, len(self._remainder))) for _ in self._strata.size]
        self._units: list[NDArray[np.int64]] = [np.empty(0, np.int64) for _ in self._strata.size]  # their places
        self._seen = np.zeros(len(self._numbers), bool)  # units that were drawn, or were in a pool
        self._queue: list[NDArray[np.int64]] = []  # slots of the pool by stratum, in the order in which they are drawn
        self._enqueue()

    def _places(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._numbers, units)

    def _enqueue(self) -> None:
        slots = np.flatnonzero(~np.isin(self._pool.unit, self._taken))
        places = self._places(self._pool.unit[slots])
        self._seen[places] = True
        label = self._strata.label[places]
        self._queue = [self._random.permutation(slots[label == h]) for h in range(len(self._strata.size))]

    @property
    def count(self) -> NDArray[np.int64]:
        """[H] units drawn so far."""
        return np.array([len(units) for units in self._drawn], np.int64)

    def draw(self, count: int, *, progress: bool = True) -> None:
        """Draw so many units of each stratum, or all of it."""
        with instruction_bar("represent", None, progress) as bar:
            self._draw(np.minimum(self._strata.size, count), bar)

    def reach(self, half_width: float, *, progress: bool = True) -> None:
        """Draw until the relative half-width holds on every machine of the table, or there is nothing more to draw."""
        size = self._strata.size
        pilot = np.maximum(LEAST, np.ceil(PILOT * size / max(size.sum(), 1)).astype(np.int64))
        pooled = np.array([len(queue) for queue in self._queue], np.int64)
        with instruction_bar("represent", None, progress) as bar:
            self._draw(np.minimum(pooled, pilot), bar)
            caution = 1.0
            for _ in range(_ROUNDS):
                reached, total = self._relative()
                bar.set_postfix_str(f"±{reached:.1%}")
                if reached <= half_width:
                    return
                wanted = (caution * half_width * total / _QUANTILE) ** 2
                first = ((self._first_phase() @ self._table.T) ** 2).sum(axis=0)  # which drawing more does not lower
                wanted = np.maximum(wanted - first, _SECOND_PHASE * wanted) / self._scale**2
                drawn = [units @ self._table.T for units in self._adjusted()[0]]
                count = self._allocate(variances(size, drawn), wanted)
                if count.sum() > _WORTHWHILE * size.sum():
                    count = size.copy()
                if (count == self.count).all():
                    caution *= 0.9
                elif not self._draw(count, bar):
                    caution *= 0.95
                    if self._collect is None:
                        break
        reached, _ = self._relative()
        if reached > half_width:
            print(
                f"the interval is ±{reached:.1%} where ±{half_width:.1%} was asked for: all {len(self._pool.unit):,} "
                "units that were kept of the run are used; of a trace, more can be read",
                file=sys.stderr,
            )

    def _allocate(self, variance: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
        """[H] units that reach what is wanted: of what the pool holds, where that spares another pass over the run."""
        size, have = self._strata.size, self.count
        count = allocate(size, variance, wanted, have)
        there = have + np.array([len(queue) for queue in self._queue], np.int64)
        if self._collect is not None and (count > there).any():
            pooled = allocate(size, variance, wanted, have, there)
            more = (int(pooled.sum()) - int(count.sum())) * (UNIT + OVERLAP)
            share = _PASS if self._model.schema.along is self._model.schema else _SIMULATED_PASS
            if suffices(size, variance, wanted, pooled) and more < share * self._first.instructions:
                return pooled
        return count

    def _relative(self) -> tuple[float, NDArray[np.float64]]:
        """The largest half-width, relative, over the table's machines, and their predictions [M]."""
        found = self.estimate()
        total = self._table @ (found.total + self._known)
        width = self._sampling(found).half_width(self._table)
        return float(np.max(width / np.abs(total))), total

    def _draw(self, count: NDArray[np.int64], bar: tqdm) -> bool:
        """Draw until `count` [H] are drawn; whether the pool, or another pass, had enough."""
        short = self._draw_from_pool(count, bar)
        if short.any() and self._collect is not None:
            units = [
                self._random.choice(rest, min(int(missing), len(rest)), replace=False)
                for h, missing in enumerate(short)
                if missing and len(rest := np.flatnonzero(~self._seen & (self._strata.label == h)))
            ]
            if units:
                chosen = np.sort(np.concatenate(units))
                most = capacity(self._model)
                if len(chosen) > most:  # some of every stratum, the rest in the next pass
                    chosen = np.sort(self._random.choice(chosen, most, replace=False))
                self._pool = self._collect(Listed(self._numbers[chosen]))
                self._enqueue()
                short = self._draw_from_pool(count, bar)
        return not short.any()

    def _draw_from_pool(self, count: NDArray[np.int64], bar: tqdm) -> NDArray[np.int64]:
        """[H] how many the pool lacks."""
        wanted = np.maximum(count - self.count, 0)
        slots = [queue[:missing] for queue, missing in zip(self._queue, wanted, strict=True)]
        self._queue = [queue[missing:] for queue, missing in zip(self._queue, wanted, strict=True)]
        for begin, part in _batches(np.concatenate(slots) if slots else np.empty(0, np.int64)):
            vectors = self._pool.represent(part)
            bar.update(UNIT * len(part))
            stratum = np.repeat(np.arange(len(slots)), [len(s) for s in slots])[begin : begin + len(part)]
            for h in np.unique(stratum):
                self._drawn[h] = np.concatenate([self._drawn[h], vectors[stratum == h]])
                self._units[h] = np.concatenate([self._units[h], self._places(self._pool.unit[part[stratum == h]])])
        return wanted - np.array([len(s) for s in slots], np.int64)

    def estimate(self) -> Estimate:
        """Return the estimate for all units, from those drawn so far."""
        if not self._drawn:
            width = len(self._remainder)
            return Estimate(
                np.zeros(width),
                np.empty((0, width)),
                np.empty((0, width), np.float32),
                np.empty(0, np.int32),
                np.empty(0),
            )
        # Signatures do not tell the rare units that cost more: what the variance may miss stays what it was.
        common = relative_variance(self._strata.size, [units @ self._table.T for units in self._drawn])
        found = estimate(self._strata.size, self._adjusted()[0], float(common.mean()))
        first = self._first_phase()
        return Estimate(
            total=self._scale * found.total,
            mean=found.mean,
            factors=np.concatenate([self._scale * found.factors, first]).astype(np.float32),
            factor_stratum=np.concatenate([found.factor_stratum, np.full(len(first), len(self._drawn), np.int32)]),
            freedom=np.append(found.freedom, max(self.count.sum() - 1.0, 1.0)),
        )

    @property
    def _scale(self) -> float:
        """The run's units for each that may be drawn."""
        return self._population / max(len(self._numbers), 1)

    def _first_phase(self) -> NDArray[np.float64]:
        """[K, d] F, FᵀF the covariance of the total that comes from knowing the signatures of m of N units only.

        N²·(1 − m/N)·S/m (Cochran, Sampling Techniques, 1977, §12.2), S all units' covariance as the drawn ones show it.
        """
        some, units = len(self._numbers), self._population
        if some == units:
            return np.empty((0, len(self._remainder)))
        share = self._strata.size / some
        mean = share @ np.array([drawn.mean(axis=0) for drawn in self._drawn])
        rows = [np.sqrt(part / len(drawn)) * (drawn - mean) for part, drawn in zip(share, self._drawn, strict=True)]
        spread = np.linalg.qr(np.concatenate(rows), mode="r")
        return np.asarray(spread * units * np.sqrt((1 - some / units) / some))

    def _adjusted(self) -> tuple[list[NDArray[np.float64]], NDArray[np.float64] | None]:
        """The drawn units' vectors without what their signatures say of them, and the slopes, by which these say it."""
        if self._regression is None:
            return self._drawn, None
        return self._regression.adjusted(self._units, self._drawn)

    def _sampling(self, found: Estimate) -> Sampling:
        return Sampling(
            UNIT,
            self._first.units,
            int(self.count.sum()) + len(self._taken),
            found.factors,
            found.factor_stratum,
            found.freedom,
        )

    def vector(self, name: str, isa: str, digest: str) -> ProgramVector:
        """Return the vector that was reached. An interval's vector is the sum of its units' strata's means and of what
        the units' signatures say of them; of a run with more units than signatures it is estimated from those in it.
        """
        found, total = self.estimate(), self._first.units
        per = INTERVAL // UNIT * max(1, round(_KEPT_AN_INTERVAL * self._scale * UNIT / INTERVAL))
        intervals = max(1, -(-total // per))
        units = np.full(intervals, per, np.int64)
        units[-1] = total - (intervals - 1) * per
        drawn = units - np.bincount(self._taken // per, minlength=intervals)
        vectors = self._of_intervals(found, self._numbers // per, drawn)
        vectors += drawn[:, None] / max(self._population, 1) * (found.total - vectors.sum(axis=0))
        np.add.at(vectors, self._taken // per, self._of_taken)
        vectors[-1] += self._remainder
        counts = units * UNIT
        counts[-1] += self._first.remainder
        sampling = self._sampling(found)
        return ProgramVector(
            program=name,
            isa=isa,
            model=self._model.digest,
            trace_digest=digest,
            instructions=self._first.instructions,
            vector=found.total + self._known,
            interval_instructions=counts,
            interval_vectors=vectors,
            sampling=sampling if sampling.units_represented < sampling.units else None,
        )

    def _of_intervals(
        self, found: Estimate, interval: NDArray[np.int64], units: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """[I, d] estimates of intervals of `units` [I] units; `interval` [m]: where those that may be drawn lie."""
        shares = np.zeros((len(units), len(self._strata.size)))
        np.add.at(shares, (interval, self._strata.label), 1)
        vectors = shares @ found.mean
        slopes = self._adjusted()[1]
        if self._regression is not None and slopes is not None:
            vectors += self._regression.of_intervals(interval, shares) @ slopes
        return np.asarray(vectors * (units / np.maximum(shares.sum(axis=1), 1))[:, None])


def _batches(slots: NDArray[np.int64], size: int = 1024) -> Iterator[tuple[int, NDArray[np.int64]]]:
    for begin in range(0, len(slots), size):
        yield begin, slots[begin : begin + size]
