"""A seal on an HDF5 file, in its user block: the SHA-256 of the SHA-256s of all that follows, by parts of 64 MiB.

HDF5's library trusts what it reads: a damaged file may crash it, hang it, or give other numbers. So a sealed file is
compared with its seal before the library sees it, by as many threads as there are processors. The seal tells damage,
not malice: anybody can set a new one. HDF5's own checksums cover the stored chunks alone, not the metadata that leads
the library to them, and come too late. A check reads 1,157 MB/s a thread (`benchmarks/libraries.py`, 2026-11-25, two
cores of an AMD EPYC virtual machine).
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.errors import InputError
from support.processors import processors

BLOCK = 512  # bytes; HDF5's smallest user block (format specification, §II.A)
_MARK = b"perfvec-seal-2 sha256 "
PART = 64 << 20
_READ = 1 << 20


def _digest(path: Path, begin: int, end: int) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(begin)
        while begin < end and (read := file.read(min(_READ, end - begin))):
            digest.update(read)
            begin += len(read)
    return digest.digest()


def _seal_of(path: Path) -> bytes:
    """The user block that seals what lies behind it."""
    size = path.stat().st_size
    begins = range(BLOCK, size, PART)
    with ThreadPoolExecutor(processors()) as threads:
        parts = threads.map(lambda begin: _digest(path, begin, min(begin + PART, size)), begins)
        whole = hashlib.sha256(b"".join(parts)).digest()
    return (_MARK + whole.hex().encode() + b"\n").ljust(BLOCK, b"\0")


def seal(path: Path) -> None:
    """Set the seal of a complete, closed file made with `userblock_size=BLOCK`."""
    block = _seal_of(path)
    with path.open("r+b") as file:
        file.write(block)


def check_seal(path: Path, what: str) -> None:
    """Raise InputError unless `path` is a `what` file as `seal` left it.

    Reads it once, at half a gigabyte a second and thread, twice that where the processor has SHA instructions.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected a {what} file")
    try:
        with path.open("rb") as file:
            found = file.read(BLOCK)
        if not found.startswith(_MARK):
            raise InputError(f"{path}: truncated, damaged, or not a {what} file of this release; extract it again")
        if found != _seal_of(path):
            raise InputError(f"{path}: its bytes are not those that were written (SHA-256); extract it again")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'unreadable').lower()}; expected a {what} file") from error


def sealed_digest(path: Path) -> str:
    """SHA-256, in hexadecimal digits, of what a seal seals of this file: read from its seal where it has one."""
    with path.open("rb") as file:
        found = file.read(BLOCK)
    block = found if found.startswith(_MARK) else _seal_of(path)
    return block[len(_MARK) :].split(b"\n")[0].decode()
