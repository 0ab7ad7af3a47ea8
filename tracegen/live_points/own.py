"""The live-points that a trace makes of itself: kept beside it, found again, made anew where it has changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from support.cache import cached_files, can_be_written
from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.live_points import UNITS
from tracegen.live_points.live_points import SUFFIX, UNIT, LivePoints, load, save
from tracegen.live_points.record import of_trace

LEAST_SAMPLED = 4 * 2 * UNITS * UNIT  # instructions of a trace that its live-points stand for: they pass a quarter
_TRACE = ".trace.h5"
_ABOUT = 1.5e7  # instructions a second, for what is said beforehand


def own_live_points(trace: str | os.PathLike[str], *, progress: bool = True) -> LivePoints:
    """Return the live-points of a whole trace: those that are kept of it, or new ones, which are kept.

    They are NAME.trace.livepoints.h5 beside NAME.trace.h5 (NAME.livepoints.h5, which a user made, serves too). Where
    that folder cannot be written they are in the cache (`support.cache`), where that cannot either, in memory alone.
    A file of another trace is made anew. Raises InputError as `of_trace` does.
    """
    with Trace(trace) as opened:
        digest, instructions, name = opened.digest, len(opened), opened.name
    places = list(_places(Path(trace), digest))
    for path in (_by_user(Path(trace)), *places):
        found = _kept(path)
        if found is not None and (found.digest, found.instructions) == (digest, instructions):
            return found
    place = next((path for path in places if can_be_written(path)), None)
    print(
        f"perfvec: {name}: sampling its live-points once, about {instructions / _ABOUT:.0f} s"
        + ("" if place is None else f"; kept in {place}"),
        file=sys.stderr,
    )
    points = of_trace(trace, progress=progress)
    if place is not None:
        try:
            save(points, place)
        except (InputError, OSError) as error:
            print(f"perfvec: {place}: not kept ({error})", file=sys.stderr)
    return points


def _by_user(trace: Path) -> Path:
    return trace.with_name(trace.name.removesuffix(_TRACE) + SUFFIX)


def _places(trace: Path, digest: str) -> Iterator[Path]:
    """Files to keep them in, the best first."""
    yield trace.with_name(trace.name.removesuffix(".h5") + SUFFIX)
    yield from cached_files("live-points", digest, SUFFIX)


def _kept(path: Path) -> LivePoints | None:
    """Return what is kept there; None where there is nothing that can be used."""
    try:
        return load(path) if path.is_file() else None
    except InputError:
        return None
