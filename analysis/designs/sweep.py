"""Sweeps: the time of every point of a design, by the machine encoder alone (`run`) or within a budget (`answered`).

docs/how-to/sweep.md has examples; `search.py` looks for the best point where there are too many to list.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget.budget import SHARE_OF_BEST, Answer, answer, by_model, shares
from analysis.budget.within import within
from analysis.designs.design import Design, first_points
from analysis.designs.outcome import Outcome
from analysis.designs.table import of_answers
from analysis.programs.elsewhere import elsewhere
from analysis.programs.kept import Kept
from analysis.programs.simulable import Simulable
from analysis.programs.targets import Target
from perfvec.intervals.level import DEFAULT_LEVEL
from perfvec.machines.columns import cycles_of_columns, outside_of_columns
from perfvec.machines.encoder import MachineEncoder
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from support.executor import Dask
from uarch.columns import Columns, of_machines
from uarch.configuration import Machine

_TOLD = 4
_FOR_VECTOR = 0.25  # of a budget, at most: a program's vector, where a surface can use it


def run(
    model: Model,
    programs: Sequence[ProgramVector],
    design: Design,
    *,
    base: Machine | None = None,
    cost: str | None = None,
    objective: str | None = None,
) -> pd.DataFrame:
    """One row per program and point: a column per varied field, then `program`, `source` (of the times: `zero-shot`),
    `cycles`, `seconds`, `cost` and `objective` where they are given, and `pareto`.

    All points, the base too, go through the encoder, so that differences are between like and like. `pareto` marks the
    points that no other of the program matches or beats in time and cost; without a cost, on a grid, in time with no
    varied number larger (no latency shorter) and no kind different, and of sampled points only the fastest. With a
    `base`, `change` is a point's time over the base's, less 1; `change_low` and `change_high` are the ends of its
    interval, here NaN. Raises InputError for vectors of another model, or an expression that is not arithmetic over
    fields.
    """
    encoder = encoder_of(model)
    require_model(model, programs)
    outcome = Outcome(design.columns, cost, objective)
    told_outside(encoder, design.columns)
    cycles = cycles_of_columns(encoder, design.columns, np.stack([program.vector for program in programs]))
    of_base = [_of_base(encoder, program, base) for program in programs]
    answers = [replace(by_model(one), base=cycles) for one, cycles in zip(cycles.T, of_base, strict=True)]
    return of_answers(design, outcome, [program.program for program in programs], answers, base)


def answered(
    model: Model,
    targets: Sequence[Target],
    design: Design,
    seconds: float,
    *,
    base: Machine | None = None,
    cost: str | None = None,
    objective: str | None = None,
    best: int = 0,
    share_of_best: float = SHARE_OF_BEST,
    level: float = DEFAULT_LEVEL,
    cluster: Dask | None = None,
    keep: str | os.PathLike[str] | None = None,
    told: bool = True,
    progress: bool = True,
) -> pd.DataFrame:
    """The table of `run`, each number by the best that a budget of so many seconds allows (`analysis.budget`).

    `source` says which it is: `simulated`, `corrected` (with `low` and `high`, seconds) or `zero-shot`. The `base` and
    the ends of every field are among the first points simulated; the last are the `best`, as many as are wanted.
    Points are simulated on this machine, or on the workers of a `cluster`; those in the folder `keep` are not again.
    Not `told`, nothing is said on stderr of points for which there was no time.
    """
    threads = None if cluster is None else max(cluster.workers, 1)
    targets = within(targets, design.columns.count, seconds, threads)
    targets = [simulated_by(target, cluster, keep) for target in targets]
    parts = shares([target.simulable for target in targets], seconds)
    if not any(parts):
        return run(model, [target.vector for target in targets], design, base=base, cost=cost, objective=objective)
    outcome = Outcome(design.columns, cost, objective)
    first = first_points(design, base)

    def predicted(target: Target) -> NDArray[np.float64]:
        if told:
            told_outside(encoder_of(model), design.columns)
        require_model(model, [target.vector])
        found = cycles_of_columns(encoder_of(model), design.columns, target.vector.vector[None])
        return np.asarray(found[:, 0])

    def answered_one(target: Target, share: float) -> Answer:
        found = by_model(predicted(target)) if target.simulable is None else simulated(target, target.simulable, share)
        if found.simulated or base is None:
            return found
        return replace(found, base=_of_base(encoder_of(model), target.vector, base))

    def simulated(target: Target, program: Simulable, share: float) -> Answer:
        return answer(
            program,
            design.columns,
            share,
            lambda: predicted(target),
            score=outcome.score,
            first=first,
            base=base,
            best=best,
            share_of_best=share_of_best,
            level=level,
            modelled=target.represented_within(_FOR_VECTOR * share),
            threads=threads,
            told=told,
            progress=progress,
        )

    answers = [answered_one(target, share) for target, share in zip(targets, parts, strict=True)]
    return of_answers(design, outcome, [target.name for target in targets], answers, base)


def _of_base(encoder: MachineEncoder, program: ProgramVector, base: Machine | None) -> float:
    """The base's cycles by the encoder, as those of all points."""
    if base is None:
        return np.nan
    return float(cycles_of_columns(encoder, of_machines([base]), program.vector[None])[0, 0])


def simulated_by(target: Target, cluster: Dask | None, keep: str | os.PathLike[str] | None) -> Target:
    """The target as the workers of a cluster simulate it, and what is in a folder is not simulated again."""
    program = target.simulable
    if program is None or (cluster is None and keep is None):
        return target
    if cluster is not None:
        program = elsewhere(program, cluster)
    return target.simulated_by(program if keep is None else Kept(program, keep))


def encoder_of(model: Model) -> MachineEncoder:
    """The model's encoder. Raises InputError where it has none."""
    if model.encoder is None:
        raise InputError("this model has no machine encoder; a sweep needs one (perfvec train fits it)")
    return model.encoder


def require_model(model: Model, programs: Sequence[ProgramVector]) -> None:
    """Raises InputError for a vector that cannot be of this model, and where there is none."""
    if not programs:
        raise InputError("no program to sweep: give at least one vector")
    for program in programs:
        if program.vector.shape != (model.foundation.width,):
            raise InputError(
                f"{program.program}: a vector of {program.vector.size} numbers, of another model than this one, whose "
                f"have {model.foundation.width}; represent the trace again"
            )
    if len({program.model for program in programs}) > 1:
        raise InputError("the vectors were made by different models; represent all with one")


def told_outside(encoder: MachineEncoder, columns: Columns) -> None:
    """One line on stderr where some points lie beyond what taught the encoder."""
    outside = outside_of_columns(encoder, columns)
    if outside:
        some = ", ".join(outside[:_TOLD]) + (f" and {len(outside) - _TOLD} more" if len(outside) > _TOLD else "")
        print(f"perfvec: the sweep goes beyond what the encoder was trained on: {some}", file=sys.stderr)
