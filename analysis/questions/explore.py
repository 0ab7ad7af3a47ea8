"""The Explore page: every field of a machine under the hand, and what programs would take on it, at once and offline.

The page holds the encoder's weights, the formulas that turn fields into its features (`perfvec.machines.features`), the
relations between fields, and of each program what the encoder's basis makes of its vector; explore.js evaluates them.
Numbers are those of `perfvec.machines.encoder.MachineEncoder.cycles` and, on a grid that was simulated within a budget,
of `sweep` (`analysis.questions.explored`); attribution is `analysis.questions.attribute`'s, by the model.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from analysis.designs.sweep import encoder_of, require_model
from analysis.programs.simulable import Estimates
from analysis.questions.attribute import IDEAL, MOST_GROUPS, coalition_weights, load_ideal
from analysis.questions.explored import Explored, packed, to_page
from analysis.questions.novelty import unlike
from analysis.results.figure import distinct
from analysis.results.figure_plotly import packed_library
from analysis.results.headline import Headline
from analysis.results.page import HERE as PAGE
from analysis.results.page import fill, head, to_script
from perfvec.machines.encoder import LARGEST, NO_INPUTS, MachineEncoder
from perfvec.machines.features import features, quantities
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from support.files import write_text
from uarch.columns import of_machine
from uarch.configuration import OPTIONAL, Machine, replace_field
from uarch.constraints import CORES, RELATIONS, RULES, Rule
from uarch.machine_files import load_machine, preset_names

_HERE = Path(__file__).parent
CONTRAST = 1.5  # the colours of times reach to so many times the least, or further: a slider may take the times there
_FINE = 64  # more whole numbers than these: the slider passes over some
_STOPS = 60  # of a slider over numbers that need not be whole
_EXAMPLE = {"out-of-order": "base", "in-order": "cortex-a53"}  # where a field comes from that a machine did not have
_L3 = {"size_kib": 8192, "associativity": 16, "latency": 30, "mshrs": 32, "prefetcher": "none"}
_MEMORY = {"memory.latency_ns": 80, "memory.bandwidth_gbs": 25}


def explore(
    path: str | os.PathLike[str],
    model: Model,
    programs: Sequence[ProgramVector],
    machines: Sequence[Machine] = (),
    *,
    ideal: str | Path | None = None,
    explored: Explored | None = None,
) -> Path:
    """Write the page, atomically. `machines` are starting points besides the presets, the first one is where it opens;
    `explored` is what was simulated of the programs, its `starts` those of `starts`.

    Raises InputError for a model without an encoder, vectors of another one, or a wrong file of the ideal machine.
    """
    title = f"Explore machines for {', '.join(program.program for program in programs)}"
    first = Headline("", "", "", "")  # the page's script fills it in
    page = fill(
        _HERE / "explore.html",
        {
            "TITLE": html.escape(title),
            "HEAD": head(title, "Every number follows the machine's fields; the model is in the page.", first),
            "UNLIKE": "".join(f'<p class="warning">{html.escape(one)}</p>' for one in unlike(model, programs)),
            "STYLE": (PAGE / "page.css").read_text(encoding="utf-8"),
            "DATA": to_script(contents(model, programs, machines, ideal=ideal, explored=explored)),
            "PLOTLY": packed_library(),
            "COMMON": (PAGE / "page.js").read_text(encoding="utf-8"),
            "SCRIPT": (_HERE / "explore.js").read_text(encoding="utf-8"),
            "FOOTER": f"perfvec {version('perfvec-toolkit')}, model {model.digest[:12]}, plotly {version('plotly')}",
        },
    )
    write_text(path, page)
    return Path(path)


def contents(
    model: Model,
    programs: Sequence[ProgramVector],
    machines: Sequence[Machine] = (),
    *,
    ideal: str | Path | None = None,
    explored: Explored | None = None,
) -> dict[str, Any]:
    """Return the page's data, as JSON's types."""
    encoder = encoder_of(model)
    require_model(model, programs)
    begin = starts(machines)
    each = [("given" if number < len(machines) else "preset", machine) for number, machine in enumerate(begin)]
    each += [("trained the model", m) for m in (*model.machines, *model.fitted_machines)]
    vectors, sources = model.machine_vectors([machine for _, machine in each])
    known = vectors @ np.stack([program.vector for program in programs]).T
    simulated = [] if explored is None else [_ranges(one, len(begin)) for one in explored.starts]
    names = distinct([program.program for program in programs])
    full = _examples()
    return {
        "programs": [
            {"name": name, "instructions": program.instructions, **_projected(encoder, program)}
            for name, program in zip(names, programs, strict=True)
        ],
        "machines": [
            {
                "name": machine.name,
                "kind": kind,
                "fields": of_machine(machine),
                "cycles": None if source == "encoder" else row.tolist(),
                "simulated": [ranges[number] for ranges in simulated] if simulated and number < len(begin) else None,
            }
            for number, ((kind, machine), row, source) in enumerate(zip(each, known, sources, strict=True))
        ],
        "explored": None if explored is None else to_page(explored),
        "encoder": _weights(encoder),
        "quantities": list(quantities().items()),
        "features": features()[: len(encoder.mean)],
        "fields": _fields(encoder),
        "relations": [
            {"field": relation.field, "bound": relation.bound, "condition": relation.condition}
            for relation in RELATIONS
        ],
        "defaults": {core: of_machine(machine) | _MEMORY for core, machine in full.items()},
        "no_inputs": NO_INPUTS,
        "optional": OPTIONAL,
        "contrast": CONTRAST,
        "shares": [coalition_weights(count).tolist() for count in range(1, MOST_GROUPS + 1)],
        "ideal": ideal_groups(ideal),
    }


def _examples() -> dict[str, Machine]:
    """A machine of each core, with an L3."""
    return {core: with_l3(load_machine(name)) for core, name in _EXAMPLE.items()}


def ideal_groups(ideal: str | Path | None = None) -> dict[str, list[dict[str, Any]]]:
    """The groups of the ideal machine of each core. Raises InputError for a wrong file."""
    return {core: _groups(load_ideal(ideal or IDEAL, machine, either=True)) for core, machine in _examples().items()}


def starts(machines: Sequence[Machine]) -> list[Machine]:
    """The machines that the page begins at: the given ones and the presets."""
    return [*machines, *(load_machine(name) for name in preset_names())]


def _ranges(found: Estimates | None, count: int) -> list[dict[str, float] | None]:
    """Cycles and the ends of their interval of each of so many machines, None of those that were not simulated."""
    if found is None:
        return [None] * count
    each = zip(found.cycles.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    ranges = [{"cycles": cycles, "low": low, "high": high} for cycles, low, high in each]
    return [*ranges, *[None] * (count - len(ranges))]


def with_l3(machine: Machine) -> Machine:
    """The machine, with an example of an L3 where it has none."""
    return machine if machine.l3 is not None else replace_field(machine, "l3", _L3)


def _projected(encoder: MachineEncoder, program: ProgramVector) -> dict[str, Any]:
    """The vector as the page needs it: cycles = exp(pace) · (middle + coordinates · onto) + exp(costs) · events."""
    onto = encoder.basis_scale.double().numpy() * (encoder.basis.double().numpy() @ program.vector)
    events = encoder.cost_basis.double().numpy() @ program.vector
    middle = float(encoder.basis_mean.double().numpy() @ program.vector)
    return {"middle": middle, "onto": onto.tolist(), "events": events.tolist()}


def _weights(encoder: MachineEncoder) -> dict[str, Any]:
    """The encoder as data: its layers in the order in which they follow each other."""
    return {
        "pace": float(encoder.pace),
        "limit": float(encoder.limit) if torch.isfinite(encoder.limit) else None,
        "costs": len(encoder.cost_basis),
        "largest": LARGEST,
        "hinges": encoder.hinges.tolist(),
        "mean": _packed(encoder.mean),
        "scale": _packed(encoder.scale),
        "linear": _layer(encoder.linear),
        "correction": [_layer(layer) for layer in encoder.correction],
    }


def _layer(layer: nn.Module) -> dict[str, str] | str:
    """A linear layer's numbers, or the name of what has none."""
    if isinstance(layer, nn.Linear):
        return {"weight": _packed(layer.weight), "bias": _packed(layer.bias)}
    return type(layer).__name__


