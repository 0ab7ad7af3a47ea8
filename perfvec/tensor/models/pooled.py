"""Inputs of models that read no sequences: one vector of a fixed length per candidate and device, or one a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.devices import DeviceScale
from tracegen.tensor import compact_ast, statements
from tracegen.tensor.dataset import Device, Rows

_AST = {name: compact_ast.COLUMNS.index(name) for name in ("executions", "vectorized_product", "access0_element_bytes")}
_OUTER_PRODUCT = statements.COLUMNS.index("outer_product")


def pooled(
    rows: Rows, candidates: NDArray[np.int64], scale: DeviceScale, devices: Sequence[Device], device: NDArray[np.int64]
) -> NDArray[np.float32]:
    """[n, 4·F + 1 + P]: sum, mean, largest and smallest of each feature over a candidate's rows, their number, and the
    parameters of its device, `devices[device[i]]`.
    """
    distinct, at = np.unique(candidates, return_inverse=True)
    length = rows.length[distinct]
    width = rows.values.shape[1]
    result = np.zeros((len(distinct), 4 * width + 1), np.float32)
    filled = np.flatnonzero(length)
    if len(filled):
        starts = np.concatenate([[0], np.cumsum(length[filled])])[:-1]
        begin = rows.offset[distinct[filled]]
        index = np.arange(int(length[filled].sum())) - np.repeat(starts - begin, length[filled])
        values = rows.values[index]
        total = np.add.reduceat(values, starts)
        result[filled, :width] = total
        result[filled, width : 2 * width] = total / length[filled, None]
        result[filled, 2 * width : 3 * width] = np.maximum.reduceat(values, starts)
        result[filled, 3 * width : 4 * width] = np.minimum.reduceat(values, starts)
    result[:, -1] = length
    return np.concatenate([result[at], scale.vectors(devices)[device]], axis=1)


def rows_of(rows: Rows, candidates: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """(the rows of these candidates, one after the other [m, F], whose each is [m]: a position in `candidates`).

    A candidate without rows has one of zeros.
    """
    length = rows.length[candidates]
    owner = np.repeat(np.arange(len(candidates)), np.maximum(length, 1))
    starts = np.searchsorted(owner, np.arange(len(candidates)))
    place = np.arange(len(owner)) - starts[owner] + rows.offset[candidates][owner]
    real = length[owner] > 0
    values = np.zeros((len(owner), rows.values.shape[1]), np.float32)
    values[real] = rows.values[place[real]]
    return values, owner


def work(kind: str, values: NDArray[np.float32], vector_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """[m] natural logarithm of 1 + the executions of rows of a feature group; 0 where it does not say.

    Of a compact AST's leaves, the executions of vectors are counted: as many as it takes on a device with vectors of
    so many bytes [m] (NaN where that is not known: of elements).
    """
    if kind == "statements" and values.shape[1] == len(statements.COLUMNS):
        return values[:, _OUTER_PRODUCT] * np.log(2.0)
    if kind != "ast" or values.shape[1] != compact_ast.WIDTH:
        return np.zeros(len(values))
    executions, lanes, size = (np.exp2(values[:, column].astype(np.float64)) - 1 for column in _AST.values())
    lanes = np.maximum(lanes, 1.0)
    vectors = np.where(np.isnan(vector_bytes), lanes, np.ceil(lanes * size / vector_bytes).clip(1.0, lanes))
    return np.log1p(executions / lanes * vectors)
