"""Texts: files read whole, JSON of which every fault is a ValueError, and wrong values as error messages show them."""

from __future__ import annotations

import difflib
import json
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.errors import InputError


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
    """Parse as `json.loads`, which raises RecursionError too for what is nested too deeply. Raises ValueError."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None


_SHORT = reprlib.Repr()  # shortens before it formats: a value may be of any size
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 200


def show(value: Any) -> str:
    """A wrong value for an error message: one line of at most 60 letters."""
    try:
        text = " ".join(_SHORT.repr(value).split())
    except ValueError:  # an integer of thousands of digits
        text = "an enormous number"
    return text if len(text) <= 60 else text[:57] + "..."


def name_of(name: Any) -> str:
    """A name as it is where that is one line, else quoted."""
    return name if isinstance(name, str) and name.isprintable() and 0 < len(name) <= 60 else show(name)


def nearest(name: Any, names: Iterable[str]) -> str:
    """' (did you mean x?)' where some name is close, else nothing."""
    close = difflib.get_close_matches(name_of(name), list(names), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def short(name: str, width: int) -> str:
    """`name` within `width` letters; its two ends tell names apart."""
    keep = width - 1
    return name if len(name) <= width else f"{name[: keep // 2]}…{name[len(name) - (keep - keep // 2) :]}"
