"""Sweeps: the time of every point of a grid or of a sampled design space, from the machine encoder, unsimulated.

Points are columns (`uarch.columns`), not machines, so that a million of them take a few seconds. docs/how-to/sweep.md
has examples; `analysis.designs.search` looks for the best point where there are too many to list.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget.budget import SOURCES, Answer, answer, by_model, shares
from analysis.budget.within import within
from analysis.designs.pareto import cells, front, front_over_fields
from analysis.designs.sensitivity import classes
from analysis.programs.targets import Target
from analysis.results.figure import Axis, Bars, Figure, HeatMap, Lines, Panel, Points, label
from analysis.results.headline import Headline, duration, interval, joined, percent, time_unit
from analysis.results.intervals import readable, relative, told_of_best
from analysis.results.page import Section
from perfvec.intervals.level import DEFAULT_LEVEL
from perfvec.machines.columns import cycles_of_columns, outside_of_columns
from perfvec.machines.encoder import MachineEncoder
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from support.text import nearest
from uarch.columns import MOST_POINTS, Columns, Grid, of_machine, possible, rule_of
from uarch.configuration import Machine, parse_value
from uarch.expression import Expression, parse
from uarch.space import Constraint, load_space, parse_constraint
from uarch.space_columns import sample_columns

MOST_LISTED = 200_000  # points in a JSON document; of more, the front's and the best
_RESULTS = (
    "program",
    "source",
    "cycles",
    "seconds",
    "low",
    "high",
    "low_seconds",
    "high_seconds",
    "cost",
    "objective",
    "pareto",
)
_MOST_VALUES = 100_000  # of one field
_HEAT_CLASSES = 12
_TOLD = 4
_MOST_IN_PAGE = 2000


def parse_vary(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`FIELD=V1,V2,…` of the command line → field and values, each once; a value may be a range, `LOW:HIGH:STEP` or
    `LOW:HIGH:*FACTOR`, both ends in it. Raises InputError for anything else.
    """
    grid: dict[str, list[Any]] = {}
    for text in texts:
        field, equals, values = text.partition("=")
        field = field.strip()
        words = [word.strip() for word in values.split(",") if word.strip()]
        if not equals or not words:
            raise InputError(f"--vary {text!r} must read FIELD=V1,V2,… such as l1d.size_kib=16,32,64")
        if field in grid:
            raise InputError(f"--vary names {field!r} twice; list all its values once")
        found = [
            value for word in words for value in (_range(field, word) if ":" in word else [parse_value(field, word)])
        ]
        grid[field] = list(dict.fromkeys(found))
    if not grid:
        raise InputError("an empty sweep: give at least one --vary FIELD=V1,V2,… or --space S --sample N")
    return grid


def _range(field: str, word: str) -> list[Any]:
    parts = word.split(":")
    factor = len(parts) == 3 and parts[2].startswith("*")
    if len(parts) != 3:
        raise InputError(f"{field} = {word!r} must read LOW:HIGH:STEP or LOW:HIGH:*FACTOR, as 8:128:*2")
    low, high = (parse_value(field, part) for part in parts[:2])
    try:
        step = float(parts[2].removeprefix("*"))
    except ValueError:
        step = float("nan")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        raise InputError(f"{field} = {word!r}: {field} holds names; list them")
    if not (step > (1 if factor else 0)) or not low <= high or (factor and low <= 0):
        raise InputError(f"{field} = {word!r} must rise from LOW to HIGH by a STEP above 0 or a *FACTOR above 1")
    if not factor and (high - low) / step > _MOST_VALUES:
        raise InputError(f"{field} = {word!r} has more than {_MOST_VALUES:,} values; take a larger step")
    found: list[Any] = []
    for number in range(_MOST_VALUES + 1):
        value = low * step**number if factor else low + number * step
        if value > high * (1 + 1e-9):
            break
        found.append(parse_value(field, str(int(value)) if float(value).is_integer() else f"{value:.12g}"))
    return found


def parse_constraints(texts: Sequence[str], cost: str | None = None) -> tuple[Constraint, ...]:
    """`--constraint` of the command line, each a comparison as in a design space's file, in which `cost` is what --cost
    says. Raises InputError.
    """
    price = None if cost is None else parse(cost)
    return tuple(parse_constraint("--constraint", text, price) for text in texts)


