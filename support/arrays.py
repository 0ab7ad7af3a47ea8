"""NPZ files of the toolkit: a digest inside, and everything checked before it is believed.

The file names its format and the SHA-256 of its arrays. Reading refuses member names that the caller does not expect,
and compares what the archive's directory and the arrays' headers claim with limits before it makes room for it. Only
headers as `numpy.save` writes them are read, and by a pattern: nothing of the file is evaluated.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.files import atomic_path

LIMIT = 256 << 20  # bytes of all arrays together
_MEMBERS = 64  # of an archive, at most
_OWN = {"format": "U0", "digest": "U0"}
_END = 22  # bytes of the archive's end record without a comment (PKWARE APPNOTE, 4.3.16)
_LOCATOR = 20  # bytes of the record of an archive of 2^16 members or 4 GiB (4.3.15)
_PART = 1 << 20  # bytes read at once
_HEADER = re.compile(
    rb"\{'descr': '([<|])([biufU])(\d{1,6})', 'fortran_order': False, 'shape': \(((?:\d{1,12}, ?)*\d{0,12})\), \} *\n"
)
_DAMAGE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, TypeError)


def save_arrays(path: str | os.PathLike[str], file_format: str, arrays: Mapping[str, Any]) -> None:
    """Write the arrays (numbers and texts are arrays without dimensions) with format and digest, atomically.

    Raises InputError where they are larger than `load_arrays` would read.
    """
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        write_arrays(file, path, file_format, arrays)


def write_arrays(file: IO[bytes], path: str | os.PathLike[str], file_format: str, arrays: Mapping[str, Any]) -> None:
    """Write as `save_arrays`, into an open file; `path` is what an error names."""
    values = {name: np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in arrays.items()}
    values["format"] = np.asarray(file_format)
    total = sum(value.nbytes for value in values.values())
    if total > LIMIT:
        raise InputError(f"{path}: would hold {total:,} bytes; at most {LIMIT:,} are read again: use fewer intervals")
    values["digest"] = np.asarray(digest(values))
    np.savez_compressed(file, allow_pickle=False, **values)


def load_arrays(
    path: str | os.PathLike[str],
    file_format: str,
    kinds: Mapping[str, str],
    optional: Mapping[str, str] | None = None,
    *,
    what: str,
) -> dict[str, NDArray[Any]]:
    """The arrays of a file that `save_arrays` wrote.

    `kinds` gives each array's type and number of dimensions, as "f2": b, i, u, f and U as NumPy's letters. Of
    `optional` all or none are there. Raises InputError, which calls the file a `what`, for any other file.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file; expected {what}")
    if not path.is_file():
        raise InputError(f"{path}: is {'a folder' if path.is_dir() else 'a pipe or a device'}; expected {what}")
    with _damage_of(path, what):
        file = path.open("rb")
    with file:
        return read_arrays(file, path, file_format, kinds, optional, what=what)


@contextmanager
def _damage_of(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Raise InputError for a file that cannot be read as an archive."""
    try:
        yield
    except (*_DAMAGE, MemoryError) as error:
        raise InputError(f"{path}: truncated or foreign; expected {what}") from error


def read_arrays(
    file: IO[bytes],
    path: str | os.PathLike[str],
    file_format: str,
    kinds: Mapping[str, str],
    optional: Mapping[str, str] | None = None,
    *,
    what: str,
) -> dict[str, NDArray[Any]]:
    """Read as `load_arrays`, of an open file; `path` is what an error names."""
    with _damage_of(path, what):
        values = _read(file)
    found = values.get("format")
    if found is None or found.dtype.kind != "U" or found.ndim:
        raise InputError(f"{path}: names no format; expected {what}")
    if str(found) != file_format:
        raise InputError(f"{path}: holds {str(found)[:60]!r}; this release reads {file_format!r}: make it again")
    if str(values.get("digest")) != digest(values):
        raise InputError(f"{path}: damaged: its content has another digest than it says; make it again")
    expected = {**kinds, **_OWN}
    if optional and optional.keys() & values.keys():
        expected |= optional
    if values.keys() != expected.keys():
        names = ", ".join(sorted(values.keys() ^ expected.keys()))[:80]
        raise InputError(f"{path}: its arrays are not those of {what} ({names})")
    for name, kind in expected.items():
        if f"{values[name].dtype.kind}{values[name].ndim}" != kind:
            raise InputError(f"{path}: {name!r} is {values[name].dtype}{list(values[name].shape)}; expected {what}")
    return {name: values[name] for name in values if name not in _OWN}


def digest(values: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of arrays with their names, types and shapes, in the order of the names; without one called `digest`."""
    found = hashlib.sha256()
    for name in sorted(values):
        if name != "digest":
            found.update(f"{name} {values[name].dtype.str} {list(values[name].shape)}\n".encode())
            found.update(np.ascontiguousarray(values[name]).data)
    return found.hexdigest()


def _read(file: IO[bytes]) -> dict[str, NDArray[Any]]:
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > LIMIT:
            raise ValueError("more bytes than are read")
        if len({member.filename for member in members}) != len(members):
            raise ValueError("a name twice")
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _check_directory(file: IO[bytes]) -> None:
    """Raise ValueError unless the archive ends as NumPy writes it, with a directory of few members."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(max(size - _END - _LOCATOR, 0))
    locator, end = (tail := file.read())[:-_END], tail[-_END:]
    count, length = int.from_bytes(end[10:12], "little"), int.from_bytes(end[12:16], "little")
    if not end.startswith(b"PK\5\6") or locator.startswith(b"PK\6\7") or end[20:] != b"\0\0":
        raise ValueError("not the end of an archive")
    if count > _MEMBERS or length > _MEMBERS << 9:
        raise ValueError("a directory of many members")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("compressed in another way")
    with archive.open(member) as stream:
        prefix = stream.read(10)
        if prefix[:8] != b"\x93NUMPY\1\0":
            raise ValueError("not an array")
        header = _HEADER.fullmatch(stream.read(int.from_bytes(prefix[8:], "little")))
        if header is None:
            raise ValueError("an array of another kind")
        order, kind, width, extents = (part.decode() for part in header.groups())
        dtype = np.dtype(f"{order}{kind}{width}")
        shape = tuple(int(extent) for extent in extents.split(",") if extent.strip())
        bytes_there = member.file_size - 10 - len(header[0])
        if len(shape) > 4 or math.prod(shape) * dtype.itemsize != bytes_there:
            raise ValueError("an array of another size")
        data = bytearray(bytes_there)
        for begin in range(0, bytes_there, _PART):
            part = stream.read(min(_PART, bytes_there - begin))
            data[begin : begin + len(part)] = part
            if len(part) != min(_PART, bytes_there - begin):
                raise EOFError
        if stream.read(1):  # also compares the archive's checksum
            raise ValueError("more than the array")
    if kind == "U" and (np.frombuffer(data, np.uint32) > 0x10FFFF).any():
        raise ValueError("texts of no characters")
    return np.frombuffer(data, dtype).reshape(shape)
