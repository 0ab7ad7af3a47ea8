"""Blocks left early, by faults and signals.

QEMU announces a block before it runs it. What shows that it was left is the next block: it starts inside this one (the
faulting instruction again), or where a signal handler does; and accesses that its remaining instructions surely make
are missing.
"""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.jit import cached
from tracegen.decode import decode
from tracegen.qemu.blocks import UNKNOWN, BlockColumns, BlockTable
from tracegen.qemu.encoding import untold
from uarch.instructions import Flag

WHOLE = -1
EXAMINE = -2


@numba.njit(inline="always")
def may_be_left(kernel: BlockColumns, rows: int, count: int, following: int) -> bool:
    """Return whether `following` may come of an early end of the block of `count` instructions from row `rows` on."""
    start = kernel.address[kernel.begin[following]]
    inside = start > kernel.address[rows] and start <= kernel.address[rows + count - 1]
    return inside or kernel.is_handler[following] != 0


@cached(nogil=True)
def left_after(kernel: BlockColumns, block: int, following: int, seen: int) -> int:
    """Return how many instructions of `block` were executed before `following`: WHOLE, a number, or EXAMINE it first.

    `seen` is the last instruction of the block that was seen to access memory, -1: none.
    """
    rows = kernel.begin[block]
    count = kernel.begin[block + 1] - rows
    if not may_be_left(kernel, rows, count, following) or seen + 1 >= count:
        return WHOLE
    if kernel.last_access[block] == UNKNOWN:
        return EXAMINE
    if kernel.last_access[block] <= seen:
        return WHOLE
    cut = seen + 1
    while not kernel.accesses[rows + cut]:
        cut += 1
    if not kernel.is_handler[following] and kernel.address[rows + cut] != kernel.address[kernel.begin[following]]:
        return WHOLE
    return cut


class Interruptions:
    """Keeps what `left_after` reads of the block table: signal handlers, and instructions that surely access memory."""

    def __init__(self, folder: Path, blocks: BlockTable) -> None:
        self._path = folder / "handlers"
        self._size = 0
        self._handlers: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._blocks = blocks

    def update(self, grown: bool) -> None:
        """Mark the blocks that are signal handlers; `grown`: the block table has new ones."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size == self._size and not grown:
            return
        if size != self._size:
            self._size = size
            try:
                found = {int(line.split()[1], 16) for line in self._path.read_text().splitlines()}
                self._handlers = np.array(sorted(found), np.uint64)
            except (ValueError, IndexError, OverflowError) as error:
                raise InputError(f"{self._path}: a line does not read `signal HEX-address` ({error})") from error
        kernel = self._blocks.kernel
        kernel.is_handler[:] = np.isin(kernel.address[kernel.begin[:-1]], self._handlers)

    def examine(self, block: int) -> None:
        """Find out which instructions of a block surely access memory."""
        kernel = self._blocks.kernel
        rows = slice(int(kernel.begin[block]), int(kernel.begin[block + 1]))
        flags = decode(kernel.address[rows], self._blocks.code[rows], self._blocks.isa).flags
        conditional = Flag.STRING | Flag.STORE_CONDITIONAL
        sure = ((flags & (Flag.LOAD | Flag.STORE)) != 0) & ((flags & conditional) == 0)
        sure &= ~untold(self._blocks.code[rows], self._blocks.isa)
        kernel.accesses[rows] = sure
        kernel.last_access[block] = np.flatnonzero(sure)[-1] if sure.any() else -1
