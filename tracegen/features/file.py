"""The features file: a trace's features under one schema, so that training reads them without the trace.

| dataset | type, shape | meaning |
|---|---|---|
| `static/features` | f32 [S, static width] | a row for each static instruction |
| `runs/first`, `runs/length` | u32 [R] | executed instructions: runs of static instructions with consecutive numbers |
| `dynamic/<column>` | [K] of the schema's type | a stored number, where the schema says that it can differ from 0 |
| `index` | i64 [blocks+1, 1+columns] | runs and numbers of each column in front of each block of 131,072 instructions |

A column of the schema is stored for every instruction, or where another column or static feature is not 0
(`Column.where`); no run crosses a block. The attributes name the schema and the trace's digest, and give the number of
instructions. A seal tells damage (support/seal.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from support.errors import InputError
from support.executor import Executor, settle
from support.files import open_h5, read_dataset, read_slice, require_writable, sealed_h5
from support.progress import instruction_bar
from tracegen.decode import decode
from tracegen.features import get_schema
from tracegen.features.schema import Schema, extracted
from tracegen.formats.trace import Trace
from tracegen.qemu.stream import ProgramStream
from uarch.instructions import StaticInstructions

FORMAT = "perfvec-features"
VERSION = 2
_BLOCK = 1 << 17  # instructions
_STORED = 1 << 16  # elements an HDF5 chunk
_LEVEL = 1  # deflate's: higher ones take twice the time for a fifth less
_DENSEST = (
    1 << 11
)  # a compressed byte cannot stand for more of a dataset (deflate: 1032, two bytes an element and more)


class _Presence:
    """Places where columns of a schema can differ from 0, for one file's static features."""

    def __init__(self, schema: Schema, static: NDArray[np.float32]) -> None:
        names = [column.name for column in schema.columns]
        wanted = {column.where for column in schema.columns if column.where is not None}
        self._columns = {name: names.index(name) for name in wanted if name in names}
        self._static = {name: static[:, schema.static_names.index(name)] != 0 for name in wanted - set(names)}

    def masks(self, static_id: NDArray[np.uint32], stored: NDArray) -> dict[str, NDArray[np.bool_]]:
        """`Column.where` → [n] for the rows of `static_id` [n] and `stored` [n, columns]."""
        static = {name: rows[static_id] for name, rows in self._static.items()}
        return static | {name: stored[:, k] != 0 for name, k in self._columns.items()}


