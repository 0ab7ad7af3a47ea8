"""The trace file: one thread of one run, as executed instructions and memory accesses (DESIGN.md, *Trace*).

Reading and writing stream: memory does not grow with the trace.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from tracegen import lzf
from tracegen.decode import ISAS
from tracegen.files import atomic_path, open_h5, read_dataset, read_slice
from uarch.errors import InputError
from uarch.instructions import LAST, Chunk

FORMAT = "perfvec-trace"
VERSION = 1
CHUNK = 1 << 18  # instructions a chunk when reading
_BLOCK = 1 << 17  # elements an HDF5 chunk
_WORKERS = 2  # threads that encode and decode blocks
_QUEUE = 6  # blocks on their way
_COLUMNS = {
    "dynamic/static_id": "<u4",
    "memory/instruction": "<u8",
    "memory/address": "<u8",
    "memory/size": "u1",
    "memory/is_store": "u1",
}
_DIGESTED = ("static/address", "static/code", *_COLUMNS)


class TraceWriter:
    """Writes a trace piece by piece; the file appears, complete and with its digest, on a clean exit of the context.

    Call `static` once (any time), `append` any number of times, `symbols` at most once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        isa: str,
        program: str,
        command: Sequence[str],
        source: str,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self._path = Path(path)
        self._attributes = {
            "format": FORMAT,
            "version": VERSION,
            "isa": isa,
            "program": program,
            "command": json.dumps(list(command)),
            "source": source,
            **(attributes or {}),
        }
        self._stack = ExitStack()
        self._columns = {name: _Column(dtype) for name, dtype in _COLUMNS.items()}
        self._encoding: deque[tuple[str, Future[bytes]]] = deque()
        self.instructions = 0

    def __enter__(self) -> TraceWriter:
        temporary = self._stack.enter_context(atomic_path(self._path))
        self._file = self._stack.enter_context(h5py.File(temporary, "w", libver="latest"))
        self._pool = ThreadPoolExecutor(_WORKERS)
        self._stack.callback(self._pool.shutdown, cancel_futures=True)
        for name, value in self._attributes.items():
            self._file.attrs[name] = value
        for name, dtype in _COLUMNS.items():
            self._file.create_dataset(
                name, shape=(0,), maxshape=(None,), dtype=dtype, chunks=(_BLOCK,), compression="lzf", shuffle=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            if kind is None:
                self._finish()
        except BaseException as failure:
            self._stack.__exit__(type(failure), failure, failure.__traceback__)
            raise
        return self._stack.__exit__(kind, error, trace)

    def static(self, address: NDArray[np.uint64], code: NDArray[np.uint8]) -> None:
        """The distinct instructions: `address` [S] ascending, `code` [S, 16] their bytes, zero-padded."""
        for name, data in (("static/address", address.astype("<u8")), ("static/code", code.astype("u1"))):
            self._file.create_dataset(name, data=data, compression="gzip", shuffle=True)

    def append(
        self,
        static_id: NDArray[np.uint32],
        memory_instruction: NDArray[np.uint64],
        memory_address: NDArray[np.uint64],
        memory_size: NDArray[np.uint8],
        memory_is_store: NDArray[np.uint8],
    ) -> None:
        """The next executed instructions [n] and their accesses [m]; `memory_instruction` counts from the start."""
        columns: tuple[NDArray[Any], ...] = (
            static_id,
            memory_instruction,
            memory_address,
            memory_size,
            memory_is_store,
        )
        for name, data in zip(_COLUMNS, columns, strict=True):
            for block in self._columns[name].take(data):
                self._encoding.append((name, self._pool.submit(lzf.encode, block)))
                self._store(_QUEUE)
        self.instructions += len(static_id)

    def _store(self, queue: int) -> None:
        """Write the blocks that are encoded, until at most `queue` are waited for."""
        while len(self._encoding) > queue:
            name, future = self._encoding.popleft()
            stored = future.result()
            dataset, column = self._file[name], self._columns[name]
            offset = column.stored * _BLOCK
            column.stored += 1
            dataset.resize(min(offset + _BLOCK, column.length), axis=0)
            dataset.id.write_direct_chunk((offset,), stored)

    def symbols(self, address: NDArray[np.uint64], size: NDArray[np.uint64], name: Sequence[str]) -> None:
        """Function symbols of the executable and its libraries at run-time addresses, sorted by address."""
        group = self._file.create_group("symbols")
        group.create_dataset("address", data=address, compression="gzip")
        group.create_dataset("size", data=size, compression="gzip")
        group.create_dataset("name", data=list(name), dtype=h5py.string_dtype(), shape=(len(name),), compression="gzip")

    def _finish(self) -> None:
        if self.instructions == 0:
            raise InputError(
                f"{self._path}: nothing was recorded, so no trace was written (check --skip and the program)"
            )
        for name, column in self._columns.items():
            if len(column.rest):
                padded = np.zeros(_BLOCK, column.rest.dtype)
                padded[: len(column.rest)] = column.rest
                self._encoding.append((name, self._pool.submit(lzf.encode, padded)))
        self._store(0)
        self._file.attrs["digest"] = digest(self._file)


class _Column:
    """What of a column waits for a whole block."""

    def __init__(self, dtype: str) -> None:
        self.rest: NDArray[Any] = np.empty(0, dtype)
        self.length = 0
        self.stored = 0  # blocks

    def take(self, data: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """The whole blocks that there are with `data`, copied."""
        data = np.asarray(data).astype(self.rest.dtype, copy=False)
        self.length += len(data)
        begin = 0
        if len(self.rest):
            begin = min(_BLOCK - len(self.rest), len(data))
            self.rest = np.concatenate([self.rest, data[:begin]])
            if len(self.rest) == _BLOCK:
                yield self.rest
                self.rest = self.rest[:0]
        while len(data) - begin >= _BLOCK:
            yield data[begin : begin + _BLOCK].copy()
            begin += _BLOCK
        if begin < len(data):
            self.rest = data[begin:].copy()


def digest(file: h5py.File) -> str:
    """SHA-256 over the raw little-endian bytes of the trace's datasets in DESIGN.md's order."""
    hasher = hashlib.sha256()
    with ThreadPoolExecutor(_WORKERS) as pool:
        for name in _DIGESTED:
            for block in _blocks(file[name], pool):
                hasher.update(np.ascontiguousarray(block).data)
    return hasher.hexdigest()


def _blocks(dataset: h5py.Dataset, pool: ThreadPoolExecutor) -> Iterator[NDArray[Any]]:
    """The content of a dataset in order; blocks as TraceWriter stores them are decoded in parallel."""
    length = len(dataset)
    if dataset.chunks != (_BLOCK,) or dataset.compression != "lzf" or not dataset.shuffle or dataset.fletcher32:
        for begin in range(0, length, 16 * _BLOCK):
            yield read_slice(dataset, slice(begin, begin + 16 * _BLOCK))
        return
    waiting: deque[Future[NDArray[Any]]] = deque()
    left = length
    try:
        for begin in range(0, length, _BLOCK):
            mask, stored = dataset.id.read_direct_chunk((begin,))
            waiting.append(pool.submit(lzf.decode, stored, mask, dataset.dtype.str, _BLOCK))
            if len(waiting) > _QUEUE:
                yield waiting.popleft().result()
                left -= _BLOCK
        while waiting:
            yield waiting.popleft().result()[:left]
            left -= _BLOCK
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{dataset.file.filename}: {dataset.name} cannot be read; the file is damaged") from error


class Trace:
    """A trace file, open for reading; a context manager.

    Attributes: `path`, `isa`, `program`, `command` (list), `source`, `digest`, `address` u64 [S], `code` u8 [S, 16].
    `len()` is the number of executed instructions. Raises InputError for a missing, truncated, empty or foreign file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._stack = ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._file = file = self._stack.enter_context(open_h5(self.path, FORMAT, VERSION))
        try:
            self.isa = str(file.attrs["isa"])
            self.program = str(file.attrs["program"])
            self.command: list[str] = json.loads(file.attrs["command"])
            self.source = str(file.attrs["source"])
            self.digest = str(file.attrs["digest"])
        except (KeyError, ValueError) as error:
            raise InputError(f"{self.path}: an attribute of the trace is missing or malformed ({error})") from error
        if self.isa not in ISAS:
            raise InputError(f"{self.path}: unknown isa {self.isa!r}; one of {', '.join(ISAS)}")
        self.address: NDArray[np.uint64] = read_slice(read_dataset(file, "static/address", "<u8"), slice(None))
        self.code: NDArray[np.uint8] = read_slice(read_dataset(file, "static/code", "u1", 2), slice(None))
        self._columns = [read_dataset(file, name, dtype) for name, dtype in _COLUMNS.items()]
        rows = {len(column) for column in self._columns[1:]}
        if len(rows) != 1 or self.code.shape != (len(self.address), 16):
            raise InputError(f"{self.path}: datasets of the trace differ in length; the file is damaged")
        if len(self) == 0:
            raise InputError(f"{self.path}: an empty trace (no executed instruction)")
        if np.any(self.address[1:] <= self.address[:-1]):
            raise InputError(f"{self.path}: static/address is not strictly ascending")

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def name(self) -> str:
        """The file's stem: `perl` for `perl.trace.h5`."""
        return self.path.name.removesuffix(".h5").removesuffix(".trace")

    @property
    def accesses(self) -> int:
        """Number of memory accesses."""
        return len(self._columns[1])

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def verify(self) -> None:
        """Raise InputError unless the content matches the recorded digest (reads the whole file)."""
        if digest(self._file) != self.digest:
            raise InputError(f"{self.path}: the content does not match its digest; the file is damaged")

    def symbols(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], list[str]]:
        """Function symbols (address [F], size [F], names), empty where the trace has none."""
        if "symbols" not in self._file:
            return np.empty(0, np.uint64), np.empty(0, np.uint64), []
        group = self._file["symbols"]
        return group["address"][:], group["size"][:], [name.decode(errors="replace") for name in group["name"][:]]

    def chunks(self, size: int = CHUNK, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
        """Instructions [start, stop) in pieces of `size`, each with its accesses; memory is bounded by `size`."""
        total = len(self)
        stop = total if stop is None else min(stop, total)
        static_id, instruction, address, width, is_store = self._columns
        position = self._first_access(start)
        for begin in range(start, stop, size):
            end = min(begin + size, stop)
            ids: NDArray[np.uint32] = read_slice(static_id, slice(begin, min(end + 1, total)))
            if ids.max(initial=0) >= len(self.address):
                raise InputError(
                    f"{self.path}: dynamic/static_id near {begin} exceeds the {len(self.address)} static ones"
                )
            following = np.append(ids[1:], LAST) if end == total else ids[1:]
            limit = self._first_access(end, position)
            owners = read_slice(instruction, slice(position, limit))
            if len(owners) and (owners[0] < begin or np.any(owners[1:] < owners[:-1]) or owners[-1] >= end):
                raise InputError(f"{self.path}: memory/instruction is not ascending near access {position}")
            counts = np.bincount((owners - np.uint64(begin)).astype(np.int64), minlength=end - begin)
            offset = np.zeros(end - begin + 1, np.int64)
            np.cumsum(counts, out=offset[1:])
            part = slice(position, limit)
            yield Chunk(
                start=begin,
                static_id=ids[: end - begin],
                next_static_id=following.astype(np.uint32, copy=False),
                access_offset=offset,
                address=read_slice(address, part),
                size=read_slice(width, part),
                is_store=read_slice(is_store, part),
            )
            position = limit

    def _first_access(self, index: int, low: int = 0) -> int:
        """Position of the first access made by instruction `index` or a later one (bisection over HDF5 blocks)."""
        column = self._columns[1]
        high = len(column)
        if index >= len(self):
            return high
        step = _BLOCK
        while low + step < high and int(read_slice(column, low + step)) < index:  # gallop: the answer is usually near
            low, step = low + step, step * 2
        high = min(high, low + step + 1)
        while high - low > _BLOCK:
            middle = (low + high) // 2
            low, high = (middle, high) if int(read_slice(column, middle)) < index else (low, middle)
        return low + int(np.searchsorted(read_slice(column, slice(low, high)), np.uint64(index)))
