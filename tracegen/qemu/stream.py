"""A running program as chunks of executed instructions: nothing is written, memory does not grow with its length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.binary import elf
from tracegen.binary.dwarf import lines_at_run_time
from tracegen.decode import Decoder
from tracegen.formats.ending import cut_short
from tracegen.formats.trace import CHUNK
from tracegen.qemu.blocks import MAX_BLOCK, BlockTable
from tracegen.qemu.execution import Execution
from tracegen.qemu.interruption import WHOLE
from tracegen.qemu.replay import ONLY, Accesses, Divisions, Events, Replay, Replayed, SystemCalls, expand, joined, part
from tracegen.qemu.ring import Ring
from tracegen.qemu.run import Run, RunEnd
from uarch.instructions import LAST, Chunk, StaticInstructions

_CONTEXT = 128  # bytes before an instruction that may tell how it is decoded
_UNNUMBERED = LAST


@contextmanager
def stream(execution: Execution) -> Iterator[ProgramStream]:
    """Run a command as `tracegen.qemu.trace` does, and hand its main thread over while it runs.

    The program waits where the reader is behind, and is killed where the reader leaves early.
    """
    with Run(execution, Path(gettempdir())) as run:
        yield ProgramStream(run)


class ProgramStream:
    """Instructions of a running program, once, in order.

    `isa`, `program`, `command` are as of a trace. `address` [S], `code` [S, 16] and `instructions` (decoded) hold the
    static instructions so far, in order of their first execution; they grow while `chunks` goes on, and rows never
    change. Of code that changes while the program runs, the first bytes stand for the address. After the last chunk,
    `outcome` says how the program ended and `digest` identifies what it executed.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._static = _GrowingInstructions(run.blocks)
        self._replay = Replay(run.blocks, run.interruptions, run.limit)
        self._pending = _Pending(run.limit)
        self._columns = [hashlib.sha256() for _ in range(9)]
        self.isa = run.isa
        self.command = list(run.command)
        self.program = Path(run.command[0]).name
        self.outcome: RunEnd | None = None

    @property
    def address(self) -> NDArray[np.uint64]:
        return self._static.address

    @property
    def code(self) -> NDArray[np.uint8]:
        return self._static.code

    @property
    def instructions(self) -> StaticInstructions:
        return self._static.instructions

    @property
    def interrupted(self) -> bool:
        """Return whether Ctrl-C has ended the program; `chunks` goes on with what it executed until then."""
        return self.run.interrupted

    @property
    def cut_short(self) -> str:
        """Return a line on the signal that ended the program; empty where none did, and before the last chunk."""
        ended_by = "" if self.outcome is None else self.outcome.ended_by
        return cut_short(self.program, ended_by, self._replay.instructions)

    @property
    def digest(self) -> str:
        """SHA-256 over those of `address`, `code`, and of the columns `static_id` … `division_steps` of all chunks."""
        parts = [hashlib.sha256(self.address.data), hashlib.sha256(self.code.data), *self._columns]
        return hashlib.sha256("".join(part.hexdigest() for part in parts).encode()).hexdigest()

    def symbols(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], list[str]]:
        """Function symbols of what was executed, as of a trace; while the run's folder is there."""
        found = elf.symbols_at_run_time(self.run.mappings(), np.sort(self.address))
        return found.address, found.size, list(found.name)

    def lines(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32], list[str]]:
        """Source lines of what was executed, as of a trace; while the run's folder is there."""
        address, file, line, files = lines_at_run_time(self.run.mappings(), np.sort(self.address))
        return address, file, line, list(files)

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """The executed instructions in chunks of `size`, as `Trace.chunks` gives them; once.

        Raises InputError where the program executed nothing that was to be recorded.
        """
        ring: Ring | None = None
        try:
            for _ in self.run.rounds():
                busy = False
                path = self.run.ring_of_thread(0)
                if ring is None and path is not None:
                    ring = Ring(path)
                if ring is not None and ring.has_records:
                    for words in ring.full_slots():
                        yield from self._chunks_of(self._replay.read(words), size)
                        busy = True
                if not busy:
                    self.run.wait()
            if ring is not None and ring.has_records:
                yield from self._chunks_of(self._replay.read(ring.last_slot()), size)
                yield from self._chunks_of(self._replay.finish(), size)
            if ring is not None and ring.failed:
                raise InputError(f"{self.run.folder.parent}: the disk is full; tracing needs room there")
            if self._replay.instructions == 0:
                raise self.run.nothing_recorded()
            self._pending.end()
            while self._pending:
                yield self._hashed(self._pending.take(size))
            self.outcome = self.run.outcome()
        finally:
            if ring is not None:
                ring.close()

    def _chunks_of(self, parts: Iterator[Replayed], size: int) -> Iterator[Chunk]:
        for replayed in parts:
            self._pending.accesses.add(replayed.accesses)
            self._pending.calls.add(replayed.calls)
            self._pending.divisions.add(replayed.divisions)
            for ids in self._static.expand(replayed.sequence):
                self._pending.add_ids(ids)
                while self._pending.complete >= size:
                    yield self._hashed(self._pending.take(size))

    def _hashed(self, chunk: Chunk) -> Chunk:
        accesses = np.diff(chunk.access_offset).astype("<u4")
        columns: list[NDArray[Any]] = [chunk.static_id, accesses, chunk.address, chunk.size, chunk.is_store]
        columns += [chunk.call_instruction, chunk.call_number, chunk.division_instruction, chunk.division_steps]
        for hasher, column in zip(self._columns, columns, strict=True):
            hasher.update(column.data)
        return chunk


