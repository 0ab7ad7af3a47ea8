"""Replacement for the part of NumPy that `uarch.formula` uses, for single numbers: gem5's own Python, which reads
machines too (`tracegen/gem5/run_se.py`), may lack NumPy.

Names and results are NumPy's, for NaN, zero divisors and fields that are not there (None) too.
"""

from __future__ import annotations

import math
import operator
from typing import Any

nan = math.nan
add, subtract, multiply = operator.add, operator.sub, operator.mul
less_equal, greater_equal, greater, not_equal = operator.le, operator.ge, operator.gt, operator.ne
float_power, minimum, maximum = operator.pow, min, max  # never called there: users' expressions are not read
isnan, isfinite, frexp = math.isnan, math.isfinite, math.frexp
float64, logical_not, any = float, operator.not_, bool


def divide(dividend: float, divisor: float) -> float:
    if divisor:
        return dividend / divisor
    return math.copysign(math.inf, dividend) if dividend and not math.isnan(dividend) else math.nan


def fmin(one: float, other: float) -> float:
    """The lesser one; of a number and NaN the number."""
    if math.isnan(one) or math.isnan(other):
        return other if math.isnan(one) else one
    return min(one, other)


def logical_and(one: Any, other: Any) -> bool:
    return bool(one) and bool(other)


def logical_or(one: Any, other: Any) -> bool:
    return bool(one) or bool(other)


def log2(value: float) -> float:
    if value > 0:
        return math.log2(value)
    return -math.inf if value == 0 else math.nan


def where(condition: Any, chosen: Any, other: Any) -> Any:
    return chosen if condition else other


def asarray(value: Any, _: type[float] = float) -> float:
    return math.nan if value is None else float(value)
