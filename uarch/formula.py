"""Formulas over a machine's fields, as data: nested tuples that numbers, columns of many machines and JSON hold alike.

A formula is a number; a name (a dotted field's number, or a quantity that was named before); or a tuple

    ("is", field, name)                 1 where the field holds the name, else 0
    ("has", field)                      1 where the machine has the field, which holds a number
    ("choose", field, names, numbers, other)   the number of the name that the field holds, or the formula `other`
    ("else", a, b)                      b where a is no number
    ("+" "-" "*" "/" "min" "<=" ">=" ">" "!=" "and" "or" "not" "log2" "power of two", a, …)
    ("**" "minimum" "maximum" "sqrt", a, …)    in what users write (`uarch.expression`) alone

A field that a machine does not have is NaN: comparisons with it are false, and `min` passes it over, as `minimum` and
`maximum` do not. A page evaluates the same (`analysis/questions/explore.js`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

try:
    import numpy as np
except ImportError:  # gem5's Python
    from uarch import without_numpy as np  # type: ignore[no-redef]

Formula = float | str | tuple[Any, ...]


def is_power_of_two(value: Any) -> Any:
    """Return whether a number, or each of an array, is 1, 2, 4, …"""
    fraction, exponent = np.frexp(value)
    return np.logical_and(fraction == 0.5, exponent > 0)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "min": np.fmin,
    "<=": np.less_equal,
    ">=": np.greater_equal,
    ">": np.greater,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "**": np.float_power,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


def evaluate(formula: Formula, values: Mapping[str, Any]) -> Any:
    """The formula's number for a flat mapping of dotted names to values, or an array of them for one of columns
    (`uarch.columns`); double precision.
    """
    if not isinstance(formula, tuple):
        return _number(values, formula) if isinstance(formula, str) else formula
    kind, *parts = formula
    if kind == "is":
        same = values.get(parts[0]) == parts[1]
        return np.float64(same) if isinstance(same, bool) else np.asarray(same, np.float64)
    if kind == "has":
        return np.isfinite(_number(values, parts[0]))
    if kind == "choose":
        found = evaluate(parts[3], values)
        for name, number in zip(parts[1], parts[2], strict=True):
            chosen = values.get(parts[0]) == name
            found = np.where(chosen, number, found) if np.any(chosen) else found
        return found
    arguments = [evaluate(part, values) for part in parts]
    if kind == "else":
        return np.where(np.isnan(arguments[0]), arguments[1], arguments[0])
    if kind == "log2":
        return np.log2(arguments[0])
    if kind == "sqrt":
        return np.sqrt(arguments[0])
    if kind == "not":
        return np.logical_not(arguments[0])
    if kind == "power of two":
        return is_power_of_two(arguments[0])
    return reduce(_OPERATIONS[kind], arguments)


def names(formula: Formula) -> Iterator[str]:
    """The names that the formula reads, in their order; one may come again."""
    if isinstance(formula, str):
        yield formula
    elif isinstance(formula, tuple):
        kind, *parts = formula
        for part in {"is": parts[:1], "choose": (parts[0], parts[-1])}.get(kind, parts):
            yield from names(part)


def _number(values: Mapping[str, Any], field: str) -> Any:
    value = values.get(field, np.nan)
    return np.float64(value) if isinstance(value, int | float) else np.asarray(value, np.float64)
