"""A library: the vectors of many programs in one small file, to find the nearest of, or to take a subset of.

Each vector is estimated from LIBRARY_UNITS sampling units of `perfvec.representation.pool` that lie at equal distances
over the trace (systematic sampling: Cochran, Sampling Techniques, 1977, ch. 8), so that a program takes seconds
whatever its length. Directions are what a library is for; where a program's time matters, represent it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from perfvec.model import Model
from perfvec.representation import LIBRARY_UNITS
from perfvec.representation.pool import Listed, Pool
from perfvec.representation.represent import represent
from perfvec.representation.vector import ProgramVector
from support.arrays import load_arrays, save_arrays
from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT

FORMAT = "perfvec-library/2"  # 1: no digest
_KINDS = {"model": "U0", "program": "U1", "isa": "U1", "trace_digest": "U1", "instructions": "i1", "vector": "f2"}
SUFFIX = ".library.npz"
SHIPPED = Path(__file__).parents[1] / "weights" / f"suite{SUFFIX}"
_HOW = f"perfvec suite represent TRACES -o {SHIPPED.name}"


def represent_library(
    model: Model,
    traces: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    units: int = LIBRARY_UNITS,
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
        later = [vector for digest, vector in known.items() if digest not in {one.trace_digest for one in found}]
        save_library([*found, *(later if len(found) < len(traces) else [])], output)
    return found


def _known(output: Path, model: Model) -> dict[str, ProgramVector]:
    if not output.exists():
        return {}
    try:
        return {vector.trace_digest: vector for vector in load_library(output, model)}
    except InputError:
        return {}  # of another model, or damaged: made again


def estimate(model: Model, trace: Trace, units: int = LIBRARY_UNITS) -> ProgramVector:
    """The vector of a trace from so many of its units; of a trace that has no more of them, the exact one."""
    there = len(trace) // UNIT
    if there <= units:
        return represent(model, trace, progress=False)
    chosen = (np.arange(units) * there + there // 2) // units
    pool = Pool(model, trace.static, Listed(chosen))
    for chunk in trace.chunks(stop=(int(chosen[-1]) + 1) * UNIT):
        pool.observe(chunk)
    vector = pool.represent(np.arange(units)).mean(axis=0) * (len(trace) / UNIT)
    return _program(trace.name, trace.isa, model.digest, trace.digest, len(trace), vector)


def _program(program: str, isa: str, model: str, digest: str, instructions: int, vector: np.ndarray) -> ProgramVector:
    return ProgramVector(program, isa, model, digest, instructions, vector, np.array([instructions]), vector[None])


def save_library(vectors: Sequence[ProgramVector], path: str | os.PathLike[str]) -> None:
    """Write `*.library.npz`, atomically; float32. Raises InputError for vectors of different models, or none."""
    if len({vector.model for vector in vectors}) != 1:
        raise InputError("a library needs vectors, all of one model")
    columns = {name: np.array([getattr(one, name) for one in vectors]) for name in _KINDS if name != "model"}
    columns["vector"] = columns["vector"].astype(np.float32)
    save_arrays(path, FORMAT, {"model": vectors[0].model, **columns})


def load_library(path: str | os.PathLike[str] | None = None, model: Model | None = None) -> list[ProgramVector]:
    """Read a library; without a path, the one that ships. Raises InputError where it is absent, damaged, foreign, or of
    another model.
    """
    path = SHIPPED if path is None else Path(path)
    values = load_arrays(path, FORMAT, _KINDS, what=f"a library (*{SUFFIX}), as {_HOW} makes it")
    digest, vectors = str(values["model"]), values["vector"].astype(np.float64)
    columns = [values[name].tolist() for name in ("program", "isa", "trace_digest", "instructions")]
    fits = {len(column) for column in columns} == {len(vectors)} and vectors.size and min(columns[-1]) >= 1
    if not fits or not np.isfinite(vectors).all():
        raise InputError(f"{path}: not a usable library (empty, mismatched, or with non-finite numbers)")
    if model is not None and model.digest != digest:
        raise InputError(f"{path}: of the model {digest[:12]}…, not of {model.digest[:12]}…; make it again: {_HOW}")
    return [
        _program(name, isa, digest, trace, int(instructions), vector)
        for name, isa, trace, instructions, vector in zip(*columns, vectors, strict=True)
    ]
