"""Sweeps whose every point is simulated: no model, and no error but the simulator's."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from tqdm import tqdm

from analysis.parts import opened
from analysis.span import Span, timed
from analysis.sweep import Design, Outcome, tabulated
from tracegen.decode import decode
from uarch.timing.simulations import Simulations, processors

_TOGETHER = 64  # machines that go through a trace side by side; their caches are in memory


def run(
    traces: Sequence[str | os.PathLike[str]],
    design: Design,
    span: Span | None = None,
    *,
    cost: str | None = None,
    objective: str | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """The table of `analysis.sweep.run`, its `source` `simulated`, of every point of a design on every trace.

    Raises InputError for a bad trace, one that ends before `span`, or an expression that is not arithmetic over fields.
    """
    outcome, span = Outcome(design.columns, cost, objective), span or Span()
    count = design.columns.count
    cycles = np.empty((count, len(traces)))
    names = []
    with tqdm(total=count * len(traces), desc="sweep", unit="point", disable=None if progress else True) as bar:
        for number, path in enumerate(traces):
            with opened(path) as trace:
                names.append(trace.name)
                instructions = decode(trace.address, trace.code, trace.isa)
                for first in range(0, count, _TOGETHER):
                    points = range(first, min(first + _TOGETHER, count))
                    machines = [design.columns.machine(point, f"point {point}") for point in points]
                    with Simulations(machines, instructions, threads or processors()) as running:
                        for chunk in timed(trace, running, span, progress=False):
                            running.run(chunk)
                        found = [simulation.counters["cycles"] for simulation in running.each]
                    cycles[first : first + len(found), number] = found
                    bar.update(len(found))
    return tabulated(design, outcome, names, cycles, "simulated")
