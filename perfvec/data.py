"""Training data: labelled stretches of traces as memory-mapped shards, so that memory does not grow with the data.

A shard is one latency file joined with its trace: the stored features of the labelled instructions (and of WARMUP
instructions before them) and their latencies, time first. Shards are made once in a work folder and found again by
the digests of what they were made from.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.model import configuration_key
from tracegen.decode import decode
from tracegen.features import Schema
from tracegen.files import atomic_path
from tracegen.latency import LatencyFile
from tracegen.trace import Trace
from uarch.configuration import Machine
from uarch.errors import InputError

WARMUP = 128  # instructions kept before the labelled ones
SATURATED = 65535


@dataclass(frozen=True)
class Shard:
    """One labelled stretch; `lead` ≤ WARMUP of its instructions come before the labels."""

    program: str
    trace_digest: str
    latency_file: str
    lead: int
    static: NDArray[np.float32]  # [S, static width]
    static_id: NDArray[np.uint32]  # [lead + n]
    stored: NDArray  # [lead + n, columns]
    latency: NDArray[np.uint16]  # [n, U]

    def __len__(self) -> int:
        return len(self.latency)


@dataclass(frozen=True)
class Labels:
    """Shards that share their machines (rows of the latency files, in order)."""

    machines: tuple[Machine, ...]
    shards: tuple[Shard, ...]

    @property
    def instructions(self) -> int:
        return sum(len(shard) for shard in self.shards)


def pair_files(traces: Path, latencies: Path) -> Iterator[tuple[Path, Path]]:
    """(trace file, latency file) for every latency file under `latencies`, joined by the trace's digest."""
    by_digest: dict[str, Path] = {}
    for path in _files(traces, ".trace.h5"):
        with Trace(path) as trace:
            by_digest[trace.digest] = path
    for path in _files(latencies, ".latency.h5"):
        with LatencyFile(path) as file:
            if file.trace_digest not in by_digest:
                raise InputError(
                    f"{path}: labels a trace {file.trace!r} (digest {file.trace_digest[:12]}…) that is not in {traces}"
                )
            yield by_digest[file.trace_digest], path


def _files(folder: Path, suffix: str) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected one with *{suffix} files")
    found = sorted(path for path in folder.iterdir() if path.name.endswith(suffix) and not path.name.startswith("."))
    if not found:
        raise InputError(f"{folder}: no *{suffix} files in it")
    return found


def prepare(traces: Path, latencies: Path, schema: Schema, work: Path, *, progress: bool = True) -> Labels:
    """Shards of every latency file, made where missing; all latency files must have the same machines.

    Raises InputError where a latency file's trace is absent, its machines differ, or a label is saturated throughout.
    """
    pairs = list(pair_files(traces, latencies))
    work.mkdir(parents=True, exist_ok=True)
    machines: tuple[Machine, ...] | None = None
    shards = []
    for trace_path, latency_path in tqdm(pairs, desc="features", unit="file", disable=None if progress else True):
        with LatencyFile(latency_path) as file:
            here = tuple(file.machines)
            if machines is None:
                machines = here
            elif [configuration_key(m) for m in here] != [configuration_key(m) for m in machines]:
                raise InputError(f"{latency_path}: its machines are not those of {pairs[0][1]}; label all traces alike")
            shards.append(_shard(trace_path, file, schema, work))
    assert machines is not None
    return Labels(machines, tuple(shards))


def _shard(trace_path: Path, file: LatencyFile, schema: Schema, work: Path) -> Shard:
    identity = [schema.identity, file.trace_digest, file.start, len(file), file.simulator]
    identity += [configuration_key(machine) for machine in file.machines]
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    folder = work / f"{file.trace}-{file.start}-{key}"
    if not (folder / "complete.json").exists():
        _make_shard(trace_path, file, schema, folder)
    information = json.loads((folder / "complete.json").read_text())
    return Shard(
        program=information["program"],
        trace_digest=file.trace_digest,
        latency_file=str(file.path),
        lead=information["lead"],
        static=np.load(folder / "static.npy"),
        static_id=np.load(folder / "static_id.npy", mmap_mode="r"),
        stored=np.load(folder / "stored.npy", mmap_mode="r"),
        latency=np.load(folder / "latency.npy", mmap_mode="r"),
    )