@dataclass(frozen=True)
class Design:
    """The points of a sweep: the machines, and the fields that a table shows of them."""

    columns: Columns
    fields: pd.DataFrame  # [columns.count], a column a varied field
    exact: bool  # every combination of the fields' values (but those that are no machine)
    left_out: str = ""  # what was left out and why, for a line on stderr


def grid_design(base: Machine, grid: Mapping[str, Sequence[Any]], constraints: Sequence[Constraint] = ()) -> Design:
    """Every combination of the values; those that are no machine or break a constraint are left out.

    Raises InputError where none is left, a field is unknown, a value cannot be, or there are too many.
    """
    whole = Grid(base, grid)
    options = whole.every()
    columns = whole.columns(options)
    good, reason = possible(columns, constraints)
    if not good.any():
        raise InputError(f"an empty sweep: none of {whole.count:,} points can be ({reason})")
    told = ""
    if not good.all():
        told = f"{int((~good).sum()):,} of {whole.count:,} points are left out: the first of them breaks {reason}"
        columns, options = columns.rows(good), [option[good] for option in options]
    return Design(columns, fields_of_grid(grid, options), True, told)


def fields_of_grid(grid: Mapping[str, Sequence[Any]], options: Sequence[NDArray[np.int64]]) -> pd.DataFrame:
    """The fields' values at these options, names as categoricals."""
    found: dict[str, Any] = {}
    for (field, values), option in zip(grid.items(), options, strict=True):
        if all(isinstance(value, str) for value in values):
            found[field] = pd.Categorical.from_codes(option, categories=pd.Index(values))
        elif all(isinstance(value, int | float) for value in values):
            found[field] = np.array(values)[option]
        else:  # l3=none
            found[field] = [values[index] for index in option]
    return pd.DataFrame(found)


def space_design(
    space: str | Path,
    n: int,
    *,
    seed: int = 0,
    base: str | Machine | None = None,
    constraints: Sequence[Constraint] = (),
) -> Design:
    """`n` machines of a design space, those of `uarch.space.sample` where there are no further constraints."""
    columns = sample_columns(n, seed, load_space(space), base, tuple(constraints))
    return Design(columns, fields_of_columns(columns), False)


def fields_of_columns(columns: Columns) -> pd.DataFrame:
    """The fields in which the machines differ."""
    found: dict[str, Any] = {}
    for field in columns.varied:
        values = columns[field]
        if isinstance(values, pd.Categorical):
            if values.codes.min() != values.codes.max():
                found[field] = values
        elif np.nanmin(values) != np.nanmax(values) or np.isnan(values).any():
            whole = rule_of(field).type is int and not np.isnan(values).any()
            found[field] = values.astype(np.int32) if whole else values
    return pd.DataFrame(found)


def sweep(
    model: Model,
    programs: Sequence[ProgramVector],
    base: Machine,
    grid: Mapping[str, Sequence[Any]],
    *,
    cost: str | None = None,
    objective: str | None = None,
    constraints: Sequence[Constraint] = (),
) -> pd.DataFrame:
    """One row per program and point of a grid around `base`; columns as of `run`."""
    return run(model, programs, grid_design(base, grid, constraints), cost=cost, objective=objective)


def run(
    model: Model,
    programs: Sequence[ProgramVector],
    design: Design,
    *,
    cost: str | None = None,
    objective: str | None = None,
) -> pd.DataFrame:
    """One row per program and point: a column per varied field, then `program`, `source` (of the times: `zero-shot`),
    `cycles`, `seconds`, `cost` and `objective` where they are given, and `pareto`.

    All points, the base too, go through the encoder, so that differences are between like and like. `pareto` marks the
    points that no other of the program matches or beats in time and cost; without a cost, on a grid, in time with no
    varied number larger and no kind different, and of sampled points only the fastest. Raises InputError for vectors
    of another model, or an expression that is not arithmetic over fields.
    """
    encoder = encoder_of(model)
    require_model(model, programs)
    outcome = Outcome(design.columns, cost, objective)
    told_outside(encoder, design.columns)
    cycles = cycles_of_columns(encoder, design.columns, np.stack([program.vector for program in programs]))
    return tabulated(design, outcome, [program.program for program in programs], cycles, "zero-shot")


def tabulated(
    design: Design, outcome: Outcome, programs: Sequence[str], cycles: NDArray[np.float64], source: str
) -> pd.DataFrame:
    """The table of `run`, from the cycles [points, programs] and where they come from."""
    return of_answers(design, outcome, programs, [by_model(column, source) for column in cycles.T])


