"""Machines of a design space by the million: the points of `uarch.space.sample`, as columns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.processors import processors
from uarch.columns import MOST_POINTS, Column, Columns, check_values, column_of, concatenate, of_machine, possible
from uarch.configuration import Machine
from uarch.constraints import CACHE_FIELDS, CORES
from uarch.space import Constraint, Space, base_of, load_space

_BATCH = 1 << 16


def sample_columns(
    n: int,
    seed: int = 0,
    space: str | Path | Space = "default",
    base: str | Path | Machine | None = None,
    constraints: tuple[Constraint, ...] = (),
) -> Columns:
    """The machines of `uarch.space.sample(n, seed, space, base=base)` (Sobol), which meet `constraints` besides."""
    if not 1 <= n <= MOST_POINTS:
        raise InputError(f"number of sampled points = {n} must be from 1 to {MOST_POINTS:,}")
    content = space if isinstance(space, Space) else load_space(space)
    start = base_of(content, base)
    from scipy.stats import qmc  # takes most of a second, which every command would wait for

    sequence = qmc.Sobol(content.coordinates, scramble=True, seed=seed)
    parts: list[Columns] = []
    found = drawn = 0
    reason = ""
    size = min(_BATCH, max(n, 64))

    def machines(points: NDArray[np.float64]) -> tuple[Columns, str]:
        columns = columns_of(content, points, start)
        good, broken = possible(columns, (*content.constraints, *constraints))
        return columns.rows(good), broken

    threads = processors()
    with ThreadPoolExecutor(threads) as pool:  # NumPy lets go of the interpreter while it computes
        while found < n:
            if drawn >= 100 * n + 1000:
                raise InputError(
                    f"design space {content.name}: only {found} of {drawn} points make a machine (one did not: "
                    f"{reason}); loosen the constraints"
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # balance properties want a power of two; any n is fine here
                batches = [sequence.random(size) for _ in range(min(threads, -(-(n - found) // size)))]
            drawn += sum(map(len, batches))
            for kept, broken in pool.map(machines, batches):
                reason = broken or reason
                parts.append(kept)
                found += kept.count
    return concatenate(parts).rows(slice(n))


def columns_of(space: Space, points: NDArray[np.float64], base: Machine | None) -> Columns:
    """Return the machines of points [n, space.coordinates] in [0, 1); combinations that are no machine are among them.

    Fields that any machine of the space may lack, or have otherwise, are columns even where this batch's are all equal.
    """
    count = len(points)
    values: dict[str, Column] = of_machine(base) if base is not None else {}
    if base is None:
        in_order = points[:, 0] < space.shares.get("in_order_share", 0)
        values["core"] = _options("core", CORES)[in_order.astype(int)]
        cores = {core: np.flatnonzero(in_order == (core == "in-order")) for core in CORES}
    else:
        cores = {base.core: np.arange(count)}
    for core, rows in cores.items():
        known: dict[str, Any] = dict(values) if base is not None else {}
        for number, (field, dimension) in enumerate(space.of_core(core), start=3):
            try:
                known[field] = _values(field, dimension, points[rows, number], known)
            except KeyError as error:
                raise InputError(
                    f"design space {space.name}: {field} needs {error.args[0]}, which comes later or never"
                ) from None
            if field not in values or np.ndim(values[field]) == 0:
                values[field] = _options(field, (None,))[np.zeros(count, int)]
            values[field][rows] = known[field]
    _leave_out(space, points, values)
    columns = Columns(values, count)
    check_values(columns)
    return columns


def _leave_out(space: Space, points: NDArray[np.float64], values: dict[str, Column]) -> None:
    """Fields that a point does not have: no L3, a named DRAM, no predictor."""
    count = len(points)
    sampled = {field for group in space.dimensions.values() for field in group}
    without = points[:, 1] >= space.shares.get("l3_share", 1)
    if "l3.size_kib" in values and "l2.size_kib" in values:
        without = without | (values["l3.size_kib"] < values["l2.size_kib"])
    for field in (f"l3.{name}" for name in CACHE_FIELDS):
        if field in values:
            values[field] = _without(field, values[field], without)
    if any(field.startswith("memory.") for field in sampled):
        simple = points[:, 2] < space.shares.get("simple_memory_share", 0)
        models = _full("memory.model", values.get("memory.model"), count)
        values["memory.model"] = models
        if space.keeps_memory:
            simple = simple | np.asarray(models == "simple")
        models[simple] = "simple"
        for field in ("memory.latency_ns", "memory.bandwidth_gbs"):
            if field in values:
                values[field] = _without(field, values[field], ~simple)
    kind = values["branch_predictor.kind"]
    nothing = np.broadcast_to(np.asarray(kind == "none"), count)
    for field in ("branch_predictor.entries", "branch_predictor.btb_entries", "branch_predictor.ras_entries"):
        if np.ndim(kind) or np.ndim(values[field]):
            values[field] = _full(field, values[field], count)
            values[field][nothing] = 0


@lru_cache(maxsize=1024)  # a search draws a few machines of one space hundreds of times
def _options(field: str, values: tuple[Any, ...]) -> Column:
    return column_of(field, values)


def _full(field: str, value: Column, count: int) -> Column:
    """A column of its own of what may be one value."""
    return value if np.ndim(value) else column_of(field, [value])[np.zeros(count, int)]


def _without(field: str, value: Column, absent: NDArray[np.bool_]) -> Column:
    column = _full(field, value, len(absent))
    column[absent] = np.nan
    return column


def _values(
    field: str, dimension: Mapping[str, Any], coordinate: NDArray[np.float64], known: Mapping[str, Any]
) -> Column:
    """Return values as `uarch.space._value`, of many coordinates."""
    if "choices" in dimension:
        choices = dimension["choices"]
        index = np.minimum((coordinate * len(choices)).astype(int), len(choices) - 1)
        return _options(field, tuple(choices))[index]
    low, high = float(dimension["low"]), float(dimension["high"])
    if "of" in dimension:
        value = np.rint((low + (high - low) * coordinate) * known[dimension["of"]])
        return np.clip(value, dimension.get("at_least", 1), dimension.get("at_most", math.inf)) // 1
    if "step" in dimension:
        steps = int((high - low) / dimension["step"] + 1e-9) + 1
        stepped = np.minimum((coordinate * steps).astype(int), steps - 1)
        return np.round(dimension["low"] + stepped * dimension["step"], 9)
    if dimension["scale"] == "log":
        number = low * (high / low) ** coordinate
        value = np.rint(number)
    else:
        number = low + (high - low + 1) * coordinate
        value = np.minimum(np.trunc(number), int(high))
    rounding = dimension.get("round")
    if rounding == "power_of_two":
        return np.exp2(np.rint(np.log2(number)))
    if rounding == "sets":
        ways = np.asarray(known[field.rpartition(".")[0] + ".associativity"], np.float64)
        sets = np.maximum(np.rint(np.log2(number * 16 / ways)), 4)
        return np.maximum(ways * np.exp2(sets) // 16, 1)
    return value
