"""Outcomes of points: seconds, cost, and the objective that is smallest at the best one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from uarch.columns import Columns, rule_of
from uarch.expression import Expression, parse


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
