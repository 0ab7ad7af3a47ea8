"""A trace in parts that any machine prices: representations summed by group, with no machine in the pass."""

from __future__ import annotations

import os

from analysis.parts import Grouping, Parts, opened
from perfvec.model import Model
from perfvec.representation.by_instruction import grouped_sums
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import LivePoints


def collect(
    model: Model,
    trace: Trace | LivePoints | str | os.PathLike[str],
    *,
    interval: int | None = None,
    max_instructions: int | None = None,
    progress: bool = True,
) -> Parts:
    """One pass over a trace, at the rate of `represent`: parts that any machine prices (`costs.predicted`).

    Memory: 8·d bytes a static instruction, a calling context (at most 32,768) and an interval, beside `represent`'s.
    """
    with opened(trace) as file:
        total = min(len(file), max_instructions or len(file))
        grouping = Grouping(file, total, interval)
        sums = grouped_sums(
            model,
            file,
            grouping.instructions,
            [grouping.by_static, grouping.by_interval, grouping.by_context],
            max_instructions=max_instructions,
            progress=progress,
        )
        return grouping.parts(*sums)
