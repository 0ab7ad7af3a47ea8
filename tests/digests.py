"""Digests of files, computed anew from what is in them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import h5py

from tracegen.tensor.dataset import format as dataset_format

OF_A_TRACE = (  # docs/reference/file-formats.md
    *("static/address", "static/code", "dynamic/static_id"),
    *("memory/instruction", "memory/address", "memory/size", "memory/is_store"),
    *("system_calls/instruction", "system_calls/number", "divisions/instruction", "divisions/steps"),
)


def trace_digest(path: Path) -> str:
    """Return the SHA-256 over the datasets of a trace that are there, in order."""
    hasher = hashlib.sha256()
    with h5py.File(path, locking=False) as file:  # it may be open
        for name in OF_A_TRACE:
            if name in file:
                hasher.update(file[name][()].tobytes())
    return hasher.hexdigest()


def dataset_digest(path: Path) -> str:
    """Return the digest of a dataset's content."""
    with h5py.File(path, locking=False) as file:  # it may be open
        return dataset_format.digest(file, ["tasks", "devices", "schedules", "records", "features"])
