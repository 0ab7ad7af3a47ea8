"""A sweep as a question: what varies, what is minimised, and the answer with its best points and sensitivities."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.budget.budget import SHARE_OF_BEST
from analysis.designs import confirm, intervals, sweep
from analysis.designs import judge as judging
from analysis.designs import search as searching
from analysis.designs.design import Design, grid_design, space_design
from analysis.designs.judge import Judge
from analysis.designs.outcome import Outcome
from analysis.designs.search import Searchable
from analysis.designs.sensitivity import sensitivity
from analysis.designs.table import best, fields_of, is_of_time_alone, outcome_of, told_sources
from analysis.designs.vary import parse_constraints
from analysis.programs.targets import Target, cut_short
from analysis.questions import novelty, sweep_figures, sweep_page, sweep_tables
from analysis.questions.sweep_figures import heat_fields, require_heat
from analysis.questions.sweep_tables import changed_fields
from analysis.results.headline import Headline, percent
from analysis.results.result import Result, of_table, table_text
from perfvec.intervals.level import DEFAULT_LEVEL, require_level
from perfvec.model import Model
from support.errors import InputError
from support.executor import Dask
from uarch.configuration import Machine
from uarch.constraints import GEM5, OF_TABLES
from uarch.space import Constraint


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sweep(Result):
    """The points of a sweep.

    Attributes:
        best: The best points of each program, the best first, with the interval of their time (`low_seconds`,
            `high_seconds`) and, with a base, of its `change` against the base's time (fractions; `change_low`,
            `change_high`); the index is the row in `table`.
        sensitivity: How much of the variance each field explains, by program.

    >>> import perfvec as pv
    >>> swept = pv.sweep("T.trace.h5", base="zen4", vary={"l1d.size_kib": [16, 32]})
    >>> [machine.name for machine in swept.best_machines()], swept.machine(0).l1d.size_kib
    (['T-01', 'T-02'], 16)
    """

    best: pd.DataFrame
    sensitivity: pd.DataFrame
    design: Design = field(repr=False)
    programs: Mapping[str, tuple[int, str]]  # instructions and ISA of each

    def machine(self, row: int, name: str = "point") -> Machine:
        """Return the machine of a row of `table`. Raises InputError for a row that it does not have."""
        if not 0 <= row < len(self.table):
            raise InputError(f"row {row}: the table has rows 0 to {len(self.table) - 1}")
        return self.design.machine(row, name)

    def best_machines(self) -> list[Machine]:
        """Return the machines of the best points, PROGRAM-01 and so on; `uarch.machine_files.save_machines` writes
        them.
        """
        return [machine for _, machine in confirm.best_machines(self.table, self.design, self._most)]

    @property
    def _most(self) -> int:
        return int(self.best.groupby("program", sort=False).size().max())

    def export_gem5(self, folder: str | os.PathLike[str]) -> pd.DataFrame:
        """Write a gem5 script for each of the best points; a row a script (`analysis.designs.confirm.export_gem5`)."""
        return confirm.export_gem5(folder, self.table, self.design, self._most, self.programs)


@dataclass(frozen=True)
class SweepQuestion:
    """The points of a sweep: a grid around `base` (`vary`: the values of each field) or a `sample` of a design `space`.

    `constraints` are comparisons, `cost` and `objective` arithmetic over fields; `search`: how many
    points are listed where the best is looked for; `best`: how many points of each program are shown;
    `heat`: the fields of the heat map. Raises InputError for a wrong field, value or expression, before any program is
    looked at.
    """

    base: Machine | None = None
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    space: str | None = None
    sample: int = 10_000
    seed: int = 0
    constraints: Sequence[str] = ()
    cost: str | None = None
    objective: str | None = None
    best: int = 10
    search: int | None = None
    heat: str | None = None

    def __post_init__(self) -> None:
        if (self.space is None) == (not self.vary):
            raise InputError("an empty sweep: give --vary FIELD=V1,V2,… with --base M, or --space S, one of the two")
        if self.vary and self.base is None:
            raise InputError("--vary needs the machine whose fields vary: --base M (a preset or file)")
        if self.search is None:
            Outcome(self._listed.columns, self.cost, self.objective)
        else:
            some = np.random.default_rng(0).random((_SOME, self._searchable.coordinates))
            Outcome(self._searchable.columns(some), self.cost, self.objective)
        if self.heat is not None and (self.vary or self.search is None):
            varied = self.vary if self.search is not None else map(str, self._listed.fields)
            require_heat(self.heat, list(varied))

    def require_goes_with(self, *, simulate: bool, span: bool) -> None:
        """Raise InputError for a search with what it does not go with."""
        if self.search is not None and (simulate or span):
            raise InputError(
                "--search goes with a budget and whole programs; leave out --simulate, --start and --count"
            )

    def ask(
        self,
        model: Model,
        targets: Sequence[Target],
        seconds: float,
        *,
        level: float = DEFAULT_LEVEL,
        cluster: Dask | None = None,
        keep: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> Sweep:
        """Answer within a budget of so many seconds, simulating on this machine or on the workers of a `cluster`, what
        is not in the folder `keep`; the table is that of `analysis.designs.sweep.answered`.

        There `low` and `high` are `low_seconds` and `high_seconds`.
        """
        require_level(level)
        asked, share_of_best, alone = targets, SHARE_OF_BEST, False
        if self.search is None:
            design = self._listed
        else:
            judge = self._judge(model, targets, seconds, cluster, keep, progress)
            design, alone = self._searched(model, targets, judge, progress), judge is None
            if judge is not None:
                asked, seconds, share_of_best, keep = judge.targets, judge.last, judging.SHARE_OF_BEST, None
        frame = sweep.answered(
            model,
            asked,
            design,
            seconds,
            base=self.base,
            cost=self.cost,
            objective=self.objective,
            best=self.best,
            share_of_best=share_of_best,
            level=level,
            cluster=cluster,
            keep=keep,
            progress=progress,
        )
        chosen = intervals.of_best(model, targets, design.columns, best(frame, self.best), level)
        importance = sensitivity(
            frame, fields_of(frame), outcome_of(frame), exact=design.exact, searched=self.search is not None
        )
        axes = heat_fields(frame, self.heat, importance)
        units = {"low": "low_seconds", "high": "high_seconds"}
        modelled = set(frame.loc[frame["source"].isin(("zero-shot", "scaled")), "program"])
        guessed = [one.vector for one in targets if one.name in modelled]
        return Sweep(
            f"Sweep of {self.space or (self.base.name if self.base is not None else '')}",
            frame.rename(columns=units),
            document=lambda: sweep_tables.to_json(frame, sensitivities=importance, chosen=chosen),
            text=lambda: _text(frame, chosen, importance, level, self.base, design.exact),
            sections=lambda: sweep_page.sections(frame, chosen, importance, axes, searched=self.search is not None),
            picture=lambda: sweep_figures.plot(frame, axes),
            notes=(
                *cut_short(targets),
                *([design.left_out] if design.left_out else []),
                *self._replaced(),
                *([_OPTIMISTIC] if alone and (chosen["source"] != "simulated").any() else []),
                *novelty.unlike(model, guessed),
            ),
            headline=lambda: sweep_page.headline(
                frame, chosen, importance, self.base, level, searched=self.search is not None
            ),
            best=chosen.rename(columns=units),
            sensitivity=importance,
            design=design,
            programs={one.name: (one.instructions, one.isa) for one in targets},
        )

    def _replaced(self) -> Iterator[str]:
        """A line on the fields of the sweep that a family's tables replace."""
        varied = [name for name in self.vary if name in OF_TABLES]
        if varied and self.base is not None and self.base.microcode != GEM5 and "microcode" not in self.vary:
            family = self.base.microcode
            yield f"{', '.join(varied)}: microcode {family} has latencies of its own, so this changes next to nothing"

    def _judge(
        self,
        model: Model,
        targets: Sequence[Target],
        seconds: float,
        cluster: Dask | None,
        keep: str | os.PathLike[str] | None,
        progress: bool,
    ) -> Judge | None:
        """Return the judge of the search, where there is time for one."""
        assert self.search is not None
        judge = Judge(
            model,
            targets,
            self.search,
            seconds,
            cost=self.cost,
            objective=self.objective,
            cluster=cluster,
            keep=keep,
            progress=progress,
        )
        return judge if judge.simulates else None

    def _searched(self, model: Model, targets: Sequence[Target], judge: Judge | None, progress: bool) -> Design:
        assert self.search is not None
        return searching.search(
            model,
            [one.vector for one in targets],
            self._searchable,
            self.search,
            seed=self.seed,
            cost=self.cost,
            objective=self.objective,
            judge=judge,
            progress=progress,
        )

    @property
    def _limits(self) -> tuple[Constraint, ...]:
        return parse_constraints(self.constraints, self.cost)

    @cached_property
    def _listed(self) -> Design:
        if self.space is not None:
            return space_design(self.space, self.sample, seed=self.seed, base=self.base, constraints=self._limits)
        assert self.base is not None
        return grid_design(self.base, self.vary, self._limits)

    @cached_property
    def _searchable(self) -> Searchable:
        if self.space is not None:
            return searching.search_space(self.space, base=self.base, constraints=self._limits)
        assert self.base is not None
        return searching.search_grid(self.base, self.vary, self._limits)


