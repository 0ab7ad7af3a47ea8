"""Names under which a question's programs are shown: no two alike."""

from __future__ import annotations

import os
from collections.abc import Sequence

from analysis.results.figure import distinct
from support.errors import InputError

_SUFFIXES = (".trace.h5", ".livepoints.h5", ".vector.npz")


def names_apart(names: Sequence[str], files: Sequence[str | os.PathLike[str] | None]) -> list[str]:
    """Return the programs' names, with the folders of those whose files have one name (None: no file)."""
    shown = list(names)
    for place, (name, file) in enumerate(zip(names, files, strict=True)):
        if file is not None and names.count(name) > 1:
            shown[place] = os.fspath(file)
            for suffix in _SUFFIXES:
                shown[place] = shown[place].removesuffix(suffix)
    return distinct(shown)


def require_once(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Raise InputError for a file that is named twice: its rows could not be told apart."""
    places = [os.path.realpath(path) for path in paths]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise InputError(f"{os.fspath(paths[number])}: is named twice; name each program once")
