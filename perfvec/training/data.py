"""Training data: labelled windows of traces as shards on disk, so that memory does not grow with the data.

A shard is one latency file joined with its trace: the stored features of the labelled instructions (and of WARMUP
instructions before them) and their latencies, time first. Shards are made once in a folder, which several runs may
share at the same time, and found again by the digests of what they were made from. What a batch needs of them is
read, not mapped: pages of a mapped file that were touched once would stay in the process's memory for as long as the
system pleases.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.machines.features import features_of_machines
from support.errors import InputError
from support.seal import sealed_digest
from tracegen.features import Schema
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Chunk, Trace
from uarch.configuration import Machine, configuration_key

WARMUP = 128  # instructions kept before the labelled ones
_TOO_MANY = 1e-3  # share of a machine's latencies that are saturated
_LAYOUT = 4  # of a shard's folder
_PART = 1 << 17


@dataclass(frozen=True)
class Rows:
    """An array [length, *item] in a file of its own, read a slice at a time; with `columns`, only these of each row."""

    path: Path
    dtype: str
    length: int
    item: tuple[int, ...] = ()
    columns: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return self.length

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length, *self.item) if self.columns is None else (self.length, len(self.columns))

    def __getitem__(self, rows: slice) -> NDArray:
        begin, end, step = rows.indices(self.length)
        assert step == 1
        width, dtype = int(np.prod(self.item, dtype=np.int64)), np.dtype(self.dtype)
        count = max(0, end - begin)
        values = np.fromfile(self.path, dtype, count * width, offset=begin * width * dtype.itemsize)
        values = values.reshape(count, *self.item)
        return values if self.columns is None else values[:, self.columns]


@dataclass(frozen=True)
class Shard:
    """One labelled window; `lead` ≤ WARMUP of its instructions come before the labels."""

    program: str
    trace_digest: str
    latency_file: str
    lead: int
    static: NDArray[np.float32]  # [S, static width] of the instructions that the window executes
    static_id: Rows  # u32 [lead + n]
    stored: Rows  # [lead + n, columns]
    latency: Rows  # u16 or u32 [n, U]
    mean: NDArray[np.float64]  # [U] mean latency
    start: int = 0  # first labelled instruction of the trace

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

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(sorted({shard.program for shard in self.shards}))

    def of_programs(self, programs: Iterable[str]) -> Labels:
        """The shards of these programs; InputError where one has none."""
        wanted = set(programs)
        if unknown := sorted(wanted - set(self.programs)):
            raise InputError(f"no labelled trace of a program {unknown[0]!r}; there are {', '.join(self.programs)}")
        return Labels(self.machines, tuple(shard for shard in self.shards if shard.program in wanted))

    def without(self, programs: Iterable[str]) -> Labels:
        """All other shards; InputError where one of these programs has none, or none is left."""
        out = self.of_programs(programs).programs
        if len(out) == len(self.programs):
            raise InputError("every labelled program is excluded; nothing is left to train on")
        return self.of_programs(set(self.programs) - set(out))

    def hold_machines(self, count: int, seed: int) -> tuple[Labels, tuple[Machine, ...]]:
        """The labels without `count` of their machines, drawn by `seed`, and these machines."""
        if not 0 <= count < len(self.machines):
            raise InputError(
                f"cannot hold {count} machines; there are {len(self.machines)}, of which one at least must stay"
            )
        held = sorted(np.random.default_rng(seed).permutation(len(self.machines))[:count].tolist())
        kept = tuple(row for row in range(len(self.machines)) if row not in held)
        shards = tuple(
            replace(shard, latency=replace(shard.latency, columns=kept), mean=shard.mean[list(kept)])
            for shard in self.shards
        )
        return Labels(tuple(self.machines[row] for row in kept), shards), tuple(self.machines[row] for row in held)

    def identity(self) -> str:
        """Digest of everything that a training run reads of the labels."""
        parts = [[str(shard.static_id.path.parent.name), shard.latency.columns] for shard in self.shards]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


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


@dataclass(frozen=True)
class SampledShard:
    """A window labelled on machines of its own; of each two the second is meant to differ in one field."""

    shard: Shard
    machines: tuple[Machine, ...]
    features: NDArray[np.float32]  # [M, F] of the machines


def prepare_sampled(
    traces: Path, latencies: Path, schema: Schema, folder: Path, known: Sequence[Shard], *, progress: bool = True
) -> tuple[SampledShard, ...]:
    """Shards of latency files whose machines differ from file to file. A window that lies in one of the `known` shards
    takes its features from there. A window with a latency that version 1 of the format cut is left out: it took longer
    than its label says, and the features do tell of it. Raises InputError as `prepare` does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of_traces: dict[Path, list[Path]] = {}
    for trace_path, latency_path in pair_files(traces, latencies):
        of_traces.setdefault(trace_path, []).append(latency_path)
    found = []
    for trace_path, paths in tqdm(of_traces.items(), desc="sampled", unit="trace", disable=None if progress else True):
        with ExitStack() as open_files:
            files = [open_files.enter_context(LatencyFile(path)) for path in paths]
            kept = [(file, path) for file, path in zip(files, paths, strict=True) if not file.any_cut()]
            if not kept:
                continue
            files, paths = [file for file, _ in kept], [path for _, path in kept]
            for file in files:
                _check_distinct(file)
            places = [_place(file, schema, folder) for file in files]
            _check_once(paths, places)
            around = [next((whole for whole in known if _lies_in(file, whole)), None) for file in files]
            alone = [k for k, whole in enumerate(around) if whole is None]
            _made(trace_path, [files[k] for k in alone], schema, [places[k] for k in alone], wait=True)
            for file, path, place, whole in zip(files, paths, places, around, strict=True):
                shard = _shard(path, place, schema) if whole is None else _part_of(whole, file, path, place)
                machines = tuple(file.machines)
                found.append(SampledShard(shard, machines, features_of_machines(machines)))
    if not found:
        raise InputError(f"{latencies}: a latency was cut in every file, as version 1 of the format does; label anew")
    return tuple(found)


