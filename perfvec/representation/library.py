"""A library: the vectors of many programs in one small file, to find the nearest of, or to take a subset of.

Each vector is estimated from UNITS sampling units of `perfvec.representation.pool` that lie at equal distances over the
trace (systematic sampling: Cochran, Sampling Techniques, 1977, ch. 8), so that a program takes seconds whatever its
length. Directions are what a library is for; where a program's time matters, represent it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from perfvec.model import Model
from perfvec.representation.pool import UNIT, Listed, Pool
from perfvec.representation.represent import represent
from perfvec.representation.vector import ProgramVector
from tracegen.decode import decode
from tracegen.files import atomic_path
from tracegen.trace import Trace
from uarch.errors import InputError

FORMAT = "perfvec-library/1"
SUFFIX = ".library.npz"
SHIPPED = Path(__file__).parents[1] / "weights" / f"suite{SUFFIX}"
UNITS = 128
_HOW = f"perfvec suite represent TRACES -o {SHIPPED.name}"


def represent_library(
    model: Model,
    traces: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    units: int = UNITS,
    progress: bool = True,
) -> list[ProgramVector]:
    """The vectors of these traces, written to `output` after each; those that it has already, of the same model and
    trace, stay, so that a run that was stopped goes on. Raises InputError.
    """
    output = Path(output)
    if not output.name.endswith(SUFFIX):
        raise InputError(f"{output}: name the library *{SUFFIX}")
    if units < 2:
        raise InputError(f"--units {units} must be at least 2")
    known = _known(output, model)
    found: list[ProgramVector] = []
    for path in tqdm(traces, desc="represent", unit="program", disable=None if progress else True):
        with Trace(path) as trace:
            kept = known.get(trace.digest)
            if kept is None:
                kept = estimate(model, trace, units)
        found.append(kept)
        save_library(found, output)
    return found


def _known(output: Path, model: Model) -> dict[str, ProgramVector]:
    if not output.exists():
        return {}
    try:
        return {vector.trace_digest: vector for vector in load_library(output, model)}
    except InputError:
        return {}  # of another model, or damaged: made again


def estimate(model: Model, trace: Trace, units: int = UNITS) -> ProgramVector:
    """The vector of a trace from so many of its units; of a trace that has no more of them, the exact one."""
    there = len(trace) // UNIT
    if there <= units:
        return represent(model, trace, progress=False)
    chosen = (np.arange(units) * there + there // 2) // units
    pool = Pool(model, decode(trace.address, trace.code, trace.isa), Listed(chosen))
    for chunk in trace.chunks(stop=(int(chosen[-1]) + 1) * UNIT):
        pool.observe(chunk)
    vector = pool.represent(np.arange(units)).mean(axis=0) * (len(trace) / UNIT)
    return _program(trace.name, trace.isa, model.digest, trace.digest, len(trace), vector)


def _program(program: str, isa: str, model: str, digest: str, instructions: int, vector: np.ndarray) -> ProgramVector:
    return ProgramVector(
        program, isa, model, digest, instructions, vector, np.array([instructions]), vector[None]
    )  # fmt: skip


def save_library(vectors: Sequence[ProgramVector], path: str | os.PathLike[str]) -> None:
    """Write `*.library.npz`, atomically; float32. Raises InputError for vectors of different models, or none."""
    if len({vector.model for vector in vectors}) != 1:
        raise InputError("a library needs vectors, all of one model")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file, allow_pickle=False, format=np.asarray(FORMAT), model=np.asarray(vectors[0].model),
            program=np.array([v.program for v in vectors]), isa=np.array([v.isa for v in vectors]),
            trace_digest=np.array([v.trace_digest for v in vectors]),
            instructions=np.array([v.instructions for v in vectors], np.int64),
            vector=np.stack([v.vector for v in vectors]).astype(np.float32),
        )  # fmt: skip


def load_library(path: str | os.PathLike[str] | None = None, model: Model | None = None) -> list[ProgramVector]:
    """Read a library; without a path, the one that ships. Raises InputError where it is absent, damaged, foreign, or of
    another model.
    """
    path = SHIPPED if path is None else Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a library (*{SUFFIX}), as {_HOW} makes it")
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["format"]) != FORMAT:
                raise InputError(f"{path}: holds {str(file['format'])[:60]!r}; this release reads {FORMAT!r}")
            digest = str(file["model"])
            columns = [file[name].tolist() for name in ("program", "isa", "trace_digest", "instructions")]
            vectors = file["vector"].astype(np.float64)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: truncated or foreign; expected a library (*{SUFFIX})") from error
    counts = {len(column) for column in columns}
    if vectors.ndim != 2 or counts != {len(vectors)} or not len(vectors) or not np.isfinite(vectors).all():
        raise InputError(f"{path}: not a usable library (empty, mismatched, or with non-finite numbers)")
    if model is not None and model.digest != digest:
        raise InputError(
            f"{path}: of the model {digest[:12]}…, not of {model.digest[:12]}…; make it again: {_HOW}"
        )  # fmt: skip
    return [
        _program(name, isa, digest, trace, int(instructions), vector)
        for name, isa, trace, instructions, vector in zip(*columns, vectors, strict=True)
    ]
