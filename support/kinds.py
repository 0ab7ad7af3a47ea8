"""Formats of files, whatever holds them (HDF5, NPZ, safetensors), so that an output replaces only one of its kind."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np

from support import seal
from support.errors import InputError
from support.files import DAMAGE, require_writable

_MOST_HEADER = 64 << 20  # bytes of a safetensors header that are read
_MOST_NAME = 4096  # bytes of an array that names a format


def require_output(path: str | os.PathLike[str], file_format: str) -> None:
    """Raise InputError unless a `file_format` file can be created at `path`, or replaces an older one (call it before
    long work).
    """
    require_writable(path)
    target = Path(path)
    if target.exists() and target.stat().st_size and format_of(target) != _name(file_format):
        raise InputError(
            f"{target}: is no {_name(file_format)} file, and would be replaced by one; name another, or remove it"
        )


def format_of(path: Path) -> str | None:
    """Return the format that a whole file names, without its version; None for a file that is not the toolkit's."""
    for look in (_of_h5, _of_npz, _of_safetensors):
        try:
            return _name(look(path))
        except (InputError, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, *DAMAGE):
            continue
    return None


def _name(file_format: str) -> str:
    return file_format.split("/")[0]


def _of_h5(path: Path) -> str:
    seal.check_seal(path, "HDF5")  # HDF5's library trusts what it reads
    with h5py.File(path, "r", locking=False) as file:
        return str(file.attrs["format"])


def _of_npz(path: Path) -> str:
    with zipfile.ZipFile(path) as archive, archive.open("format.npy") as member:
        if archive.getinfo("format.npy").file_size > _MOST_NAME:
            raise ValueError("no name")
        return str(np.lib.format.read_array(member, allow_pickle=False))


def _of_safetensors(path: Path) -> str:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MOST_HEADER:
            raise ValueError("not a header")
        return str(json.loads(file.read(length))["__metadata__"]["format"])
