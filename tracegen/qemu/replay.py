"""Blocks that a thread executed, their accesses, system calls and divisions, from its words (plugin.c describes them).

Blocks come as a sequence of u32: a block's number; before it, where they apply, `WITHOUT | n` (its first n instructions
do not belong to the record) and `ONLY | n` (only its first n do).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.jit import cached
from tracegen.qemu.blocks import MAX_BLOCK, BlockColumns, BlockTable
from tracegen.qemu.interruption import EXAMINE, WHOLE, Interruptions, left_after, may_be_left

ONLY = 2 << 30
WITHOUT = 3 << 30
_VALUE = (1 << 30) - 1
_PREFETCH = 7  # in the place of a size

_SEQUENCE = 1 << 17  # buffered
_ACCESSES = 1 << 18
_CALLS = 1 << 12
_DIVISIONS = 1 << 14
_NO_LIMIT = np.iinfo(np.int64).max


class Accesses(NamedTuple):
    """Memory accesses in columns, as in a trace; `instruction` counts from the start of the record."""

    instruction: NDArray[np.uint64]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    is_store: NDArray[np.uint8]

    @staticmethod
    def empty(count: int) -> Accesses:
        """Room for so many."""
        return Accesses(
            np.empty(count, np.uint64), np.empty(count, np.uint64), np.empty(count, np.uint8), np.empty(count, np.uint8)
        )


class SystemCalls(NamedTuple):
    """System calls in columns, as in a trace; `instruction` counts from the start of the record."""

    instruction: NDArray[np.uint64]
    number: NDArray[np.uint16]

    @staticmethod
    def empty(count: int) -> SystemCalls:
        """Room for so many."""
        return SystemCalls(np.empty(count, np.uint64), np.empty(count, np.uint16))


class Divisions(NamedTuple):
    """Divisions in columns, as in a trace; `instruction` counts from the start of the record."""

    instruction: NDArray[np.uint64]
    steps: NDArray[np.uint8]

    @staticmethod
    def empty(count: int) -> Divisions:
        """Room for so many."""
        return Divisions(np.empty(count, np.uint64), np.empty(count, np.uint8))


Events = TypeVar("Events", Accesses, SystemCalls, Divisions)


def part(events: Events, begin: int, end: int) -> Events:
    """Events begin … end, not copied."""
    return type(events)._make(column[begin:end] for column in events)


def joined(parts: Sequence[Events]) -> Events:
    """All parts, copied."""
    return type(parts[0])._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class Replayed(NamedTuple):
    """Content of words: the blocks' sequence, and what happened in blocks, which may be ones before or after these."""

    sequence: NDArray[np.uint32]
    accesses: Accesses
    calls: SystemCalls
    divisions: Divisions


# State of the reading loop, an int64 array: current block (-1: none), its instructions, how many of its first ones do
# not belong, complete instructions so far, index of the block's first instruction, last instruction of it with an
# access (the number of its instructions behind a system call), words read, whether a full address follows (1) or is
# there (2), `without` of the next block, the block's last division.
_BLOCK, _COUNT, _WITHOUT, _TOTAL, _BASE, _SEEN, _POSITION, _LONG, _PENDING, _DIVIDED = range(10)
_STATE = 10

_DONE, _FULL, _EXAMINE, _BLOCKS, _LIMIT, _DAMAGED = range(6)  # why the loop returned


@cached(nogil=True)
def _append(block: int, only: int, without: int, sequence: NDArray[np.uint32], s: int) -> int:
    """Append a block to the sequence."""
    if without:
        sequence[s] = np.uint32(WITHOUT | without)
        s += 1
    if only != WHOLE:
        sequence[s] = np.uint32(ONLY | only)
        s += 1
    sequence[s] = np.uint32(block)
    return s + 1


