"""Rows of static instructions that machines share: made once, kept as long as the instructions are.

A machine fills in units and latencies, which few kinds of instructions tell apart; the rest of a row is the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class SharedRows(NamedTuple):
    """Rows [S, columns] without what a machine fills in, and the kind [S] of each: a row of `kinds` [K, properties]."""

    rows: NDArray[np.int16]
    kind: NDArray[np.int64]
    kinds: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.int16], *properties: NDArray) -> SharedRows:
        """Sort the instructions into kinds by what they are to a machine, integers of 16 bits."""
        columns = [np.asarray(column, np.int64) for column in properties]
        key = np.zeros(len(rows), np.int64)
        for column in columns:  # one number for each combination
            key = np.unique(key, return_inverse=True)[1] << 16 | column & 0xFFFF
        _, first, kind = np.unique(key, return_index=True, return_inverse=True)
        return cls(rows, kind, np.stack([column[first] for column in columns], axis=1))

    def filled(self, columns: slice, of_kinds: NDArray[np.int16]) -> NDArray[np.int16]:
        """[S, columns] the rows of a machine, from the `columns` [K, …] of its kinds."""
        rows = self.rows.copy()
        rows[:, columns] = of_kinds[self.kind]
        return rows


_KEPT: dict[int, SharedRows] = {}


def shared_rows(instructions: object, make: Callable[[], SharedRows]) -> SharedRows:
    """Return what `make` makes of these very instructions, made once while they live."""
    key = id(instructions)
    found = _KEPT.get(key)
    if found is None:
        found = _KEPT[key] = make()
        weakref.finalize(instructions, _KEPT.pop, key, None)
    return found
