"""What the out-of-order core fetches after a misprediction, until it knows better.

A trace holds the path taken only, but the code around it is known: every instruction that the program executes
anywhere. So the wrong path is walked from where the branch was expected to go, each branch on it going where it went
last. It brings lines into the instruction cache, which is often what the program needs next, and fills the reorder
buffer with micro-operations to be squashed. Its loads are not known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.instructions import LAST, Flag
from uarch.jit import compiled, out_of_line
from uarch.timing.branches import Branches, strayed
from uarch.timing.caches import Caches, access_code
from uarch.timing.memory import Memory
from uarch.timing.reference import by_reference
from uarch.timing.slots import take
from uarch.timing.static import FLAGS, LENGTH, MICRO_OPERATIONS, Rows

UNKNOWN = -1
BRANCH, CONDITIONAL = int(Flag.BRANCH), int(Flag.CONDITIONAL)
USUAL_LENGTH = 4  # bytes of an instruction that the program never executes, one micro-operation


@by_reference
class WrongPath(NamedTuple):
    target: NDArray[np.int64]  # [S] where each branch went when it was last taken, UNKNOWN before
    taken: NDArray[np.uint8]  # [S] whether it was taken last


def new_wrong_path(instructions: int) -> WrongPath:
    return WrongPath(np.full(instructions, UNKNOWN, np.int64), np.zeros(instructions, np.uint8))


@compiled
def note_branch(path: WrongPath, here: int, following: int, taken: int) -> None:
    """The branch `here` went to the instruction `following`."""
    path.taken[here] = taken
    if taken and following != LAST:
        path.target[here] = following


@compiled
def _next(pcs: NDArray[np.int64], rows: Rows, here: int) -> int:
    """The instruction behind `here`, UNKNOWN where the program never executes it."""
    if here + 1 < len(pcs) and pcs[here + 1] == pcs[here] + rows[here, LENGTH]:
        return here + 1
    return UNKNOWN


@out_of_line
def walk(
    path: WrongPath,
    branches: Branches,
    caches: Caches,
    memory: Memory,
    tlbs: NDArray[np.int64],
    rows: Rows,
    pcs: NDArray[np.int64],
    here: int,
    taken: int,
    line: int,
    width: int,
    cycle: int,
    by: int,
    end: int,
    most: int,
) -> tuple[int, int]:
    """Fetches from `cycle` until `end` beyond the branch `here`, which went another way than expected.

    `taken` is whether it was expected to be taken, `line` the one at hand, `width` the micro-operations fetched a
    cycle, `most` how many there is room for. Returns how many of them were fetched by the cycle `by`, and the line
    then at hand (UNKNOWN where it is still on its way).
    """
    address = pcs[here] + rows[here, LENGTH]
    here = path.target[here] if taken else _next(pcs, rows, here)
    if taken and here == UNKNOWN:
        return 0, line
    used, count, fetched = 0, 0, 0
    while fetched < most:
        length, operations, flags = USUAL_LENGTH, 1, 0
        if here != UNKNOWN:
            address, length = pcs[here], int(np.int64(rows[here, LENGTH]))
            operations, flags = int(np.int64(rows[here, MICRO_OPERATIONS])), int(np.int64(rows[here, FLAGS]))
        last = (address + length - 1) >> 6
        for wanted in range(address >> 6, last + 1):
            if wanted != line:
                data = access_code(caches, memory, tlbs, wanted, cycle, address, 1)
                cycle, used, line = max(cycle + 1, data), 0, wanted
                if cycle >= end:
                    return count, UNKNOWN
        cycle, used = take(cycle, used, operations, width)
        if cycle >= end:
            break
        fetched += operations
        if cycle <= by:
            count += operations
        if flags & BRANCH and not flags & CONDITIONAL:
            strayed(branches, address)
        if flags & BRANCH and (path.taken[here] or not flags & CONDITIONAL):
            here = path.target[here]
            if here == UNKNOWN:
                break
            used = width
        elif here == UNKNOWN:
            address += length
        else:
            address, here = address + length, _next(pcs, rows, here)
    return count, line