@cached(nogil=True)
def _read(
    words: NDArray[np.uint64],
    kernel: BlockColumns,
    limit: int,
    state: NDArray[np.int64],
    repeating: NDArray[np.uint64],
    used: NDArray[np.uint8],
    sequence: NDArray[np.uint32],
    accessed: Accesses,
    called: SystemCalls,
    divided: Divisions,
    filled: NDArray[np.int64],
) -> int:
    """Read words from state[_POSITION] until they end, a buffer is full, or a block must be examined.

    `repeating`: [0] the rep-prefixed instruction that the last complete block ended with, [1] the full address for the
    next access word. `filled`: entries in `sequence`, and in the arrays of accesses, system calls and divisions.
    """
    instruction, address, size, is_store = accessed
    caller, number = called
    divider, steps = divided
    begin, is_atomic, is_conditional = kernel.begin, kernel.is_atomic, kernel.is_conditional
    position, total, base = state[_POSITION], state[_TOTAL], state[_BASE]
    block, count, without, seen = state[_BLOCK], state[_COUNT], state[_WITHOUT], state[_SEEN]
    far, last_division = state[_LONG], state[_DIVIDED]
    rows = begin[max(block, 0)]
    blocks = len(begin) - 1
    s, m, c, d = filled[0], filled[1], filled[2], filled[3]
    room = len(address) - 1  # an atomic update makes two
    result = _DONE
    while position < len(words):
        word = words[position]
        if word >> np.uint64(63) and far != 1:
            if m >= room:
                result = _FULL
                break
            accessor = np.int64((word >> np.uint64(54)) & np.uint64(511))
            shift = (word >> np.uint64(51)) & np.uint64(7)
            if accessor < seen and shift == np.uint64(_PREFETCH):  # too late to be in order
                far = 0
                position += 1
                continue
            if accessor >= count or accessor < seen:
                result = _DAMAGED
                break
            index = base + accessor
            if accessor >= without and index < limit:
                store = np.uint8((word >> np.uint64(50)) & np.uint64(1))
                place = word & np.uint64((1 << 50) - 1)
                if far:
                    if far == 1:
                        result = _DAMAGED
                        break
                    place = repeating[1]
                bytes_ = np.uint8(1) if shift == np.uint64(_PREFETCH) else np.uint8(np.uint64(1) << shift)
                if store and accessor != seen and is_atomic[rows + accessor]:
                    # While several threads run, QEMU 7.2 reports an atomic update as a store: it has loaded, too.
                    instruction[m], address[m], size[m], is_store[m] = index, place, bytes_, 0
                    m += 1
                if store or not is_conditional[rows + accessor]:
                    # While one thread runs, QEMU 7.2 compares what a conditional store is to replace.
                    instruction[m], address[m], size[m], is_store[m] = index, place, bytes_, store
                    m += 1
            seen = accessor
            far = 0
            position += 1
            continue
        if far == 1:
            repeating[1] = word
            far = 2
            position += 1
            continue
        if word >> np.uint64(62):
            following: Any = np.int64(word & np.uint64((1 << 62) - 1))
            if following >= blocks:
                result = _BLOCKS
                break
            only: Any = WHOLE
        elif word >> np.uint64(60) == np.uint64(3):
            far = 1
            position += 1
            continue
        elif word >> np.uint64(60) == np.uint64(2):  # the record is interrupted
            following = np.int64(-1)
            only = np.int64(word & np.uint64(_VALUE))
            if only > count:
                result = _DAMAGED
                break
        elif word >> np.uint64(60) == np.uint64(1):
            state[_PENDING] = np.int64(word & np.uint64(_VALUE))
            if state[_PENDING] > MAX_BLOCK:
                result = _DAMAGED
                break
            position += 1
            continue
        elif word >> np.uint64(16) == np.uint64(1 << 43):
            if block < 0 or seen == count:
                result = _DAMAGED
                break
            if c == len(caller):
                result = _FULL
                break
            index = base + count - 1
            if count > without and index < limit:
                caller[c] = index
                number[c] = np.uint16(word & np.uint64(0xFFFF))
                c += 1
            seen = count  # the block was executed to its end
            position += 1
            continue
        elif word >> np.uint64(17) == np.uint64(1 << 41):
            at = np.int64((word >> np.uint64(8)) & np.uint64(511))
            if block < 0 or at >= count or word & np.uint64(255) == 0:
                result = _DAMAGED
                break
            if d == len(divider):
                result = _FULL
                break
            last_division = at
            if at >= without and base + at < limit:
                divider[d] = base + at
                steps[d] = np.uint8(word & np.uint64(255))
                d += 1
            position += 1
            continue
        elif word == np.uint64(0):
            break
        else:
            result = _DAMAGED
            break
        if block >= 0:
            if s + 3 > len(sequence):
                result = _FULL
                break
            if following >= 0 and may_be_left(kernel, rows, count, following):
                only = left_after(kernel, block, following, max(seen, last_division))
                if only == EXAMINE:
                    result = _EXAMINE
                    break
            executed = count if only == WHOLE else only
            if last_division >= executed:
                result = _DAMAGED
                break
            if executed > without:
                s = _append(block, only, without, sequence, s)
                used[block] = 1
                total = base + executed
            repeating[0] = kernel.last_repeat[block] if only == WHOLE else np.uint64(0)
            if total >= limit:
                block = np.int64(-1)
                count = np.int64(0)
                result = _LIMIT
                break
        position += 1
        block = following
        seen = np.int64(-1)
        last_division = np.int64(-1)
        count = np.int64(0)
        if block < 0:
            continue
        rows = begin[block]
        count = begin[block + 1] - rows
        without = state[_PENDING]
        state[_PENDING] = 0
        base = total - without
        if not without and kernel.first_repeat[block] != 0 and kernel.first_repeat[block] == repeating[0]:
            base -= 1
    state[_POSITION], state[_TOTAL], state[_BASE] = position, total, base
    state[_BLOCK], state[_COUNT], state[_WITHOUT], state[_SEEN] = block, count, without, seen
    state[_LONG], state[_DIVIDED] = far, last_division
    filled[0], filled[1], filled[2], filled[3] = s, m, c, d
    return result


