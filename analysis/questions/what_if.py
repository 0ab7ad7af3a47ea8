"""The what-if protocol: predicted changes of a program's time against simulated ones (docs/explanation/budgets.md).

    one field   each of MACHINES with one field changed, against the machine itself
    pairs       RANDOM machines of the space `default`, each against the next; their order is Kendall's tau
    grid G      each of GRIDS: the other points against the base, the order, and what the chosen design loses
    space       SPACE_POINTS machines of the space `default`, against their first; the order

Truth is the simulation of every instruction. What tells the changes (`source`): `simulated` (the program's own way to
be simulated, which for a trace is the truth; `live-points` where it is that), `corrected` (from so many simulated
points, `analysis.budget`), `zero-shot` (the model's encoder).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau

from analysis.budget import budget
from analysis.designs.design import Design, first_points, grid_design, space_design
from analysis.designs.outcome import Outcome
from analysis.designs.sweep import encoder_of
from analysis.programs.changes import half_widths
from analysis.programs.kept import Kept
from analysis.programs.simulable import Simulable, SimulableLivePoints, SimulableTrace
from analysis.programs.span import Span
from analysis.results.result import to_rows
from perfvec.machines.columns import cycles_of_columns
from perfvec.model import Model
from perfvec.representation.represent import represent
from support.errors import InputError
from tracegen.live_points.record import of_trace
from uarch.columns import Columns, of_machines
from uarch.configuration import Machine, get_field, replace_field
from uarch.machine_files import load_machine
from uarch.space import sample

MACHINES = ("base", "zen2", "cortex-a53")
FACTORS = (0.5, 2)
FIELDS = (
    "l1i.size_kib",
    "l1d.size_kib",
    "l2.size_kib",
    "l1d.latency",
    "l2.latency",
    "l1d.mshrs",
    "pipeline.rob_entries",
    "pipeline.issue_width",
    "pipeline.width",
    "functional_units.load_ports",
    "functional_units.int_alu",
    "frequency_ghz",
)
KINDS = ("local", "bimode", "tournament", "tage", "tage-sc-l")
RANDOM, RANDOM_SEED = 40, 40
TRUTHS, TRUTH_SEED = 100, 1  # random points of a grid or the space whose truth is simulated
FROM_GRID, FROM_SPACE = 64, 256  # simulated points that correct the others
SPACE_POINTS, SPACE_SEED = 1_000_000, 3
CLOSE = 0.1  # pairs of machines whose times differ by less than this
STILL = 0.01  # changes below this are none
_BEST = 20  # points that look best, whose truth tells what the chosen one loses
_PER_CENT = ("change", "error", "sign", "false", "off", "covered", "held", "half", "regret", "worst_regret")
_SHOWN = 5  # best points that are simulated at the end


@dataclass(frozen=True)
class GridOf:
    """A machine, the values of its fields, and what its designer minimises."""

    base: str
    values: Mapping[str, Sequence[Any]]
    objective: str


_FREQUENCIES = [1.0, 1.2, 1.5, 1.8, 2.0, 2.2, 2.5, 2.8, 3.0, 3.2, 3.5, 3.8, 4.0, 4.5, 5.0]
GRIDS = {
    "caches": GridOf(
        "zen2",
        {
            "l1d.size_kib": [16, 32, 64, 128],
            "l1i.size_kib": [16, 32, 64, 128],
            "l2.size_kib": [128, 256, 512, 1024, 2048, 4096],
            "l2.latency": [8, 10, 12, 14, 17, 20, 24],
            "frequency_ghz": _FREQUENCIES,
        },
        "time * (1000 + 10*l1d.size_kib + 10*l1i.size_kib + l2.size_kib + 300*frequency_ghz - 20*l2.latency)",
    ),
    "core": GridOf(
        "base",
        {
            "pipeline.fetch_width": [2, 3, 4, 6, 8],
            "pipeline.issue_width": [2, 3, 4, 6, 8, 10],
            "pipeline.rob_entries": [96, 128, 160, 192, 256, 320, 384],
            "pipeline.issue_queue_entries": [16, 32, 64, 96],
            "functional_units.load_ports": [1, 2, 3],
            "functional_units.int_alu": [2, 3, 4, 6],
        },
        "time * (300 + 20*pipeline.fetch_width + 20*pipeline.issue_width + pipeline.rob_entries/4"
        " + pipeline.issue_queue_entries + 20*functional_units.load_ports + 10*functional_units.int_alu)",
    ),
    "mixed": GridOf(
        "base",
        {
            "l1d.size_kib": [8, 16, 32, 64, 128],
            "l2.size_kib": [128, 256, 512, 1024, 2048],
            "l2.latency": [6, 10, 14, 20],
            "pipeline.rob_entries": [96, 128, 192, 256, 320],
            "branch_predictor.kind": list(KINDS),
            "l1d.mshrs": [2, 4, 8, 16],
        },
        "time * (2000 + 10*l1d.size_kib + l2.size_kib + 2*pipeline.rob_entries + 20*l1d.mshrs - 30*l2.latency)",
    ),
    "in-order": GridOf(
        "cortex-a53",
        {
            "l1d.size_kib": [4, 8, 16, 32, 64, 128],
            "l2.size_kib": [64, 128, 256, 512, 1024, 2048, 4096],
            "l2.latency": list(range(6, 22)),
            "frequency_ghz": _FREQUENCIES,
        },
        "time * (1000 + 10*l1d.size_kib + l2.size_kib + 300*frequency_ghz - 20*l2.latency)",
    ),
}


@dataclass(frozen=True)
class JudgedProgram:
    """Program that is judged: `truth` simulates every instruction, `own` is how the program is simulated otherwise;
    cycles [n] by the model's encoder; whether it trained the model.
    """

    truth: Simulable
    own: Simulable
    by_model: Callable[[Columns], NDArray[np.float64]]
    seen: bool


def programs_of(
    model: Model,
    traces: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    max_instructions: int | None = None,
    live_points: bool = False,
    progress: bool = True,
) -> Iterator[JudgedProgram]:
    """Traces, or their first instructions, as programs; their simulations are kept in the folder.

    With `live_points` what tells the changes is simulated on live-points, made now. Raises InputError for a trace that
    is given twice.
    """
    seen = {program.digest for program in model.programs}
    encoder = encoder_of(model)
    opened = [SimulableTrace(path, Span(count=max_instructions)) for path in traces]  # all, before the work
    digests = [trace.digest for trace in opened]
    for number, path in enumerate(traces):
        if (first := digests.index(digests[number])) != number:
            raise InputError(f"{path}: the same trace as {traces[first]}; give each once")
    for path, trace in zip(traces, opened, strict=True):
        vector = represent(model, path, max_instructions=max_instructions, progress=progress).vector

        def by_model(points: Columns, vector: NDArray[np.float64] = vector) -> NDArray[np.float64]:
            return np.asarray(cycles_of_columns(encoder, points, vector[None])[:, 0])

        kept = Kept(trace, folder)
        own: Simulable = kept
        if live_points:
            own = SimulableLivePoints(path, of_trace(path, max_instructions=max_instructions, progress=progress))
        yield JudgedProgram(kept, own, by_model, trace.digest in seen)


def evaluate(
    programs: Iterator[JudgedProgram] | Sequence[JudgedProgram],
    *,
    tasks: Sequence[str] | None = None,
    progress: bool = True,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every change, and every order: two tables.

    Changes: `program`, `programs` (seen or unseen by the model), `task`, `source`, `true` and `told` (fractions of the
    time), `covered` (whether the interval of the time held; NaN without one), `held` (that of the change) and `half`
    (half of it). Orders, a row a program, task and source: `tau`,
    `close_tau` (of pairs within CLOSE), `clear_tau` (of those further apart than STILL), `regret` (of the chosen
    design, a fraction), `simulated` (points) and `seconds`: of live-points' simulation and of the correction, whose
    simulated points take none where they were kept.
    """
    changes: list[pd.DataFrame] = []
    orders: list[dict[str, Any]] = []
    for program in programs:
        known = {"program": program.truth.name, "programs": "seen" if program.seen else "unseen"}
        for task, run in _tasks().items():
            if tasks is not None and task not in tasks:
                continue
            for source, told in run(program, progress):
                common = known | {"task": task, "source": source}
                changes.append(told.changes().assign(**common))
                orders.append(common | told.orders())
    return pd.concat(changes, ignore_index=True), pd.DataFrame(orders)


