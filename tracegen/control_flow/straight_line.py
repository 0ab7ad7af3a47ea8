"""Places where execution leaves the straight line: what follows most instructions is the one behind them, and needs no
look.

Passes that care for branches, basic blocks or fetched lines visit the places that `find` lists, a fifth of the
instructions, in place of asking each one; that also saves a processor the guesses at the answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import kernel
from uarch.instructions import Chunk, Flag, StaticInstructions

LINE_BITS = 6  # 64-byte lines
_NOWHERE = (1 << 32) - 2  # is no instruction, and is not LAST
_NEW_LINE = 32  # the bit


class Places(NamedTuple):
    """Places in a chunk, ascending."""

    ends: NDArray[np.int32]  # branches, what is followed by another than the one behind it, the trace's last
    fetches: NDArray[np.int32]  # the first one, what comes behind `ends`, what begins a line or reaches into one


def lines_of(instructions: StaticInstructions) -> NDArray[np.uint64]:
    """[S, 2] the lines of each instruction's first and last byte."""
    ends = instructions.address + instructions.length - np.uint64(1)
    return np.ascontiguousarray(np.stack([instructions.address, ends], axis=1) >> np.uint64(LINE_BITS))


def successors(instructions: StaticInstructions, line_bits: int = LINE_BITS) -> NDArray[np.uint64]:
    """[S] what `find` reads: the number of the instruction behind each one (none for branches), and whether it lies in
    another line (of 2^line_bits bytes) than the last byte before it, or in two.
    """
    address = instructions.address
    behind = address + instructions.length
    order = np.argsort(address, kind="stable")
    place = np.minimum(np.searchsorted(address, behind, sorter=order), max(len(order) - 1, 0))
    following = order[place].astype(np.uint64)
    simple = (address[order[place]] == behind) & ((instructions.flags & int(Flag.BRANCH)) == 0)
    one, bits = np.uint64(1), np.uint64(line_bits)
    before, first, last = (address - one) >> bits, address >> bits, (behind - one) >> bits
    new_line = (before != first) | (first != last)
    return np.where(simple, following, np.uint64(_NOWHERE)) | new_line.astype(np.uint64) << np.uint64(_NEW_LINE)


@kernel
def _find(
    successor: NDArray[np.uint64],
    static_id: NDArray[np.uint32],
    next_static_id: NDArray[np.uint32],
    ends: NDArray[np.int32],
    fetches: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Written so that no jump depends on the program: each place is stored, and kept where it counts."""
    found, fetched = np.int64(0), np.int64(0)
    left = np.uint64(1)
    for k in range(len(static_id)):
        known = successor[static_id[k]]
        ends[found] = k
        fetches[fetched] = k
        fetched += np.int64(left | (known >> np.uint64(_NEW_LINE)))
        left = np.uint64(np.uint32(known) != next_static_id[k])
        found += np.int64(left)
    counts[0], counts[1] = found, fetched


def find(successor: NDArray[np.uint64], chunk: Chunk) -> Places:
    """The places of a chunk (or of a part of one); `successor`: of all its instructions."""
    ends, fetches = np.empty(len(chunk), np.int32), np.empty(len(chunk), np.int32)
    counts = np.zeros(2, np.int64)
    _find(successor, chunk.static_id, chunk.next_static_id, ends, fetches, counts)
    return Places(ends[: counts[0]], fetches[: counts[1]])
