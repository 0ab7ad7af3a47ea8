"""Latency files of version 1, as older releases wrote them: 16 bits a latency, 65,535 for a longer one."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from support.seal import seal


def as_version_1(path: Path) -> None:
    """Make a latency file one of version 1."""
    with h5py.File(path, "r+") as file:
        latency = np.minimum(file["latency"][:], 65_535).astype("<u2")
        del file["latency"]
        file["latency"] = latency
        file.attrs["version"] = 1
    seal(path)