def task_names() -> list[str]:
    """The protocol's tasks."""
    return list(_tasks())


@dataclass(frozen=True)
class Told:
    """Seconds [n] by some source beside the true ones; changes are from row `of` [n] (-1: none), and the logarithms of
    their ratios have intervals of which half is `apart` [n].
    """

    true: NDArray[np.float64]
    told: NDArray[np.float64]
    of: NDArray[np.int64]
    ordered: bool = True
    covered: NDArray[np.float64] | None = None
    apart: NDArray[np.float64] | None = None
    regret: float = np.nan
    simulated: int = 0
    seconds: float = np.nan

    def changes(self) -> pd.DataFrame:
        rows = np.flatnonzero(self.of >= 0)
        start = self.of[rows]
        covered = np.full(len(rows), np.nan) if self.covered is None else self.covered[rows]
        true, told = (seconds[rows] / seconds[start] - 1 for seconds in (self.true, self.told))
        off = self.told[rows] / self.true[rows] - 1
        apart = np.full(len(rows), np.nan) if self.apart is None else self.apart[rows]
        inside = np.abs(np.log1p(told) - np.log1p(true)) <= apart
        held, half = np.where(np.isnan(apart), np.nan, inside), (1 + told) * np.sinh(apart)
        return pd.DataFrame({"true": true, "told": told, "off": off, "covered": covered, "held": held, "half": half})

    def orders(self) -> dict[str, float]:
        found = {"tau": np.nan, "close_tau": np.nan, "clear_tau": np.nan}
        if self.ordered:
            first, second = np.triu_indices(len(self.true), 1)
            apart = np.log(self.true[first] / self.true[second])
            agree = np.sign(self.told[first] - self.told[second]) * np.sign(apart)
            close, clear = np.abs(apart) < np.log1p(CLOSE), np.abs(apart) > np.log1p(STILL)
            found = {
                "tau": float(kendalltau(self.told, self.true).statistic),
                "close_tau": _mean(agree[close & (apart != 0)]),
                "clear_tau": _mean(agree[clear]),
            }
        return found | {"regret": self.regret, "simulated": self.simulated, "seconds": self.seconds}


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else np.nan


