"""A seal on an HDF5 file: the SHA-256 of all that follows it, in the file's user block.

HDF5's library trusts what it reads: a damaged file may crash it, hang it, or give other numbers. So a sealed file is
compared with its seal before the library sees it. The seal tells damage, not malice: anybody can set a new one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from uarch.errors import InputError

BLOCK = 512  # bytes; HDF5's smallest user block (format specification, §II.A)
_MARK = b"perfvec-seal sha256 "
_PIECE = 1 << 20


def _seal_of(file: BinaryIO) -> bytes:
    """The seal of what lies behind the user block."""
    digest = hashlib.sha256()
    file.seek(BLOCK)
    while piece := file.read(_PIECE):
        digest.update(piece)
    return (_MARK + digest.hexdigest().encode() + b"\n").ljust(BLOCK, b"\0")


def seal(path: Path) -> None:
    """Set the seal of a complete, closed file made with `userblock_size=BLOCK`."""
    with path.open("r+b") as file:
        block = _seal_of(file)
        file.seek(0)
        file.write(block)


def check_seal(path: Path, what: str) -> None:
    """Raise InputError unless `path` is a `what` file as `seal` left it. Reads it once, at about 1 GB/s."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected a {what} file")
    try:
        with path.open("rb") as file:
            found = file.read(BLOCK)
            if not found.startswith(_MARK):
                raise InputError(f"{path}: truncated, damaged, or not a {what} file of this release; extract it again")
            if found != _seal_of(file):
                raise InputError(f"{path}: its bytes are not those that were written (SHA-256); extract it again")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'unreadable').lower()}; expected a {what} file") from error
