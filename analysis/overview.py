"""One page of everything: predictions, attribution, profile, phases, comparison and a sweep of programs on machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import attribute, compare, flame, intervals, novelty, phases, predict, profile, sweep
from analysis.costs import predicted
from analysis.predicted_parts import collect
from analysis.report import Section
from analysis.sensitivity import sensitivity
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from tracegen.phases import phases as find_phases
from uarch.configuration import Machine

_SWEPT: dict[str, list[Any]] = {
    "l1d.size_kib": [8, 16, 32, 64, 128], "l2.size_kib": [128, 256, 512, 1024, 2048], "l2.latency": [6, 12, 18]
}  # fmt: skip


def overview(
    model: Model,
    programs: Sequence[ProgramVector],
    traces: Sequence[str | Path],
    machines: Sequence[Machine | MachineVector],
    *,
    max_instructions: int | None = None,
) -> list[Section]:
    """The sections of the page; of `traces` also the profile and the phases, one more pass over each.

    Attribution and the sweep (around the first) need the model's encoder and machines that are configurations.
    """
    configured = [machine for machine in machines if isinstance(machine, Machine)]
    found = predict.sections(predict.predict(model, programs, machines))
    found += novelty.sections(novelty.novelty(model, programs, machines))
    if model.encoder is not None and configured:
        parts = [attribute.attribute(model, programs, machine) for machine in configured]
        found += attribute.sections(pd.concat(parts, ignore_index=True))
    for trace in traces:
        found += _of_trace(model, trace, machines, max_instructions)
    if len(programs) > 1:
        found += compare.sections(compare.compare(programs), compare.plane(programs), None)
    if model.encoder is not None and configured:
        found += _swept(model, programs, configured[0])
    return found


def _of_trace(
    model: Model, trace: str | Path, machines: Sequence[Machine | MachineVector], limit: int | None
) -> list[Section]:
    parts = collect(model, trace, max_instructions=limit)
    name, costs = parts.program, predicted(model, machines)
    frame = profile.profile(parts, costs)
    over_time = profile.profile(parts, costs, "interval")
    return [
        replace(flame.section(parts, costs), title=f"{name}: flame graph"),
        Section(f"{name}: functions", "Predicted cycles.", profile.plot(frame, costs, "function"), frame),
        Section(
            f"{name}: over time", "Predicted cycles per instruction.", profile.plot(over_time, costs, "interval")
        ),
        *(replace(one, title=f"{name}: {one.title.lower()}") for one in phases.sections(find_phases(trace))),
    ]


def _swept(model: Model, programs: Sequence[ProgramVector], base: Machine) -> list[Section]:
    design = sweep.grid_design(base, _SWEPT)
    frame = sweep.run(model, programs, design)
    importance = sensitivity(frame, sweep.fields_of(frame), sweep.outcome_of(frame), exact=True)
    chosen = intervals.of_points(model, programs, design.columns, sweep.best(frame, 5))
    sections = sweep.sections(frame, chosen, importance)
    return [replace(one, title=f"{base.name} with other caches: {one.title.lower()}") for one in sections]
