"""The table's rows, regressed on whole windows, also of programs that only the embedded simulator has run.

Training shows the table's machines few programs. With the foundation model frozen a row is linear in a window's cycles,
so windows of many other programs, labelled on the same machines by a faster simulator, correct it where those few say
nothing. Ridge regression around the trained row m₀, on relative errors:

    minimise over m   Σ_own (R·m / y − 1)² + OTHERS · Σ_other (R·m / y − 1)² + PRIOR · k · |m − m₀|²

R is a window's vector, y its cycles on the machine, k the mean square of a coordinate of R / y. Beyond OUTLIER an error
counts linearly, by its weight at m₀ (iteratively reweighted least squares, one step; Huber 1964).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.model import Model
from perfvec.precision import rounded
from perfvec.training.data import Labels, SampledShard
from perfvec.training.windows import window_vector
from support.errors import InputError
from uarch.configuration import configuration_key

OTHERS = 0.1  # weight of another program's window: its simulator is not the labels'
PRIOR = 3.0
OUTLIER = 0.15


def refine_table(model: Model, labels: Labels, others: Sequence[SampledShard], *, progress: bool = True) -> Model:
    """Return `model` with the rows refined of those machines of its table, fitted ones included, that `others` label.

    `labels` are the table's own windows, `others` windows of other programs, each labelled on some machines. Raises
    InputError where they label no machine of the table.
    """
    foundation = rounded(model.foundation)  # as programs will be represented
    machines = [*model.machines, *model.fitted_machines]
    row_of = {configuration_key(machine): row for row, machine in enumerate(machines)}
    own = np.array([window_vector(foundation, shard, 0, len(shard)) for shard in labels.shards])
    own_cycles = np.array([shard.mean * len(shard) for shard in labels.shards])
    vectors: list[list[NDArray[np.float64]]] = [[] for _ in machines]
    cycles: list[list[float]] = [[] for _ in machines]
    for one in tqdm(others, desc="rows", unit="window", disable=None if progress else True):
        rows = [row_of.get(configuration_key(machine)) for machine in one.machines]
        vector = window_vector(foundation, one.shard, 0, len(one.shard))
        for row, mean in zip(rows, one.shard.mean, strict=True):
            if row is not None:
                vectors[row].append(vector)
                cycles[row].append(mean * len(one.shard))
    if not any(cycles):
        raise InputError("the windows of other programs label no machine of the table")
    trained, fitted = model.table(), model.fitted_vectors
    table = trained if fitted is None else np.concatenate([trained, fitted])
    for row in (row for row, of in enumerate(cycles) if of):
        ours = (own, own_cycles[:, row]) if row < len(trained) else (own[:0], np.empty(0))
        table[row] = refined_row(table[row], ours, (np.array(vectors[row]), np.array(cycles[row])))
    refined = deepcopy(model.foundation)
    with torch.no_grad():
        refined.head.weight.copy_(torch.from_numpy(table[: len(trained)]))
    return replace(model, foundation=refined, fitted_vectors=None if fitted is None else table[len(trained) :])


def refined_row(
    row: NDArray[np.float64],
    own: tuple[NDArray[np.float64], NDArray[np.float64]],
    others: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return the row [d] after the regression; `own` and `others` are vectors [W, d] and cycles [W]."""
    weight = np.repeat([1.0, OTHERS], [len(own[0]), len(others[0])])
    design = np.concatenate([own[0], others[0]]) / np.concatenate([own[1], others[1]])[:, None]
    error = 1.0 - design @ row
    weighted = design * (weight * np.minimum(1.0, OUTLIER / np.maximum(np.abs(error), 1e-12)))[:, None]
    prior = PRIOR * float((design**2).mean()) * np.eye(len(row))
    moved: NDArray[np.float64] = row + np.linalg.solve(weighted.T @ design + prior, weighted.T @ error)
    return moved