class FeaturesWriter:
    """Writes features as they come; a context manager, the file appears on a clean exit, after `finish`."""

    def __init__(self, output: str | os.PathLike[str], schema: Schema) -> None:
        self._sealed = sealed_h5(output)
        self._schema = schema
        self._index = [[0] * (1 + len(schema.columns))]
        self._waiting: list[tuple[NDArray[np.uint32], NDArray]] = []
        self._instructions = 0

    def __enter__(self) -> FeaturesWriter:
        self._file = self._sealed.__enter__()
        self._columns = [
            *(self._column(f"runs/{name}", "<u4") for name in ("first", "length")),
            *(self._column(f"dynamic/{column.name}", self._schema.dtype) for column in self._schema.columns),
        ]
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        return self._sealed.__exit__(kind, error, trace)

    def _column(self, name: str, dtype: str) -> h5py.Dataset:
        return self._file.create_dataset(
            name,
            (0,),
            dtype,
            maxshape=(None,),
            chunks=(_STORED,),
            compression="gzip",
            compression_opts=_LEVEL,
            shuffle=np.dtype(dtype).itemsize > 1,
        )

    def know(self, static: NDArray[np.float32]) -> None:
        """The features [S, static width] of the static instructions so far, of all that is appended from now on."""
        self._presence = _Presence(self._schema, static)

    def append(self, static_id: NDArray[np.uint32], stored: NDArray) -> None:
        """The next instructions: `static_id` [n], `stored` [n, columns]."""
        self._waiting.append((static_id, stored))
        waiting = sum(len(ids) for ids, _ in self._waiting)
        if waiting < _BLOCK:
            return
        ids, numbers = self._take()
        whole = waiting - waiting % _BLOCK
        for begin in range(0, whole, _BLOCK):
            self._write(ids[begin : begin + _BLOCK], numbers[begin : begin + _BLOCK])
        if whole < waiting:
            self._waiting = [(ids[whole:], numbers[whole:])]

    def _take(self) -> tuple[NDArray[np.uint32], NDArray]:
        ids, numbers = zip(*self._waiting, strict=True)
        self._waiting = []
        return (ids[0], numbers[0]) if len(ids) == 1 else (np.concatenate(ids), np.concatenate(numbers))

    def _write(self, static_id: NDArray[np.uint32], stored: NDArray) -> None:
        """One block: _BLOCK instructions, or fewer at the end."""
        begins = np.flatnonzero(np.diff(static_id.astype(np.int64), prepend=-1) != 1)
        if len(begins) == 0 or begins[0] != 0:
            begins = np.concatenate([[0], begins])
        lengths = np.diff(begins, append=len(static_id))
        masks = self._presence.masks(static_id, stored)
        values = [
            stored[:, k] if column.where is None else stored[:, k][masks[column.where]]
            for k, column in enumerate(self._schema.columns)
        ]
        before = self._index[-1]
        for dataset, data in zip(self._columns, [static_id[begins], lengths, *values], strict=True):
            length = len(dataset)
            dataset.resize(length + len(data), axis=0)
            dataset[length:] = data
        self._index.append([old + len(new) for old, new in zip(before, [begins, *values], strict=True)])
        self._instructions += len(static_id)

    def finish(self, static: NDArray[np.float32], *, trace: str, trace_digest: str, isa: str, program: str) -> None:
        """The static instructions' features [S, static width], and what all was made from."""
        if self._waiting:
            self._write(*self._take())
        self._file.create_dataset(
            "static/features", data=static, compression="gzip", compression_opts=_LEVEL, shuffle=True
        )
        self._file.create_dataset("index", data=np.array(self._index, "<i8"), compression="gzip", shuffle=True)
        self._file.attrs.update(
            {
                "format": FORMAT,
                "version": VERSION,
                "schema": self._schema.identity,
                "trace": trace,
                "trace_digest": trace_digest,
                "isa": isa,
                "program": program,
                "instructions": self._instructions,
            }
        )


def extract(
    trace: Trace,
    schema: Schema,
    output: str | os.PathLike[str],
    *,
    instructions: StaticInstructions | None = None,
    max_instructions: int | None = None,
    progress: bool = True,
) -> Path:
    """Write the features of a whole trace, or of its first `max_instructions`; streams. `instructions`: the trace's,
    where they are decoded already.
    """
    total = len(trace) if max_instructions is None else min(max_instructions, len(trace))
    instructions = instructions or trace.static
    extractor, static = schema.extractor(instructions), schema.static(instructions)
    with FeaturesWriter(output, schema) as writer, instruction_bar("features", total, progress) as bar:
        writer.know(static)
        for chunk, stored in extracted(extractor, trace.chunks(stop=total)):
            writer.append(chunk.static_id, stored)
            bar.update(len(chunk))
        writer.finish(static, trace=trace.name, trace_digest=trace.digest, isa=trace.isa, program=trace.program)
    return Path(output)


