"""Machines near given ones: mixtures of real cores, which a design space's independent fields rarely come close to.

A real core's fields go together: a long pipeline has large queues and a quick L1. What a model learns from evenly
spread machines holds there only by extrapolation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from support.errors import InputError
from uarch.configuration import Machine, flatten, machine_from_dict
from uarch.space import load_space, neighbour, sample

_OTHER, _DRAWN = 0.5, 0.3  # of a machine's fields at most: those of a second one, and those of the design space
_POOL = 64  # machines of the space, whose values are drawn
_WHOLE = ("memory", "l3")  # sections whose fields mean little apart


def near_pairs(machines: Sequence[Machine], n: int, seed: int = 0) -> list[Machine]:
    """`n` machines, the same for the same arguments: of each two the first mixes two of `machines` with one kind of
    core, and values of the design space; the second is the first with one field changed, as `uarch.space.sample_pairs`.

    Raises InputError where `machines` is empty or a machine has no such neighbour.
    """
    if not machines:
        raise InputError("near_pairs needs machines to mix")
    generator = np.random.default_rng(seed)
    pool = sample(_POOL, seed)
    fields = load_space("default").varied
    found: dict[Machine, Machine] = {}
    while len(found) < n:
        first = _mixed(machines, pool, f"near{seed}-{len(found):03d}", generator)
        pair = [first, neighbour(first, [*pool, *machines], fields, generator)]
        nameless = [replace(machine, name="") for machine in pair]
        if not found.keys() & set(nameless):
            found |= zip(nameless, pair, strict=True)
    return list(found.values())[:n]


def _mixed(machines: Sequence[Machine], pool: Sequence[Machine], name: str, generator: np.random.Generator) -> Machine:
    """A mixture that makes a machine, drawn at random until one does."""
    while True:
        one = machines[int(generator.integers(len(machines)))]
        second = _of_core(one.core, machines, generator)
        shares = generator.uniform(0, (_OTHER, _DRAWN))
        values = one.to_dict() | {"name": name}
        drawn = [machine for machine in pool if machine.core == one.core]
        for share, donors in zip(shares, ([second], drawn), strict=True):
            for field in flatten(values):
                if field not in ("name", "core") and generator.random() < share:
                    _take(values, donors[int(generator.integers(len(donors)))].to_dict(), field)
        try:
            return machine_from_dict(values)
        except InputError:  # fields that do not go together
            continue


def _of_core(core: str, machines: Sequence[Machine], generator: np.random.Generator) -> Machine:
    alike = [machine for machine in machines if machine.core == core]
    return alike[int(generator.integers(len(alike)))]


def _take(values: dict[str, Any], donor: Mapping[str, Any], field: str) -> None:
    """Give `values` the donor's field, or the section that the field belongs to where it means little apart."""
    section, _, last = field.rpartition(".")
    if not section or section in _WHOLE or field in _WHOLE:
        whole = section if section in _WHOLE else field
        if whole in donor:
            values[whole] = donor[whole]
    elif isinstance(donor.get(section), Mapping) and last in donor[section]:
        values[section] = values[section] | {last: donor[section][last]}
