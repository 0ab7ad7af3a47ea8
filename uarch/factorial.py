"""Machines as a sweep of many fields makes them: each field of the core varies by itself, over its whole range.

In real cores, and in a design space that is meant to be like them, widths, windows and ports grow together; a
full-factorial grid puts a scheduler of 16 entries beside a reorder buffer of 384.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from support.errors import InputError
from uarch.configuration import OPTIONAL, Machine, flatten, replace_field
from uarch.space import load_space, ranges, sample

_SECTIONS = ("pipeline", "functional_units")  # all their numbers; of caches these
_OF_CACHES = ("mshrs", "latency")
_BELOW = 1.5  # values begin so much below the least that a field has
_POOL = 64  # machines of the space, from which half of the designs start


def factorial_pairs(machines: Sequence[Machine], n: int, seed: int = 0) -> list[Machine]:
    """`n` machines, the same for the same arguments: of each two the first is one of `machines` or of the design space
    in which a random share of the core's and caches' numbers is drawn anew, evenly in the logarithm; the second is the
    first with one more drawn.

    Raises InputError where `machines` is empty.
    """
    if not machines:
        raise InputError("factorial_pairs needs machines to start from")
    generator = np.random.default_rng(seed)
    pool, limits = sample(_POOL, seed), _limits(machines)
    found: dict[Machine, Machine] = {}
    while len(found) < n:
        starts = (machines, pool)[int(generator.integers(2))]
        first = starts[int(generator.integers(len(starts)))]
        own = flatten(first.to_dict())
        fields = [field for field in limits if field in own or field in OPTIONAL]
        share = generator.random()
        for field in fields:
            if generator.random() < share:
                first = _redrawn(first, field, limits[field], generator) or first
        first = replace(first, name=f"factorial{seed}-{len(found):03d}")
        second = None
        while second is None:
            field = fields[int(generator.integers(len(fields)))]
            second = _redrawn(first, field, limits[field], generator)
        pair = [first, replace(second, name=f"{first.name}-{field}")]
        nameless = [replace(machine, name="") for machine in pair]
        if not found.keys() & set(nameless):
            found |= zip(nameless, pair, strict=True)
    return list(found.values())[:n]


def _limits(machines: Sequence[Machine]) -> dict[str, tuple[float, float]]:
    """The least and the greatest value of each field that varies, in the space and of the machines."""
    known = ranges(load_space("default"))
    for machine in machines:
        for field, value in flatten(machine.to_dict()).items():
            if _varies(field) and value is not None:
                low, high = known.get(field, (value, value))
                known[field] = min(low, value), max(high, value)
    return {field: (max(1.0, low / _BELOW), high) for field, (low, high) in known.items() if _varies(field)}


def _varies(field: str) -> bool:
    section, _, last = field.rpartition(".")
    return section in _SECTIONS or last in _OF_CACHES


def _redrawn(
    machine: Machine, field: str, limits: tuple[float, float], generator: np.random.Generator
) -> Machine | None:
    """The machine with another whole value of a field; None where it stays, or does not go with the others."""
    value = round(math.exp(generator.uniform(*np.log(limits))))
    if value == flatten(machine.to_dict()).get(field):
        return None
    try:
        return replace_field(machine, field, value)
    except InputError:
        return None
