"""Bayesian search for the best point where there are too many to list: Optuna's tree-structured Parzen estimator.

The estimator (Bergstra, Bardenet, Bengio & Kégl, NeurIPS 2011) models the good and the other points seen so far, field
by field, and tries next where the ratio of the two is largest. A trial here is a prediction, so hundreds cost seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from analysis.designs.design import Design, fields_of_columns
from analysis.designs.outcome import Outcome
from analysis.designs.sweep import encoder_of, require_model
from perfvec.machines.columns import cycles_of_columns
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from uarch.columns import Columns, Grid, concatenate, possible
from uarch.configuration import Machine
from uarch.space import Constraint, base_of, load_space
from uarch.space_columns import columns_of

_MOST = 100_000
_BELOW_ONE = 1.0 - 1e-9
Suggest = Callable[[Any], Columns]  # of a trial


@dataclass(frozen=True)
class Searchable:
    """Machines that a search may try: a trial's suggestions become one machine (which may not be possible)."""

    suggest: Suggest
    constraints: tuple[Constraint, ...]


def search_grid(base: Machine, grid: Mapping[str, Sequence[Any]], constraints: Sequence[Constraint] = ()) -> Searchable:
    """Combinations of the values: numbers by their rank, names as categories."""
    ordered = {
        field: sorted(values) if all(isinstance(value, int | float) for value in values) else list(values)
        for field, values in grid.items()
    }
    whole = Grid(base, ordered)

    def suggest(trial: Any) -> Columns:
        options = []
        for field, values in ordered.items():
            if isinstance(values[0], int | float):
                chosen = trial.suggest_int(field, 0, len(values) - 1)
            else:
                chosen = trial.suggest_categorical(field, list(range(len(values))))
            options.append(np.array([chosen]))
        return whole.columns(options)

    return Searchable(suggest, tuple(constraints))


def search_space(
    space: str | Path, *, base: str | Machine | None = None, constraints: Sequence[Constraint] = ()
) -> Searchable:
    """The machines of a design space, by the coordinates of its dimensions."""
    content = load_space(space)
    start = base_of(content, base)

    def suggest(trial: Any) -> Columns:
        point = np.zeros((1, content.coordinates))
        names = ["core", "l3", "memory"]
        shares = ("in_order_share", "l3_share", "simple_memory_share")
        for number, (name, share) in enumerate(zip(names, shares, strict=True)):
            if 0 < content.shares.get(share, 0) < 1 and not (name == "core" and start is not None):
                point[0, number] = trial.suggest_float(name, 0.0, _BELOW_ONE)
        core = "in-order" if point[0, 0] < content.shares.get("in_order_share", 0) else "out-of-order"
        core = start.core if start is not None else core
        for number, (field, dimension) in enumerate(content.of_core(core), start=3):
            if len(set(dimension.get("choices", (0, 1)))) > 1:
                prefix = "" if start is not None or field not in _both(content) else f"{core} "
                point[0, number] = trial.suggest_float(f"{prefix}{field}", 0.0, _BELOW_ONE)
        return columns_of(content, point, start)

    return Searchable(suggest, (*content.constraints, *constraints))


def _both(space: Any) -> set[str]:
    """Fields that both cores have, each with a dimension of its own."""
    return set(space.dimensions["out-of-order"]) & set(space.dimensions["in-order"])


def search(
    model: Model,
    programs: Sequence[ProgramVector],
    over: Searchable,
    trials: int,
    *,
    seed: int = 0,
    cost: str | None = None,
    objective: str | None = None,
    progress: bool = True,
) -> Design:
    """The points that `trials` trials came to, for `analysis.designs.sweep.run`; the same for the same seed.

    What is minimised is the objective, by default the time; of several programs its geometric mean. Raises InputError
    where Optuna is not installed or no point was possible.
    """
    try:
        import optuna
    except ImportError:
        raise InputError("--search needs Optuna: pip install 'perfvec-toolkit[search]'") from None
    if not 1 <= trials <= _MOST:
        raise InputError(f"--search {trials} must be from 1 to {_MOST:,} trials")
    encoder = encoder_of(model)
    require_model(model, programs)
    vectors = np.stack([program.vector for program in programs])
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    found: list[Columns] = []
    reason = ""
    for _ in tqdm(range(trials), desc="search", unit="trial", disable=None if progress else True):
        trial = study.ask()
        point = over.suggest(trial)
        good, broken = possible(point, over.constraints)
        if not good[0]:
            reason = broken
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        outcome = Outcome(point, cost, objective)
        values = [outcome.columns(one) for one in cycles_of_columns(encoder, point, vectors).T]
        study.tell(trial, _mean(np.array([value.get("objective", value["seconds"])[0] for value in values])))
        found.append(point)
    if not found:
        raise InputError(f"an empty sweep: none of {trials:,} trials can be (the last breaks {reason})")
    columns = concatenate(found)
    fields = fields_of_columns(columns)
    new = ~fields.astype(str).duplicated().to_numpy() if len(fields.columns) else np.arange(len(found)) == 0
    told = f"{trials - len(found):,} of {trials:,} trials were no machine or broke a constraint" if reason else ""
    return Design(columns.rows(new), fields[new].reset_index(drop=True), False, told)


def _mean(values: np.ndarray) -> float:
    """Geometric, where more than one program is searched for."""
    if len(values) == 1:
        return float(values[0])
    if (values <= 0).any():
        raise InputError("--objective: over several programs it must be above 0 for each; search for one at a time")
    return float(np.exp(np.log(values).mean()))