_Task = Callable[[JudgedProgram, bool], Iterator[tuple[str, Told]]]


def _tasks() -> dict[str, _Task]:
    def grid(name: str) -> _Task:
        return lambda program, progress: _grid(program, GRIDS[name], progress)

    return {"one field": _one_field, "pairs": _pairs, **{f"grid {name}": grid(name) for name in GRIDS}, "space": _space}


def one_field_changes(base: Machine) -> list[Machine]:
    """`base`, and every machine of one other value that can be."""
    found = [base]
    values: list[tuple[str, Any]] = []
    for field in FIELDS:
        try:
            here = get_field(base, field)
        except InputError:
            continue  # of the other core
        for factor in FACTORS:
            values.append((field, max(int(here * factor), 1) if isinstance(here, int) else here * factor))
    values += [("branch_predictor.kind", kind) for kind in KINDS]
    for field, value in values:
        if value == get_field(base, field):
            continue
        try:
            found.append(replace_field(base, field, value))
        except InputError:
            continue
    return [replace(machine, name=f"{base.name} {number}") for number, machine in enumerate(found)]


def _seconds(points: Columns, cycles: NDArray[np.float64]) -> NDArray[np.float64]:
    return cycles / (np.asarray(points["frequency_ghz"], np.float64) * 1e9)


