"""HDF5 datasets that grow while they are written: numbers, rows of numbers, and ragged rows with their offsets."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

CHUNK_ROWS = 1 << 13  # of an HDF5 chunk
_TEXT_BYTES = 1 << 18  # of an HDF5 chunk
BUFFER = 8 << 20  # bytes that wait for a write


class Column:
    """A growing dataset; what is appended waits until a write is worth it."""

    def __init__(
        self, file: h5py.File, name: str, dtype: str, width: int | None = None, rows: int = CHUNK_ROWS
    ) -> None:
        inner = () if width is None else (width,)
        self.dataset = file.create_dataset(
            name,
            (0, *inner),
            dtype,
            maxshape=(None, *inner),
            chunks=(max(rows // (width or 1), 1), *inner),
            compression="gzip",
            compression_opts=4,
            shuffle=np.dtype(dtype).kind != "S",
        )
        self.length = 0
        self._waiting: list[NDArray[Any]] = []
        self._bytes = 0

    def append(self, data: NDArray[Any]) -> None:
        self._waiting.append(data)
        self._bytes += data.nbytes + 64
        self.length += len(data)
        if self._bytes > BUFFER:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            old = self.dataset.shape[0]
            self.dataset.resize(self.length, axis=0)
            self.dataset[old:] = np.concatenate(self._waiting)
            self._waiting, self._bytes = [], 0


class Numbers:
    """A column of numbers that come one by one."""

    def __init__(self, file: h5py.File, name: str, dtype: str) -> None:
        self._column, self._dtype = Column(file, name, dtype), dtype
        self._waiting: list[Any] = []

    def append(self, value: Any) -> None:
        self._waiting.append(value)
        if len(self._waiting) == CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        self._column.append(np.array(self._waiting, self._dtype))
        self._column.flush()
        self._waiting = []


class Ragged:
    """Rows of any number per schedule, with their offsets, and positions where the group has them."""

    def __init__(self, file: h5py.File, name: str, values: str, dtype: str, *, position: bool = False) -> None:
        self._file, self._name, self._values, self._dtype = file, name, values, dtype
        self._offset = Numbers(file, f"{name}/offset", "<u8")
        self._offset.append(0)
        self._position = Column(file, f"{name}/position", "<i4") if position else None
        self._column: Column | None = None
        self.length = 0

    def append(self, values: NDArray[Any], position: NDArray[np.int32] | None = None) -> None:
        if len(values):
            if self._column is None:
                self._create(values.shape[1] if values.ndim == 2 else None)
            assert self._column is not None
            self._column.append(values)
            if self._position is not None and position is not None:
                self._position.append(position)
            self.length += len(values)
        self._offset.append(self.length)

    @property
    def width(self) -> int | None:
        """Columns; None before the first rows."""
        return None if self._column is None else self._column.dataset.shape[1]

    def _create(self, width: int | None) -> None:
        rows = _TEXT_BYTES if width is None else CHUNK_ROWS * 8
        self._column = Column(self._file, f"{self._name}/{self._values}", self._dtype, width, rows)

    def finish(self, width: int | None) -> None:
        if self._column is None:
            self._create(width)
        for column in (self._column, self._position, self._offset):
            if column is not None:
                column.flush()