_OPTIMISTIC = "a search by the model alone ends where it is most optimistic; simulate the best points"
_SOME = 64  # points of a space, which have every field
_MOST_TABLES = 2  # of a search's or a sample's fields side by side


def _text(
    frame: pd.DataFrame, chosen: pd.DataFrame, importance: pd.DataFrame, level: float, base: Machine | None, exact: bool
) -> str:
    """Every varied field of a grid, or of few; else those that fit, and below the table all of the best point."""
    order = list(dict.fromkeys([*importance["field"], *fields_of(frame)]))
    told = f"; {100 * level:g}% intervals" if (chosen["low"] < chosen["high"]).any() else ""
    if base is not None and chosen["change"].notna().any():
        told += f"\nchange: of the time, against {base.name}"
    tables = sweep_tables.terminal_tables(chosen, order)
    if len(tables) > _MOST_TABLES and not exact:
        tables = [tables[0].drop(columns="#")]
        below = ["", *changed_fields(chosen, base)]
    else:
        below = []
    front = "" if is_of_time_alone(frame) else f", {int(frame['pareto'].sum()):,} on the Pareto front"
    return "\n".join(
        [
            "\n\n".join(map(table_text, tables)),
            f"{len(chosen):,} best of {len(frame):,} points{front}{told}",
            f"source: {told_sources(frame)}",
            *below,
            *(_important(importance) if len(importance) else ()),
        ]
    )


def _important(importance: pd.DataFrame) -> list[str]:
    return [
        "",
        table_text(importance.groupby("program", sort=False).head(8).reset_index(drop=True)),
        "first_order: share of the variance by the field alone; fields that a constraint",
        "ties overlap; best: its value with the least mean (of a search: in the best",
        "point); range: largest mean over least.",
    ]


def gem5_result(folder: str | os.PathLike[str]) -> Result:
    """Answer what gem5 says of the exported points that it ran; the table is that of `confirm.gem5_results`."""
    table = confirm.gem5_results(folder)

    def headline() -> Headline:
        error = float(table["error"].abs().mean())
        first = table.loc[table["rank"] == 1, "gem5_rank"]
        sentence = f"The predicted CPIs of {len(table)} points are {percent(error)} off gem5's on average; the point "
        sentence += "predicted as the fastest "
        sentence += f"is number {int(first.iloc[0])} by gem5." if len(first) else "was not run."
        return Headline(percent(error), "mean error", sentence, "gem5's cycles of the exported points")

    document = {"points": table.to_dict(orient="records")}
    return of_table("gem5 beside the predictions", table, lambda: document, headline=headline)
