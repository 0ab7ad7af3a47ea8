"""What a long representation has done so far, kept in a file so that a killed one continues."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracegen.files import atomic_path

_EVERY_S = 20.0


class KeptIntervals:
    """Interval vectors and their instructions; `work` says of what, so that nothing else is taken for it."""

    def __init__(self, path: str | os.PathLike[str], work: str) -> None:
        self.path = Path(path)
        self._work = work
        self._written = time.monotonic()

    def read(self) -> tuple[list[NDArray[np.float64]], list[int]]:
        """What is there of this work; nothing where the file is absent, damaged or of other work."""
        try:
            with np.load(self.path, allow_pickle=False) as file:
                if str(file["work"]) == self._work and len(file["vectors"]) == len(file["counts"]):
                    return list(file["vectors"]), file["counts"].tolist()
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            pass  # it is only a shortcut
        return [], []

    def keep(self, vectors: list[NDArray[np.float64]], counts: list[int]) -> None:
        """Write it, unless that was done a moment ago."""
        if time.monotonic() - self._written < _EVERY_S:
            return
        with atomic_path(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, work=np.asarray(self._work), vectors=vectors, counts=counts)
        self._written = time.monotonic()
