"""Numba, as it compiles the inner loops of tracegen.

They only read and write arrays that Python owns and keeps alive during the call, so numba's reference counting is left
out (`_nrt=False`): its atomic operations on every view would take most of the time. Such functions cannot allocate.
Division by zero is not checked for (`error_model`): they divide by nothing that can be zero.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from hashlib import sha256
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core.typing.typeof import Purpose, typeof

Function = TypeVar("Function", bound=Callable[..., Any])


_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """Compile what is short or hot into each caller: passing a tuple of arrays costs more than most bodies."""
    return njit(**_OPTIONS, forceinline=True)(function)


def cached(**options: Any) -> Callable[[Function], Function]:
    """Compile as numba's `njit`, kept on disk between processes or, where no folder can be written, compiled again."""

    def decorate(function: Function) -> Function:
        try:
            return _whatever_is_kept(njit(cache=True, **options)(function))
        except RuntimeError:  # of numba: neither beside the source nor in the home folder
            _tell_of_no_cache()
            return njit(**options)(function)

    return decorate


def _whatever_is_kept(dispatcher: Any) -> Any:
    """Return `dispatcher`, which compiles where what its cache holds cannot be read, and goes on where it cannot be
    written (a full disk).

    Numba unpickles it before it looks whether it is of this source, and a file may be cut short, or of a release whose
    modules had other names.
    """
    kept = dispatcher._cache
    kept._cache_file._source_stamp = _sources(Path(dispatcher.py_func.__code__.co_filename))
    load, save = kept.load_overload, kept.save_overload

    def load_overload(signature: Any, target: Any) -> Any:
        try:
            return load(signature, target)
        except Exception:  # whatever unpickling runs into
            kept.flush()
            return None

    def save_overload(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    kept.load_overload, kept.save_overload = load_overload, save_overload
    return dispatcher


@cache
def _sources(path: Path) -> str:
    """Hash of a Python file and of all files of the toolkit and beside it that it imports, directly or not.

    Numba knows the function's own file, but constants and functions of others are compiled into it.
    """
    found: set[Path] = set()
    left = [path]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += _imports(one)
    return sha256(b"".join(one.read_bytes() for one in sorted(found))).hexdigest()


@cache
def _imports(path: Path) -> list[Path]:
    """Return the files of the modules of the toolkit, or beside it, that a Python file imports."""
    names = _IMPORT.findall(path.read_text(encoding="utf-8"))
    places = [folder.joinpath(*name.split(".")) for name in names for folder in (_ROOT, path.parent)]
    files = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
    return [file for file in files if file.is_file()]


_ROOT = Path(__file__).parents[1]
_IMPORT = re.compile(r"^(?:from|import) +(\w[\w.]*)", re.MULTILINE)


@cache
def _tell_of_no_cache() -> None:
    if parent_process() is None:  # workers are silent
        print(
            "perfvec: compiled code cannot be kept, so every command compiles again; set NUMBA_CACHE_DIR to a folder "
            "that can be written",
            file=sys.stderr,
        )


def kernel(function: Function) -> Function:
    """An outermost function: kept on disk between processes, and running without Python's lock.

    Of several processes that need it at once one compiles, the others wait and read it.
    """
    dispatcher: Any = cached(**_OPTIONS, forceinline=False, nogil=True)(function)
    folder: str | None = dispatcher.stats.cache_path

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if folder is not None and not dispatcher.overloads:
            with one_at_a_time(Path(folder)):
                dispatcher.compile(tuple(typeof(argument, Purpose.argument) for argument in arguments))
        return dispatcher(*arguments)

    return call  # type: ignore[return-value]


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the lock of a cache's folder, where that can be had: without it two processes do the same work.

    Nobody else's file is locked, as its owner could keep it for ever, nor one that a link points to.
    """
    try:
        lock = os.open(folder / ".perfvec-kernels.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        yield
        return
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed, also by the process's end
        yield
    finally:
        os.close(lock)