def extract_several(
    traces: Sequence[str | os.PathLike[str]],
    schema: Schema,
    folder: str | os.PathLike[str],
    executor: Executor,
    *,
    progress: bool = True,
) -> list[Path]:
    """Write `NAME.features.h5` of every trace into `folder`, side by side; files of the same traces stay.

    Raises InputError for bad traces, two of one name, and an unwritable folder.
    """
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    outputs: list[Path] = []
    tasks: list[tuple[Path, str, Path]] = []
    for path in traces:
        with Trace(path) as trace:
            output = folder / f"{trace.name}.features.h5"
            if output in outputs:
                raise InputError(f"two traces are called {trace.name!r}; extract them into two folders")
            require_writable(output)
            outputs.append(output)
            if not _holds(output, trace, schema):
                tasks.append((trace.path.absolute(), schema.identity, output))
    done = executor.map(_extract_one, tasks, lambda task: [task[0], task[2].parent])
    for number, _ in tqdm(done, total=len(tasks), desc="features", unit="trace", disable=None if progress else True):
        settle(tasks[number][2])
    return outputs


def _holds(output: Path, trace: Trace, schema: Schema) -> bool:
    if not output.exists():
        return False
    file = FeaturesFile(output)
    if (file.trace_digest, len(file), file.schema.identity) != (trace.digest, len(trace), schema.identity):
        raise InputError(f"{output}: holds other features (another trace or schema); move it away")
    return True


def _extract_one(task: tuple[Path, str, Path]) -> None:
    path, schema, output = task
    with Trace(path) as trace:
        extract(trace, get_schema(schema), output, progress=False)


def extract_stream(
    stream: ProgramStream, schema: Schema, output: str | os.PathLike[str], *, progress: bool = True
) -> int:
    """Write the features of a program while it runs, without a trace; the number of instructions.

    They are those of its trace, in another order of static instructions; `trace_digest` is the stream's. Memory does
    not grow with the length of the run.
    """
    extractor = schema.extractor(stream.instructions)
    total = known = 0
    with FeaturesWriter(output, schema) as writer, instruction_bar("features", None, progress) as bar:
        for chunk in stream.chunks():
            if len(stream.instructions) != known or total == 0:
                known = len(stream.instructions)
                extractor.grow(stream.instructions)
                writer.know(schema.static(stream.instructions))
            writer.append(chunk.static_id, extractor.extract(chunk))
            total += len(chunk)
            bar.update(len(chunk))
        order = np.argsort(stream.address)  # all are known now: decoded among their neighbours, as of a trace
        static = np.empty((len(order), schema.static_width), np.float32)
        static[order] = schema.static(decode(stream.address[order], stream.code[order], stream.isa))
        writer.finish(static, trace=stream.program, trace_digest=stream.digest, isa=stream.isa, program=stream.program)
    return total


