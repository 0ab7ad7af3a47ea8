"""A model's first layer, by tables: a row for every static instruction of a chunk, one for every value of a column.

A dynamic feature is one of 256 stored numbers, so what a column adds to the first layer's result is one of 256 vectors.
An executed instruction then takes a sum of 15 vectors (schema `default`), where its 170 features need not be written
down and multiplied.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from support.jit import cached
from tracegen.features import Schema


class Projection:
    """Projection by `first`, a layer that takes the features of `schema` as they are."""

    def __init__(self, schema: Schema, first: nn.Linear, outside: Tensor) -> None:
        """`outside` [schema.width]: the features of instructions before a program's start."""
        weight = first.weight.detach().numpy().T  # [schema.width, width]
        width, position = weight.shape[1], schema.static_width
        self._static, self._bias = first.weight.detach()[:, :position], first.bias.detach()
        self._outside = first(outside).detach().numpy()
        columns = len(schema.columns) + len(schema.columns) % 2  # they are added in pairs
        self._tables = np.zeros((columns, 256, width), np.float32)
        for index, column in enumerate(schema.columns):
            numbers = np.arange(256, dtype=np.float32)[:, None] * np.float32(column.scale)
            values = numbers if column.table is None else column.table
            self._tables[index] = values @ weight[position : position + column.width]
            position += column.width

    @staticmethod
    def fits(schema: Schema) -> bool:
        """Return whether every stored number is one of 256."""
        return np.dtype(schema.dtype) == np.uint8

    def of(self, static: NDArray[np.float32], static_id: NDArray[np.uint32], stored: NDArray[np.uint8]) -> Projected:
        """Return the outputs for the instructions with `static_id` [n] and `stored` [n, columns] numbers; `static` [S,
        static width].
        """
        used = np.zeros(len(static), bool)
        used[static_id] = True
        place = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
        # by PyTorch, whose threads are those that were asked for; NumPy's product has its own
        rows = nn.functional.linear(torch.from_numpy(static[used]), self._static, self._bias).numpy()
        odd = self._tables.shape[0] - stored.shape[1]
        stored = np.pad(stored, ((0, 0), (0, odd))) if odd else np.ascontiguousarray(stored)
        return Projected(rows, place[static_id], stored, self._tables, self._outside)


class Projected:
    """The first layer's results of some consecutive instructions."""

    def __init__(
        self,
        static: NDArray[np.float32],
        static_id: NDArray[np.uint32],
        stored: NDArray[np.uint8],
        tables: NDArray[np.float32],
        outside: NDArray[np.float32],
    ) -> None:
        self._sources = static, static_id, stored, tables, outside

    def __call__(self, row: NDArray[np.int64]) -> Tensor:
        """[T, B, width] of the instructions `row` [T, B]; -1: one before the program's start."""
        width = len(self._sources[-1])
        out = np.empty((row.size, width), np.float32)
        _sum(*self._sources, row.reshape(-1), out)
        return torch.from_numpy(out.reshape(*row.shape, width))


@cached(nogil=True)
def _sum(
    static: NDArray[np.float32],
    static_id: NDArray[np.uint32],
    stored: NDArray[np.uint8],
    tables: NDArray[np.float32],
    outside: NDArray[np.float32],
    rows: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    for k in range(len(rows)):
        row, here = rows[k], out[k]
        if row < 0:
            here[:] = outside
            continue
        first = static[static_id[row]]
        for place in range(len(here)):
            here[place] = first[place]
        for column in range(0, len(tables), 2):
            one, other = tables[column, stored[row, column]], tables[column + 1, stored[row, column + 1]]
            for place in range(len(here)):
                here[place] += one[place] + other[place]