def _lies_in(file: LatencyFile, shard: Shard) -> bool:
    same = file.trace_digest == shard.trace_digest
    return same and shard.start <= file.start and file.start + len(file) <= shard.start + len(shard)


def _part_of(shard: Shard, file: LatencyFile, path: Path, folder: Path) -> Shard:
    """The part of `shard` that `file` labels: its labels lie beside `folder`."""
    folder = folder.with_name(f"{folder.name}-labels")  # a shard of its own would have features
    scratch = folder.with_name(f".{folder.name}.part")
    with ExitStack() as locks:
        if not _complete(folder).exists():
            _locked(folder, locks, wait=True)
        if not _complete(folder).exists():  # no other run has made it meanwhile
            rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            mean = _copy_latencies(file, scratch / "latency")
            _complete(scratch).write_text(json.dumps({"mean": mean.tolist()}))
            scratch.rename(folder)
    mean = np.array(json.loads(_complete(folder).read_text())["mean"])
    latency = Rows(folder / "latency", file.dtype, len(file), (len(file.machines),))
    lead = shard.lead + file.start - shard.start
    return replace(shard, latency_file=str(path), lead=lead, latency=latency, mean=mean, start=file.start)


def _files(folder: Path, suffix: str) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected one with *{suffix} files")
    found = sorted(path for path in folder.iterdir() if path.name.endswith(suffix) and not path.name.startswith("."))
    if not found:
        raise InputError(f"{folder}: no *{suffix} files in it")
    return found


def prepare(traces: Path, latencies: Path, schema: Schema, folder: Path, *, progress: bool = True) -> Labels:
    """Shards of every latency file in `folder`, made where missing; all latency files must have the same machines.

    Raises InputError where a latency file's trace is absent, its machines differ or one is there twice, or the
    labels of a machine are all 0 or too many of them saturated.
    """
    pairs = list(pair_files(traces, latencies))
    folder.mkdir(parents=True, exist_ok=True)
    machines: tuple[Machine, ...] | None = None
    keys: list[str] = []
    places: list[Path] = []
    of_traces: dict[Path, list[int]] = {}
    for index, (trace_path, latency_path) in enumerate(pairs):
        with LatencyFile(latency_path) as file:
            here = [configuration_key(machine) for machine in file.machines]
            if machines is None:
                machines, keys = tuple(file.machines), here
                _check_distinct(file)
            elif here != keys:
                raise InputError(f"{latency_path}: its machines are not those of {pairs[0][1]}; label all traces alike")
            places.append(_place(file, schema, folder))
        of_traces.setdefault(trace_path, []).append(index)
    _check_once([path for _, path in pairs], places)

    def make(indices: Sequence[int], *, wait: bool) -> list[int]:
        """Return those of them, all of one trace, that other runs are making."""
        with ExitStack() as open_files:
            files = [open_files.enter_context(LatencyFile(pairs[index][1])) for index in indices]
            done = _made(pairs[indices[0]][0], files, schema, [places[index] for index in indices], wait=wait)
        return [index for index, whole in zip(indices, done, strict=True) if not whole]

    shown = tqdm(of_traces.values(), desc="features", unit="trace", disable=None if progress else True)
    for index in [index for indices in shown for index in make(indices, wait=False)]:
        make([index], wait=True)
    assert machines is not None
    return Labels(machines, tuple(_shard(pair[1], place, schema) for pair, place in zip(pairs, places, strict=True)))