def _packed(tensor: Tensor) -> str:
    """Its numbers in float32; a matrix row by row."""
    return packed(tensor.detach().numpy().astype("<f4"))


def _fields(encoder: MachineEncoder) -> list[dict[str, Any]]:
    """Every field that a machine may have, with its rule, the range that taught the encoder, and a slider's stops."""
    ranges = {name: (low, high) for name, low, high in encoder.field_ranges()}
    found: dict[str, dict[str, Any]] = {}
    for name, rule in RULES.items():
        section, _, last = name.partition(".")
        field = f"pipeline.{last}" if section in CORES else name
        if field == "name":
            continue
        entry = found.setdefault(field, {"field": field, "cores": []})
        entry["cores"].append(section if section in CORES else "any")
        if rule.names is not None:
            never = [kind for kind in rule.names() if _never(ranges.get(f"{field} = {kind}"))]
            entry |= {"names": list(rule.names()), "never": never}
            continue
        low, high = ranges.get(field, (-np.inf, np.inf))
        entry |= {
            "low": rule.low,
            "high": rule.high,
            "must": rule.describe(),
            "whole": rule.type is int,
            "power_of_two": rule.power_of_two,
            "seen": [low if np.isfinite(low) else None, high if np.isfinite(high) else None],
            "never": low > high,
            "stops": stops(rule, low, high),
        }
    return list(found.values())


def _never(seen: tuple[float, float] | None) -> bool:
    return seen is not None and not seen[0] <= 1 <= seen[1]


def stops(rule: Rule, low: float, high: float) -> list[float]:
    """Return where a slider halts: at whole numbers or, where they are many, 2^k and 3·2^k, at others evenly in their
    log; within what taught the encoder, as far as the rule allows it.
    """
    low, high = (max(low, rule.low), min(high, rule.high)) if low <= high else (rule.low, rule.high)
    if rule.type is not int:
        return [float(f"{value:.3g}") for value in np.geomspace(low, high, _STOPS)]
    low, high = int(np.ceil(low)), int(high)
    powers = {1 << k for k in range(high.bit_length())}
    if rule.power_of_two:
        found = powers | {0}
    elif high - low <= _FINE:
        return list(range(low, high + 1))
    else:
        found = powers | {3 << k for k in range(high.bit_length())} | {low, high}
    return sorted(value for value in found if low <= value <= high)


def _groups(groups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each group's fields and ideal values, flat; a null for what goes with a section that is replaced."""
    found = []
    for name, fields in groups.items():
        flat: dict[str, Any] = {}
        for field, value in fields.items():
            if isinstance(value, Mapping):
                whole = {rule.partition(".")[2]: None for rule in RULES if rule.startswith(f"{field}.")}
                flat |= {f"{field}.{last}": given for last, given in (whole | dict(value)).items()}
            elif field == "memory":
                flat |= {"memory.model": value, "memory.latency_ns": None, "memory.bandwidth_gbs": None}
            else:
                flat[field] = value
        found.append({"name": name, "fields": flat})
    return found
