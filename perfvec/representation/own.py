"""The vector that a trace makes of itself: kept in the user's cache, found again by the digests of trace and model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from perfvec.model import Model
from perfvec.representation.represent import represent
from perfvec.representation.vector import ProgramVector, load_vector
from support.cache import cached_files, can_be_written
from support.errors import InputError
from tracegen.formats.trace import Trace

LEAST_KEPT = 1_000_000  # instructions; a shorter trace is represented in a few seconds


def own_vector(
    model: Model, trace: str | os.PathLike[str], *, max_instructions: int | None = None, progress: bool = True
) -> ProgramVector:
    """Return the vector of a trace's first instructions, all by default: the kept one, or a new one, which is kept.

    Raises InputError as `represent` does.
    """
    found = kept_vector(model, trace, max_instructions=max_instructions)
    if found is not None:
        return found
    vector = represent(model, trace, max_instructions=max_instructions, progress=progress)
    if vector.instructions < LEAST_KEPT:
        return vector
    places = _places(model, vector.trace_digest, vector.instructions)
    place = next((path for path in places if can_be_written(path)), None)
    if place is not None:
        try:
            vector.save(place)
        except (InputError, OSError) as error:
            print(f"perfvec: {place}: not kept ({error})", file=sys.stderr)
    return vector


def kept_vector(
    model: Model, trace: str | os.PathLike[str], *, max_instructions: int | None = None
) -> ProgramVector | None:
    """Return the vector that is kept; None where there is none of this trace, model and length."""
    with Trace(trace) as opened:
        digest, name, instructions = opened.digest, opened.name, len(opened)
    instructions = instructions if max_instructions is None else min(max_instructions, instructions)
    for path in _places(model, digest, instructions):
        try:
            found = load_vector(path) if path.is_file() else None
        except InputError:  # damaged
            continue
        if found is not None and (found.trace_digest, found.model, found.instructions, found.program) == (
            digest,
            model.digest,
            instructions,
            name,
        ):
            return found
    return None


def _places(model: Model, digest: str, instructions: int) -> Iterator[Path]:
    return cached_files("vectors", f"{model.digest} {digest} {instructions}", ".vector.npz")
