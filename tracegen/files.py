"""HDF5 files that are whole or absent: written under a temporary name and renamed; read with clear errors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from uarch.errors import InputError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it there on success, remove it on any exception."""
    target = Path(path)
    require_writable(target)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        executable = temporary.stat().st_mode & 0o111
        temporary.chmod((0o666 | executable) & ~umask)  # mkstemp's 0600 is for secrets
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless a file can be created at `path` (call it before long work)."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file to write")
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{target}: the folder {target.parent} is not writable")


@contextmanager
def open_h5(path: str | os.PathLike[str], file_format: str, version: int) -> Iterator[h5py.File]:
    """Open an HDF5 file of the toolkit for reading, checking its format name and version."""
    file = _open(Path(path), file_format, version)
    try:
        yield file
    finally:
        file.close()


def _open(path: Path, file_format: str, version: int) -> h5py.File:
    if not path.exists():
        raise InputError(f"{path}: no such file; expected a {file_format} file")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected a {file_format} file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path}: truncated, or not an HDF5 file; expected a {file_format} file") from error
    found = file.attrs.get("format")
    if found != file_format:
        file.close()
        raise InputError(f"{path}: holds {found or 'foreign data'!r}; expected the format {file_format!r}")
    if int(file.attrs.get("version", 0)) != version:
        found_version = file.attrs.get("version")
        file.close()
        raise InputError(f"{path}: version {found_version} of {file_format}; this release reads version {version}")
    return file


def read_dataset(file: h5py.File, name: str, dtype: str, dimensions: int = 1) -> h5py.Dataset:
    """The dataset `name`, checked for presence, element type and number of dimensions."""
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset):
        raise InputError(f"{file.filename}: the dataset {name!r} is missing; the file is incomplete or foreign")
    if dataset.dtype != dtype or dataset.ndim != dimensions:
        raise InputError(
            f"{file.filename}: {name!r} is {dataset.dtype}{list(dataset.shape)}; "
            f"expected {dtype} with {dimensions} dimensions"
        )
    return dataset


def read_slice(dataset: h5py.Dataset, selection: Any) -> Any:
    """`dataset[selection]`, with damage in the file reported as a single line."""
    try:
        return dataset[selection]
    except OSError as error:
        raise InputError(f"{dataset.file.filename}: {dataset.name} cannot be read; the file is damaged") from error
