"""Exact vectors of several traces on a cluster: features are extracted once, then each task represents a few chunks.

Stack distances need a trace's whole past, so a trace's features are one task; their file, read anywhere at once, then
feeds the model, which takes twenty to a hundred times as long, on all workers. Chunks are those of the local pass, and
their sums are added in the same order, so the vector is the local one, bit by bit, where the processors are alike.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfvec.model import DEFAULT_WEIGHTS, FoundationModel, Model, load_model
from perfvec.precision import native_bf16, rounded
from perfvec.representation.kept_intervals import KeptIntervals
from perfvec.representation.represent import INTERVAL, OVERLAP, sequence_sums, whole_vector, work_of
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from support.executor import Executor, settle
from support.files import require_writable
from support.progress import instruction_bar
from tracegen.features.file import FeaturesFile, extract
from tracegen.formats.trace import Trace

CHUNKS_PER_TASK = 4  # one to ten seconds of the model


@dataclass(frozen=True)
class _Work:
    """A vector to make: the trace, and the files beside the output that are there until it is."""

    trace: Path
    name: str
    isa: str
    digest: str
    total: int  # instructions
    output: Path

    @property
    def features(self) -> Path:
        return self.output.with_name(f".{self.output.name}.features.h5")

    @property
    def checkpoint(self) -> Path:
        return self.output.with_name(f".{self.output.name}.checkpoint")


@dataclass(frozen=True)
class _Extraction:
    trace: Path
    features: Path
    model: Path
    model_digest: str
    total: int


@dataclass(frozen=True)
class _Representation:
    features: Path
    trace_digest: str
    model: Path
    model_digest: str
    begin: int
    end: int
    chunk: int
    bf16: bool


def represent_on_cluster(
    model_file: str | os.PathLike[str] | None,
    traces: Sequence[str | os.PathLike[str]],
    outputs: Sequence[str | os.PathLike[str]],
    cluster: Executor,
    *,
    max_instructions: int | None = None,
    progress: bool = True,
) -> list[ProgramVector]:
    """Write the vector of each trace to its output; a vector is there as soon as its last task is done.

    What is done of a vector is kept beside it as `represent_file` keeps it, so that after a kill either goes on. Raises
    InputError for a bad trace, an unwritable output, and where a worker sees other files or another model.
    """
    model_path = Path(model_file or DEFAULT_WEIGHTS).absolute()
    model = load_model(model_path)
    works = []
    for path, output in zip(traces, outputs, strict=True):
        require_writable(output)
        with Trace(path) as trace:
            total = len(trace) if max_instructions is None else min(max_instructions, len(trace))
            works.append(
                _Work(trace.path.absolute(), trace.name, trace.isa, trace.digest, total, Path(output).absolute())
            )
    if len({work.output for work in works}) != len(works):
        raise InputError("two traces would have the same vector file; give each an output of its own")
    _extract(model, model_path, works, cluster, progress)
    return _represent(model, model_path, works, cluster, progress)


def _extract(model: Model, model_path: Path, works: Sequence[_Work], cluster: Executor, progress: bool) -> None:
    missing = [work for work in works if not _has_features(work, model)]
    tasks = [_Extraction(work.trace, work.features, model_path, model.digest, work.total) for work in missing]
    done = cluster.map(_extract_one, tasks, lambda task: [task.trace, task.features.parent, task.model])
    with instruction_bar("features", sum(work.total for work in missing), progress) as bar:
        for number, _ in done:
            settle(missing[number].features)
            bar.update(missing[number].total)


def _has_features(work: _Work, model: Model) -> bool:
    """Return whether a run that was killed left them."""
    if not work.features.exists():
        return False
    try:
        file = FeaturesFile(work.features)
    except InputError:
        return False
    return (file.trace_digest, len(file), file.schema.stored) == (work.digest, work.total, model.schema.stored)


def _extract_one(task: _Extraction) -> None:
    model = same_model(task.model, task.model_digest)
    with Trace(task.trace) as trace:
        extract(trace, model.schema, task.features, max_instructions=task.total, progress=False)


def _represent(
    model: Model, model_path: Path, works: Sequence[_Work], cluster: Executor, progress: bool
) -> list[ProgramVector]:
    bf16, chunk = native_bf16(), INTERVAL
    kept = [KeptIntervals(work.checkpoint, work_of(work.digest, model, work.total)) for work in works]
    done: list[dict[int, tuple[NDArray[np.float64], int]]] = []  # by work: (vector, instructions) of each chunk
    for keeper in kept:
        done.append(dict(enumerate(zip(*keeper.read(), strict=True))))
    tasks: list[_Representation] = []
    owner: list[int] = []
    for number, work in enumerate(works):
        for begin in range(len(done[number]) * chunk, work.total, CHUNKS_PER_TASK * chunk):
            end = min(begin + CHUNKS_PER_TASK * chunk, work.total)
            tasks.append(_Representation(work.features, work.digest, model_path, model.digest, begin, end, chunk, bf16))
            owner.append(number)
    left = [owner.count(number) for number in range(len(works))]
    vectors: dict[int, ProgramVector] = {}
    total = sum(work.total for work in works)
    with instruction_bar("represent", total, progress) as bar:
        bar.update(total - sum(task.end - task.begin for task in tasks))

        def finish(number: int) -> None:
            work = works[number]
            intervals, counts = _in_order(done[number])
            vectors[number] = whole_vector(model, work.name, work.isa, work.digest, intervals, counts)
            vectors[number].save(work.output)
            work.features.unlink(missing_ok=True)
            work.checkpoint.unlink(missing_ok=True)

        for number in np.flatnonzero(np.array(left) == 0).tolist():
            finish(number)
        for k, sums in cluster.map(_represent_chunks, tasks, lambda task: [task.features, task.model]):
            number, task = owner[k], tasks[k]
            for index, vector in enumerate(sums):
                begin = task.begin + index * chunk
                done[number][begin // chunk] = vector, min(begin + chunk, task.end) - begin
            kept[number].keep(*_in_order(done[number]))
            bar.update(task.end - task.begin)
            left[number] -= 1
            if left[number] == 0:
                finish(number)
    return [vectors[number] for number in range(len(works))]


def _in_order(done: dict[int, tuple[NDArray[np.float64], int]]) -> tuple[list[NDArray[np.float64]], list[int]]:
    """The chunks from the first one on without a gap."""
    whole = 0
    while whole in done:
        whole += 1
    return [done[k][0] for k in range(whole)], [done[k][1] for k in range(whole)]


def _represent_chunks(task: _Representation) -> NDArray[np.float64]:
    """[chunks, d]"""
    foundation, file = _foundation(task.model, task.model_digest), _features(task)
    sums = []
    for begin in range(task.begin, task.end, task.chunk):
        lead = min(OVERLAP, begin)
        ids, stored = file.read(begin - lead, min(begin + task.chunk, task.end))
        sums.append(sequence_sums(foundation, file.static, ids, stored, lead, bf16=task.bf16).sum(axis=0))
    return np.array(sums)


@lru_cache(maxsize=2)
def same_model(path: Path, digest: str) -> Model:
    model = load_model(path)
    if model.digest != digest:
        raise InputError(f"{path}: is another model on a worker than where the command runs; give all the same release")
    return model


@lru_cache(maxsize=2)
def _foundation(path: Path, digest: str) -> FoundationModel:
    return rounded(same_model(path, digest).foundation)


def _features(task: _Representation) -> FeaturesFile:
    status = task.features.stat()
    file = _opened(task.features, status.st_ino, status.st_mtime_ns)
    if file.trace_digest != task.trace_digest:
        raise InputError(f"{task.features}: holds the features of another trace")
    return file


@lru_cache(maxsize=4)
def _opened(path: Path, inode: int, written_ns: int) -> FeaturesFile:
    """Opened once by a worker: that reads the whole file, to compare it with its seal."""
    return FeaturesFile(path)
