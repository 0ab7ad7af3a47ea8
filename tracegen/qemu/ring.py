"""The ring of slots through which the plugin hands a thread's words over while the program runs (plugin.c)."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError

SLOT_WORDS = 1 << 17  # as in plugin.c
_HEADER = 4096
_SLOTS, _READY, _FILLED, _EMPTIED, _FAILED = range(5)  # struct ring
_BATCH = 4  # slots read at once


class Ring:
    """One thread's ring. What was read is zeroed and given back; a zero word ends the stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), 0)
        self._header = np.frombuffer(self._map, "<u8", _HEADER // 8)
        self._words = np.frombuffer(self._map, "<u8", offset=_HEADER)
        self._slots = int(self._header[_SLOTS])
        if self._slots < 1 or len(self._words) != self._slots * SLOT_WORDS:
            raise InputError(f"{path}: {len(self._words)} words of records in {self._slots} slots; damaged")

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

    def full_slots(self) -> Iterator[NDArray[np.uint64]]:
        """The words of the slots that are full; each array is valid until the next one is asked for."""
        emptied, filled = int(self._header[_EMPTIED]), int(self._header[_FILLED])
        if not emptied <= filled <= emptied + self._slots:
            raise InputError(f"{self._path}: slot {filled} filled, {emptied} read, of {self._slots}; damaged")
        while emptied < filled:
            first = emptied % self._slots
            count = min(filled - emptied, _BATCH, self._slots - first)
            part = self._words[first * SLOT_WORDS : (first + count) * SLOT_WORDS]
            yield part
            part[:] = 0
            emptied += count
            self._header[_EMPTIED] = emptied

    def last_slot(self) -> NDArray[np.uint64]:
        """The words of the slot that was being filled when the program ended, and the zeros after them."""
        first = int(self._header[_FILLED]) % self._slots
        return self._words[first * SLOT_WORDS : (first + 1) * SLOT_WORDS]

    def close(self) -> None:
        """Let go of the file."""
        del self._header, self._words
        with contextlib.suppress(BufferError):  # a slot that is still being read keeps the mapping
            self._map.close()
