"""A reader that does all that none may; without the others' imports, as it ends its process twice."""

from __future__ import annotations

import os
from pathlib import Path

from support.errors import InputError
from tests.fuzz.reader import Reader


def _wrong(path: Path) -> object:
    """Does wrong in each of six ways, one after another; a file says how often it was called."""
    count = path.with_name("count")
    case = int(count.read_text()) if count.exists() else 0
    if path.read_bytes() == b"selftest":
        return "whole"
    count.write_text(str(case + 1))
    if case == 0:
        os.abort()
    elif case == 1:
        while True:
            pass
    elif case == 2:
        bytearray(3 << 30)
    elif case == 3:
        raise KeyError("x")
    elif case == 4:
        raise InputError("two\nlines")
    return "other"


SELFTEST = Reader("selftest", lambda path: path.write_bytes(b"selftest"), _wrong, sealed=True)
