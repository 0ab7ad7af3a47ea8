"""The trace file: one thread of one run, as executed instructions, memory accesses, system calls and divisions
(docs/reference/file-formats.md).

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
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.files import (
    H5Reader,
    damage_in,
    on_success,
    read_dataset,
    read_slice,
    read_strings,
    read_text_attribute,
    read_whole,
    sealed_h5,
    write_strings,
)
from support.jit import cached
from tracegen.decode import ISAS, decode
from tracegen.formats import lzf
from tracegen.formats.column import WORKERS, ColumnReader
from tracegen.formats.ending import cut_short
from uarch.instructions import LAST, Chunk, StaticInstructions

FORMAT = "perfvec-trace"
VERSION = 1
CHUNK = 1 << 18  # instructions a chunk when reading
BLOCK = 1 << 17  # elements an HDF5 chunk
_QUEUE = 12  # blocks on their way
_EXTENSION = 64  # blocks by which a dataset grows
_COLUMNS = {
    "dynamic/static_id": "<u4",
    "memory/instruction": "<u8",
    "memory/address": "<u8",
    "memory/size": "u1",
    "memory/is_store": "u1",
}
_CALLS = {"system_calls/instruction": "<u8", "system_calls/number": "<u2"}  # where the source tells them
_DIVISIONS = {"divisions/instruction": "<u8", "divisions/steps": "u1"}  # likewise
_STATIC_ID, *_MEMORY = _COLUMNS
_NO_CALLS = np.empty(0, np.uint64), np.empty(0, np.uint16)
MOST_STEPS = 67  # of gem5's divisions: a quotient of 64 set bits
_NO_DIVISIONS = np.empty(0, np.uint64), np.empty(0, np.uint8)
_DIGESTED = ("static/address", "static/code", *_COLUMNS)


class TraceWriter:
    """Writes a trace chunk by chunk; the file appears, complete and with its digest, on a clean exit of the context.

    Call `static` once (any time; before the first instructions it saves a pass over them), `append` any number of
    times, `symbols` and `lines` at most once.
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
        self._columns: dict[str, _Column] = {}
        self._encoding: deque[tuple[str, Future[bytes]]] = deque()
        self._hasher: hashlib._Hash | None = None  # of what leads the digest, where it comes in that order
        self.instructions = 0

    def __enter__(self) -> TraceWriter:
        self._file = self._stack.enter_context(sealed_h5(self._path))
        self._pool = ThreadPoolExecutor(WORKERS)
        self._stack.callback(self._pool.shutdown, cancel_futures=True)
        self._hashing = ThreadPoolExecutor(1)
        self._stack.callback(self._hashing.shutdown, cancel_futures=True)
        for name, value in self._attributes.items():
            self._file.attrs[name] = value
        self._create(_COLUMNS)
        on_success(self._stack, self._finish)
        return self

    def _create(self, columns: dict[str, str]) -> None:
        for name, dtype in columns.items():
            dataset = self._file.create_dataset(
                name, shape=(0,), maxshape=(None,), dtype=dtype, chunks=(BLOCK,), compression="lzf", shuffle=True
            )
            self._columns[name] = _Column(dtype, dataset)

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def static(self, address: NDArray[np.uint64], code: NDArray[np.uint8]) -> None:
        """The distinct instructions: `address` [S] ascending, `code` [S, 16] their bytes, zero-padded."""
        for name, data in (("static/address", address.astype("<u8")), ("static/code", code.astype("u1"))):
            self._file.create_dataset(name, data=data, compression="gzip", shuffle=True)
            if self.instructions == 0:
                self._hasher = self._hasher or hashlib.sha256()
                self._hasher.update(np.ascontiguousarray(data).data)

    def append(
        self,
        static_id: NDArray[np.uint32],
        memory_instruction: NDArray[np.uint64],
        memory_address: NDArray[np.uint64],
        memory_size: NDArray[np.uint8],
        memory_is_store: NDArray[np.uint8],
    ) -> None:
        """The next executed instructions [n] and their accesses [m]; `memory_instruction` counts from the start."""
        self.append_static_ids(static_id)
        self.append_accesses(memory_instruction, memory_address, memory_size, memory_is_store)

    def append_static_ids(self, static_id: NDArray[np.uint32]) -> None:
        """The next executed instructions [n]."""
        self._add(_STATIC_ID, static_id)
        self.instructions += len(static_id)

    def append_accesses(
        self,
        instruction: NDArray[np.uint64],
        address: NDArray[np.uint64],
        size: NDArray[np.uint8],
        is_store: NDArray[np.uint8],
    ) -> None:
        """The next accesses [m]; `instruction` counts from the start, and may not be there yet."""
        columns: list[NDArray[Any]] = [instruction, address, size, is_store]
        for name, data in zip(_MEMORY, columns, strict=True):
            self._add(name, data)

    def append_system_calls(self, instruction: NDArray[np.uint64], number: NDArray[np.uint16]) -> None:
        """The next system calls [c]; `instruction` counts from the start, and may not be there yet."""
        self._append_events(_CALLS, instruction, number)

    def append_divisions(self, instruction: NDArray[np.uint64], steps: NDArray[np.uint8]) -> None:
        """The next divisions [d] with gem5's steps of each; `instruction` counts from the start, and may not be there
        yet.
        """
        self._append_events(_DIVISIONS, instruction, steps)

    def _append_events(self, names: dict[str, str], *columns: NDArray[Any]) -> None:
        """The next events of a kind that only some traces have: datasets come with the first one."""
        if len(columns[0]) == 0:
            return
        if not self._columns.keys() & names:
            self._create(names)
        for name, data in zip(names, columns, strict=True):
            self._add(name, data)

    def _add(self, name: str, data: NDArray[Any]) -> None:
        for block in self._columns[name].take(data):
            self._encode(name, block, len(block))
            self._store(_QUEUE)

    def _encode(self, name: str, block: NDArray[Any], length: int) -> None:
        """Start to encode a block, of which `length` elements count."""
        self._encoding.append((name, self._pool.submit(lzf.encode, block)))
        if name == _STATIC_ID and self._hasher is not None:
            self._hashing.submit(self._hasher.update, block[:length].data)

    def _store(self, queue: int) -> None:
        """Write the blocks that are encoded, until at most `queue` are waited for."""
        while len(self._encoding) > queue:
            name, future = self._encoding.popleft()
            stored = future.result()
            column = self._columns[name]
            offset = column.stored * BLOCK
            column.stored += 1
            if offset + BLOCK > column.extent:  # by many blocks at a time: HDF5 takes as long as for writing one
                column.extent = offset + _EXTENSION * BLOCK
                column.dataset.resize(column.extent, axis=0)
            column.dataset.id.write_direct_chunk((offset,), stored)

    def symbols(self, address: NDArray[np.uint64], size: NDArray[np.uint64], name: Sequence[str]) -> None:
        """Function symbols of the executable and its libraries at run-time addresses, sorted by address."""
        self._table("symbols", {"address": address, "size": size})
        write_strings(self._file, "symbols/name", name)

    def lines(
        self, address: NDArray[np.uint64], file: NDArray[np.uint32], line: NDArray[np.uint32], files: Sequence[str]
    ) -> None:
        """Source lines of static instructions: `address` [L] ascending, `file` [L] an index of `files`, `line` [L]."""
        self._table("lines", {"address": address, "file": file, "line": line})
        write_strings(self._file, "lines/files", files)

    def ended_by(self, what: str) -> None:
        """Tell what cut the program's execution short, as "signal 11 (segmentation fault)"; nothing where empty."""
        if what:
            self._file.attrs["ended_by"] = what

    def _table(self, group: str, columns: dict[str, NDArray[Any]]) -> None:
        for name, data in columns.items():
            self._file.create_dataset(f"{group}/{name}", data=data, compression="gzip", shuffle=True)

    def _finish(self) -> None:
        if self.instructions == 0:
            raise InputError(f"{self._path}: nothing was recorded, so no trace was written")
        self._store(0)
        for name, column in self._columns.items():
            # While no block reaches over the end: HDF5 would decode it to clear what is beyond.
            column.extent = column.stored * BLOCK + BLOCK
            column.dataset.resize(column.length, axis=0)
            if column.waiting:
                column.block[column.waiting :] = 0
                self._encode(name, column.block, column.waiting)
                self._store(0)
        self._hashing.shutdown()
        self._file.attrs["digest"] = digest(self._file, self._hasher)


