"""From the plugin's records (plugin.c describes them) to a trace, while the program still runs.

The accesses of a trace do not depend on its static instructions, so they are written as they come. The executed
blocks are kept as a sequence of block numbers in a temporary file, and become `static_id` when the program has ended
and all its instructions are known. Memory stays bounded.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from tracegen.decode import decode
from tracegen.trace import TraceWriter
from uarch.errors import InputError
from uarch.instructions import Flag

WINDOW_WORDS = 1 << 17  # as in plugin.c
BLOCK_WINDOW = 4 << 20  # as in plugin.c
_HEADER = 4096
_WINDOWS, _READY, _DROP, _FILLED, _EMPTIED, _FAILED = range(6)  # struct ring

_BATCH = 8  # windows read at once
_ACCESSES = 1 << 17  # buffered; the HDF5 chunk, so that each chunk is compressed once
_EXPANSION = 1 << 17
_MAX_BLOCK = 512  # instructions; QEMU's limit
_NO_LIMIT = np.iinfo(np.int64).max
_UNKNOWN = -2  # BlockTable.last_access: not looked at yet

_FIRST_CAPACITY = 1 << 12


class Kernel(NamedTuple):
    """What the compiled loop reads of the block table: one row per block, or per instruction of a block."""

    begin: NDArray[np.int64]  # [B+1] rows of the block's instructions
    first_repeat: NDArray[np.uint64]  # [B] address of the first instruction if rep-prefixed, else 0
    last_repeat: NDArray[np.uint64]  # [B]
    is_handler: NDArray[np.uint8]  # [B] a signal handler starts here
    last_access: NDArray[np.int64]  # [B] last instruction that surely accesses memory, -1: none, _UNKNOWN
    address: NDArray[np.uint64]  # [I]
    is_atomic: NDArray[np.uint8]  # [I] atomic read-modify-write, of which QEMU may report the store alone
    accesses: NDArray[np.uint8]  # [I] surely accesses memory (where last_access is known)


class Accesses(NamedTuple):
    """Buffers for memory accesses, the columns of a trace."""

    instruction: NDArray[np.uint64]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    is_store: NDArray[np.uint8]


class BlockTable:
    """The blocks that QEMU has translated so far, read from the plugin's file `blocks`."""

    def __init__(self, folder: Path, isa: str) -> None:
        self._path = folder / "blocks"
        self._handlers_path = folder / "handlers"
        self._handlers_size = 0
        self._handlers: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._isa = isa
        self._position = 0  # bytes of the file that are understood
        self._code = np.zeros((0, 16), np.uint8)
        self.rows = 0
        self.kernel = Kernel(
            np.zeros(1, np.int64),
            np.empty(0, np.uint64),
            np.empty(0, np.uint64),
            np.empty(0, np.uint8),
            np.empty(0, np.int64),
            np.empty(0, np.uint64),
            np.empty(0, np.uint8),
            np.empty(0, np.uint8),
        )

    def __len__(self) -> int:
        return len(self.kernel.begin) - 1

    @property
    def code(self) -> NDArray[np.uint8]:
        """[I, 16] the instructions' bytes."""
        return self._code

    def update(self) -> None:
        """Take in the blocks and the signal handlers that have come since the last call."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        pieces: list[NDArray[np.uint64]] = []
        counts: list[int] = []
        with self._path.open("rb") as stream:
            while self._position < size:
                stream.seek(self._position)
                room = BLOCK_WINDOW - self._position % BLOCK_WINDOW
                words = np.frombuffer(stream.read(room), "<u8")
                used = self._take(words, len(self) + len(counts), pieces, counts)
                self._position += 8 * used
                following = (self._position // BLOCK_WINDOW + 1) * BLOCK_WINDOW
                if following >= size or not self._continues(stream.fileno(), following):
                    break
                self._position = following
        grown = bool(counts)
        if grown:
            self._extend(np.concatenate(pieces).reshape(-1, 3), np.array(counts, np.int64))
        self._update_handlers(grown)

    def _continues(self, descriptor: int, offset: int) -> bool:
        with mmap.mmap(descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ, offset=offset) as page:
            return page[:8] != bytes(8)

    @staticmethod
    def _take(words: NDArray[np.uint64], number: int, pieces: list[NDArray[np.uint64]], counts: list[int]) -> int:
        position = 0
        while position + 2 <= len(words) and words[position] == number + 1:
            count = int(words[position + 1])
            pieces.append(words[position + 2 : position + 2 + 3 * count])
            counts.append(count)
            number += 1
            position += 2 + 3 * count
        return position

    def _extend(self, rows: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
        old = self.kernel
        address = np.ascontiguousarray(rows[:, 0])
        code = np.ascontiguousarray(rows[:, 1:]).view(np.uint8).reshape(-1, 16)
        end = old.begin[-1] + np.cumsum(counts)
        first, last = end - counts - old.begin[-1], end - 1 - old.begin[-1]
        repeat = np.where(_repeated_strings(code), address, np.uint64(0)) if self._isa == "x86-64" else 0 * address
        self.kernel = Kernel(
            np.append(old.begin, end),
            np.append(old.first_repeat, repeat[first]),
            np.append(old.last_repeat, repeat[last]),
            np.append(old.is_handler, np.zeros(len(counts), np.uint8)),
            np.append(old.last_access, np.full(len(counts), _UNKNOWN, np.int64)),
            np.append(old.address, address),
            np.append(old.is_atomic, atomic_read_modify_writes(code, self._isa)),
            np.append(old.accesses, np.zeros(len(address), np.uint8)),
        )
        self._code = np.concatenate([self._code, code])

    def _update_handlers(self, grown: bool) -> None:
        try:
            size = self._handlers_path.stat().st_size
        except FileNotFoundError:
            return
        if size == self._handlers_size and not grown:
            return
        self._handlers_size = size
        lines = self._handlers_path.read_text().splitlines()
        handlers = np.array(sorted({int(line.split()[1], 16) for line in lines}), np.uint64)
        first = self.kernel.address[self.kernel.begin[:-1]]
        self.kernel.is_handler[:] = np.isin(first, handlers)

    def examine(self, block: int) -> None:
        """Find out which instructions of a block surely access memory."""
        rows = slice(int(self.kernel.begin[block]), int(self.kernel.begin[block + 1]))
        flags = decode(self.kernel.address[rows], self._code[rows], self._isa).flags
        conditional = Flag.STRING | Flag.STORE_CONDITIONAL
        sure = ((flags & (Flag.LOAD | Flag.STORE)) != 0) & ((flags & conditional) == 0)
        self.kernel.accesses[rows] = sure
        self.kernel.last_access[block] = np.flatnonzero(sure)[-1] if sure.any() else -1


def _repeated_strings(code: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """x86: a string instruction (movs, cmps, stos, lods, scas, ins, outs) with a rep prefix; code [I, 16]."""
    result = np.zeros(len(code), bool)
    prefixed = np.isin(code[:, :4], (0xF2, 0xF3)).any(axis=1)  # of up to four prefixes in use, one is rep
    for row in np.flatnonzero(prefixed):
        repeat = False
        for byte in code[row].tolist():
            if byte in (0xF2, 0xF3):
                repeat = True
            elif byte not in (0x66, 0x67, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0xF0) and byte & 0xF0 != 0x40:
                result[row] = repeat and (
                    byte in range(0xA4, 0xA8) or byte in range(0xAA, 0xB0) or byte in range(0x6C, 0x70)
                )
                break
    return result


def atomic_read_modify_writes(code: NDArray[np.uint8], isa: str) -> NDArray[np.uint8]:
    """Whether an instruction reads and writes memory in one step; code [I, 16].

    x86: a lock prefix, or xchg with memory. AArch64: LSE's LD<op>, SWP, CAS, CASP. RISC-V: the A extension without
    LR and SC.
    """
    word = np.ascontiguousarray(code[:, :4]).view("<u4")[:, 0]
    if isa == "aarch64":
        atomic = (word & 0x3B200C00) == 0x38200000
        atomic |= (word & 0x3FA07C00) == 0x08A07C00
        atomic |= (word & 0xBFA07C00) == 0x08207C00
    elif isa == "riscv64":
        atomic = ((word & 0x7F) == 0x2F) & ~np.isin(word >> 27, (2, 3))
    else:
        atomic = code[:, 0] == 0xF0
        for prefixes in range(3):  # xchg after an operand size or REX prefix; lock after an operand size prefix
            before = code[:, :prefixes]
            plain = ((before == 0x66) | (before & 0xF0 == 0x40)).all(axis=1)
            opcode = code[:, prefixes]
            atomic |= plain & (opcode == 0xF0)
            atomic |= plain & ((opcode == 0x86) | (opcode == 0x87)) & (code[:, prefixes + 1] < 0xC0)
    return atomic.astype(np.uint8)


# State of the reading loop, an int64 array.
_BLOCK, _TOTAL, _BASE, _SEEN, _POSITION, _LONG = range(6)  # current block (-1: none), instructions so far (less the
# dropped), index of the block's first instruction, last instruction of it with an access, words read, see _read
_STATE = 6

_DONE, _FULL, _EXAMINE, _BLOCKS, _LIMIT = range(5)  # why the loop returned


@numba.njit(cache=True, nogil=True)
def _read(
    words: NDArray[np.uint64],
    kernel: Kernel,
    limit: int,
    state: NDArray[np.int64],
    repeating: NDArray[np.uint64],
    sequence: NDArray[np.uint32],
    accessed: Accesses,
    filled: NDArray[np.int64],
) -> int:
    """Read words from state[_POSITION] until they end, a buffer is full, or a block must be examined.

    `sequence` gets, for each complete block, its number, after `1 << 31 | n` where only its first n instructions were
    executed. `repeating`: [0] the rep-prefixed instruction that the last complete block ended with, [1] the full
    address for the next access word. `filled`: entries in `sequence` and in the accesses' arrays.
    """
    begin, first_repeat, last_repeat, is_handler, last_access, addresses, is_atomic, accesses = kernel
    instruction, address, size, is_store = accessed
    position = state[_POSITION]
    total = state[_TOTAL]
    base = state[_BASE]
    block = state[_BLOCK]
    seen = state[_SEEN]
    blocks = len(begin) - 1
    s, m = filled[0], filled[1]
    result = _DONE
    while position < len(words):
        word = words[position]
        if word >> np.uint64(63):
            if m + 2 > len(address):
                result = _FULL
                break
            accessor = np.int64((word >> np.uint64(54)) & np.uint64(511))
            index = base + accessor
            if 0 <= index < limit:
                shift = (word >> np.uint64(51)) & np.uint64(7)
                instruction[m] = index
                address[m] = word & np.uint64((1 << 50) - 1)
                if state[_LONG] == 2:
                    address[m] = repeating[1]
                size[m] = np.uint8(1) << shift
                is_store[m] = (word >> np.uint64(50)) & np.uint64(1)
                if is_store[m] and accessor != seen and is_atomic[begin[block] + accessor]:
                    # While several threads run, QEMU 7.2 reports an atomic update as a store: it has loaded, too.
                    instruction[m + 1], address[m + 1], size[m + 1], is_store[m + 1] = index, address[m], size[m], 1
                    is_store[m] = 0
                    m += 1
                m += 1
            seen = accessor
            state[_LONG] = 0
            position += 1
            continue
        if state[_LONG] == 1:
            repeating[1] = word
            state[_LONG] = 2
            position += 1
            continue
        if word >> np.uint64(60) == np.uint64(3):
            state[_LONG] = 1
            position += 1
            continue
        if word == np.uint64(0):
            break
        following = np.int64(word & np.uint64(0xFFFFFFFF))
        if following >= blocks:
            result = _BLOCKS
            break
        if block >= 0:
            if s + 2 > len(sequence):
                result = _FULL
                break
            rows = begin[block]
            count = begin[block + 1] - rows
            start = addresses[begin[following]]
            inside = start > addresses[rows] and start <= addresses[rows + count - 1]
            cut: Any = -1
            if (inside or is_handler[following]) and seen + 1 < count:
                if last_access[block] == _UNKNOWN:
                    result = _EXAMINE
                    break
                if last_access[block] > seen:
                    cut = seen + 1
                    while not accesses[rows + cut]:
                        cut += 1
                    if not is_handler[following] and addresses[rows + cut] != start:
                        cut = -1
            if cut >= 0:
                sequence[s] = np.uint32(1 << 31) | np.uint32(cut)
                s += 1
                count = cut
            sequence[s] = block
            s += 1
            total = base + count
            repeating[0] = last_repeat[block] if cut < 0 else np.uint64(0)
            if total >= limit:
                block = np.int64(-1)
                result = _LIMIT
                break
        block = following
        seen = np.int64(-1)
        base = total
        if first_repeat[block] != 0 and first_repeat[block] == repeating[0]:
            base -= 1
        position += 1
    state[_POSITION] = position
    state[_TOTAL] = total
    state[_BASE] = base
    state[_BLOCK] = block
    state[_SEEN] = seen
    filled[0] = s
    filled[1] = m
    return result


@numba.njit(cache=True, nogil=True)
def _expand(
    sequence: NDArray[np.uint32],
    position: int,
    state: NDArray[np.int64],
    kernel: Kernel,
    row_id: NDArray[np.uint32],
    out: NDArray[np.uint32],
    filled: int,
) -> tuple[int, int]:
    """Write the static ids of blocks to `out` until it may overflow; (position in `sequence`, entries in `out`).

    `state`: [0] the rep-prefixed instruction's address that the last block ended with, [1] instructions that are left
    of the next block, -1: all.
    """
    while position < len(sequence) and filled + _MAX_BLOCK <= len(out):
        word = np.int64(sequence[position])
        position += 1
        if word >> 31:
            state[1] = word & 0x7FFFFFFF
            continue
        row = kernel.begin[word]
        end = kernel.begin[word + 1]
        last: Any = np.int64(kernel.last_repeat[word])
        if state[1] >= 0:
            end = row + state[1]
            last = 0
            state[1] = -1
        if kernel.first_repeat[word] != 0 and np.int64(kernel.first_repeat[word]) == state[0]:
            row += 1
        state[0] = last
        while row < end:
            out[filled] = row_id[row]
            filled += 1
            row += 1
    return position, filled


class ThreadRecords:
    """The stream of one thread, on its way into a TraceWriter (entered by the caller)."""

    def __init__(self, path: Path, blocks: BlockTable, limit: int | None) -> None:
        self._stream = path.open("r+b")
        self._map = mmap.mmap(self._stream.fileno(), 0)
        self._ring = np.frombuffer(self._map, "<u8", _HEADER // 8)
        self._words = np.frombuffer(self._map, "<u8", offset=_HEADER)
        self._blocks = blocks
        self._limit = _NO_LIMIT if limit is None else limit
        self._sequence_file = path.with_suffix(path.suffix + ".sequence").open("w+b")
        self._state = np.zeros(_STATE, np.int64)
        self._state[_BLOCK] = -1
        self._repeating = np.zeros(2, np.uint64)
        self._sequence = np.empty(1 << 16, np.uint32)
        self._accesses = Accesses(
            np.empty(_ACCESSES, np.uint64),
            np.empty(_ACCESSES, np.uint64),
            np.empty(_ACCESSES, np.uint8),
            np.empty(_ACCESSES, np.uint8),
        )
        self._filled = np.zeros(2, np.int64)
        self._used = np.zeros(0, np.uint8)  # [B] the block is in the sequence
        self._started = False
        self._complete = False
        self._drop = 0
        self.writer: TraceWriter | None = None

    @property
    def instructions(self) -> int:
        """Instructions so far."""
        return max(0, min(int(self._state[_TOTAL]), self._limit))

    @property
    def has_records(self) -> bool:
        """Whether recording has started (it has not before `skip` instructions)."""
        return bool(self._ring[_READY]) and bool(self._ring[_FILLED] or self._words[0])

    @property
    def failed(self) -> bool:
        """Whether the plugin had to give up for want of disk space."""
        return bool(self._ring[_FAILED])

    def close(self) -> None:
        """Let go of the files."""
        del self._ring, self._words
        self._map.close()
        self._stream.close()
        self._sequence_file.close()

    def read(self) -> bool:
        """Take in the windows that are full; False if there was none."""
        emptied, filled = int(self._ring[_EMPTIED]), int(self._ring[_FILLED])
        if emptied == filled:
            return False
        self._start()
        self._blocks.update()
        windows = int(self._ring[_WINDOWS])
        while emptied < filled:
            first = emptied % windows
            count = min(filled - emptied, _BATCH, windows - first)
            part = self._words[first * WINDOW_WORDS : (first + count) * WINDOW_WORDS]
            self._consume(part)
            part[:] = 0
            emptied += count
            self._ring[_EMPTIED] = emptied
        return True

    def finish(self) -> None:
        """Take in what is left, after the program's end."""
        self.read()
        if not self.has_records:
            return
        self._start()
        self._blocks.update()
        first = int(self._ring[_FILLED]) % int(self._ring[_WINDOWS])
        self._consume(self._words[first * WINDOW_WORDS : (first + 1) * WINDOW_WORDS])
        if not self._complete:
            self._end_last_block()
        self._flush_sequence()
        self._flush_accesses()

    def write_static_ids(self, row_id: NDArray[np.uint32]) -> None:
        """Write the executed instructions; `row_id` [I] is the static id of each row of the block table."""
        assert self.writer is not None
        none64, none8 = np.empty(0, np.uint64), np.empty(0, np.uint8)
        self._sequence_file.seek(0)
        left = self.instructions
        drop = self._drop
        out = np.empty(2 * _EXPANSION, np.uint32)
        filled = 0
        state = np.array([0, -1], np.int64)
        while True:
            sequence = np.fromfile(self._sequence_file, np.uint32, 1 << 16)
            position = 0
            while position < len(sequence):
                position, filled = _expand(sequence, position, state, self._blocks.kernel, row_id, out, filled)
                if drop:
                    filled -= drop
                    out[:filled] = out[drop : drop + filled].copy()
                    drop = 0
                whole = min(filled // _EXPANSION * _EXPANSION, left)
                if whole:
                    self.writer.append(out[:whole], none64, none64, none8, none8)
                    left -= whole
                    filled -= whole
                    out[:filled] = out[whole : whole + filled].copy()
            if len(sequence) == 0:
                break
        rest = min(filled, left)
        self.writer.append(out[:rest], none64, none64, none8, none8)

    def used_rows(self) -> NDArray[np.bool_]:
        """[I] whether the block of a row of the block table was executed."""
        used = np.zeros(len(self._blocks), bool)
        used[: len(self._used)] = self._used
        return np.repeat(used, np.diff(self._blocks.kernel.begin))

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._drop = int(self._ring[_DROP])
            self._state[_TOTAL] = -self._drop

    def _consume(self, words: NDArray[np.uint64]) -> None:
        if self._complete:
            return
        self._state[_POSITION] = 0
        while True:
            reason = _read(
                words,
                self._blocks.kernel,
                self._limit,
                self._state,
                self._repeating,
                self._sequence,
                self._accesses,
                self._filled,
            )
            if reason == _DONE:
                return
            if reason == _LIMIT:
                self._complete = True
                return
            if reason == _EXAMINE:
                self._blocks.examine(int(self._state[_BLOCK]))
            elif reason == _BLOCKS:
                known = len(self._blocks)
                self._blocks.update()
                if len(self._blocks) == known:
                    raise RuntimeError("the plugin's records name a block that it has not described")
            else:
                if self._filled[0] + 2 > len(self._sequence):
                    self._flush_sequence()
                if self._filled[1] + 2 > _ACCESSES:
                    self._flush_accesses()

    def _end_last_block(self) -> None:
        """The stream ends: its last block is complete unless an access that it surely makes is missing."""
        block = int(self._state[_BLOCK])
        if block < 0:
            return
        self._flush_sequence()
        self._blocks.examine(block)
        kernel = self._blocks.kernel
        seen = int(self._state[_SEEN])
        begin, end = int(kernel.begin[block]), int(kernel.begin[block + 1])
        count = end - begin
        if kernel.last_access[block] > seen:
            count = seen + 1 + int(np.flatnonzero(kernel.accesses[begin + seen + 1 : end])[0])
            self._sequence[self._filled[0]] = np.uint32(1 << 31 | count)
            self._filled[0] += 1
        self._sequence[self._filled[0]] = block
        self._filled[0] += 1
        self._state[_TOTAL] = self._state[_BASE] + count

    def _flush_sequence(self) -> None:
        part = self._sequence[: self._filled[0]]
        if len(self._used) < len(self._blocks):
            self._used = np.append(self._used, np.zeros(len(self._blocks) - len(self._used), np.uint8))
        self._used[part[part < (1 << 31)]] = 1
        part.tofile(self._sequence_file)
        self._filled[0] = 0

    def _flush_accesses(self) -> None:
        assert self.writer is not None
        count = int(self._filled[1])
        instruction, address, size, is_store = self._accesses
        none = np.empty(0, np.uint32)
        self.writer.append(none, instruction[:count], address[:count], size[:count], is_store[:count])
        self._filled[1] = 0


def static_instructions(
    blocks: BlockTable, used: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint32]]:
    """Addresses [S] ascending, code [S, 16], and the static id of each row of the block table [I].

    Of code that changed while the program ran, the last bytes stand for the address.
    """
    rows = np.flatnonzero(used)
    if len(rows) == 0:
        raise InputError("nothing was recorded")
    address, inverse = np.unique(blocks.kernel.address[rows], return_inverse=True)
    code = np.zeros((len(address), 16), np.uint8)
    code[inverse] = blocks.code[rows]  # rows are in order of translation, and the last assignment stays
    row_id = np.zeros(len(used), np.uint32)
    row_id[rows] = inverse
    return address, code, row_id
