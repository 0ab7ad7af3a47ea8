"""Names of C++ as in the source (Itanium C++ ABI, section 5.1), by the C++ library that the core needs too; and Rust's
`legacy` ones, such names with signs spelt out and a hash behind (rust-lang/rust, compiler/rustc_symbol_mangling).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

_LONGEST = 2048  # characters of a name: the library recurses
_RUST = re.compile(r"::h[0-9a-f]{16}$")
_SIGNS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_SPELT = re.compile(rf"\$(?:({'|'.join(_SIGNS)})|u([2-7][0-9a-f]))\$")


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
    found = _library()(name) or name
    return _of_rust(_RUST.sub("", found)) if _RUST.search(found) else found


def _of_rust(path: str) -> str:
    """`<[T] as a::B>::f` for `_$LT$$u5b$T$u5d$$u20$as$u20$a..B$GT$::f`."""
    parts = [part.removeprefix("_") if part.startswith("_$") else part for part in path.split("::")]
    text = "::".join(parts).replace("..", "::")
    return _SPELT.sub(lambda found: _SIGNS[found[1]] if found[1] else chr(int(found[2], 16)), text)


def without_parameters(name: str) -> str:
    """Return the demangled name up to its parameters: `run` for `run(long)`."""
    depth = 0
    for place, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0 and not name.startswith("(anonymous", place):
            return name[:place] if place and not name[:place].endswith("operator") else name
    return name