class _PendingEvents(Generic[Events]):
    """Accesses, system calls or divisions on their way into chunks."""

    def __init__(self, none: Events) -> None:
        self._none: Events = none
        self._parts: list[Events] = []

    def add(self, events: Events) -> None:
        if len(events.instruction):
            self._parts.append(joined([events]))

    def take(self, end: int) -> Events:
        """Remove and return the events of instructions before `end`."""
        taken: list[Events] = []
        while self._parts:
            first = self._parts[0]
            count = int(np.searchsorted(first.instruction, np.uint64(end)))
            if count:
                taken.append(part(first, 0, count))
            if count < len(first.instruction):
                self._parts[0] = part(first, count, len(first.instruction))
                break
            self._parts.pop(0)
        return joined(taken) if taken else self._none


class _Pending:
    """Instructions and events of them on their way into chunks."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._start = 0  # index of the first one
        self._ids: list[NDArray[np.uint32]] = []
        self._count = 0
        self.accesses = _PendingEvents(Accesses.empty(0))
        self.calls = _PendingEvents(SystemCalls.empty(0))
        self.divisions = _PendingEvents(Divisions.empty(0))
        self._ended = False

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def complete(self) -> int:
        """Instructions of which all is known: the last one may make more accesses, and what follows it is open."""
        return self._count if self._ended else self._count - 1

    def add_ids(self, ids: NDArray[np.uint32]) -> None:
        if self._limit is not None:  # the last block may go on after it
            ids = ids[: self._limit - self._start - self._count]
        self._ids.append(ids)
        self._count += len(ids)

    def end(self) -> None:
        """No more will come."""
        self._ended = True

    def take(self, size: int) -> Chunk:
        """The next `size` instructions, or those that are left."""
        ids = np.concatenate(self._ids)
        size = min(size, self._count)
        following = ids[1 : size + 1]
        if self._ended and size == self._count:
            following = np.append(ids[1:size], LAST)
        accesses, calls = self.accesses.take(self._start + size), self.calls.take(self._start + size)
        divisions = self.divisions.take(self._start + size)
        offset = np.zeros(size + 1, np.int64)
        owners = (accesses.instruction - np.uint64(self._start)).astype(np.int64)
        np.cumsum(np.bincount(owners, minlength=size), out=offset[1:])
        chunk = Chunk(
            start=self._start,
            static_id=ids[:size].copy(),
            next_static_id=following.copy(),
            access_offset=offset,
            address=accesses.address,
            size=accesses.size,
            is_store=accesses.is_store,
            call_instruction=calls.instruction,
            call_number=calls.number,
            division_instruction=divisions.instruction,
            division_steps=divisions.steps,
        )
        self._ids = [ids[size:].copy()]
        self._start += size
        self._count -= size
        return chunk


class _Growing:
    """An array whose first axis grows; `rows` are those so far."""

    def __init__(self, empty: NDArray[Any]) -> None:
        self._room = empty
        self.rows: NDArray[Any] = empty

    def append(self, new: NDArray[Any]) -> None:
        size = len(self.rows) + len(new)
        if size > len(self._room):
            room = np.empty((2 * size, *self._room.shape[1:]), self._room.dtype)
            room[: len(self.rows)] = self.rows
            self._room = room
        self._room[len(self.rows) : size] = new
        self.rows = self._room[:size]


class _GrowingInstructions:
    """The static instructions of the blocks so far, numbered in order of first execution."""

    def __init__(self, blocks: BlockTable) -> None:
        self._blocks = blocks
        self._row_id = np.empty(0, np.uint32)  # [I] of the block table
        self._numbered = np.zeros(0, bool)  # [B]
        self._decoder = Decoder(blocks.isa)
        self._sorted = np.empty(0, np.uint64)  # addresses, ascending
        self._order = np.empty(0, np.int64)  # their static ids
        self._state = np.array([0, WHOLE, 0], np.int64)
        self._address, self._code = _Growing(np.empty(0, np.uint64)), _Growing(np.empty((0, 16), np.uint8))
        self.instructions = self._decoder.decode(self.address, self.code)
        self._columns = {
            field.name: _Growing(getattr(self.instructions, field.name))
            for field in fields(StaticInstructions)
            if field.name not in ("isa", "native")
        }

    @property
    def address(self) -> NDArray[np.uint64]:
        return self._address.rows

    @property
    def code(self) -> NDArray[np.uint8]:
        return self._code.rows

    def expand(self, sequence: NDArray[np.uint32]) -> Iterator[NDArray[np.uint32]]:
        """The static ids of a sequence of blocks, part by part."""
        self._number(sequence[sequence < ONLY].astype(np.int64))
        position = 0
        while position < len(sequence):
            out = np.empty(1 << 16, np.uint32)
            position, filled = expand(sequence, position, self._state, self._blocks.kernel, self._row_id, out, 0)
            yield out[:filled]

    def _number(self, executed: NDArray[np.int64]) -> None:
        kernel = self._blocks.kernel
        rows = len(kernel.address) - len(self._row_id)
        if rows:
            self._row_id = np.append(self._row_id, np.full(rows, _UNNUMBERED, np.uint32))
            self._numbered = np.append(self._numbered, np.zeros(len(self._blocks) - len(self._numbered), bool))
        executed = executed[~self._numbered[executed]]
        if len(executed) == 0:
            return
        blocks = executed[np.sort(np.unique(executed, return_index=True)[1])]
        self._numbered[blocks] = True
        new = np.concatenate([np.arange(kernel.begin[block], kernel.begin[block + 1]) for block in blocks.tolist()])
        address = kernel.address[new]
        first = np.sort(np.unique(address, return_index=True)[1])
        fresh = first[self._find(address[first]) == _UNNUMBERED]
        if len(fresh):
            self._append(address[fresh], self._blocks.code[new[fresh]])
        self._row_id[new] = self._find(address)

    def _find(self, address: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Static ids, _UNNUMBERED where there is none."""
        place = np.searchsorted(self._sorted, address)
        found = np.full(len(address), _UNNUMBERED, np.uint32)
        inside = np.flatnonzero(place < len(self._sorted))
        same = inside[self._sorted[place[inside]] == address[inside]]
        found[same] = self._order[place[same]]
        return found

    def _append(self, address: NDArray[np.uint64], code: NDArray[np.uint8]) -> None:
        """Decode new instructions, among those that are known and lie just before them."""
        low = np.searchsorted(self._sorted, np.maximum(address, np.uint64(_CONTEXT)) - np.uint64(_CONTEXT))
        high = np.searchsorted(self._sorted, address)
        near = np.zeros(len(self._sorted) + 1, np.int64)
        np.add.at(near, low, 1)
        np.add.at(near, high, -1)
        context = self._order[np.cumsum(near)[:-1] > 0]
        around = np.concatenate([self.address[context], address])
        order = np.argsort(around, kind="stable")
        decoded = self._decoder.decode(around[order], np.concatenate([self.code[context], code])[order])
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        mine = place[len(context) :]
        for name, column in self._columns.items():
            column.append(getattr(decoded, name)[mine])
        ids = np.arange(len(self.address), len(self.address) + len(address))
        self._address.append(address)
        self._code.append(code)
        columns: dict[str, Any] = {name: column.rows for name, column in self._columns.items()}
        self.instructions = StaticInstructions(**columns, isa=decoded.isa)
        ascending = np.argsort(address, kind="stable")
        before = np.searchsorted(self._sorted, address[ascending])
        self._sorted = np.insert(self._sorted, before, address[ascending])
        self._order = np.insert(self._order, before, ids[ascending])


assert MAX_BLOCK <= 1 << 16  # `expand` makes progress
