"""One page of everything: predictions, attribution, profile, phases, comparison and a sweep of programs on machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.parts import simulated_parts
from analysis.parts.costs import Costs, predicted
from analysis.parts.predicted_parts import collect
from analysis.programs.simulable import SimulableLivePoints, SimulableTrace
from analysis.programs.targets import Target
from analysis.questions import attribute, compare, phases, predict, profile
from analysis.questions.explored import scaled
from analysis.questions.sweep import SweepQuestion
from analysis.results.page import Section
from analysis.results.result import Result
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from tracegen.control_flow.phases import phases as find_phases
from uarch.configuration import Machine

_SWEPT = {  # fields of the first machine, and what its values are multiplied by
    "l1d.size_kib": (0.25, 0.5, 1, 2, 4),
    "l2.size_kib": (0.25, 0.5, 1, 2, 4),
    "l2.latency": (0.5, 1, 1.5),
}


def ask(
    model: Model, targets: Sequence[Target], machines: Sequence[Machine | MachineVector], *, seconds: float = 0.0
) -> Result:
    """Answer everything on one page; table, document, text and picture are those of the predictions.

    Of traces it has also the profile and the phases, one more pass over each. A third of the `seconds` each goes to
    the predictions, the attribution and the sweep (`analysis.budget`). The last two need machines that are
    configurations (the sweep is around the first) and the model's encoder.
    """
    configured = [machine for machine in machines if isinstance(machine, Machine)]
    costs = predicted(model, machines)  # refuses machines without different names
    fast = predict.ask(model, targets, machines, seconds / 3)
    found = fast.sourced_sections()
    if model.encoder is not None and configured:
        found += attribute.ask(model, targets, configured, seconds / 3).sourced_sections()
    for target in targets:
        if isinstance(target.simulable, SimulableTrace):
            found += _of_trace(model, target, target.simulable, costs)
        elif isinstance(target.simulable, SimulableLivePoints) and configured and seconds > 0:
            found += _of_live_points(target, target.simulable, configured)
    if len(targets) > 1:
        found += compare.ask([target.vector for target in targets]).sourced_sections()
    if model.encoder is not None and configured:
        base = configured[0]
        swept = (
            SweepQuestion(base=base, vary=scaled(base, _SWEPT), best=5)
            .ask(model, targets, seconds / 3)
            .sourced_sections()
        )
        found += [replace(one, title=f"{base.name} with other caches: {one.title.lower()}") for one in swept]
    return replace(
        fast,
        title=f"{', '.join(target.name for target in targets)} on {', '.join(costs.names)}",
        sections=lambda: found,
        subtitle=f"Simulated where the source says so, else by the model {model.digest[:12]}",
    )


def _of_live_points(target: Target, sampled: SimulableLivePoints, machines: Sequence[Machine]) -> list[Section]:
    flames, functions = profile.result(*simulated_parts.sampled(sampled.points, machines)).sourced_sections()
    return [
        replace(flames, title=f"{target.name}: flame graph"),
        replace(functions, title=f"{target.name}: functions", text="Simulated cycles."),
    ]


def _of_trace(model: Model, target: Target, trace: SimulableTrace, costs: Costs) -> list[Section]:
    """Profile and phases; no phases of a trace's first instructions alone."""
    parts, name = collect(model, trace.path, max_instructions=None if trace.whole else trace.work), target.name
    flames, functions = profile.result(parts, costs).sourced_sections()
    _, over_time = profile.result(parts, costs, "interval").sourced_sections()
    return [
        replace(flames, title=f"{name}: flame graph"),
        replace(functions, title=f"{name}: functions", text="Predicted cycles."),
        replace(over_time, title=f"{name}: over time", text="Predicted cycles per instruction.", table=None),
        *(
            replace(one, title=f"{name}: {one.title.lower()}")
            for one in (phases.result(find_phases(trace.path)).sourced_sections() if trace.whole else ())
        ),
    ]