def _make_shard(trace_path: Path, file: LatencyFile, schema: Schema, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Trace(trace_path) as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        extractor = schema.extractor(instructions)
        lead = min(WARMUP, file.start)
        begin, end = file.start - lead, file.start + len(file)
        if end > len(trace):
            raise InputError(f"{file.path}: labels up to instruction {end}, but {trace_path} has only {len(trace)}")
        np.save(folder / "static.npy", schema.static(instructions))
        static_id = open_memmap(folder / "static_id.npy", "w+", np.uint32, (end - begin,))
        stored = open_memmap(folder / "stored.npy", "w+", np.dtype(schema.dtype), (end - begin, len(schema.columns)))
        for chunk in trace.chunks(stop=end):  # from the start: distances depend on everything before
            features = extractor.extract(chunk)
            skip = max(begin - chunk.start, 0)
            if skip < len(chunk):
                to = slice(chunk.start + skip - begin, chunk.start + len(chunk) - begin)
                static_id[to] = chunk.static_id[skip:]
                stored[to] = features[skip:]
        program = trace.name
    latency = open_memmap(folder / "latency.npy", "w+", np.uint16, (len(file), len(file.machines)))
    step = 1 << 17
    for first in range(0, len(file), step):
        latency[first : first + step] = file.read(first, first + step).T
    _check_labels(latency, file)
    for array in (static_id, stored, latency):
        array.flush()
    with atomic_path(folder / "complete.json") as temporary:  # last: a shard without it is made again
        temporary.write_text(json.dumps({"program": program, "lead": lead}))


def _check_labels(latency: NDArray[np.uint16], file: LatencyFile) -> None:
    totals = latency.sum(axis=0, dtype=np.float64)
    if (totals == 0).any():
        row = int(np.flatnonzero(totals == 0)[0])
        raise InputError(f"{file.path}: every latency of machine {file.machines[row].name!r} is 0; labels are missing")
    saturated = (latency == SATURATED).mean()
    if saturated > 1e-3:
        raise InputError(
            f"{file.path}: {saturated:.1%} of the latencies are saturated (65535); the labels are unusable"
        )


def batch(
    shards: Sequence[Shard],
    schema: Schema,
    which: NDArray[np.int64],
    first: NDArray[np.int64],
    warmup: int,
    length: int,
) -> tuple[NDArray[np.float32], NDArray[np.uint16], NDArray[np.bool_]]:
    """Chunk b covers labelled instructions first[b] … first[b]+length of shard which[b], after `warmup` others.

    Returns features [warmup+length, B, width], latencies [length, B, U] and present [warmup+length, B] (False where
    the trace has no instruction: before its start).
    """
    lanes = len(which)
    total = warmup + length
    x = np.zeros((total, lanes, schema.width), np.float32)
    y = np.empty((length, lanes, shards[0].latency.shape[1]), np.uint16)
    present = np.ones((total, lanes), bool)
    for lane, (index, begin) in enumerate(zip(which.tolist(), first.tolist(), strict=True)):
        shard = shards[index]
        start = begin + shard.lead - warmup
        missing = max(0, -start)
        rows = slice(start + missing, start + total)
        x[missing:, lane] = schema.expand(
            shard.static, np.asarray(shard.static_id[rows]), np.asarray(shard.stored[rows])
        )
        present[:missing, lane] = False
        y[:, lane] = shard.latency[begin : begin + length]
    return x, y, present


def work_folder(output: str | os.PathLike[str]) -> Path:
    """Where a training run that writes `output` keeps shards and checkpoints."""
    path = Path(output)
    return path.with_name(f".{path.name}.work")
