"""Values of the fields that vary, and constraints, as the command line writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from support.errors import InputError
from uarch.configuration import parse_value
from uarch.expression import parse
from uarch.space import Constraint, parse_constraint

_MOST_VALUES = 100_000  # of one field


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
    if not math.isfinite(low) or not math.isfinite(high) or not math.isfinite(step):
        raise InputError(f"{field} = {word!r} must read LOW:HIGH:STEP or LOW:HIGH:*FACTOR, in finite numbers")
    if not (step > (1 if factor else 0)) or not low <= high or (factor and low <= 0):
        raise InputError(f"{field} = {word!r} must rise from LOW to HIGH by a STEP above 0 or a *FACTOR above 1")
    if (math.log(high / low) / math.log(step) if factor else (high - low) / step) > _MOST_VALUES:
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
    expression = None if cost is None else parse(cost)
    return tuple(parse_constraint("--constraint", text, expression) for text in texts)
