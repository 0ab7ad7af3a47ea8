"""Texts of files that a user names: read whole from regular files, and JSON of which every fault is a ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from uarch.errors import InputError


def read_text(path: Path, what: str, encoding: str = "utf-8") -> str:
    """The text of a file; `what` names it in errors. Pipes and devices, which may never end, are refused. Raises
    InputError.
    """
    try:
        if path.exists() and not path.is_file():
            reason = "Is a directory" if path.is_dir() else "a pipe or a device; a regular file is expected"
        else:
            return path.read_text(encoding=encoding)  # gem5's Python may have another encoding
    except OSError as error:
        reason = error.strerror or "unreadable"
    except ValueError:  # also a name with a zero byte
        reason = "not a text file"
    raise InputError(f"cannot read {what} {path}: {reason}") from None


def require_writable_name(name: str) -> None:
    """Raise InputError for the name of a file, as Python takes it in, that is not UTF-8: results could not name it."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        near = name[max(0, error.start - 30) : error.end + 10]
        raise InputError(f"a name that is not UTF-8 cannot be written: {near!a}; rename the file") from None


def parse_json(text: str | bytes, **options: Any) -> Any:
    """As `json.loads`, which raises RecursionError too for what is nested too deeply. Raises ValueError."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None