class Replay:
    """The state of one thread's record, and buffers for what comes of it."""

    def __init__(self, blocks: BlockTable, interruptions: Interruptions, limit: int | None) -> None:
        self._blocks = blocks
        self._interruptions = interruptions
        self._limit = _NO_LIMIT if limit is None else limit
        self._state = np.zeros(_STATE, np.int64)
        self._state[_BLOCK] = self._state[_DIVIDED] = -1
        self._repeating = np.zeros(2, np.uint64)
        self._sequence = np.empty(_SEQUENCE, np.uint32)
        self._accesses = Accesses.empty(_ACCESSES)
        self._calls = SystemCalls.empty(_CALLS)
        self._divisions = Divisions.empty(_DIVISIONS)
        self._filled = np.zeros(4, np.int64)
        self.used: NDArray[np.uint8] = np.zeros(0, np.uint8)  # [B] the block is in the sequence
        self.is_complete = False  # `limit` instructions are there

    @property
    def instructions(self) -> int:
        """Instructions so far."""
        return min(int(self._state[_TOTAL]), self._limit)

    def read(self, words: NDArray[np.uint64]) -> Iterator[Replayed]:
        """Yield what the words say, chunk by chunk; each is valid until the next one. All that was read has come then.

        Raises InputError where the words are damaged.
        """
        self._state[_POSITION] = 0
        self._interruptions.update(grown=False)
        self._grow()
        while not self.is_complete:
            reason = _read(
                words,
                self._blocks.kernel,
                self._limit,
                self._state,
                self._repeating,
                self.used,
                self._sequence,
                self._accesses,
                self._calls,
                self._divisions,
                self._filled,
            )
            if reason == _EXAMINE:
                self._interruptions.examine(int(self._state[_BLOCK]))
            elif reason == _BLOCKS:
                if not self._update():
                    self._refuse(words, "names a block that is not described")
            elif reason == _DAMAGED:
                self._refuse(words, "does not fit the block that it follows")
            else:
                self.is_complete = reason == _LIMIT
                yield self._take()
                if reason == _DONE:
                    return

    def finish(self) -> Iterator[Replayed]:
        """The last block, after the words' end: complete unless an access that it surely makes is missing."""
        block = int(self._state[_BLOCK])
        if self.is_complete or block < 0:
            return
        self._interruptions.examine(block)
        kernel = self._blocks.kernel
        seen, without = int(max(self._state[_SEEN], self._state[_DIVIDED])), int(self._state[_WITHOUT])
        begin, end = int(kernel.begin[block]), int(kernel.begin[block + 1])
        only = WHOLE
        if kernel.last_access[block] > seen:
            only = seen + 1 + int(np.flatnonzero(kernel.accesses[begin + seen + 1 : end])[0])
        executed = end - begin if only == WHOLE else only
        if executed > without:
            self._filled[0] = _append(block, only, without, self._sequence, 0)
            self.used[block] = 1
            self._state[_TOTAL] = self._state[_BASE] + executed
            yield self._take()

    def used_rows(self) -> NDArray[np.bool_]:
        """[I] whether the block of a row of the block table was executed."""
        used = np.zeros(len(self._blocks), bool)
        used[: len(self.used)] = self.used
        return np.repeat(used, np.diff(self._blocks.kernel.begin))

    def _update(self) -> bool:
        """Read new blocks and return whether there were any."""
        grown = self._blocks.update()
        self._interruptions.update(grown)
        self._grow()
        return grown

    def _grow(self) -> None:
        missing = len(self._blocks) - len(self.used)
        if missing:
            self.used = np.append(self.used, np.zeros(missing, np.uint8))

    def _take(self) -> Replayed:
        s, m, c, d = self._filled.tolist()
        self._filled[:] = 0
        calls, divisions = part(self._calls, 0, c), part(self._divisions, 0, d)
        return Replayed(self._sequence[:s], part(self._accesses, 0, m), calls, divisions)

    def _refuse(self, words: NDArray[np.uint64], why: str) -> None:
        position = int(self._state[_POSITION])
        word = int(words[position])
        raise InputError(
            f"the plugin's records are damaged after instruction {self.instructions}: word {word:#018x} {why}"
        )


