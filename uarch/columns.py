"""Many machines at once: a column for each field that differs among them, one value for each that does not.

A million machines as objects would take minutes and gigabytes. Columns of numbers are float arrays in which NaN stands
for a field that a machine does not have (`l3.size_kib` without an L3), columns of names pandas' categoricals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from support.errors import InputError
from support.text import show
from uarch.configuration import Machine, RelationError, flatten, machine_from_dict, replace_field
from uarch.constraints import CACHE_FIELDS, RELATIONS, Relation, Rule, rules_of
from uarch.formula import is_power_of_two
from uarch.space import Constraint

MOST_POINTS = 4_000_000
Column = Any  # a value, a float array [n], or a categorical [n]


class Columns(Mapping[str, Column]):
    """`count` machines as a mapping of dotted field names to columns or, where all are equal, to one value."""

    def __init__(self, values: Mapping[str, Column], count: int) -> None:
        self._values, self.count = dict(values), count

    def __getitem__(self, field: str) -> Column:
        return self._values[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def varied(self) -> list[str]:
        """Fields with a column."""
        return [field for field, value in self._values.items() if _is_column(value)]

    def rows(self, which: Any) -> Columns:
        """The machines of a slice, a mask or an array of indices."""
        if isinstance(which, slice):
            count = len(range(*which.indices(self.count)))
        else:
            count = int(which.sum()) if which.dtype == bool else len(which)
        return Columns({f: v[which] if _is_column(v) else v for f, v in self._values.items()}, count)

    def machine(self, row: int, name: str) -> Machine:
        """One of them as a machine. Raises InputError where it is none."""
        values: dict[str, Any] = {}
        for field, column in self._values.items():
            value = column[row] if _is_column(column) else column
            if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
                continue  # (a categorical gives NaN too)
            if isinstance(value, np.number):
                value = int(value) if rule_of(field).type is int or float(value).is_integer() else float(value)
            section, _, last = field.rpartition(".")
            (values.setdefault(section, {}) if section else values)[last] = value
        values.setdefault("l3", None)
        return machine_from_dict(values | {"name": name})


def _is_column(value: Column) -> bool:
    return isinstance(value, np.ndarray | pd.Categorical)


def rule_of(field: str) -> Rule:
    """The rule of a dotted field; those of `pipeline` are of the same type for both cores."""
    return rules_of(field)[0]


def column_of(field: str, values: Sequence[Any]) -> Column:
    """A column of values that may be None: numbers or, where the field holds names, a categorical of all of them."""
    rule = rule_of(field)
    if rule.names is not None:
        names = {name: code for code, name in enumerate(rule.names())}
        return pd.Categorical.from_codes([names.get(value, -1) for value in values], categories=pd.Index(names))
    # float32 holds every whole number that a field may have (2**20 at most) exactly
    return np.array([math.nan if v is None else v for v in values], np.float32 if rule.type is int else np.float64)


def concatenate(parts: Sequence[Columns]) -> Columns:
    """The machines of several, which have the same columns, behind one another."""
    values = dict(parts[0])
    for field in parts[0].varied:
        columns = [part[field] for part in parts]
        values[field] = (
            pd.Categorical.from_codes(np.concatenate([column.codes for column in columns]), dtype=columns[0].dtype)
            if isinstance(columns[0], pd.Categorical)
            else np.concatenate(columns)
        )
    return Columns(values, sum(part.count for part in parts))


def of_machine(machine: Machine) -> dict[str, Any]:
    """The fields that a machine has, but its name."""
    flat = flatten(machine.to_dict())
    return {field: value for field, value in flat.items() if field != "name" and value is not None}


def of_machines(machines: Sequence[Machine]) -> Columns:
    """Machines of any kinds as columns."""
    flat = [of_machine(machine) for machine in machines]
    fields = dict.fromkeys(field for values in flat for field in values)
    return Columns({f: column_of(f, [values.get(f) for values in flat]) for f in fields}, len(machines))


class Grid:
    """`base` with any of some fields' values, whose combinations need not be listed. Raises InputError for an unknown
    field, or a value that a field cannot hold.
    """

    def __init__(self, base: Machine, values: Mapping[str, Sequence[Any]]) -> None:
        if not values or not all(len(options) for options in values.values()):
            raise InputError("an empty sweep: give at least one field with a value, as l1d.size_kib=16,32,64")
        self.base = of_machine(base)
        self.values = values
        self.tables: dict[str, tuple[int, Column]] = {}  # by the field that changes: which of `values`, its options
        for number, (field, options) in enumerate(values.items()):
            changes = [_change(base, field, value) for value in options]
            for changed in dict.fromkeys(name for change in changes for name in change):
                if changed in self.tables:
                    other = list(values)[self.tables[changed][0]]
                    raise InputError(f"{field} and {other} cannot vary together: both set {changed}")
                kept = self.base.get(changed)
                self.tables[changed] = number, column_of(changed, [change.get(changed, kept) for change in changes])

    @property
    def count(self) -> int:
        """Number of combinations."""
        return math.prod(len(options) for options in self.values.values())

    def columns(self, options: Sequence[NDArray[np.int64]]) -> Columns:
        """The combinations of the fields' options, an array [n] of indices for each field.

        Combinations that are no machine are among them (`possible` tells).
        """
        changed = {field: table[options[number]] for field, (number, table) in self.tables.items()}
        return Columns(self.base | changed, len(options[0]))

    def every(self) -> list[NDArray[np.int64]]:
        """The options of every combination; the first field varies slowest. Raises InputError for too many."""
        if self.count > MOST_POINTS:
            raise InputError(
                f"the grid has {self.count:,} points; at most {MOST_POINTS:,}: vary fewer fields, or give --search N"
            )
        sizes = [len(options) for options in self.values.values()]
        return [column.ravel() for column in np.indices(sizes)]


def _change(base: Machine, field: str, value: Any) -> dict[str, Any]:
    """Return the fields that have another value once `field` is `value`; None where they are gone."""
    if field == "name":
        raise InputError("name cannot vary: it changes nothing of a machine")
    if field == "core":
        raise InputError("core cannot vary: the other kind has other fields; compare machines with predict instead")
    with suppress(RelationError):  # possible perhaps together with another field's values
        replace_field(base, field, value)
    if field in ("memory", "memory.model"):
        inside = dict(value) if isinstance(value, Mapping) else {"model": value}
        if inside == {"model": "simple"}:  # it was simple before
            return {"memory.model": "simple"}
        return {f"memory.{name}": inside.get(name) for name in ("model", "latency_ns", "bandwidth_gbs")}
    if field == "l3" and value is None:
        return {f"l3.{name}": None for name in CACHE_FIELDS}
    return flatten(value, f"{field}.") if isinstance(value, Mapping) else {field: value}


def possible(columns: Columns, constraints: Iterable[Constraint] = ()) -> tuple[NDArray[np.bool_], str]:
    """[count] which combinations are machines and meet the constraints, and what the first one that does not breaks.

    Values of single fields are taken to be valid.
    """
    good = np.ones(columns.count, bool)
    reason = ""
    conditions: list[Relation | Constraint] = [*RELATIONS, *constraints]
    for condition in conditions:
        holds = np.zeros(columns.count, np.bool_) | condition.holds(columns)
        if not reason and not holds.all():
            row = int(np.argmin(holds))
            reason = condition.text if isinstance(condition, Constraint) else _broken(columns, row)
        good &= holds
    return good, reason


def _broken(columns: Columns, row: int) -> str:
    try:
        columns.machine(row, "point")
    except InputError as error:
        return str(error).partition(": ")[2]
    return "a relation between fields"


def check_values(columns: Columns) -> None:
    """Raises InputError for the first machine with a value that its field cannot hold, whatever the others are."""
    for field in columns.varied:
        values = columns[field]
        if isinstance(values, pd.Categorical):
            continue  # a name that is not among the categories was never there
        rules = rules_of(field)
        low, high = min(rule.low for rule in rules), max(rule.high for rule in rules)
        wrong = (values < low) | (values > high)
        if all(rule.power_of_two for rule in rules):
            wrong |= ~(is_power_of_two(values) | (values == 0) | np.isnan(values))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"{field} = {show(float(values[row]))} must be {rules[0].describe()}")
