"""Machines simulated on live-points: cycles, counters and CPI stacks of the whole run, estimated.

A machine passes the pieces in the order of the run. Before a piece its caches and TLBs take in the lines of the gap,
each level by its own geometry, and prefetchers learn of its misses; so no contents are lost between units, and none is
stored twice. What branches are redirected is found beforehand, without a core (`timeless_branches.hpp`), once for all
machines with the same predictor and front end; the last ones of a gap then fetch their code, and that of wrong paths.
How late they retire, and predictors learn, is the program's: it was measured on one machine when the live-points were
made (`in_flight`). The piece before a counted unit fills the pipeline, queues and memory controller.

A refresh of a DRAM costs a thousand cycles in one unit and none in the next. So a unit begins at the same time of a
refresh interval on all machines (common random numbers), and what its reads waited for refreshes more or less than they
would on average is taken off its cycles (a control variate, of mean 0): Law, *Simulation Modeling and Analysis*, 2015,
§11.2, §11.4.

The kernel's cycles are added in the end: the run's system calls are counted, not sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import log
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.processors import processors
from tracegen.live_points.live_points import UNIT, LivePoints
from tracegen.live_points.string_instructions import parts
from uarch.configuration import BranchPredictor, InOrderPipeline, Machine
from uarch.constraints import GEM5, PREDICTORS
from uarch.instructions import Chunk, Flag
from uarch.timing import _core
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES

ESTIMATOR = 13  # in the names of what is kept; another number where a file's estimates change
MOST_KIB = 1 << 19  # of a cache: as many lines as are remembered of a run
COLD = 0.03  # of the cycles, in 95 of 100 cases: what state that was not warm enough makes
# Out of order the perceptron's histories have jumps of wrong paths, and depend on when each branch retires.
COLD_OF_PERCEPTRON = 0.07
# Directions in which errors of sampling deviate, and by how much the errors of two predictors do, of COLD.
_DIRECTIONS = 64
_OF_PREDICTOR = 1 / 3
MEASURED_ON = "base"  # the machine on which instructions in flight behind a branch are measured
USUAL = 40.0  # so many are taken until then
_FEW, _MANY = 8, 256  # instructions in flight, at least and at most
# To a predictor so many times as many in flight make little difference, so machines that are alike but for this share
# outcomes: mispredictions differ by 1 to 2 %. The others' do not depend on it.
_ALIKE = {"tage-sc-l": 1.1, "perceptron": 1.1, "ltage": 1.5, "tage": 1.5}
_KERNEL = list(CAUSES).index("serializing instructions")  # as the cores give them
# Branches of a gap that a predictor without tags sees, the latest. What runs between two executions of a branch moves
# its counters too, and those that are kept for their use come without it. The last 16,384 follow one another, none left
# out (branch_history.hpp).
_WITHOUT_TAGS = {"perceptron": 16384, "bimode": 24576, "local": 24576, "tournament": 24576}
_LATEST = 4096  # branches of a gap, the last ones, that fetch their code
_FARTHEST = 200  # instructions between two branches, at most
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Estimated:
    """Estimates for K machines from n counted units."""

    cycles: NDArray[np.float64]  # [K] of the whole run
    half_width: NDArray[np.float64]  # [K] of 95 % intervals: of sampling and of cold state
    # [K, R] the squares of two rows' difference add up to the variance of the logarithm of their cycles' ratio, but for
    # what cold state a change moves; R = 0 where every unit of the run is in the sample
    deviations: NDArray[np.float64]
    units: NDArray[np.float64]  # [K, n] cycles of each counted unit, without the kernel's
    counts: list[dict[str, float]]  # [K] as Simulation.statistics, of the whole run
    stacks: NDArray[np.float64] | None  # [K, len(CAUSES)] cycles of each cause


class _Groups(NamedTuple):
    """Groups [G] that occur in a unit, and [n] the place in them of each instruction's."""

    group: NDArray[np.integer]
    row: NDArray[np.integer]