class FeaturesFile:
    """A features file, open for reading. Attributes: `schema`, `trace`, `trace_digest`, `static` [S, width].

    Opening reads the file once, to compare it with its seal, and `read` again where it has changed since. Raises
    InputError, also in `read`, where it is damaged, truncated, foreign, or does not hold what its schema says.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._checked: tuple[int, int, int] | None = None
        with self._open() as file:
            self.schema = get_schema(str(file.attrs["schema"]))
            self.trace = str(file.attrs["trace"])
            self.trace_digest = str(file.attrs["trace_digest"])
            self._length = int(file.attrs["instructions"])
            names = ["runs/length", *(f"dynamic/{column.name}" for column in self.schema.columns)]
            self._index = self._whole(file, "index", "<i8", (-(-self._length // _BLOCK) + 1, len(names)))
            if (self._index[0] != 0).any() or (np.diff(self._index, axis=0) < 0).any():
                raise self._foreign("its index does not ascend from 0")
            for name, length in zip(names, self._index[-1], strict=True):
                kind = self.schema.dtype if name.startswith("dynamic/") else "<u4"
                if len(read_dataset(file, name, kind)) != length:
                    raise self._foreign(f"{name!r} has not the length that its index gives")
            if len(read_dataset(file, "runs/first", "<u4")) != self._index[-1, 0]:
                raise self._foreign("'runs/first' has not the length that its index gives")
            rows = read_dataset(file, "static/features", "<f4", 2).shape[0]
            self.static: NDArray[np.float32] = self._whole(
                file, "static/features", "<f4", (rows, self.schema.static_width)
            )
            self._presence = _Presence(self.schema, self.static)

    def __len__(self) -> int:
        return self._length

    def read(self, begin: int, end: int) -> tuple[NDArray[np.uint32], NDArray]:
        """`static_id` [k] and stored numbers [k, columns] of instructions begin … end."""
        begin, end, _ = slice(begin, end).indices(self._length)
        static_id = np.empty(max(end - begin, 0), np.uint32)
        stored = np.empty((len(static_id), len(self.schema.columns)), self.schema.dtype)
        with self._open() as file:
            for block in range(begin // _BLOCK, -(-end // _BLOCK) if end > begin else 0):
                ids, numbers = self._read_block(file, block)
                first = block * _BLOCK
                part = slice(max(begin - first, 0), min(end - first, _BLOCK))
                into = slice(first + part.start - begin, first + part.stop - begin)
                static_id[into], stored[into] = ids[part], numbers[part]
        return static_id, stored

    def _read_block(self, file: h5py.File, block: int) -> tuple[NDArray[np.uint32], NDArray]:
        count = min(self._length - block * _BLOCK, _BLOCK)
        places = [slice(*pair) for pair in self._index[block : block + 2].T.tolist()]
        first = read_slice(file["runs/first"], places[0]).astype(np.int64)
        length = read_slice(file["runs/length"], places[0]).astype(np.int64)
        if length.sum() != count or (length <= 0).any() or (first + length > len(self.static)).any():
            raise self._foreign(f"the runs of block {block} are not of its {count} instructions")
        before = np.cumsum(length) - length
        ids = (np.arange(count) + np.repeat(first - before, length)).astype(np.uint32)
        stored = np.zeros((count, len(self.schema.columns)), self.schema.dtype)
        columns = sorted(enumerate(self.schema.columns), key=lambda pair: pair[1].where is not None)
        masks: dict[str, NDArray[np.bool_]] | None = None
        for k, column in columns:  # those first that say where others are not 0
            values = read_slice(file[f"dynamic/{column.name}"], places[1 + k])
            where: Any = slice(None)
            if column.where is not None:
                masks = masks if masks is not None else self._presence.masks(ids, stored)
                where = masks[column.where]
            if len(values) != (count if column.where is None else np.count_nonzero(where)):
                raise self._foreign(f"'dynamic/{column.name}' has not the numbers of block {block}")
            stored[where, k] = values
        return ids, stored

    def _identity(self) -> tuple[int, int, int] | None:
        """Return what changes with the file; None where it is not there."""
        with suppress(OSError):
            status = self.path.stat()
            return status.st_ino, status.st_size, status.st_mtime_ns
        return None

    @contextmanager
    def _open(self) -> Iterator[h5py.File]:
        now = self._identity()
        try:
            with open_h5(self.path, FORMAT, VERSION, whole=now is not None and now == self._checked) as file:
                self._checked = now
                yield file
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, OSError, RuntimeError, OverflowError, MemoryError) as error:
            raise self._foreign(f"not a whole features file ({error})") from error

    def _whole(self, file: h5py.File, name: str, dtype: str, shape: tuple[int, int]) -> NDArray:
        """All of a dataset of this shape, which its file must be large enough to hold."""
        dataset = read_dataset(file, name, dtype, 2)
        if dataset.shape != shape:
            raise self._foreign(f"{name!r} is {list(dataset.shape)}; expected {list(shape)}")
        if dataset.size * dataset.dtype.itemsize > _DENSEST * self.path.stat().st_size:
            raise self._foreign(f"{name!r} is larger than the file can hold")
        return np.asarray(read_slice(dataset, slice(None)))

    def _foreign(self, what: str) -> InputError:
        return InputError(f"{self.path}: {what}; extract it again")
