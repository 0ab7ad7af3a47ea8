"""Features that are expanded where the model runs: a GPU is sent bytes and static instructions, not the model's inputs.

Of the schema `default` that is 18 bytes an instruction instead of 680, and the processor has only to extract.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tracegen.features import Schema


class DeviceFeatures:
    """Static features [S, static width] and the columns' tables on a device; the same numbers as `schema.expand`."""

    def __init__(self, schema: Schema, static: NDArray[np.float32], device: torch.device) -> None:
        self._device = device
        self._static = torch.from_numpy(static).to(device)
        self._tables = [
            column.scale if column.table is None else torch.from_numpy(column.table).to(device)
            for column in schema.columns
        ]

    def load(self, static_id: NDArray[np.uint32], stored: NDArray) -> None:
        """Send the instructions that `expand` is then asked for: `static_id` [n], `stored` [n, columns]."""
        self._id = torch.from_numpy(static_id.astype(np.int32)).to(self._device)
        wide = stored if stored.dtype == np.uint8 else stored.astype(np.int32)  # torch indexes by few types
        self._stored = torch.from_numpy(wide).to(self._device)

    def expand(self, row: NDArray[np.int64]) -> Tensor:
        """[..., width] of the loaded instructions `row` [...]."""
        index = torch.from_numpy(row).to(self._device)
        stored = self._stored[index].int()
        parts = [self._static[self._id[index]]]
        for column, table in enumerate(self._tables):
            value = stored[..., column]
            parts.append(table[value] if isinstance(table, Tensor) else (value.float() * table)[..., None])
        return torch.cat(parts, dim=-1)
