"""A trace in parts for any machine: representations summed by group, with no machine in the pass."""

from __future__ import annotations

import os

from analysis.parts.partition import Grouping, Parts
from analysis.programs.opened import opened
from perfvec.model import Model
from perfvec.representation.by_instruction import GroupedSums
from support.progress import instruction_bar
from tracegen.formats.trace import CHUNK, Trace
from tracegen.live_points.live_points import LivePoints


def collect(
    model: Model,
    trace: Trace | LivePoints | str | os.PathLike[str],
    *,
    interval: int | None = None,
    max_instructions: int | None = None,
    progress: bool = True,
) -> Parts:
    """One pass over a trace, at the rate of `represent`: parts for the `costs.predicted` of any machine.

    Memory: 8·d bytes a static instruction, a calling context (at most 32,768) and an interval, beside `represent`'s.
    """
    with opened(trace) as file:
        total = min(len(file), max_instructions or len(file))
        grouping = Grouping(file, total, interval)
        adding = GroupedSums(model, grouping.instructions, 3)
        with instruction_bar(f"profile {file.name}", total, progress) as bar:
            for chunk in file.chunks(CHUNK, stop=total):
                adding.add(chunk, grouping.groups(chunk))
                bar.update(len(chunk))
        return grouping.parts(*adding.sums())
