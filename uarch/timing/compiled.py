"""How the functions of the timing model are compiled.

They only read and write arrays that Python owns and keeps alive during the call, so numba's reference counting is left
out (`_nrt=False`): its atomic operations on every view would take most of the time. Such functions cannot allocate.
Division by zero is not checked for (`error_model`): no divisor here can be zero in a valid machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """For what is short or hot: copied into each caller, as passing a tuple of arrays costs more than most bodies."""
    return njit(**_OPTIONS, forceinline=True)(function)


def out_of_line(function: Function) -> Function:
    """For what is long or rare. Give such a function its numbers through `number`: each literal that an argument is
    called with would otherwise make another copy to compile.

    Without `forceinline` numba would take it from the caller for which the function is compiled first.
    """
    return njit(**_OPTIONS, forceinline=False)(function)


def merged(function: Function) -> Function:
    """For the one large function in a kernel's loop: becomes part of it before anything is compiled."""
    return njit(**_OPTIONS, inline="always", forceinline=False)(function)


def kernel(function: Function) -> Function:
    """An outermost function: kept on disk between processes, and running without Python's lock."""
    return njit(**_OPTIONS, forceinline=False, cache=True, nogil=True)(function)


@compiled
def number(value: int) -> int:
    """`value` as a plain 64-bit number, whatever type or literal it was."""
    return int(np.int64(value))
