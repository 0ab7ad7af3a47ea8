"""The check that an HDF5 dataset can be in its file, before memory is taken for what it claims to be."""

from __future__ import annotations

import math
from pathlib import Path

import h5py

from support.errors import InputError

_MAX_CHUNK = 256 << 20  # bytes that HDF5 decodes at once
_MAX_RATIO: dict[str | None, int] = {"gzip": 1032, "lzf": 128, "szip": 4096, None: 1}  # of compression, at most
_OTHER_RATIO = 1 << 16
_SLACK = 1 << 20  # bytes that may be claimed in any case


def require_stored(dataset: h5py.Dataset) -> None:
    """Raise InputError unless the file itself can hold what the dataset claims to be."""
    path, name = dataset.file.filename, dataset.name
    if dataset.is_virtual or dataset.external:
        raise InputError(f"{path}: {name} points to other files; expected the data itself")
    width = max(dataset.dtype.itemsize, 1)
    chunk = math.prod(dataset.chunks or (1,)) * width
    if chunk > _MAX_CHUNK:
        raise InputError(f"{path}: {name} has chunks of {chunk:,} bytes; at most {_MAX_CHUNK:,} are expected")
    claimed = math.prod(dataset.shape) * width
    stored = min(dataset.id.get_storage_size(), Path(path).stat().st_size)
    ratio = _MAX_RATIO.get(dataset.compression, _OTHER_RATIO) if _is_known(dataset) else _OTHER_RATIO
    if claimed > _SLACK + chunk + ratio * stored:
        raise InputError(f"{path}: {name} claims {claimed:,} bytes where {stored:,} are stored; the file is damaged")


def _is_known(dataset: h5py.Dataset) -> bool:
    """Return whether h5py's `compression` names all that may shrink a chunk."""
    known = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF}
    properties = dataset.id.get_create_plist()
    return all(properties.get_filter(index)[0] in known for index in range(properties.get_nfilters()))
