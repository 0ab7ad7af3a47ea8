"""Simulation on the Explore page: a grid around a machine, answered within a budget as a sweep of it is, and
the machines that the page begins at.

The page holds the answer of every point of the grid, so that its numbers are those of `sweep`. Between the values of
numbers it interpolates their logarithms linearly, which keeps a larger cache from being slower there too.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget.budget import Answer, answer, shares
from analysis.budget.within import within
from analysis.designs.design import Design, first_points, grid_design
from analysis.designs.outcome import Outcome
from analysis.programs.simulable import Estimates
from analysis.programs.targets import Target
from perfvec.intervals.level import DEFAULT_LEVEL, require_level
from perfvec.machines.columns import cycles_of_columns
from perfvec.machines.encoder import MachineEncoder
from support.errors import InputError
from uarch.columns import Columns, of_machine
from uarch.configuration import Machine, get_field
from uarch.constraints import RULES

_FACTORS = {  # of the fields that vary around a machine, where it has them
    "l1d.size_kib": (0.5, 1, 2),
    "l2.size_kib": (0.25, 0.5, 1, 2, 4),
    "l3.size_kib": (0.5, 1, 2),
    "l2.latency": (0.7, 1, 1.5),
    "pipeline.rob_entries": (0.5, 1, 2),
    "pipeline.issue_width": (0.5, 1, 1.5),
    "pipeline.width": (0.5, 1, 2),
    "frequency_ghz": (0.7, 1, 1.3),
}
_KINDS = ("bimode", "tournament", "ltage", "tage-sc-l")
_BEST = 10  # points that are simulated at the end, as of a sweep
_MOST_VALUES = 1 << 16  # of one field of the grid
_FOR_STARTS = 0.25  # of the budget, at most: the machines that the page begins at


@dataclass(frozen=True)
class Explored:
    """Answers of each program (None: it has only a vector) over a `design` around `base`, and for each program the
    simulated cycles of those machines that the page begins at for which there was time, the first ones.
    """

    base: Machine
    design: Design
    answers: Sequence[Answer | None]
    starts: Sequence[Estimates | None]
    level: float = DEFAULT_LEVEL


def around(machine: Machine) -> dict[str, list[Any]]:
    """Return the fields that vary around a machine, each with its values."""
    found = scaled(machine, _FACTORS)
    found["branch_predictor.kind"] = list(dict.fromkeys([get_field(machine, "branch_predictor.kind"), *_KINDS]))
    return found


def scaled(machine: Machine, factors_of: Mapping[str, Sequence[float]]) -> dict[str, list[Any]]:
    """Return the values of these fields, where the machine has them: its own, and its own times each factor."""
    flat = of_machine(machine)
    found: dict[str, list[Any]] = {}
    for field, factors in factors_of.items():
        if field not in flat:
            continue
        section, _, last = field.partition(".")
        rule = RULES[f"{machine.core}.{last}" if section == "pipeline" else field]
        products = [flat[field] * factor for factor in factors]
        values = [round(value) if rule.type is int else float(f"{value:.3g}") for value in products]
        found[field] = sorted({flat[field], *(value for value in values if rule.low <= value <= rule.high)})
    return found


def ask(
    encoder: MachineEncoder,
    targets: Sequence[Target],
    base: Machine,
    starts: Sequence[Machine],
    seconds: float,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    level: float = DEFAULT_LEVEL,
    progress: bool = True,
) -> Explored | None:
    """Answer a grid around `base` (`vary`: its values) and the machines to start from within a budget.

    None where no program can be simulated. Raises InputError for a grid that cannot be.
    """
    require_level(level)
    varied = vary or around(base)
    for field, values in varied.items():
        if len(values) > _MOST_VALUES:
            raise InputError(f"{field} has {len(values):,} values; a page holds up to {_MOST_VALUES:,} of a field")
    design = grid_design(base, varied)
    targets = within(targets, design.columns.count, seconds)
    parts = shares([target.simulable for target in targets], seconds)
    if not any(parts):
        return None
    known: list[Estimates | None] = [None] * len(targets)
    answers: list[Answer | None] = []
    for number, (target, share) in enumerate(zip(targets, parts, strict=True)):
        if target.simulable is None:
            answers.append(None)
            continue

        def predicted(target: Target = target) -> NDArray[np.float64]:
            return np.asarray(cycles_of_columns(encoder, design.columns, target.vector.vector[None])[:, 0])

        found = answer(
            target.simulable,
            design.columns,
            (1 - _FOR_STARTS) * share,
            predicted,
            score=Outcome(design.columns, None, None).score,
            first=first_points(design, base),
            base=base,
            best=_BEST,
            level=level,
            progress=progress,
        )
        answers.append(found)
        if found.simulated:
            room = _FOR_STARTS * share * found.simulated / max(found.seconds, 1e-9)
            fit = starts if room >= len(starts) else starts[: int(room)]
            if fit:
                known[number] = target.simulable.simulate(fit).at(level)
    return Explored(base, design, answers, known, level)


def to_page(explored: Explored) -> dict[str, Any]:
    """The page's data: the grid's values, which of them each point has, and each program's answers."""
    columns = explored.design.columns
    each = {field: _levels(columns, field) for field in columns.varied}
    constant = {field: levels[0] for field, (levels, _) in each.items() if len(levels) == 1}
    each = {field: found for field, found in each.items() if field not in constant}
    others = {field: value for field, value in (of_machine(explored.base) | constant).items() if field not in each}
    return {
        "base": explored.base.name,
        "fixed": {field: value for field, value in others.items() if value is not None},
        "fields": list(each),
        "levels": [levels for levels, _ in each.values()],
        "codes": [packed(codes.astype("<u2")) for _, codes in each.values()],
        "points": columns.count,
        "level": explored.level,
        "programs": [None if one is None else _of_program(one) for one in explored.answers],
    }


def _levels(columns: Columns, field: str) -> tuple[list[Any], NDArray[np.int64]]:
    """A column's values, ascending (None: there is none), and which of them each point has."""
    values = columns[field]
    if isinstance(values, pd.Categorical):
        codes, levels = pd.factorize(np.asarray(values.codes), sort=True)
        return [None if code < 0 else str(values.categories[code]) for code in levels], codes
    codes, levels = pd.factorize(np.nan_to_num(values, nan=-1.0), sort=True)
    return [None if level < 0 else float(level) for level in levels.tolist()], codes


def _of_program(found: Answer) -> dict[str, str]:
    ends = {name: packed(getattr(found, name).astype("<f4")) for name in ("low", "high", "apart")}
    return {"source": packed(found.source.astype("u1")), "cycles": packed(found.cycles.astype("<f8")), **ends}


def packed(values: NDArray[Any]) -> str:
    """Its numbers, little-endian, in base64."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