def of_answers(design: Design, outcome: Outcome, programs: Sequence[str], answers: Sequence[Answer]) -> pd.DataFrame:
    """The table of `run` from an answer a program; with columns `low` and `high` (seconds) where any has intervals."""
    known = any(not np.isnan(one.low).all() for one in answers)
    frames = []
    for program, one in zip(programs, answers, strict=True):
        source = pd.Categorical.from_codes(one.source, categories=pd.Index(SOURCES))
        frame = design.fields.assign(program=program, source=source, **outcome.columns(one.cycles))
        if known:
            each = frame["seconds"] / one.cycles
            frame = frame.assign(low=one.low * each, high=one.high * each)
        frames.append(frame.assign(pareto=_front(frame, fields_of(design.fields), exact=design.exact)))
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


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
    level: float = DEFAULT_LEVEL,
    progress: bool = True,
) -> pd.DataFrame:
    """The table of `run`, each number by the best that a budget of so many seconds allows (`analysis.budget`).

    `source` says which it is: `simulated`, `corrected` (with `low` and `high`, seconds) or `zero-shot`. The `base` and
    the ends of every field are among the first points simulated; the last are the `best`, as many as are wanted.
    """
    targets = within(targets, design.columns.count, seconds)
    parts = shares([target.simulable for target in targets], seconds)
    if not any(parts):
        return run(model, [target.vector for target in targets], design, cost=cost, objective=objective)
    outcome = Outcome(design.columns, cost, objective)
    first = first_points(design, base)

    def predicted(target: Target) -> NDArray[np.float64]:
        told_outside(encoder_of(model), design.columns)
        require_model(model, [target.vector])
        found = cycles_of_columns(encoder_of(model), design.columns, target.vector.vector[None])
        return np.asarray(found[:, 0])

    def answered_one(target: Target, share: float) -> Answer:
        if target.simulable is None:
            return by_model(predicted(target))
        return answer(
            target.simulable,
            design.columns,
            share,
            lambda: predicted(target),
            score=outcome.score,
            first=first,
            best=best,
            level=level,
            progress=progress,
        )

    answers = [answered_one(target, share) for target, share in zip(targets, parts, strict=True)]
    return of_answers(design, outcome, [target.name for target in targets], answers)


