"""Progress of a long representation, kept in a file so that a killed one continues."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.arrays import load_arrays, save_arrays
from support.errors import InputError

FORMAT = "perfvec-intervals/1"
EVERY_S = 20.0
_KINDS = {"work": "U0", "vectors": "f2", "counts": "i1"}


class KeptIntervals:
    """Interval vectors and their instructions; `work` says of what, so that nothing else is taken for it."""

    def __init__(self, path: str | os.PathLike[str], work: str) -> None:
        self.path = Path(path)
        self._work = work
        self._written = time.monotonic()

    def read(self) -> tuple[list[NDArray[np.float64]], list[int]]:
        """Return what was kept of this work; nothing where the file is absent, damaged or of other work."""
        try:
            found = load_arrays(self.path, FORMAT, _KINDS, what="intervals kept")
        except InputError:
            return [], []  # it is only a shortcut
        same = str(found["work"]) == self._work and len(found["vectors"]) == len(found["counts"])
        return (list(found["vectors"]), found["counts"].tolist()) if same else ([], [])

    def keep(self, vectors: list[NDArray[np.float64]], counts: list[int]) -> None:
        """Write it, unless that was done a moment ago."""
        if time.monotonic() - self._written < EVERY_S:
            return
        save_arrays(self.path, FORMAT, {"work": self._work, "vectors": vectors, "counts": counts})
        self._written = time.monotonic()
