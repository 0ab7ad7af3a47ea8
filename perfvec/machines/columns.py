"""The encoder on many machines at once (`uarch.columns`): their cycles, and which of them lie outside its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfvec.machines.encoder import MachineEncoder, no_inputs
from perfvec.machines.features import features_of_columns, varying_features
from perfvec.representation.spread import spread
from uarch.columns import Columns

TOGETHER = 1 << 14  # machines at once: their features and the encoder's activations fit the caches


def cycles_of_columns(encoder: MachineEncoder, columns: Columns, programs: NDArray[np.float64]) -> NDArray[np.float64]:
    """[count, P] cycles of the program vectors [P, d], in bounded memory beside the result.

    Machines go to as many threads as torch has (OMP_NUM_THREADS): NumPy and torch let go of the interpreter while they
    compute.
    """
    found = np.empty((columns.count, len(programs)))
    most = len(encoder.mean)
    varying = varying_features(columns, most)

    def fill(begin: int) -> None:
        rows = slice(begin, begin + TOGETHER)
        found[rows] = encoder.cycles(features_of_columns(columns.rows(rows), most), programs, varying)

    spread(fill, range(0, columns.count, TOGETHER))
    return found


def outside_of_columns(encoder: MachineEncoder, columns: Mapping[str, Any]) -> list[str]:
    """Return the field values that no machine in the encoder's training had, as `MachineEncoder.outside`; each field
    once, by the value that lies furthest off.
    """
    found = []
    for name, low, high in encoder.field_ranges():
        field, is_kind, kind = name.partition(" = ")
        if field not in columns:
            continue
        value = columns[field]
        if is_kind:
            present = bool(np.any(value == kind))
            if present and not low <= 1 <= high:
                found.append(f"{name} (never)")
            continue
        numbers = np.atleast_1d(np.asarray(value, np.float64))
        numbers = numbers[np.isfinite(numbers)]
        if not numbers.size:
            continue
        least, most = float(numbers.min()), float(numbers.max())
        bounds = f"{low:g} to {high:g}" if low <= high else "never"
        for extreme, beyond in ((least, least < low * (1 - 1e-6)), (most, most > high * (1 + 1e-6))):
            if beyond or low > high:
                found.append(f"{field} = {extreme:g} ({bounds})")
                break
    given = (field for field, value in columns.items() if np.any(pd.notna(value)))
    return found + [f"{field} (no input)" for field in no_inputs(given)]


def partly_unseen(columns: Columns) -> NDArray[np.bool_]:
    """[K] whether a machine has fields that the encoder has no input of: no error of the model's is of such a one."""
    found = np.zeros(columns.count, np.bool_)
    for field in columns:
        if no_inputs([field]):
            found |= pd.notna(columns[field])
    return found
