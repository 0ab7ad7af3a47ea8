"""The ring of windows through which the plugin hands a thread's words over while the program runs (plugin.c)."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError

WINDOW_WORDS = 1 << 17  # as in plugin.c
_HEADER = 4096
_WINDOWS, _READY, _FILLED, _EMPTIED, _FAILED = range(5)  # struct ring
_BATCH = 4  # windows read at once


class Ring:
    """One thread's ring. What was read is zeroed and given back; a zero word ends the stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), 0)
        self._header = np.frombuffer(self._map, "<u8", _HEADER // 8)
        self._words = np.frombuffer(self._map, "<u8", offset=_HEADER)
        self._windows = int(self._header[_WINDOWS])
        if self._windows < 1 or len(self._words) != self._windows * WINDOW_WORDS:
            raise InputError(f"{path}: {len(self._words)} words of records in {self._windows} windows; damaged")

    @staticmethod
    def is_laid_out(path: Path) -> bool:
        """Return whether the plugin has given the file its full size (its first word comes after that)."""
        if not path.exists() or path.stat().st_size <= _HEADER:
            return False
        with path.open("rb") as stream:
            return any(stream.read(8))

    @property
    def has_records(self) -> bool:
        """Return whether recording has started (it has not before `skip` instructions, or outside a region)."""
        return bool(self._header[_READY]) and bool(self._header[_FILLED] or self._words[0])

    @property
    def failed(self) -> bool:
        """Return whether the plugin had to give up for want of disk space."""
        return bool(self._header[_FAILED])

    def full_windows(self) -> Iterator[NDArray[np.uint64]]:
        """The words of the windows that are full; each array is valid until the next one is asked for."""
        emptied, filled = int(self._header[_EMPTIED]), int(self._header[_FILLED])
        if not emptied <= filled <= emptied + self._windows:
            raise InputError(f"{self._path}: window {filled} filled, {emptied} read, of {self._windows}; damaged")
        while emptied < filled:
            first = emptied % self._windows
            count = min(filled - emptied, _BATCH, self._windows - first)
            part = self._words[first * WINDOW_WORDS : (first + count) * WINDOW_WORDS]
            yield part
            part[:] = 0
            emptied += count
            self._header[_EMPTIED] = emptied

    def last_window(self) -> NDArray[np.uint64]:
        """The words of the window that was being filled when the program ended, and the zeros after them."""
        first = int(self._header[_FILLED]) % self._windows
        return self._words[first * WINDOW_WORDS : (first + 1) * WINDOW_WORDS]

    def close(self) -> None:
        """Let go of the file."""
        del self._header, self._words
        with contextlib.suppress(BufferError):  # a window that is still being read keeps the mapping
            self._map.close()
