"""How the functions of the timing model are compiled.

They only read and write arrays that Python owns and keeps alive during the call, so numba's reference counting is left
out (`_nrt=False`): its atomic operations on every view would take most of the time. Such functions cannot allocate.
Division by zero is not checked for (`error_model`): no divisor here can be zero in a valid machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    return njit(**_OPTIONS)(function)


def out_of_line(function: Function) -> Function:
    """As `compiled`, for what is long or rare: the compiler keeps one copy instead of one in each caller."""
    return njit(**_OPTIONS)(function)


def kernel(function: Function) -> Function:
    """An outermost function: kept on disk between processes, and running without Python's lock."""
    return njit(**_OPTIONS, cache=True, nogil=True)(function)