def _listed(program: JudgedProgram, machines: Sequence[Machine], of: NDArray[np.int64], ordered: bool) -> Iterator[Any]:
    points = of_machines(machines)
    true = _seconds(points, program.truth.simulate(machines).cycles)
    began = time.perf_counter()
    own = program.own.simulate(machines)
    taken = time.perf_counter() - began
    told, low, high = (_seconds(points, cycles) for cycles in (own.cycles, own.low, own.high))
    if isinstance(program.own, SimulableLivePoints):
        inside = ((low <= true) & (true <= high)).astype(float)
        log = np.log(own.cycles / own.cycles[of])
        apart = half_widths(log, own.deviations, own.deviations[of], 0.95)
        yield "live-points", Told(true, told, of, ordered, inside, apart, simulated=len(machines), seconds=taken)
    else:  # every instruction, without an interval; where it was kept, in no time
        yield "simulated", Told(true, told, of, ordered, simulated=len(machines))
    yield "zero-shot", Told(true, _seconds(points, program.by_model(points)), of, ordered)


def _one_field(program: JudgedProgram, progress: bool) -> Iterator[tuple[str, Told]]:
    machines: list[Machine] = []
    of: list[int] = []
    for name in MACHINES:
        changed = one_field_changes(load_machine(name))
        of += [-1] + [len(machines)] * (len(changed) - 1)
        machines += changed
    yield from _listed(program, machines, np.array(of), False)


def _pairs(program: JudgedProgram, progress: bool) -> Iterator[tuple[str, Told]]:
    of = np.append(np.arange(1, RANDOM), -1)
    yield from _listed(program, sample(RANDOM, RANDOM_SEED), of, True)


def _grid(program: JudgedProgram, grid: GridOf, progress: bool) -> Iterator[tuple[str, Told]]:
    base = load_machine(grid.base)
    design = grid_design(base, grid.values)
    first = first_points(design, base)
    yield from _designed(program, design, first, FROM_GRID, grid.objective, progress, base)


def _space(program: JudgedProgram, progress: bool) -> Iterator[tuple[str, Told]]:
    yield from _designed(program, _whole_space(), [], FROM_SPACE, None, progress)


@lru_cache(1)
def _whole_space() -> Design:
    return space_design("default", SPACE_POINTS, seed=SPACE_SEED)


def _designed(
    program: JudgedProgram,
    design: Design,
    first: list[int],
    limit: int,
    objective: str | None,
    progress: bool,
    base: Machine | None = None,
) -> Iterator[tuple[str, Told]]:
    points, score = design.columns, Outcome(design.columns, None, objective).score
    found = budget.answer(
        program.own,
        points,
        np.inf,
        lambda: program.by_model(points),
        score=score if objective else None,
        first=first,
        base=base,
        best=_SHOWN if objective else 0,
        limit=limit,
        level=0.95,
        modelled=True,
        progress=progress,
    )
    generator = np.random.default_rng(TRUTH_SEED)
    drawn = generator.choice(points.count, 2 * limit + TRUTHS, replace=False)
    rows = np.concatenate([first[:1] or drawn[:1], drawn[1:][found.source[drawn[1:]] != 0][:TRUTHS]]).astype(np.int64)
    predicted = program.by_model(points)
    truth = _Truth(program.truth, points)
    true = truth.cycles(rows)
    of = np.append(-1, np.zeros(len(rows) - 1, np.int64))
    for source, cycles in (("corrected", found.cycles), ("zero-shot", predicted)):
        told = _seconds(points.rows(rows), cycles[rows])
        lost = np.nan
        if objective:
            known = np.union1d(rows, np.flatnonzero(found.source == 0))
            known = np.union1d(known, np.argsort(score(cycles.copy()))[:_BEST])
            every = cycles.copy()
            every[known] = truth.cycles(known)
            lost = float(score(every)[int(score(cycles.copy()).argmin())] / score(every)[known].min() - 1)
        covered = apart = None
        if source == "corrected":
            apart = found.apart[rows]
            covered = ((found.low[rows] <= true) & (true <= found.high[rows])).astype(float)
        yield (
            source,
            Told(
                _seconds(points.rows(rows), true),
                told,
                of,
                True,
                covered,
                apart,
                lost,
                found.simulated if source == "corrected" else 0,
                found.seconds if source == "corrected" else np.nan,
            ),
        )