@dataclass(frozen=True)
class _Branches:
    """The branches of gaps and pieces in one sequence; at the end of a gap all that were taken, in 0 steps."""

    branch: NDArray[np.uint32]
    following: NDArray[np.uint32]
    steps: NDArray[np.uint16]  # instructions from the one before
    own: list[slice]  # of each piece
    latest: list[slice]  # before each piece, one after another

    @classmethod
    def of(cls, points: LivePoints, most: int | None) -> _Branches:
        """Return the pieces' branches and the latest `most` of each gap (None: all that are kept)."""
        pieces = points.pieces
        branch = (points.static.flags[pieces.static_id] & Flag.BRANCH) != 0
        ids, after = pieces.static_id[branch], pieces.next_static_id[branch]
        inside = np.add.reduceat(branch, np.arange(0, len(branch), UNIT), dtype=np.int64)
        executed = np.concatenate([[0], np.cumsum(inside)])
        offset = pieces.branch_offset
        first = offset[:-1] if most is None else np.maximum(offset[:-1], offset[1:] - most)
        parts, followings, counts = [], [], []
        for k in range(len(pieces)):
            gap, own = slice(first[k], offset[k + 1]), slice(*executed[k : k + 2])
            last = slice(*pieces.taken_offset[k : k + 2])
            parts += [pieces.branch[gap], pieces.taken[last], ids[own]]
            followings += [pieces.branch_following[gap], pieces.taken_following[last], after[own]]
            counts += [gap.stop - gap.start, last.stop - last.start, own.stop - own.start]
        branches, following = np.concatenate(parts), np.concatenate(followings)
        between = np.zeros(len(branches), np.int32)  # in place: there are millions
        np.minimum(following[:-1], len(points.static) - 1, out=between[1:], casting="unsafe")  # LAST: the run's end
        np.subtract(branches, between, out=between, casting="unsafe")
        steps = np.clip(between, 0, _FARTHEST - 1, out=between).astype(np.uint16) + np.uint16(1)
        steps[np.repeat(np.tile([False, True, False], len(pieces)), counts)] = 0
        kept, last, own = np.reshape(counts, (-1, 3)).T
        end = np.cumsum(kept + last + own)
        gap = end - own - last
        latest = _slices(gap - np.minimum(kept, _LATEST), gap)
        return cls(branches, following, steps, _slices(end - own, end), latest)


class _Part(NamedTuple):
    """A part of a piece (`string_instructions.Part`), checked: its instructions, and which of the piece's branches."""

    chunk: _core.Chunk
    instructions: slice
    branches: slice
    passed: NDArray[np.uint64] | None
    times: float


class _Outcomes(NamedTuple):
    """The outcomes of branches: [P] those of each piece, and the latest before it."""

    own: list[NDArray[np.uint8]]
    latest: list[NDArray[np.uint8]]
    in_flight: int  # sum over the pieces' branches: how many before each had not retired


def _phases(unit: NDArray[np.uint64]) -> list[float | None]:
    """[P] how much of a refresh interval has passed where each piece begins: alike on all machines, and evenly spread
    (multiples of the golden ratio). None where the piece before it is the unit before.
    """
    begins = np.append(True, np.diff(unit) != 1)
    passed = _GOLDEN * np.cumsum(begins) % 1
    return [phase if begin else None for begin, phase in zip(begins.tolist(), passed.tolist(), strict=True)]


def _slices(begin: NDArray[np.int64], end: NDArray[np.int64]) -> list[slice]:
    return [slice(*bounds) for bounds in zip(begin.tolist(), end.tolist(), strict=True)]


_OfMachine = tuple[NDArray[np.float64], dict[str, float], NDArray[np.float64]]


