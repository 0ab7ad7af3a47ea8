"""Designs: the points that a sweep evaluates, a grid or a sample of a design space.

Points are columns (`uarch.columns`), not machines, so that a million of them take a few seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from support.errors import InputError
from uarch.columns import Columns, Grid, of_machine, possible, rule_of
from uarch.configuration import Machine
from uarch.space import Constraint, load_space
from uarch.space_columns import sample_columns


@dataclass(frozen=True)
class Design:
    """The points of a sweep: the machines, and the fields that a table shows of them."""

    columns: Columns
    fields: pd.DataFrame  # [columns.count], a column a varied field
    exact: bool  # every combination of the fields' values (but those that are no machine)
    left_out: str = ""  # what was left out and why, for a line on stderr

    def machine(self, row: int, name: str) -> Machine:
        """Return the machine of a row of a sweep's table, which lists the points for one program after another."""
        return self.columns.machine(row % len(self.fields), name)


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
            continue
        present = values[~np.isnan(values)]  # machines that lack it are alike
        whole = len(present) == len(values)
        if len(present) and (not whole or present.min() != present.max()):
            found[field] = values.astype(np.int32) if whole and rule_of(field).type is int else values
    return pd.DataFrame(found, index=range(columns.count))


def first_points(design: Design, base: Machine | None) -> list[int]:
    """Rows of the base, of the base with each varied field at the end that is further off, and at the other, where they
    are among a grid's points.
    """
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
    for further in (True, False):
        for number, size in enumerate(sizes):
            end = size - 1 if (2 * own[number] < size - 1) == further else 0
            wanted.append((*own[:number], end, *own[number + 1 :]))
    return [place[key] for key in dict.fromkeys(wanted) if key in place]
