"""The blocks of instructions that QEMU has translated, as the plugin describes them in its file `blocks`."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.qemu.encoding import atomic_read_modify_writes, repeated_strings, store_conditionals

BLOCK_BYTES = 4 << 20  # of a part of the file, as in plugin.c
MAX_BLOCK = 512  # instructions; QEMU's limit
MAX_BLOCKS = 1 << 30  # two bits of a number say more, in `replay`'s sequence
UNKNOWN = -2  # BlockColumns.last_access: not looked at yet


class BlockColumns(NamedTuple):
    """Part of the block table that compiled loops read: one row per block, or per instruction of a block."""

    begin: NDArray[np.int64]  # [B+1] rows of the block's instructions
    first_repeat: NDArray[np.uint64]  # [B] address of the first instruction if rep-prefixed, else 0
    last_repeat: NDArray[np.uint64]  # [B]
    is_handler: NDArray[np.uint8]  # [B] a signal handler starts here
    last_access: NDArray[np.int64]  # [B] last instruction that surely accesses memory, -1: none, UNKNOWN
    address: NDArray[np.uint64]  # [I]
    is_atomic: NDArray[np.uint8]  # [I] atomic read-modify-write, of which QEMU may report the store alone
    is_conditional: NDArray[np.uint8]  # [I] store-conditional, of which QEMU may report a load, too
    accesses: NDArray[np.uint8]  # [I] surely accesses memory (where last_access is known)


class BlockTable:
    """The blocks so far; `update` takes in those that have come since."""

    def __init__(self, folder: Path, isa: str) -> None:
        self._path = folder / "blocks"
        self.isa = isa
        self._position = 0  # bytes of the file that are understood
        self.code: NDArray[np.uint8] = np.zeros((0, 16), np.uint8)  # [I, 16] the instructions' bytes
        none64, none8 = np.empty(0, np.uint64), np.empty(0, np.uint8)
        self.kernel = BlockColumns(
            np.zeros(1, np.int64), none64, none64, none8, np.empty(0, np.int64), none64, none8, none8, none8
        )

    def __len__(self) -> int:
        return len(self.kernel.begin) - 1

    def update(self) -> bool:
        """Read new blocks and return whether there were any. Raises InputError where the file is damaged."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return False
        parts: list[NDArray[np.uint64]] = []
        counts: list[int] = []
        with self._path.open("rb") as stream:
            while self._position < size:
                stream.seek(self._position)
                room = BLOCK_BYTES - self._position % BLOCK_BYTES
                data = stream.read(room)
                words = np.frombuffer(data, "<u8", len(data) // 8)
                used = self._take(words, len(self) + len(counts), parts, counts)
                self._position += 8 * used
                full = used > 0 and self._position % BLOCK_BYTES == 0  # to the last byte: nothing to skip
                following = self._position if full else (self._position // BLOCK_BYTES + 1) * BLOCK_BYTES
                if following + mmap.PAGESIZE > size or not _continues(stream.fileno(), following):
                    break
                self._position = following
        if counts:
            self._extend(np.concatenate(parts).reshape(-1, 3), np.array(counts, np.int64))
        return bool(counts)

    def _take(self, words: NDArray[np.uint64], number: int, parts: list[NDArray[np.uint64]], counts: list[int]) -> int:
        position = 0
        while position + 2 <= len(words) and words[position] == number + 1:
            count = int(words[position + 1])
            end = position + 2 + 3 * count
            if not 1 <= count <= MAX_BLOCK or end > len(words) or number >= MAX_BLOCKS:
                byte = self._position + 8 * position
                raise InputError(
                    f"{self._path}: block {number} at byte {byte} claims {count} instructions; "
                    f"1 … {MAX_BLOCK} within its part of the file are expected"
                )
            parts.append(words[position + 2 : end])
            counts.append(count)
            number += 1
            position = end
        return position

    def _extend(self, rows: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
        old = self.kernel
        address = np.ascontiguousarray(rows[:, 0])
        code = np.ascontiguousarray(rows[:, 1:]).view(np.uint8).reshape(-1, 16)
        end = old.begin[-1] + np.cumsum(counts)
        first, last = end - counts - old.begin[-1], end - 1 - old.begin[-1]
        repeat = np.where(repeated_strings(code), address, np.uint64(0)) if self.isa == "x86-64" else 0 * address
        self.kernel = BlockColumns(
            np.append(old.begin, end),
            np.append(old.first_repeat, repeat[first]),
            np.append(old.last_repeat, repeat[last]),
            np.append(old.is_handler, np.zeros(len(counts), np.uint8)),
            np.append(old.last_access, np.full(len(counts), UNKNOWN, np.int64)),
            np.append(old.address, address),
            np.append(old.is_atomic, atomic_read_modify_writes(code, self.isa)),
            np.append(old.is_conditional, store_conditionals(code, self.isa)),
            np.append(old.accesses, np.zeros(len(address), np.uint8)),
        )
        self.code = np.concatenate([self.code, code])


def _continues(descriptor: int, offset: int) -> bool:
    """Return whether the plugin has begun a further part of the file; read through a mapping, as it writes."""
    with mmap.mmap(descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ, offset=offset) as page:
        return page[:8] != bytes(8)