@cached(nogil=True)
def expand(
    sequence: NDArray[np.uint32],
    position: int,
    state: NDArray[np.int64],
    kernel: BlockColumns,
    row_id: NDArray[np.uint32],
    out: NDArray[np.uint32],
    filled: int,
) -> tuple[int, int]:
    """Write the static ids of blocks to `out` until it may overflow; (position in `sequence`, entries in `out`).

    `row_id` [I] is the static id of each row of the block table. `state`, 0, WHOLE and 0 at first: [0] the
    rep-prefixed instruction's address that the last block ended with, [1] instructions that are executed of the next
    block, WHOLE: all, [2] how many of its first ones do not belong.
    """
    while position < len(sequence) and filled + MAX_BLOCK <= len(out):
        word = np.int64(sequence[position])
        position += 1
        if word >> 31:
            state[2 if word >> 30 == 3 else 1] = word & _VALUE
            continue
        row: Any = kernel.begin[word]
        end: Any = kernel.begin[word + 1]
        last = np.int64(kernel.last_repeat[word])
        if state[1] != WHOLE:
            end = row + state[1]
            last = np.int64(0)
            state[1] = WHOLE
        if state[2]:
            row += state[2]
            state[2] = 0
        elif kernel.first_repeat[word] != 0 and np.int64(kernel.first_repeat[word]) == state[0]:
            row += 1
        state[0] = last
        while row < end:
            out[filled] = row_id[row]
            filled += 1
            row += 1
    return position, filled
