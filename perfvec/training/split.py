"""Splits of labels: which train, which validate and which are held out; folds of programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from perfvec.training.data import Labels
from support.errors import InputError
from uarch.configuration import Machine


def folds(names: Iterable[str], n: int) -> list[tuple[str, ...]]:
    """The names in n groups, for leave-programs-out: sorted, shuffled by NumPy's default generator of seed 0, dealt."""
    distinct = sorted(set(names))
    order = np.random.default_rng(0).permutation(len(distinct))
    return [tuple(distinct[index] for index in order[k::n]) for k in range(n)]


def fold_of(names: Iterable[str], text: str) -> tuple[str, ...]:
    """The programs of the fold "K/N", K from 1 to N. Raises InputError where there is none of that description."""
    k, n = _fold_numbers(text)
    distinct = set(names)
    if n < 2 or n > len(distinct):
        raise InputError(f"fold {text!r}: {len(distinct)} programs make 2 to {len(distinct)} folds")
    return folds(distinct, n)[k - 1]


def _fold_numbers(text: str) -> tuple[int, int]:
    first, slash, second = text.partition("/")
    if not (slash and first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
        raise InputError(f"fold {text!r} is not K/N with K from 1 to N, as 2/5")
    return int(first), int(second)


@dataclass(frozen=True)
class Split:
    """Labels that do not train: programs and machines that are held out, programs that validate.

    `fold` is "K/N" (see `fold_of`); `validate_fraction` takes this share of the programs left, in
    the order of `folds`.
    """

    exclude: tuple[str, ...] = ()
    fold: str = ""
    hold_machines: int = 0
    machine_seed: int = 0
    validate_programs: tuple[str, ...] = ()
    validate_fraction: float = 0.0

    def __post_init__(self) -> None:
        if self.fold:
            _fold_numbers(self.fold)
        if not 0.0 <= self.validate_fraction <= 0.5:
            raise InputError(f"the fraction of programs to validate on is {self.validate_fraction}; at most 0.5")
        if self.validate_fraction and self.validate_programs:
            raise InputError("programs to validate on are named, and drawn by a fraction; give one of the two")

    def divide(self, labels: Labels) -> Division:
        """Raises InputError where a program is unknown or nothing is left to train on."""
        held = {*self.exclude, *(fold_of(labels.programs, self.fold) if self.fold else ())}
        training, machines = labels.without(held).hold_machines(self.hold_machines, self.machine_seed)
        judges = set(self.validate_programs)
        if self.validate_fraction:
            (shuffled,) = folds(training.programs, 1)
            judges |= set(shuffled[: max(1, round(self.validate_fraction * len(shuffled)))])
        validation = training.of_programs(judges) if judges else None
        return Division(training.without(judges), validation, tuple(sorted(held)), machines)


@dataclass(frozen=True)
class Division:
    """Labels divided by a Split."""

    training: Labels
    validation: Labels | None
    held_programs: tuple[str, ...]
    held_machines: tuple[Machine, ...]
