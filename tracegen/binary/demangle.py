"""Names of C++ as in the source (Itanium C++ ABI, section 5.1), by the C++ library that the core needs too."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

_LONGEST = 2048  # characters of a name: the library recurses


@cache
def _library() -> Callable[[str], str | None]:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        demangle, free = library.__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return lambda name: None
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.restype, free.argtypes = None, [ctypes.c_void_p]

    def found(name: str) -> str | None:
        text = demangle(name.encode(), None, None, None)
        if not text:
            return None
        try:
            return ctypes.string_at(text).decode(errors="replace")
        finally:
            free(text)

    return found


def demangled(name: str) -> str:
    """Return the function with its parameters, as `run(long)` for `_Z3runl`; other names as they are."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return name
    return _library()(name) or name


def without_parameters(name: str) -> str:
    """Return the demangled name up to its parameters: `run` for `run(long)`."""
    depth = 0
    for place, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0 and not name.startswith("(anonymous", place):
            return name[:place] if place and not name[:place].endswith("operator") else name
    return name
