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
from analysis.targets import Target
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from tracegen.control_flow.phases import phases as find_phases
from uarch.configuration import Machine

_SWEPT: dict[str, list[Any]] = {
    "l1d.size_kib": [8, 16, 32, 64, 128], "l2.size_kib": [128, 256, 512, 1024, 2048], "l2.latency": [6, 12, 18]
}  # fmt: skip


def overview(
    model: Model,
    targets: Sequence[Target],
    traces: Sequence[str | Path],
    machines: Sequence[Machine | MachineVector],
    *,
    seconds: float = 0.0,
    max_instructions: int | None = None,
) -> list[Section]:
    """The sections of the page; of `traces` also the profile and the phases, one more pass over each.

    A third of the `seconds` each goes to the predictions, the attribution and the sweep (`analysis.budget`). The last
    two need machines that are configurations (the sweep is around the first) and the model's encoder.
    """
    configured = [machine for machine in machines if isinstance(machine, Machine)]
    programs = [target.vector for target in targets]
    found = predict.sections(predict.answered(model, targets, machines, seconds / 3))
    found += novelty.sections(novelty.novelty(model, programs, machines))
    if model.encoder is not None and configured:
        each = seconds / 3 / len(configured)
        parts = [attribute.answered(model, targets, machine, each) for machine in configured]
        found += attribute.sections(pd.concat(parts, ignore_index=True))
    for trace in traces:
        found += _of_trace(model, trace, machines, max_instructions)
    if len(programs) > 1:
        found += compare.sections(compare.compare(programs), compare.plane(programs), None)
    if model.encoder is not None and configured:
        found += _swept(model, targets, configured[0], seconds / 3)
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


def _swept(model: Model, targets: Sequence[Target], base: Machine, seconds: float) -> list[Section]:
    design = sweep.grid_design(base, _SWEPT)
    frame = sweep.answered(model, targets, design, seconds, base=base, best=5)
    importance = sensitivity(frame, sweep.fields_of(frame), sweep.outcome_of(frame), exact=True)
    chosen = intervals.of_best(model, targets, design.columns, frame, 5)
    sections = sweep.sections(frame, chosen, importance)
    return [replace(one, title=f"{base.name} with other caches: {one.title.lower()}") for one in sections]