class _Column:
    """The part of a column that waits for a whole block."""

    def __init__(self, dtype: str, dataset: h5py.Dataset) -> None:
        self.dataset = dataset
        self.block: NDArray[Any] = np.empty(BLOCK, dtype)
        self.waiting = 0  # elements of `block`
        self.length = 0  # elements in all
        self.stored = 0  # blocks
        self.extent = 0  # elements that the dataset has room for

    def take(self, data: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """The whole blocks that there are with `data`, copied."""
        self.length += len(data)
        begin = 0
        while begin < len(data):
            count = min(BLOCK - self.waiting, len(data) - begin)
            self.block[self.waiting : self.waiting + count] = data[begin : begin + count]
            self.waiting += count
            begin += count
            if self.waiting == BLOCK:
                full, self.block, self.waiting = self.block, np.empty(BLOCK, self.block.dtype), 0
                yield full


def _command(path: Path, text: str) -> list[str]:
    with damage_in(path, "the attribute 'command'"):
        words = json.loads(text)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("a JSON list of words is expected")
    return words


def digest(file: h5py.File, leading: hashlib._Hash | None = None) -> str:
    """SHA-256 over the raw little-endian bytes of the trace's datasets, in the order of docs/reference/file-formats.md.

    `leading` has taken in the static instructions and `dynamic/static_id` already.
    """
    hasher = leading or hashlib.sha256()
    with ThreadPoolExecutor(WORKERS) as pool:
        for name in (*(_MEMORY if leading else _DIGESTED), *(name for name in (*_CALLS, *_DIVISIONS) if name in file)):
            column = file[name]
            reader = ColumnReader(column, len(column), pool)
            for begin in range(0, len(column), BLOCK):
                part = reader.read(begin, min(begin + BLOCK, len(column)))
                hasher.update(np.ascontiguousarray(part).data)
    return hasher.hexdigest()


@cached(nogil=True)
def _offsets(owner: NDArray[np.uint64], begin: int, offset: NDArray[np.int64]) -> bool:
    """Fill `offset` [n + 1] with each instruction's first access, `owner` being the accesses' instructions.

    Whether they are in order and of the n instructions from `begin` on.
    """
    count = len(offset) - 1
    instruction = 0
    offset[0] = 0
    for access in range(len(owner)):
        own = np.int64(owner[access] - np.uint64(begin))
        if own < instruction or own >= count:
            return False
        while instruction < own:
            instruction += 1
            offset[instruction] = access
    while instruction < count:
        instruction += 1
        offset[instruction] = len(owner)
    return True


def _first(column: h5py.Dataset, index: int, low: int = 0) -> int:
    """Position of the first event of instruction `index` or a later one (bisection over HDF5 blocks)."""
    high, step = len(column), BLOCK
    while low + step < high and int(read_slice(column, low + step)) < index:  # gallop: the answer is usually near
        low, step = low + step, step * 2
    high = min(high, low + step + 1)
    while high - low > BLOCK:
        middle = (low + high) // 2
        low, high = (middle, high) if int(read_slice(column, middle)) < index else (low, middle)
    return low + int(np.searchsorted(read_slice(column, slice(low, high)), np.uint64(index)))


class _Events:
    """Events of the instructions from `start` to `stop`, taken as they go by; the first of `columns` names them."""

    def __init__(
        self, columns: Sequence[h5py.Dataset], start: int, stop: int, total: int, pool: ThreadPoolExecutor
    ) -> None:
        """`total` instructions are in the trace, at whose end all events that are left must be theirs."""
        owners = columns[0]
        self.position = _first(owners, start)
        self._last = len(owners) if stop == total else _first(owners, stop, self.position)
        self._stop = stop
        self._owners, *self._others = (ColumnReader(column, self._last, pool) for column in columns)

    def take(self, end: int) -> list[NDArray[Any]]:
        """The columns' rows of instructions up to `end`, behind those that were taken; at `stop` all that are left."""
        owner = self._owners.read(self.position, self._last) if end == self._stop else self._until(end)
        limit = self.position + len(owner)
        rows = [owner, *(column.read(self.position, limit) for column in self._others)]
        self.position = limit
        return rows

    def _until(self, end: int) -> NDArray[np.uint64]:
        high = self.position
        while True:
            high = min(high + BLOCK, self._last)
            owner: NDArray[np.uint64] = self._owners.read(self.position, high)
            if high == self._last or owner[-1] >= end:
                return owner[: np.searchsorted(owner, np.uint64(end))]


class Trace(H5Reader):
    """A trace file, open for reading; a context manager.

    Attributes: `path`, `isa`, `program`, `command` (list), `source`, `digest`, `address` u64 [S], `code` u8 [S, 16],
    `static` (the distinct instructions, decoded when first asked for), `ended_by` (the signal that ended the program;
    empty where none is known to have). `len()` is the number of executed instructions.

    What is safe when: opening compares a file that TraceWriter made with its seal (support/seal.py), so that damage
    is found before anything is read; in any file it checks the datasets' types and lengths, that the file can hold
    what it claims, and `static/`. `chunks` checks ranges and order as it streams. The digest is not compared with the
    content. Raises InputError for a file that is missing, truncated, damaged, empty or foreign, naming the part.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, FORMAT, VERSION)
        with self._closed_on_error():
            self._read_head(self._file)

    def _read_head(self, file: h5py.File) -> None:
        self.isa, self.program, self.source, self.digest = (
            read_text_attribute(file, name) for name in ("isa", "program", "source", "digest")
        )
        self.command = _command(self.path, read_text_attribute(file, "command"))
        self.ended_by = read_text_attribute(file, "ended_by") if "ended_by" in file.attrs else ""
        if self.isa not in ISAS:
            raise InputError(f"{self.path}: unknown isa {self.isa!r}; one of {', '.join(ISAS)}")
        address = read_dataset(file, "static/address", "<u8")
        code = read_dataset(file, "static/code", "u1", 2)
        self._columns = [read_dataset(file, name, dtype) for name, dtype in _COLUMNS.items()]
        rows = {len(column) for column in self._columns[1:]}
        self._calls, self._divisions = self._events(file, _CALLS), self._events(file, _DIVISIONS)
        if len(rows) != 1 or code.shape != (len(address), 16) or len(address) > LAST:
            raise InputError(f"{self.path}: datasets of the trace differ in length; the file is damaged")
        if len(self) == 0:
            raise InputError(f"{self.path}: an empty trace (no executed instruction)")
        self.address: NDArray[np.uint64] = read_slice(address, slice(None))
        self.code: NDArray[np.uint8] = read_slice(code, slice(None))
        if np.any(self.address[1:] <= self.address[:-1]):
            raise InputError(f"{self.path}: static/address is not strictly ascending")

    @cached_property
    def static(self) -> StaticInstructions:
        """The distinct instructions, decoded once."""
        return decode(self.address, self.code, self.isa)

    def _events(self, file: h5py.File, names: dict[str, str]) -> list[h5py.Dataset]:
        """The columns of events that only some traces have; none where there are none."""
        told = names if any(name in file for name in names) else {}
        columns = [read_dataset(file, name, dtype) for name, dtype in told.items()]
        if len({len(column) for column in columns}) > 1:
            kind = next(iter(names)).partition("/")[0]
            raise InputError(f"{self.path}: {kind} differ in length; the file is damaged")
        return columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def name(self) -> str:
        """The file's stem: `perl` for `perl.trace.h5`."""
        return self.path.name.removesuffix(".h5").removesuffix(".trace")

    @property
    def cut_short(self) -> str:
        """A line on the signal that ended the program; empty where none is known to have."""
        return cut_short(self.program, self.ended_by, len(self))

    @property
    def accesses(self) -> int:
        """Number of memory accesses."""
        return len(self._columns[1])

    def symbols(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], list[str]]:
        """Function symbols (address [F], size [F], names), empty where the trace has none."""
        if "symbols" not in self._file:
            return np.empty(0, np.uint64), np.empty(0, np.uint64), []
        address, size = (read_whole(self._file, f"symbols/{name}", "<u8") for name in ("address", "size"))
        names = read_strings(self._file, "symbols/name")
        if not len(address) == len(size) == len(names) or np.any(address[1:] < address[:-1]):
            raise InputError(f"{self.path}: symbols differ in length or are not in order; the file is damaged")
        return address, size, names

    def lines(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32], list[str]]:
        """Source lines (address [L] of static instructions, file [L], line [L], files), empty where none is known."""
        if "lines" not in self._file:
            return np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint32), []
        address = read_whole(self._file, "lines/address", "<u8")
        file, line = (read_whole(self._file, f"lines/{name}", "<u4") for name in ("file", "line"))
        files = read_strings(self._file, "lines/files")
        if not len(address) == len(file) == len(line) or np.any(address[1:] <= address[:-1]):
            raise InputError(f"{self.path}: lines differ in length or are not in order; the file is damaged")
        if file.max(initial=0) >= max(len(files), 1):
            raise InputError(f"{self.path}: lines/file names more than the {len(files)} of lines/files")
        return address, file, line, files

    def chunks(self, size: int = CHUNK, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
        """Instructions [start, stop) in chunks of `size`, each with its accesses; memory is bounded by `size`."""
        total = len(self)
        stop = total if stop is None else min(stop, total)
        if start >= stop:
            return
        with ThreadPoolExecutor(WORKERS) as pool:
            static_id = ColumnReader(self._columns[0], min(stop + 1, total), pool)
            accesses = _Events(self._columns[1:], start, stop, total, pool)
            calls = _Events(self._calls, start, stop, total, pool) if self._calls else None
            divisions = _Events(self._divisions, start, stop, total, pool) if self._divisions else None
            for begin in range(start, stop, size):
                end = min(begin + size, stop)
                ids: NDArray[np.uint32] = static_id.read(begin, min(end + 1, total))
                if ids.max(initial=0) >= len(self.address):
                    raise InputError(
                        f"{self.path}: dynamic/static_id near {begin} exceeds the {len(self.address)} static ones"
                    )
                following = np.append(ids[1:], LAST) if end == total else ids[1:]
                position = accesses.position
                owner, address, width, is_store = accesses.take(end)
                offset = np.empty(end - begin + 1, np.int64)
                if not _offsets(owner, begin, offset):
                    raise InputError(f"{self.path}: memory/instruction is not ascending near access {position}")
                if is_store.max(initial=0) > 1:  # neither a load nor a store: cores would wait for it without end
                    raise InputError(f"{self.path}: memory/is_store is neither 0 nor 1 near access {position}")
                caller, number = calls.take(end) if calls is not None else _NO_CALLS
                divider, steps = divisions.take(end) if divisions is not None else _NO_DIVISIONS
                for kind, who in (("system_calls", caller), ("divisions", divider)):
                    if len(who) and (who[0] < begin or who[-1] >= end or np.any(who[1:] <= who[:-1])):
                        what = f"{kind}/instruction is not ascending, or beyond the end,"
                        raise InputError(f"{self.path}: {what} near instruction {begin}")
                if len(steps) and not (steps.min() > 0 and steps.max() <= MOST_STEPS):
                    what = f"divisions/steps is not from 1 to {MOST_STEPS}"
                    raise InputError(f"{self.path}: {what} near instruction {begin}")
                yield Chunk(
                    start=begin,
                    static_id=ids[: end - begin],
                    next_static_id=following.astype(np.uint32, copy=False),
                    access_offset=offset,
                    address=address,
                    size=width,
                    is_store=is_store,
                    call_instruction=caller,
                    call_number=number,
                    division_instruction=divider,
                    division_steps=steps,
                )