def _check_distinct(file: LatencyFile) -> None:
    rows: dict[str, int] = {}
    for row, machine in enumerate(file.machines):
        first = rows.setdefault(configuration_key(machine), row)
        if first != row:
            raise InputError(
                f"{file.path}: rows {first} and {row} are the same machine "
                f"({file.machines[first].name!r}, {machine.name!r}); label each machine once"
            )


def _check_once(files: Sequence[Path], places: Sequence[Path]) -> None:
    first: dict[Path, Path] = {}
    for file, place in zip(files, places, strict=True):
        if first.setdefault(place, file) != file:
            raise InputError(f"{file}: the same labels as {first[place]}; remove one of them")


def _place(file: LatencyFile, schema: Schema, shards: Path) -> Path:
    """The shard's folder, named by what it is made from: the labels, whose file names its trace's digest."""
    identity = [_LAYOUT, schema.stored, sealed_digest(file.path)]
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    return shards / f"{file.trace}-{file.start}-{key}"


def _made(
    trace_path: Path, files: Sequence[LatencyFile], schema: Schema, shards: Sequence[Path], *, wait: bool
) -> list[bool]:
    """Make the shards of these files of one trace where they are missing, in one pass over it; False for each that
    another run is making, unless that is waited for.
    """
    with ExitStack() as locks:
        ours = [_complete(shard).exists() or _locked(shard, locks, wait=wait) for shard in shards]
        missing = [k for k, shard in enumerate(shards) if ours[k] and not _complete(shard).exists()]
        scratch = [shards[k].with_name(f".{shards[k].name}.part") for k in missing]
        try:
            for folder in scratch:
                rmtree(folder, ignore_errors=True)  # of a run that was killed
            if missing:
                make_shards(trace_path, [files[k] for k in missing], schema, scratch)
            for folder, k in zip(scratch, missing, strict=True):
                folder.rename(shards[k])
        finally:
            for folder in scratch:
                rmtree(folder, ignore_errors=True)
    return ours


def _locked(shard: Path, locks: ExitStack, *, wait: bool) -> bool:
    """Lock the shard until the stack ends; return False where another run has it, unless that is waited for."""
    path = shard.with_name(f".{shard.name}.lock")
    while True:
        lock = locks.enter_context(path.open("w"))  # it goes with the process, however that ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        if os.fstat(lock.fileno()).st_nlink:
            break  # otherwise who had it has removed the file meanwhile, and a third may have another
    locks.callback(path.unlink, missing_ok=True)
    return True


def _complete(shard: Path) -> Path:
    return shard / "complete.json"


def _shard(latency_path: Path, folder: Path, schema: Schema) -> Shard:
    information = json.loads(_complete(folder).read_text())
    with LatencyFile(latency_path) as file:
        lead, count, mean = information["lead"], len(file), np.array(information["mean"])
        return Shard(
            program=information["program"],
            trace_digest=file.trace_digest,
            latency_file=str(file.path),
            lead=lead,
            static=np.load(folder / "static.npy", mmap_mode="r"),
            static_id=Rows(folder / "static_id", "<u4", lead + count),
            stored=Rows(folder / "stored", schema.dtype, lead + count, (len(schema.columns),)),
            latency=Rows(folder / "latency", file.dtype, count, (len(mean),)),
            mean=mean,
            start=file.start,
        )


