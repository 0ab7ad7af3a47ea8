"""A trace, or live-points, in parts whose costs are simulated CPI stacks: every part of one pass on each machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.parts.costs import Costs, simulated
from analysis.parts.partition import Grouping, Parts, functions_of, located
from analysis.programs.opened import opened
from analysis.programs.span import Span, timed
from perfvec.representation.sums import Sums
from support.errors import InputError
from support.processors import processors
from tracegen.control_flow.edges import Edges
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import LivePoints, is_live_points, load
from tracegen.live_points.simulate import LivePointsSimulator
from uarch.configuration import Machine
from uarch.instructions import LAST
from uarch.timing.simulation import new_stack
from uarch.timing.simulations import Simulations


def collect(
    trace: Trace | LivePoints | str | os.PathLike[str],
    machines: Sequence[Machine],
    span: Span | None = None,
    *,
    interval: int | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> tuple[Parts, Costs]:
    """A trace in parts whose costs are simulated CPI stacks; all parts add up to the cycles of `simulate`.

    Memory: 248 bytes a machine and static instruction, calling context (at most 32,768) or interval.
    """
    costs, span = simulated(machines), span or Span()
    if isinstance(trace, LivePoints) or (not isinstance(trace, Trace) and is_live_points(trace)):
        points = trace if isinstance(trace, LivePoints) else load(trace)
        if span != Span() or interval is not None:
            raise InputError(
                f"{points.name}: live-points stand for the whole run; leave --max-instructions, --interval out"
            )
        return sampled(points, machines, threads=threads, progress=progress)
    with opened(trace) as file:
        stop = span.stop(file)
        grouping = Grouping(file, stop - span.start, interval, span.start)
        tables = [_Stacks(len(machines)) for _ in range(3)]
        with Simulations(machines, grouping.instructions, threads or processors()) as running:
            for chunk in timed(file, running, span, progress):
                pairs = [table.pairs(group) for table, group in zip(tables, grouping.groups(chunk), strict=True)]
                running.run_with_stacks(chunk, [list(machine) for machine in zip(*pairs, strict=True)])
        return grouping.parts(*(table.sums() for table in tables)), costs


def sampled(
    points: LivePoints, machines: Sequence[Machine], *, threads: int | None = None, progress: bool = True
) -> tuple[Parts, Costs]:
    """Live-points in parts, from the file alone; all parts add up to the cycles of `simulate`.

    There are no intervals, phases or calling contexts: a sampled unit does not know who called it, so that each
    function is a context of its own.
    """
    costs, simulator = simulated(machines), LivePointsSimulator(points)
    with tqdm(
        total=len(machines), unit="machine", desc=f"simulate {points.name}", disable=None if progress else True
    ) as bar:
        stacks, executed = simulator.by_instruction(machines, threads, done=bar.update)
    statics = Sums(np.hstack(list(stacks)), np.rint(executed).astype(np.int64))
    lines = located(points)
    function, names = functions_of(lines)
    each = statics.merge(function + 1, len(names) + 1)
    nothing = np.zeros((0, statics.vectors.shape[1]))
    return Parts(
        program=points.name,
        isa=points.isa,
        code=points.code,
        instructions=points.static,
        lines=lines,
        edges=_edges(points),
        statics=statics,
        intervals=Sums(nothing, np.zeros(0, np.int64)),
        interval=0,
        blocks=np.zeros((0, 15), np.float32),
        contexts=each,
        context_parent=np.append(-1, np.zeros(len(names), np.int64)),
        context_function=np.append(-1, np.arange(len(names))),
    ), costs


def _edges(points: LivePoints) -> Edges:
    """Return how often which instruction followed which, estimated."""
    pieces, size = points.pieces, len(points.static)
    counted = pieces.counted_instructions()
    ids, following = pieces.static_id[counted], pieces.next_static_id[counted]
    there = following != LAST
    weight = np.repeat(points.sample.weight, pieces.lengths[pieces.counted])[there]
    pairs, place = np.unique(ids[there].astype(np.int64) * size + following[there], return_inverse=True)
    return Edges(pairs // size, pairs % size, np.rint(np.bincount(place, weight, len(pairs))).astype(np.int64))


class _Stacks:
    """The CPI stacks of groups on K machines, with room for more groups than there are yet."""

    def __init__(self, machines: int) -> None:
        self._stacks = [new_stack(64) for _ in range(machines)]
        self._counts = np.zeros(0, np.int64)

    def pairs(self, group: NDArray[np.integer]) -> list[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
        """Return for each machine the table that takes a chunk's cycles, and the row of each instruction."""
        counts = np.bincount(group, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        room = len(self._stacks[0])
        if len(counts) > room:
            more = max(len(counts), 2 * room) - room
            self._stacks = [np.concatenate([stack, new_stack(more)]) for stack in self._stacks]
        row = group.astype(np.uint32)
        return [(stack, row) for stack in self._stacks]

    def sums(self) -> Sums:
        groups = len(self._counts)
        return Sums(np.hstack([stack[:groups] for stack in self._stacks]).astype(np.float64), self._counts)