class _Truth:
    """True cycles of points, simulated when they are first asked for."""

    def __init__(self, program: Simulable, points: Columns) -> None:
        self._program, self._points = program, points

    def cycles(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        machines = [self._points.machine(int(row), f"point {row}") for row in rows]
        return self._program.simulate(machines).cycles


def summary(changes: pd.DataFrame, orders: pd.DataFrame) -> pd.DataFrame:
    """A row a task, source and kind of programs (seen, unseen, all), in fractions.

    `change`: mean |true change|; `error`: mean |told less true change|; `correlation` of told and true changes; `sign`:
    share of the changes above a point whose sign is right; `false`: mean |told change| where the true one is below a
    point; `off`: mean |time told / true − 1| of the points; `covered`: share of 95 % intervals that held; `held`: of
    those of changes, and `half`: half of their mean width; tau, close tau, clear tau and regret (the mean over
    programs, and `worst_regret`); `simulated` points; `seconds`.
    """
    rows = []
    for (task, source), part in changes.groupby(["task", "source"], sort=False):
        for kind in ("seen", "unseen", "all"):
            own = part if kind == "all" else part[part["programs"] == kind]
            mine = orders[(orders["task"] == task) & (orders["source"] == source)]
            mine = mine if kind == "all" else mine[mine["programs"] == kind]
            if own.empty:
                continue
            true, told = own["true"].to_numpy(), own["told"].to_numpy()
            moved, still = np.abs(true) > STILL, np.abs(true) < STILL
            rows.append(
                {
                    "task": task,
                    "source": source,
                    "programs": kind,
                    "changes": len(own),
                    "change": np.abs(true).mean(),
                    "error": np.abs(told - true).mean(),
                    "correlation": _correlation(told, true),
                    "sign": float((np.sign(told) == np.sign(true))[moved].mean()) if moved.any() else np.nan,
                    "false": float(np.abs(told)[still].mean()) if still.any() else np.nan,
                    "off": own["off"].abs().mean(),
                    "covered": own["covered"].mean(),
                    "held": own["held"].mean(),
                    "half": own["half"].mean(),
                    "tau": mine["tau"].mean(),
                    "close_tau": mine["close_tau"].mean(),
                    "clear_tau": mine["clear_tau"].mean(),
                    "regret": mine["regret"].mean(),
                    "worst_regret": mine["regret"].max(),
                    "simulated": mine["simulated"].mean(),
                    "seconds": mine["seconds"].mean(),
                }
            )
    return pd.DataFrame(rows)


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if len(a) < 2 or not a.std() or not b.std():
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def shown(table: pd.DataFrame) -> str:
    """The summary for the terminal."""
    kept = table.drop(columns=["changes", "seconds"]).dropna(axis=1, how="all")
    per_cent = [name for name in _PER_CENT if name in kept]
    kept[per_cent] *= 100
    text = kept.to_string(index=False, float_format="{:.3g}".format, na_rep="", line_width=80)
    return "\n".join(map(str.rstrip, [*text.splitlines(), "", f"per cent: {', '.join(per_cent)}"]))


def to_json(changes: pd.DataFrame, orders: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document: `summary`, and `orders` by program; null where there is no number."""
    return {name: to_rows(table) for name, table in (("summary", summary(changes, orders)), ("orders", orders))}
