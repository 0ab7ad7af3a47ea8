"""Live-points with the vector of their program, made from the trace or in one pass over the running program."""

from __future__ import annotations

import os
from dataclasses import replace

from perfvec.model import Model
from perfvec.representation.memory import keep_freed_memory
from perfvec.representation.pool import Pool
from perfvec.representation.sample import HALF_WIDTH, Sample, capacity, represent_sampled
from perfvec.representation.signatures import Reservoir
from perfvec.representation.vector import ProgramVector, vector_of_bytes
from support.errors import InputError
from tracegen.live_points.live_points import LivePoints
from tracegen.live_points.record import UNITS, of_stream, of_trace
from tracegen.qemu.stream import ProgramStream
from uarch.instructions import Chunk, StaticInstructions


def live_points_of_trace(
    model: Model,
    trace: str | os.PathLike[str],
    *,
    units: int = UNITS,
    seed: int = 0,
    max_instructions: int | None = None,
    progress: bool = True,
) -> LivePoints:
    """Return those of `tracegen.live_points.record.of_trace` with the program's sampled vector. Raises InputError."""
    points = of_trace(trace, units=units, seed=seed, max_instructions=max_instructions, progress=progress)
    vector = represent_sampled(model, trace, max_instructions=max_instructions, seed=seed, progress=progress)
    return replace(points, vector=vector.to_bytes())


def live_points_of_stream(
    model: Model, stream: ProgramStream, *, units: int = UNITS, seed: int = 0, progress: bool = True
) -> LivePoints:
    """Return those of a program while it runs, with its vector, in one pass. As `live_points_of_trace`."""
    keep_freed_memory()
    pool = Pool(model, stream.instructions, Reservoir(capacity(model), seed))

    def observe(instructions: StaticInstructions, chunk: Chunk) -> None:
        pool.grow(instructions)
        pool.observe(chunk)

    points = of_stream(stream, units=units, seed=seed, progress=progress, observe=observe)
    drawn = Sample(model, pool, seed=seed)
    drawn.reach(HALF_WIDTH, progress=progress)
    return replace(points, vector=drawn.vector(stream.program, stream.isa, stream.digest).to_bytes())


def vector_of(points: LivePoints, path: str | os.PathLike[str]) -> ProgramVector | None:
    """Return the vector that the file holds, None where it holds none. Raises InputError for one of another run."""
    if not points.vector:
        return None
    vector = vector_of_bytes(points.vector, path)
    if (vector.trace_digest, vector.instructions) != (points.digest, points.instructions):
        raise InputError(f"{path}: its vector is of another run; make it again")
    return vector
