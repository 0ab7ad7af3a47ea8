"""Texts of JSON records, one a line, plain or gzip: read as a stream, with the place of every line that is no record.

Only JSON is read, so that a hostile text executes nothing; a line has a bounded length.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from support.errors import InputError

MAX_LINE = 4 << 20  # bytes; records have some 1,000 to 20,000
_BROKEN = (OSError, EOFError, zlib.error)

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Problem:
    """A line that is not a record: `reason` is what such lines are counted by, `detail` says it of this one."""

    path: Path
    line: int
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.detail}"


class RecordError(InputError):
    """Error of a line that holds no record."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_lines(
    path: str | os.PathLike[str], parse: Callable[[bytes], Parsed], limit: int = MAX_LINE
) -> Iterator[tuple[int, Parsed | Problem]]:
    """(line number, what `parse` makes of it or a problem) of all but blank lines and those that begin with #.

    Memory: one line. Raises InputError where the file cannot be opened; a stream that breaks early is a Problem.
    """
    path = Path(path)
    with _open(path) as file:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(limit + 1)
                if len(line) > limit:
                    yield number, Problem(path, number, "too long", f"a line of more than {limit:,} bytes")
                    while line and not line.endswith(b"\n"):
                        line = file.readline(limit)
                    continue
            except _BROKEN as error:
                yield number, Problem(path, number, "unreadable", f"the file cannot be read on ({short(error)})")
                return
            if not line:
                return
            if not line.strip() or line.lstrip().startswith(b"#"):
                continue
            try:
                yield number, parse(line)
            except RecordError as error:
                yield number, Problem(path, number, error.reason, str(error))


def _open(path: Path) -> BinaryIO:
    try:
        file = path.open("rb")
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
    except OSError as error:
        raise InputError(
            f"{path}: {(error.strerror or 'unreadable').lower()}; a file of records is expected"
        ) from error
    return gzip.GzipFile(fileobj=file, mode="rb") if packed else file  # type: ignore[return-value]


def document(text: str | bytes, what: str = "no JSON") -> Any:
    """Parse a JSON text. Refused are NaN and Infinity, which JSON has not, numbers that a float cannot hold, and texts
    that a file cannot: with a NUL, or half a character. Raises RecordError.
    """
    try:
        found = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
            _require_storable(found)
        return found
    except (ValueError, RecursionError) as error:
        raise RecordError(what, f"{what} ({short(error)})") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond a float")
    return number


def _require_storable(value: Any) -> None:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for one in value:
            _require_storable(one)
    elif isinstance(value, str):
        if "\0" in value:
            raise ValueError("a text has a NUL")
        if any("\ud800" <= one <= "\udfff" for one in value):
            raise ValueError("a text has half a character")


def short(value: object, length: int = 80) -> str:
    """Any value on one line of a message."""
    text = " ".join(str(value).split())
    return text if len(text) <= length else f"{text[: length - 3]}..."


def is_number(value: Any) -> bool:
    """Return whether JSON gave a number that a float can hold."""
    return type(value) in (int, float) and abs(value) < 1e300