def first_points(design: Design, base: Machine | None) -> list[int]:
    """Rows of the base, and of the base with each varied field at its ends, where they are among a grid's points."""
    if base is None or not design.exact:
        return []
    codes, sizes, own = [], [], []
    flat = of_machine(base)
    for field in design.fields:
        values = design.fields[field]
        code, levels = pd.factorize(values, sort=values.dtype != object)
        codes.append(code)
        sizes.append(len(levels))
        own.append(next((k for k, level in enumerate(levels) if level == flat.get(str(field))), len(levels) // 2))
    place = {key: row for row, key in enumerate(zip(*(code.tolist() for code in codes), strict=True))}
    wanted = [tuple(own)]
    for number, size in enumerate(sizes):
        wanted += [(*own[:number], end, *own[number + 1 :]) for end in (0, size - 1)]
    return [place[key] for key in dict.fromkeys(wanted) if key in place]


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


class Outcome:
    """Seconds, cost and objective of points, checked before any is evaluated."""

    def __init__(self, columns: Columns, cost: str | None, objective: str | None) -> None:
        self.machines = columns
        numbers = [field for field in columns if rule_of(field).names is None]
        names = [field for field in columns if field not in numbers]
        self.cost = self._parsed(cost, "--cost", numbers, names) if cost is not None else None
        known = ["time", "cycles", *(["cost"] if cost is not None else []), *numbers]
        self.objective = self._parsed(objective, "--objective", known, names) if objective is not None else None

    @staticmethod
    def _parsed(text: str, what: str, known: Sequence[str], names: Sequence[str]) -> Expression:
        expression = parse(text, what)
        for name in expression.names:
            if name in names:
                raise InputError(f"{what}: {name} holds a name, not a number; arithmetic needs numbers")
        expression.check_names(known)
        return expression

    def columns(self, cycles: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """`cycles` [n], and what follows from them. Raises InputError where an expression has no finite value."""
        seconds = cycles / (np.asarray(self.machines["frequency_ghz"], np.float64) * 1e9)
        found = {"cycles": cycles, "seconds": seconds}
        if self.cost is not None:
            found["cost"] = self._value(self.cost, {})
        if self.objective is not None:
            values = {"time": seconds, "cycles": cycles} | ({"cost": found["cost"]} if "cost" in found else {})
            found["objective"] = self._value(self.objective, values)
        return found

    def score(self, cycles: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n] what is smallest at the best point: the objective, or the time."""
        found = self.columns(cycles)
        return found.get("objective", found["seconds"]).copy()

    def _value(self, expression: Expression, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """A field that a machine does not have, as the size of an L3 that is not there, counts as 0."""
        fields = {
            name: np.nan_to_num(np.asarray(self.machines[name], np.float64))
            for name in expression.names
            if name not in values
        }
        result = np.array(np.broadcast_to(expression.value({**fields, **values}), self.machines.count), np.float64)
        if not np.isfinite(result).all():
            row = int(np.argmin(np.isfinite(result)))
            point = ", ".join(f"{name} = {np.broadcast_to(fields[name], len(result))[row]:g}" for name in fields)
            raise InputError(f"{expression.what}: {expression.text} is no finite number at {point or 'any point'}")
        return result


def outcome_of(frame: pd.DataFrame) -> str:
    """Return what a sweep's points are ordered by: the objective where there is one, else the time."""
    return "objective" if "objective" in frame else "seconds"


def fields_of(frame: pd.DataFrame) -> list[str]:
    """The varied fields of a sweep's table."""
    return [str(column) for column in frame.columns if column not in _RESULTS]


def best(frame: pd.DataFrame, k: int) -> pd.DataFrame:
    """The `k` best points of each program, the best first; the index is that of the whole table."""
    parts = [part.nsmallest(k, outcome_of(frame)) for _, part in frame.groupby("program", sort=False)]
    return pd.concat(parts)


def _front(frame: pd.DataFrame, fields: Sequence[str], *, exact: bool) -> NDArray[np.bool_]:
    if "cost" in frame:
        return front(frame["seconds"].to_numpy(), frame["cost"].to_numpy())
    if exact and cells([frame[f].to_numpy() for f in fields if pd.api.types.is_numeric_dtype(frame[f])]) <= MOST_POINTS:
        return pareto_front(frame, fields)
    return front(frame["seconds"].to_numpy(), np.zeros(len(frame)))


def pareto_front(frame: pd.DataFrame, fields: Sequence[str]) -> NDArray[np.bool_]:
    """Points not dominated in (seconds, every numeric field), each the smaller the better, among equal kinds."""
    numeric = [field for field in fields if pd.api.types.is_numeric_dtype(frame[field])]
    kinds = [pd.factorize(frame[field].astype(str))[0] for field in fields if field not in numeric]
    return front_over_fields(frame["seconds"].to_numpy(float), [frame[field].to_numpy() for field in numeric], kinds)


def heat_map(frame: pd.DataFrame, program: str, x: str, y: str) -> pd.DataFrame:
    """The best outcome of a program over two fields: columns are x's values, rows y's, of many values classes.

    Raises InputError for a field that did not vary.
    """
    for field in (x, y):
        _require_varied(frame, field)
    part = frame[frame["program"] == program]
    places, names = zip(*(classes(part[field], most=_HEAT_CLASSES) for field in (x, y)), strict=True)
    table = pd.DataFrame({"x": places[0], "y": places[1], "value": part[outcome_of(frame)].to_numpy()})
    result = table.pivot_table(index="y", columns="x", values="value", aggfunc="min")
    result.index = pd.Index([names[1][place] for place in result.index], name=y)
    result.columns = pd.Index([names[0][place] for place in result.columns], name=x)
    return result


def terminal_tables(frame: pd.DataFrame, order: Sequence[str], width: int = 80) -> list[pd.DataFrame]:
    """Tables of few points for the terminal, as many as the fields in this order need; the first has the results.

    Times are in milliseconds; `pareto` is a star. Rows of several tables are numbered, `#`.
    """
    results = pd.DataFrame({"program": [str(name)[:16] for name in frame["program"]], "ms": frame["seconds"] * 1e3})
    results.index = frame.index
    results["source"] = frame["source"].astype(str)
    if "low" in frame and (frame["low"] < frame["high"]).any():
        results["interval"] = relative(frame, "seconds")
    for column in ("cost", "objective"):
        if column in frame:
            results[column] = frame[column]
    results["pareto"] = np.where(frame["pareto"], "*", "")
    fields = pd.DataFrame({field: _text(frame[field]) for field in order}, index=frame.index)
    table, left = _filled(results, fields, width)
    tables = [table]
    if left:
        number = pd.DataFrame({"#": range(1, len(frame) + 1)}, index=frame.index)
        table, left = _filled(number.join(results), fields, width)
        tables = [table]
        while left:
            table, left = _filled(number, fields[left], width)
            tables.append(table)
    return [table.reset_index(drop=True) for table in tables]


def _filled(table: pd.DataFrame, fields: pd.DataFrame, width: int) -> tuple[pd.DataFrame, list[str]]:
    """The table with as many of the fields as fit, at least one where it has nothing else, and the fields left."""
    left = [str(field) for field in fields]
    while left:
        wider = table.join(fields[left[0]])
        text = wider.to_string(index=False, float_format="{:.4g}".format)
        if len(text.partition("\n")[0]) > width and len(table.columns) > 1:
            break
        table, left = wider, left[1:]
    return table, left


def changed_fields(chosen: pd.DataFrame, base: Machine | None) -> list[str]:
    """Return a paragraph for each program: the fields of its best point, but those that are as in the base."""
    flat = {} if base is None else of_machine(base)
    found = []
    for program, part in chosen.groupby("program", sort=False):
        best = part.iloc[0]
        told = [
            f"{field}={label(value)}"
            for field, value in ((field, best[field]) for field in fields_of(chosen))
            if value == value and value != flat.get(field)
        ]
        found.append(fill(f"best for {program}: {', '.join(told)}", 80, subsequent_indent="  ", break_on_hyphens=False))
    return found


def _text(values: pd.Series) -> pd.Series:
    return values.map(lambda value: "-" if value != value else f"{value:g}" if isinstance(value, float) else str(value))


def to_json(
    frame: pd.DataFrame, *, k: int = 10, sensitivities: pd.DataFrame | None = None, chosen: pd.DataFrame | None = None
) -> dict[str, Any]:
    """The `--json` document: `points`, and the indices of those on the Pareto front and of the `k` best (or
    of `chosen`, whose intervals, where they have them, are in `best_intervals`: seconds, or null).

    Of more than MOST_LISTED points only the front and the best are in it; `evaluated` counts all.
    """
    chosen, evaluated = best(frame, k) if chosen is None else chosen, len(frame)
    if len(frame) > MOST_LISTED:
        kept = np.union1d(np.flatnonzero(frame["pareto"]), chosen.index)
        frame, places = frame.iloc[kept], {int(index): place for place, index in enumerate(kept)}
        chosen_places = [places[int(index)] for index in chosen.index]
    else:
        chosen_places = [int(index) for index in chosen.index]
    fields = fields_of(frame)
    results = [name for name in ("seconds", "cycles", "cost", "objective") if name in frame]
    points = [
        {
            "uarch": {field: _plain(row[field]) for field in fields},
            "program": row["program"],
            "source": row["source"],
            **{name: row[name] for name in results},
        }
        for row in frame.to_dict(orient="records")
    ]
    document = {
        "points": points,
        "pareto": np.flatnonzero(frame["pareto"]).tolist(),
        "best": chosen_places,
        "evaluated": evaluated,
    }
    if "low" in chosen:
        ends = zip(chosen["low"].tolist(), chosen["high"].tolist(), strict=True)
        document["best_intervals"] = [[low, high] if low < high else None for low, high in ends]
    if sensitivities is not None:
        document["sensitivity"] = sensitivities.to_dict(orient="records")
    return document


def _plain(value: Any) -> Any:
    """A field's value for JSON: null where the machine does not have it, whole numbers whole."""
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return value


def heat_fields(frame: pd.DataFrame, text: str | None, importance: pd.DataFrame) -> list[str]:
    """`FIELD,FIELD` of the command line; without it, of more than two fields, the two that matter most (`importance`).

    None for two fields or fewer. Raises InputError.
    """
    if text is None:
        if len(fields_of(frame)) <= 2:
            return []
        main = list(importance.groupby("field", sort=False)["first_order"].mean().nlargest(2).index)
        return [field for field in fields_of(frame) if field in main]
    fields = [word.strip() for word in text.split(",")]
    if len(fields) != 2 or fields[0] == fields[1]:
        raise InputError(f"--heat {text!r} must read FIELD,FIELD, two fields that vary")
    for field in fields:
        _require_varied(frame, field)
    return fields


def _require_varied(frame: pd.DataFrame, field: str) -> None:
    known = fields_of(frame)
    if field not in known:
        hint = nearest(field, known) or f" (varied: {', '.join(known)})"
        raise InputError(f"{field} does not vary in this sweep{hint}")


def headline(
    frame: pd.DataFrame,
    chosen: pd.DataFrame,
    importance: pd.DataFrame,
    base: Machine | None = None,
    level: float = DEFAULT_LEVEL,
) -> Headline:
    """The best point for the programs together, beside the base, and the field that matters most.

    Together: by the sum of the logarithms of the outcomes, or of the outcomes where some are not positive.
    """
    outcome, programs = outcome_of(frame), list(dict.fromkeys(map(str, frame["program"])))
    values = frame[outcome].to_numpy(float).reshape(len(programs), -1)
    together = (np.log(values) if (values > 0).all() else values).sum(axis=0)
    place = int(together.argmin())
    point, fields = frame.iloc[place], fields_of(frame)
    matter = importance.groupby("field", sort=False)["first_order"].mean().sort_values(ascending=False)
    told = joined([f"{field} {label(point[field])}" for field in matter.index if point[field] == point[field]][:3])
    if len(fields) > 3:
        told = f"A machine with {told}"
    number, unit = duration(float(point["seconds"])) if outcome == "seconds" else (f"{point[outcome]:.4g}", "objective")
    sentence = f"{told} is the best of {values.shape[1]:,} points for {joined(programs)}"
    own = _row_of(frame.iloc[: values.shape[1]], base)
    if own is not None and base is not None and (values > 0).all():
        less = 1 - float(np.exp((together[place] - together[own]) / len(programs)))
        sentence += f", {percent(less)} below {base.name}" if less > 0 else f"; {base.name} is this point"
    elif (values > 0).all():
        worst = float(np.exp((together.max() - together[place]) / len(programs)))
        sentence += f"; the worst is {worst:.2f} times as high"
    if len(matter) > 1 and matter.iloc[0] > 0:
        sentence += f". {matter.index[0]} matters most: {percent(float(matter.iloc[0]))} of the variance"
    source = str(point["source"])
    if outcome == "seconds" and place in chosen.index:
        row = chosen[chosen.index == place].iloc[0]
        if "low" in row:
            source += f", {interval(float(row['seconds']), float(row['low']), float(row['high']), level)}"
    if values.shape[1] > 1:
        source += f" (all points: {told_sources(frame)})"
    return Headline(number, unit if len(programs) == 1 else f"{unit} for {programs[0]}", f"{sentence}.", source)


def _row_of(points: pd.DataFrame, base: Machine | None) -> int | None:
    """The row that is the base itself, if one is."""
    if base is None:
        return None
    flat = of_machine(base)
    same = np.ones(len(points), bool)
    for field in fields_of(points):
        same &= np.asarray(points[field] == flat.get(field))
    return int(np.flatnonzero(same)[0]) if same.any() else None


def sections(
    frame: pd.DataFrame, chosen: pd.DataFrame, importance: pd.DataFrame, heat: Sequence[str] = ()
) -> list[Section]:
    """The parts of the HTML report; of more than a page's points only the front and the best."""
    kept = frame if len(frame) <= _MOST_IN_PAGE else frame.loc[frame.index[frame["pareto"]].union(chosen.index)]
    kept = kept.head(_MOST_IN_PAGE)
    told = "" if len(kept) == len(frame) else f"{len(frame):,} points; the numbers of the front and the best are below."
    source = told_sources(frame)
    parts = [
        Section("Time" if outcome_of(frame) == "seconds" else "Objective", told, plot(frame, heat), kept, source=source)
    ]
    text = "Share of the variance that a field alone explains (first-order Sobol' index)."
    parts.append(Section("What matters", text, plot_sensitivity(importance), importance, source=source))
    parts.append(_front_section(frame, importance, source))
    text = f"The best of each program come first. {told_of_best(chosen)}"
    parts.append(Section("Best points", text, table=_fields_first(readable(chosen)), source=source))
    text = "Mean time of all points with this value, over the best time. A flat line: the field does not matter."
    if len(fields_of(frame)) > 1:
        parts.append(Section("Trend of each field", text, plot_trends(frame, importance), source=source, wide=True))
    return parts


def _front_section(frame: pd.DataFrame, importance: pd.DataFrame, source: str) -> Section:
    """The Pareto front: over the cost, or over the size of every field."""
    if "cost" in frame:
        text = "The line is the Pareto front: no other point is both as fast and as cheap."
        return Section("Pareto front: time over cost", text, plot_front(frame), source=source)
    front_rows = frame[frame["pareto"]].sort_values(["program", "seconds"], kind="stable").head(_MOST_IN_PAGE)
    text = "No other point is as fast with every field as small."
    table = _fields_first(readable(front_rows).drop(columns="pareto"))
    order = importance.groupby("field", sort=False)["first_order"].mean().sort_values(ascending=False).index
    sizes = [str(field) for field in order if pd.api.types.is_numeric_dtype(frame[field])]
    if not sizes or len(front_rows) <= frame["program"].nunique():
        return Section("Pareto front", text, None, table, source=source)
    text += f" Drawn over {sizes[0]}, the number that matters most; the others are told where you point."
    return Section("Pareto front", text, plot_front_points(front_rows, sizes[0]), table, source=source)


def _fields_first(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the program and the fields, which tell points apart, before the results."""
    results = ("time, ", "from, ", "to, ", "cost", "objective", "pareto", "source", "cycles")
    behind = [column for name in results for column in table.columns if str(column).startswith(name)]
    fields = [column for column in table.columns if column not in {"program", *behind}]
    return table[["program", *fields, *behind]].reset_index(drop=True)


def plot_front_points(rows: pd.DataFrame, field: str) -> Figure:
    """The points of a front without a cost: time over one field; the line goes through the fastest of each value."""
    marks: list[Points | Lines] = []
    unit, factor = time_unit(float(rows["seconds"].min()))
    fields = fields_of(rows)
    for program, part in rows.groupby("program", sort=False):
        best = part.sort_values("seconds").drop_duplicates(field).sort_values(field)
        marks.append(Points(str(program), part[field], part["seconds"] * factor, _points(part, fields), faint=True))
        marks.append(
            Lines(str(program), best[field], best["seconds"] * factor, points=True, text=_points(best, fields))
        )
    low, high = float(rows[field].min()), float(rows[field].max())
    axis = Axis(field, log=low > 0 and high >= 8 * low)
    return Figure([Panel(marks, x=axis, y=Axis(f"{_of_source(rows)} time, {unit}"))], height=4.0)


def plot_trends(frame: pd.DataFrame, importance: pd.DataFrame, most: int = 12) -> Figure:
    """The mean outcome over each field's values, a panel a field, the most important first; axes are alike."""
    outcome = outcome_of(frame)
    order = importance.groupby("field", sort=False)["first_order"].mean().sort_values(ascending=False).index[:most]
    programs = list(dict.fromkeys(frame["program"]))
    parts = {program: frame[frame["program"] == program] for program in programs}
    positive = bool((frame[outcome] > 0).all())
    title = ("time" if outcome == "seconds" else "objective") + (" / best" if positive else "")
    found: dict[str, list[Lines]] = {}
    for field in map(str, order):
        for program, part in parts.items():
            place, names = classes(part[field], most=_HEAT_CLASSES)
            value = part[outcome].to_numpy(float) / (float(part[outcome].min()) if positive else 1.0)
            number = np.bincount(place, minlength=len(names))
            mean = np.bincount(place, value, minlength=len(names))[number > 0] / number[number > 0]
            shown = [label(name) for name, own in zip(names, number, strict=True) if own]
            found.setdefault(field, []).append(Lines(str(program), shown, mean, points=True))
    ends = [float(end) for lines in found.values() for line in lines for end in np.asarray(line.y)]
    room = 0.06 * (max(ends) - min(ends)) or 0.05 * abs(max(ends))
    axis = Axis(title, range=(min(ends) - room, max(ends) + room))
    panels = [Panel(lines, x=Axis(field), y=axis) for field, lines in found.items()]
    columns = min(3, len(panels))
    return Figure(panels, columns, width=4.0 * columns, height=0.5 + 2.7 * -(-len(panels) // columns))


def _of_source(frame: pd.DataFrame) -> str:
    return "simulated" if (frame["source"] == "simulated").all() else "predicted"


def told_sources(frame: pd.DataFrame) -> str:
    """Return how many points have each source, as "64 simulated, 9,936 corrected"."""
    counts = frame["source"].value_counts()
    return ", ".join(f"{counts[source]:,} {source}" for source in SOURCES if counts.get(source, 0))


def plot(frame: pd.DataFrame, heat: Sequence[str] = ()) -> Figure:
    """Each program's predicted time or objective: a heat map over two fields, or a curve.

    Where more fields vary, the best over them is shown. Colours of heat maps are the same multiples of a program's
    least time, up to the largest of any program. Titles state the range.
    """
    fields = list(heat) or fields_of(frame)[:2]
    programs = list(dict.fromkeys(frame["program"]))
    outcome = outcome_of(frame)
    told, factor = "objective", 1.0
    if outcome == "seconds":
        unit, factor = time_unit(float(frame["seconds"].min()))
        told = f"{_of_source(frame)} time, {unit}"
    if len(fields) == 1:
        lines = [
            Lines(program, _places(part[fields[0]]), part[outcome] * factor, points=True)
            for program, part in ((str(name), frame[frame["program"] == name]) for name in programs)
        ]
        values = frame[fields[0]]
        wide = pd.api.types.is_numeric_dtype(values) and values.min() > 0 and values.max() >= 8 * values.min()
        return Figure([Panel(lines, x=Axis(fields[0], log=bool(wide)), y=Axis(told, zero=True))])
    tables = [heat_map(frame, program, fields[0], fields[1]) * factor for program in programs]
    ends = [(float(np.nanmin(table)), float(np.nanmax(table))) for table in tables]
    positive = all(low > 0 for low, _ in ends)  # an objective may be anything
    reach = max(high / low for low, high in ends) if positive else 0.0
    panels = []
    for program, table, (low, high) in zip(programs, tables, ends, strict=True):
        scale = (low, low * reach) if reach > 1 else None
        cells = HeatMap(
            list(table.columns), list(table.index), table.to_numpy(), told, numbers=table.size <= 64, scale=scale
        )
        title = f"{program}: {low:.4g} to {high:.4g}" + (f" (+{high / low - 1:.1%})" if positive else "")
        panels.append(Panel([cells], title, Axis(fields[0]), Axis(fields[1])))
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    return Figure(panels, columns=columns, width=5.0 * columns + 0.6, height=4.0 * rows)


def _places(values: pd.Series) -> Any:
    """Numbers, or the names of what is none."""
    return values if pd.api.types.is_numeric_dtype(values) else [label(value) for value in values]


def plot_front(frame: pd.DataFrame) -> Figure:
    """Time over cost: the points, and the Pareto front as a line."""
    marks: list[Points | Lines] = []
    fields = fields_of(frame)
    unit, factor = time_unit(float(frame["seconds"].min()))
    for program, part in frame.groupby("program", sort=False):
        cloud = part.sample(min(len(part), 3000), random_state=0)
        line = part[part["pareto"]].sort_values("cost")
        marks.append(Points(str(program), cloud["cost"], cloud["seconds"] * factor, _points(cloud, fields), faint=True))
        marks.append(
            Lines(
                str(program),
                line["cost"],
                line["seconds"] * factor,
                points=True,
                steps=True,
                text=_points(line, fields),
            )
        )
    return Figure([Panel(marks, x=Axis("cost"), y=Axis(f"{_of_source(frame)} time, {unit}"))], height=4.5)


def _points(frame: pd.DataFrame, fields: Sequence[str]) -> list[str]:
    """Return each point's name: the first six fields that vary."""
    shown = list(fields[:6])
    rows = zip(*(frame[field] for field in shown), strict=True)
    return [", ".join(f"{field} {label(value)}" for field, value in zip(shown, row, strict=True)) for row in rows]


def plot_sensitivity(importance: pd.DataFrame, most: int = 12) -> Figure:
    """The first-order index of the fields that matter most, programs beside one another."""
    order = importance.groupby("field", sort=False)["first_order"].mean().nlargest(most).index
    bars = []
    for program, part in importance.groupby("program", sort=False):
        rows = part.set_index("field").loc[order]
        text = [f"best at {label(best)}" for best in rows["best"]]
        bars.append(Bars(str(program), [str(field) for field in order], rows["first_order"], text=text))
    height = 1.2 + 0.16 * len(order) * (1 + len(bars))
    return Figure([Panel(bars, x=Axis("share of the variance explained", zero=True), sideways=True)], height=height)