class LivePointsSimulator:
    """Simulates machines on one program's live-points; keeps what machines share."""

    def __init__(self, points: LivePoints) -> None:
        self.points = points
        pieces = points.pieces
        weights = np.zeros(len(pieces))
        weights[pieces.counted] = points.sample.weight
        self._parts = [
            self._parts_of(chunk, weight) for chunk, weight in zip(pieces.chunks(), weights.tolist(), strict=True)
        ]
        self._phases = _phases(pieces.unit)
        self._passed: dict[int | None, _Branches] = {}  # by how many of each gap
        self._outcomes: dict[tuple[BranchPredictor, int], _Outcomes] = {}  # by predictor and window
        self._in_flight = points.in_flight or USUAL
        self._finding: dict[tuple[BranchPredictor, int], Lock] = {}
        self._lock = Lock()

    def _parts_of(self, chunk: Chunk, weight: float) -> list[_Part]:
        """A unit that stands for others too is one part: what a long string is off would be multiplied."""
        points = self.points
        told = points.divisions.told(chunk)
        if points.whole or weight > 1:
            return [_Part(_core.Chunk(told, len(points.static)), slice(None), slice(None), None, 1.0)]
        branch = (points.static.flags[chunk.static_id] & Flag.BRANCH) != 0
        before = np.concatenate([[0], np.cumsum(branch)])
        return [
            _Part(
                _core.Chunk(part.chunk, len(points.static)),
                slice(part.begin, part.end),
                slice(int(before[part.begin]), int(before[part.end])),
                part.passed,
                part.times,
            )
            for part in parts(told)
        ]

    @property
    def work(self) -> int:
        """Instructions that a machine's simulation passes."""
        return len(self.points.pieces.static_id)

    def outcomes(self, machine: Machine) -> list[NDArray[np.uint8]]:
        """[P] the outcome of each of a piece's branches, which machines alike in this share."""
        return self._outcomes_of(machine).own

    def _outcomes_of(self, machine: Machine) -> _Outcomes:
        window = _window(machine, self._in_flight)
        key = machine.branch_predictor, window
        with self._lock:
            lock = self._finding.setdefault(key, Lock())
        with lock:
            if key not in self._outcomes:
                self._outcomes[key] = self._find_outcomes(machine, window)
            return self._outcomes[key]

    def _find_outcomes(self, machine: Machine, window: int) -> _Outcomes:
        static, passed = self.points.static, self._branches(machine)
        branches = _timeless_branches(machine.branch_predictor, window)

        def follow(begin: int, end: int) -> NDArray[np.uint8]:
            columns = passed.branch[begin:end], passed.following[begin:end], passed.steps[begin:end]
            return branches.outcomes(static.address, static.length, static.flags, *columns)

        found: list[NDArray[np.uint8]] = []
        last: list[NDArray[np.uint8]] = []  # of a gap no more is asked for
        in_flight = begin = 0
        for own, latest in zip(passed.own, passed.latest, strict=True):
            gap = follow(begin, own.start)
            last.append(gap[latest.start - begin : latest.stop - begin].copy())
            before = branches.in_flight_before
            found.append(follow(own.start, own.stop))
            in_flight += branches.in_flight_before - before
            begin = own.stop
        return _Outcomes(found, last, in_flight)

    def in_flight(self, machine: Machine) -> float:
        """Instructions in flight behind a branch of `base`, so that as many branches are without a core as in the
        machine's, which is out of order.
        """
        simulation = Simulation(replace(machine, system_calls=None), self.points.static)
        passed, expected = self._branches(machine), self._outcomes_of(machine)
        found = 0
        for k, piece in enumerate(self._parts):
            own = self._enter(simulation, k, passed, expected)
            before = simulation.in_flight_before
            for part in piece:
                _run(simulation, part, own)
            found += simulation.in_flight_before - before
        return self._in_flight * (found + 1) / (expected.in_flight + 1)

    def _enter(
        self, simulation: Simulation, piece: int, passed: _Branches, outcomes: _Outcomes | None
    ) -> NDArray[np.uint8] | None:
        """Bring a machine's state to where a piece begins; return the outcomes of the piece's branches."""
        pieces = self.points.pieces
        simulation.touch(*pieces.gap(piece))
        if outcomes is None:
            return None
        phase = self._phases[piece]
        if phase is not None:
            simulation.set_refresh(phase)
        near = slice(*pieces.near_offset[piece : piece + 2])
        reads = pieces.near_load[near], pieces.near_store[near], pieces.near_times[near], pieces.near_same_bytes[near]
        simulation.begin_unit(*reads)
        late = passed.latest[piece]
        simulation.pass_branches(passed.branch[late], passed.following[late], outcomes.latest[piece])
        return outcomes.own[piece]

    def _branches(self, machine: Machine) -> _Branches:
        """Return what the machine's predictor sees."""
        most = _WITHOUT_TAGS.get(machine.branch_predictor.kind)
        with self._lock:
            if most not in self._passed:
                self._passed[most] = _Branches.of(self.points, most)
            return self._passed[most]

    def simulate(
        self,
        machines: Sequence[Machine],
        threads: int | None = None,
        *,
        stacks: bool = False,
        done: Callable[[], object] = lambda: None,
    ) -> Estimated:
        """Estimate the whole run on each of `machines`, so many at once (one a processor by default).

        Raises InputError for a machine with a cache that holds more lines than are known of a run.
        """
        for machine in machines:
            _require_warm(machine)
        points = self.points
        rows = points.instructions_per_unit
        together = None
        if stacks:
            length = points.pieces.lengths[points.pieces.counted]
            together = [_Groups(np.zeros(1, np.int64), np.zeros(one, np.int64)) for one in length]
        each = self._each(machines, together, 1, threads, done)
        units = np.array([cycles for cycles, _, _ in each]).reshape(len(machines), -1)
        cycles, width = rows * points.sample.totals(units), rows * points.sample.half_width(units)
        if not points.whole:
            width = np.hypot(width, np.array([_cold(machine) for machine in machines]) * cycles)
        kernel = np.array([points.system_calls.cycles(machine, points.isa).sum() for machine in machines])
        counts = [{name: rows * total for name, total in counts.items()} for _, counts, _ in each]
        for each_counts, added in zip(counts, kernel, strict=True):
            each_counts["cycles"] += added
        parts = None
        if stacks:  # of units: they add up to the cycles of the units that they are of
            parts = np.array([stack[0] for _, _, stack in each])
            parts *= (cycles / parts.sum(axis=1))[:, None]
            parts[:, _KERNEL] += kernel
        return Estimated(
            cycles + kernel, width, self._deviations(machines, units, cycles + kernel), units, counts, parts
        )

    def _deviations(
        self, machines: Sequence[Machine], units: NDArray[np.float64], cycles: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See `Estimated`. Those of the sample's units are projected on random directions, which keeps distances but
        for a tenth (Johnson and Lindenstrauss, 1984), so that they are few; a predictor has a direction of its own.
        """
        if self.points.whole:
            return np.zeros((len(machines), 0))
        own = self.points.sample.deviations(units) * self.points.instructions_per_unit / cycles[:, None]
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (own.shape[1], _DIRECTIONS))
        kinds = [PREDICTORS.index(machine.branch_predictor.kind) for machine in machines]
        predictors = np.eye(len(PREDICTORS))[kinds]
        predictors *= _OF_PREDICTOR / 2**0.5 * np.array([_cold(machine) for machine in machines])[:, None]
        return np.hstack([own @ signs / _DIRECTIONS**0.5, predictors])

    def by_instruction(
        self, machines: Sequence[Machine], threads: int | None = None, *, done: Callable[[], object] = lambda: None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Estimate the CPI stack of each static instruction: cycles [K, S, len(CAUSES)], and executions [S].

        A machine's cycles add up to those of `simulate`. Raises InputError as it does.
        """
        for machine in machines:
            _require_warm(machine)
        points, size = self.points, len(self.points.static)
        rows = points.instructions_per_unit
        length = points.pieces.lengths[points.pieces.counted]
        executed = points.pieces.static_id[points.pieces.counted_instructions()]
        ids = np.split(executed, np.cumsum(length)[:-1])
        groups = [_Groups(*np.unique(unit, return_inverse=True)) for unit in ids]
        each = self._each(machines, groups, size, threads, done)
        found = np.stack([stacks for _, _, stacks in each])
        for k, (cycles, _, _) in enumerate(each):
            whole = rows * float(points.sample.totals(cycles[None])[0])
            found[k] *= whole / max(found[k].sum(), 1e-300)
            np.add.at(
                found[k][:, _KERNEL], points.system_calls.static_id, points.system_calls.cycles(machines[k], points.isa)
            )
        times = np.bincount(executed, np.repeat(points.sample.weight, length), size)
        return found, np.asarray(rows * times, np.float64)

    def _each(
        self,
        machines: Sequence[Machine],
        groups: Sequence[_Groups] | None,
        count: int,
        threads: int | None,
        done: Callable[[], object],
    ) -> list[_OfMachine]:
        def one(machine: Machine) -> _OfMachine:
            found = self._one(machine, groups, count)
            done()
            return found

        with ThreadPoolExecutor(min(threads or processors(), max(len(machines), 1))) as pool:
            return list(pool.map(one, machines))

    def _one(self, machine: Machine, groups: Sequence[_Groups] | None, count: int) -> _OfMachine:
        """Cycles of each counted unit, counts of the run, and the stacks of `count` groups of instructions."""
        pieces = self.points.pieces
        simulation = Simulation(replace(machine, system_calls=None), self.points.static)
        passed = self._branches(machine)
        follow = None if self.points.whole else self._outcomes_of(machine)
        cycles: list[float] = []
        names = list(simulation.statistics)
        instructions = names.index("instructions")
        totals = np.zeros(len(names))
        sums = np.zeros((count, len(CAUSES)))
        for k, piece in enumerate(self._parts):
            outcomes = self._enter(simulation, k, passed, follow)
            if not pieces.counted[k]:
                for part in piece:
                    _run(simulation, part, outcomes)
                continue
            weight = self.points.sample.weight[len(cycles)]
            counts = np.zeros(len(names))
            for part in piece:
                surplus = simulation.refresh_surplus
                simulation.reset_counters()
                if groups is not None and part.times:
                    own = groups[len(cycles)]
                    stack = new_stack(len(own.group))
                    _run(simulation, part, outcomes, (stack, own.row[part.instructions].astype(np.uint32)))
                    sums[own.group] += weight * part.times * stack
                else:
                    _run(simulation, part, outcomes)
                counts += part.times * simulation.counts
                if follow is not None:
                    counts[0] -= part.times * (simulation.refresh_surplus - surplus)
            counts[instructions] = pieces.lengths[k]
            cycles.append(float(counts[0]))
            totals += weight * counts
        return np.array(cycles), dict(zip(names, totals.tolist(), strict=True)), sums


def _run(
    simulation: Simulation,
    part: _Part,
    outcomes: NDArray[np.uint8] | None,
    stack: tuple[NDArray[np.int64], NDArray[np.uint32]] | None = None,
) -> None:
    """Simulate a part of a piece, which has these outcomes of branches."""
    if part.passed is not None:
        simulation.touch(part.passed)
    own = None if outcomes is None else outcomes[part.branches]
    if stack is None:
        simulation.run(part.chunk, own)
    else:
        simulation.run_with_stacks(part.chunk, [stack], own)


def timeless_branches(machine: Machine, in_flight: float = USUAL) -> _core.TimelessBranches:
    """Return the machine's front end without a core (`timeless_branches.hpp`), where on `base` so many instructions are
    in flight behind a branch.
    """
    return _timeless_branches(machine.branch_predictor, round(_in_flight(machine, in_flight)))


def _timeless_branches(predictor: BranchPredictor, window: int) -> _core.TimelessBranches:
    return _core.TimelessBranches(
        kind=predictor.kind,
        entries=predictor.entries,
        btb_entries=predictor.btb_entries,
        ras_entries=predictor.ras_entries,
        indirect=predictor.indirect,
        window=window,
    )


def _in_flight(machine: Machine, on_base: float) -> float:
    """Instructions in flight behind a branch; 0 where it teaches at once: in order, and where histories move with
    fetch, as those of real families do. Fitted (docs/appendix/live-points.md).
    """
    pipeline = machine.pipeline
    if machine.microcode != GEM5 or isinstance(pipeline, InOrderPipeline):
        return 0.0
    fetched = (pipeline.fetch_width / 4) ** 0.6 / machine.l1i.latency ** (1 / 3)
    return float(min(max(on_base * fetched * (pipeline.rob_entries / 192) ** 0.2, _FEW), _MANY))


def _window(machine: Machine, on_base: float) -> int:
    """Instructions in flight behind a branch, of the numbers for which outcomes are found; 0 where it teaches at
    once.
    """
    in_flight = _in_flight(machine, on_base)
    if in_flight == 0:
        return 0
    window, ratio = on_base, _ALIKE.get(machine.branch_predictor.kind)
    if ratio is not None:
        window *= ratio ** round(log(in_flight / on_base, ratio))
    return round(min(max(window, _FEW), _MANY))


def _cold(machine: Machine) -> float:
    late = machine.core == "out-of-order" and machine.microcode == GEM5
    return COLD_OF_PERCEPTRON if late and machine.branch_predictor.kind == "perceptron" else COLD


def _require_warm(machine: Machine) -> None:
    for level in ("l1i", "l1d", "l2", "l3"):
        cache = getattr(machine, level)
        if cache is not None and cache.size_kib > MOST_KIB:
            raise InputError(
                f"{machine.name}: {level}.size_kib {cache.size_kib:,} is more than live-points can warm, "
                f"{MOST_KIB:,}; simulate every instruction of the trace (--simulate)"
            )