def make_shards(trace_path: Path, files: Sequence[LatencyFile], schema: Schema, folders: Sequence[Path]) -> None:
    """Write the shards of latency files of one trace, in one pass over it, each into a folder of its own."""
    windows = []
    for file, folder in zip(files, folders, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        mean = _copy_latencies(file, folder / "latency")  # first: unusable labels are told before the features are made
        windows.append(_Window(file, folder, mean))
    with Trace(trace_path) as trace, ExitStack() as open_files:
        instructions = trace.static
        extractor = schema.extractor(instructions)
        for window in windows:
            if window.end > len(trace):
                raise InputError(
                    f"{window.file.path}: labels up to instruction {window.end}, but {trace_path} has only {len(trace)}"
                )
            window.open(len(instructions), open_files)
        for chunk in trace.chunks(stop=max(window.end for window in windows)):
            features = extractor.extract(chunk)  # from the start: distances depend on everything before
            for window in windows:
                window.take(chunk, features, schema.dtype)
        static = schema.static(instructions)
        for window in windows:
            np.save(window.folder / "static.npy", static[np.concatenate(window.used)])
            information = {"program": trace.name, "lead": window.lead, "mean": window.mean.tolist()}
            _complete(window.folder).write_text(json.dumps(information))


class _Window:
    """The part of a pass over a trace that one shard keeps."""

    def __init__(self, file: LatencyFile, folder: Path, mean: NDArray[np.float64]) -> None:
        self.file, self.folder, self.mean = file, folder, mean
        self.lead = min(WARMUP, file.start)
        self.begin, self.end = file.start - self.lead, file.start + len(file)
        self.used: list[NDArray[np.int64]] = []  # static instructions that it executes, in order of appearance

    def open(self, instructions: int, files: ExitStack) -> None:
        self._number = np.full(instructions, -1, np.int64)
        self._ids = files.enter_context((self.folder / "static_id").open("wb"))
        self._stored = files.enter_context((self.folder / "stored").open("wb"))

    def take(self, chunk: Chunk, features: NDArray, dtype: str) -> None:
        rows = slice(max(self.begin - chunk.start, 0), max(self.end - chunk.start, 0))
        here = chunk.static_id[rows]
        new = np.unique(here[self._number[here] < 0]).astype(np.int64)
        self._number[new] = np.arange(len(new)) + sum(map(len, self.used))
        self.used.append(new)
        self._ids.write(self._number[here].astype("<u4").tobytes())
        self._stored.write(np.ascontiguousarray(features[rows], dtype).tobytes())


def _copy_latencies(file: LatencyFile, path: Path) -> NDArray[np.float64]:
    """Write the labels, time first, and return each machine's mean."""
    total, saturated = np.zeros(len(file.machines)), np.zeros(len(file.machines))
    with path.open("wb") as output:
        for first in range(0, len(file), _PART):
            latency = file.read(first, first + _PART)
            total += latency.sum(axis=1, dtype=np.float64)
            saturated += file.cut(latency).sum(axis=1)
            output.write(np.ascontiguousarray(latency.T).tobytes())
    if (total == 0).any():
        row = int(np.flatnonzero(total == 0)[0])
        raise InputError(f"{file.path}: every latency of machine {file.machines[row].name!r} is 0; labels are missing")
    row, share = int(saturated.argmax()), float(saturated.max()) / len(file)
    if share > _TOO_MANY:
        raise InputError(
            f"{file.path}: {share:.1%} of the latencies of machine {file.machines[row].name!r} are saturated, "
            f"as version 1 of the format does; at most {_TOO_MANY:.1%} are usable: label the trace anew"
        )
    return total / len(file)


def batch(
    shards: Sequence[Shard],
    schema: Schema,
    which: NDArray[np.int64],
    first: NDArray[np.int64],
    warmup: int,
    length: int,
) -> tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.bool_]]:
    """Sequence b covers labelled instructions first[b] … first[b]+length of shard which[b], after `warmup` others.

    Returns features [warmup+length, B, width], latencies [length, B, U] and present [warmup+length, B] (False where
    the trace has no instruction: before its start).
    """
    count = len(which)
    total = warmup + length
    x = np.zeros((total, count, schema.width), np.float32)
    y = np.empty((length, count, shards[0].latency.shape[1]), np.uint32)
    present = np.ones((total, count), bool)
    for row, (index, begin) in enumerate(zip(which.tolist(), first.tolist(), strict=True)):
        shard = shards[index]
        start = begin + shard.lead - warmup
        missing = max(0, -start)
        rows = slice(start + missing, start + total)
        x[missing:, row] = schema.expand(shard.static, shard.static_id[rows], shard.stored[rows])
        present[:missing, row] = False
        y[:, row] = shard.latency[begin : begin + length]
    return x, y, present


def work_folder(output: str | os.PathLike[str]) -> Path:
    """Return the folder where a training run that writes `output` keeps shards and checkpoints."""
    path = Path(output)
    return path.with_name(f".{path.name}.work")
