"""A column of a trace, read in order: its blocks are decoded by threads ahead of the reader, without HDF5's lock."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from support.files import damage_in, read_slice
from tracegen.formats import lzf

WORKERS = 2  # threads that encode and decode blocks
_AHEAD = 2  # blocks decoded before they are asked for


class ColumnReader:
    """Elements up to `stop` of the dataset `column`, by ranges that never go back; `pool` decodes.

    Columns stored otherwise than TraceWriter stores them are read by HDF5. Raises InputError where the file is damaged.
    """

    def __init__(self, column: h5py.Dataset, stop: int, pool: ThreadPoolExecutor) -> None:
        self._column, self._stop, self._pool = column, stop, pool
        self._block = (column.chunks or (0,))[0]
        self._ours = (
            column.ndim == 1
            and column.compression == "lzf"
            and column.shuffle is True
            and not column.fletcher32
            and not column.scaleoffset
        )
        self._blocks: deque[tuple[int, Future[NDArray[Any]]]] = deque()  # by their first element
        self._next = 0

    def read(self, begin: int, end: int) -> NDArray[Any]:
        """Elements [begin, end); `begin` and `end` not before those of the last call."""
        if not self._ours:
            return read_slice(self._column, slice(begin, end))
        while self._blocks and self._blocks[0][0] + self._block <= begin:
            self._blocks.popleft()
        if not self._blocks:
            self._next = max(self._next, begin - begin % self._block)
        with damage_in(self._column.file.filename, self._column.name):
            while self._next < min(end + _AHEAD * self._block, self._stop):
                mask, stored = self._column.id.read_direct_chunk((self._next,))
                decoding = self._pool.submit(lzf.decode, stored, mask, self._column.dtype.str, self._block)
                self._blocks.append((self._next, decoding))
                self._next += self._block
            parts = [
                block.result()[max(0, begin - first) : end - first] for first, block in self._blocks if first < end
            ]
        if not parts:
            return np.empty(0, self._column.dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
