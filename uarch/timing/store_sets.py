"""Which loads wait for which stores: memory dependence prediction with store sets (Chrysos & Emer, ISCA 1998).

A load goes ahead of older stores whose addresses are not known yet. Where one of them turns out to write what the load
has read, everything from the load on is fetched again, and load and store are put into one set: from then on the load
waits for the store of its set that was fetched last, whatever its address, and the stores of a set issue in order.
Sizes, hashing, merging and the period of clearing are those of gem5's O3, which also compares addresses in blocks of
16 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled, out_of_line
from uarch.timing.reference import by_reference

Array = NDArray[np.int64]

SETS, CLEAR_AFTER = 1024, 250_000  # accesses
BLOCK_BITS, BLOCKS = 4, 512
NO_SET = -1
BLOCK, ISSUE, PC = range(3)
ACCESSES, VIOLATIONS = range(2)


@by_reference
class StoreSets(NamedTuple):
    member: Array  # [SETS] by address of load or store: its set
    issued: Array  # [SETS] by set: cycle at which the store fetched last issues
    blocks: Array  # [BLOCKS, 3] block last written, cycle at which the store issues, its address
    counts: Array


def new_store_sets() -> StoreSets:
    return StoreSets(
        np.full(SETS, NO_SET, np.int64),
        np.full(SETS, -1, np.int64),
        np.full((BLOCKS, 3), -1, np.int64),
        np.zeros(2, np.int64),
    )


@compiled
def waits_for(sets: StoreSets, pc: int) -> int:
    """First cycle in which the load or store at `pc` may issue."""
    chosen = sets.member[(pc >> 2) & (SETS - 1)]
    return sets.issued[chosen] + 1 if chosen != NO_SET else 0


@compiled
def note_issue(sets: StoreSets, pc: int, address: int, size: int, cycle: int) -> None:
    """The store at `pc` issues at `cycle`."""
    chosen = sets.member[(pc >> 2) & (SETS - 1)]
    if chosen != NO_SET:
        sets.issued[chosen] = cycle
    for block in range(address >> BLOCK_BITS, ((address + size - 1) >> BLOCK_BITS) + 1):
        row = sets.blocks[block & (BLOCKS - 1)]
        if row[BLOCK] != block or row[ISSUE] <= cycle:
            row[BLOCK], row[ISSUE], row[PC] = block, cycle, pc


@compiled
def violated(sets: StoreSets, pc: int, address: int, size: int, cycle: int) -> int:
    """Cycle at which an older store finds that the load at `pc`, issued at `cycle`, has read too early; else 0."""
    sets.counts[ACCESSES] += 1
    if sets.counts[ACCESSES] == CLEAR_AFTER:
        _clear(sets)
    found = 0
    for block in range(address >> BLOCK_BITS, ((address + size - 1) >> BLOCK_BITS) + 1):
        row = sets.blocks[block & (BLOCKS - 1)]
        if row[BLOCK] == block and row[ISSUE] > cycle:
            found = max(found, row[ISSUE] + 1)
            _join(sets, pc, row[PC])
    return found


@out_of_line
def _clear(sets: StoreSets) -> None:
    sets.member[:] = NO_SET
    sets.counts[ACCESSES] = 0


@out_of_line
def _join(sets: StoreSets, load: int, store: int) -> None:
    """One set for both; of two sets the smaller number stays."""
    sets.counts[VIOLATIONS] += 1
    of_load, of_store = (load >> 2) & (SETS - 1), (store >> 2) & (SETS - 1)
    known_load, known_store = sets.member[of_load], sets.member[of_store]
    if known_load == NO_SET and known_store == NO_SET:
        known_load = (load ^ (load >> 10)) & (SETS - 1)
        sets.issued[known_load] = -1
        sets.member[of_load] = sets.member[of_store] = known_load
    elif known_load == NO_SET:
        sets.member[of_load] = known_store
    elif known_store == NO_SET:
        sets.member[of_store] = known_load
    else:
        sets.member[of_load] = sets.member[of_store] = min(known_load, known_store)
