"""A trace in parts whose costs are simulated CPI stacks: every part of one pass on each machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.costs import Costs, simulated
from analysis.parts import Grouping, Parts, opened
from analysis.simulate import Span, timed
from perfvec.representation.sums import Sums
from tracegen.formats.trace import Trace
from uarch.configuration import Machine
from uarch.timing.simulation import new_stack
from uarch.timing.simulations import Simulations, processors


def collect(
    trace: Trace | str | os.PathLike[str],
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
    with opened(trace) as file:
        stop = span.stop(file)
        grouping = Grouping(file, stop - span.start, interval, span.start)
        tables = [_Stacks(len(machines)) for _ in range(3)]
        with Simulations(machines, grouping.instructions, threads or processors()) as running:
            for chunk in timed(file, running, span, progress):
                groups = [grouping.by_static(chunk), grouping.by_interval(chunk), grouping.by_context(chunk)]
                pairs = [table.pairs(np.asarray(group)) for table, group in zip(tables, groups, strict=True)]
                running.run_with_stacks(chunk, [list(machine) for machine in zip(*pairs, strict=True)])
        return grouping.parts(*(table.sums() for table in tables)), costs


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
