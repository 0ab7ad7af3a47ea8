"""Basic-block vectors: how often an interval of a run executes each basic block, times the block's instructions.

After SimPoint (Sherwood et al., ASPLOS 2002). A block begins at the trace's start and wherever control comes from a
branch or is not the next address, and goes on to the next such place; it is known by its first instruction. For
clustering the vectors are projected at random onto few dimensions (ibid., §4.3); the projection's numbers are hashed
from the blocks' addresses, so they are the same for a trace and for the running program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.jit import kernel
from support.splitmix import splitmix
from tracegen.control_flow.straight_line import find, successors
from tracegen.statistics.branch_entropy import Sites, goes_elsewhere, sites_of
from uarch.instructions import Chunk, Flag, StaticInstructions

DIMENSIONS = 15  # SimPoint's
_BRANCH = int(Flag.BRANCH)
_NONE = -1


@kernel
def _runs(
    state: NDArray[np.int64],
    sites: Sites,
    static_id: NDArray[np.uint32],
    next_static_id: NDArray[np.uint32],
    places: NDArray[np.int32],
    interval: int,
    leader: NDArray[np.uint32],
    length: NDArray[np.int32],
    where: NDArray[np.int64],
) -> int:
    """Cut the instructions into blocks, and those at the ends of intervals; how many parts there are.

    All blocks end at `places` (`straight_line.Places.ends`). `state` [3]: the leader of the block that is going on
    (_NONE: none), the interval, instructions of it so far. Part p is `length[p]` instructions of the block `leader[p]`
    in interval `where[p]`.
    """
    current, here, inside = state[0], state[1], state[2]
    parts = 0
    begin = 0
    count = len(static_id)
    for place in range(len(places) + 1):
        ends = False
        stop = count  # behind the last place there may be the beginning of a block
        if place < len(places):
            k = places[place]
            stop = k + 1
            ends = bool(sites.flags[static_id[k]] & _BRANCH) or goes_elsewhere(sites, static_id[k], next_static_id[k])
            if not ends and stop < count:
                continue
        while begin < stop:
            if current == _NONE:
                current = np.int64(static_id[begin])
            taken = min(stop - begin, interval - inside)
            leader[parts], length[parts], where[parts] = np.uint32(current), np.int32(taken), here
            parts += 1
            begin += taken
            inside += taken
            if inside == interval:
                here += 1
                inside = np.int64(0)
        if ends:
            current = np.int64(_NONE)
    state[0], state[1], state[2] = current, here, inside
    return parts


@kernel
def _project(
    leader: NDArray[np.uint32],
    length: NDArray[np.int32],
    where: NDArray[np.int64],
    directions: NDArray[np.float32],
    first: int,
    out: NDArray[np.float32],
) -> None:
    for part in range(len(leader)):
        row, weight = where[part] - first, np.float32(length[part])
        for dimension in range(out.shape[1]):
            out[row, dimension] += weight * directions[leader[part], dimension]


def directions(address: NDArray[np.uint64], dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """[S, dimensions] uniform numbers in [-1, 1), what each block is projected to: SplitMix64 of address, dimension."""
    step = address[:, None] * np.uint64(dimensions) + np.arange(1, dimensions + 1, dtype=np.uint64)[None, :]
    return ((splitmix(step) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - 1).astype(np.float32)


@dataclass(frozen=True)
class BlockCounts:
    """Sparse vectors: in interval `interval[e]`, `instructions[e]` are of the block that begins at `leader[e]`.

    Sorted by interval, then by leader (a static instruction's index).
    """

    interval: NDArray[np.int64]  # [E]
    leader: NDArray[np.uint32]  # [E]
    instructions: NDArray[np.int64]  # [E]


class BlockVectors:
    """The basic-block vectors of consecutive intervals of one run: `observe` its chunks in order.

    With `sparse`, the vectors themselves are kept too (`counts`), else only their projections.
    """

    def __init__(
        self, instructions: StaticInstructions, interval: int, *, dimensions: int = DIMENSIONS, sparse: bool = False
    ) -> None:
        self.interval = interval
        self._dimensions = dimensions
        self._state = np.array([_NONE, 0, 0], np.int64)
        self._parts: list[NDArray[np.float32]] = []  # of intervals that are complete
        self._open = np.zeros((1, dimensions), np.float32)  # the interval that is going on
        self._sparse: list[tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]] | None = (
            [] if sparse else None
        )
        self.grow(instructions)

    def grow(self, instructions: StaticInstructions) -> None:
        """Go on with more static instructions, of which the ones so far are the first, unchanged."""
        self._sites = sites_of(instructions)
        self._successors = successors(instructions)
        self._directions = directions(instructions.address, self._dimensions)

    def observe(self, chunk: Chunk) -> None:
        """The next chunk (without gaps)."""
        count = len(chunk)
        leader, length, where = np.empty(count, np.uint32), np.empty(count, np.int32), np.empty(count, np.int64)
        first = int(self._state[1])
        parts = _runs(
            self._state,
            self._sites,
            np.ascontiguousarray(chunk.static_id),
            chunk.next_static_id,
            find(self._successors, chunk).ends,
            self.interval,
            leader,
            length,
            where,
        )
        out = np.zeros((int(self._state[1]) - first + 1, self._dimensions), np.float32)
        out[0] = self._open[0]
        _project(leader[:parts], length[:parts], where[:parts], self._directions, first, out)
        self._parts.append(out[:-1])
        self._open = out[-1:].copy()
        if self._sparse is not None:
            self._sparse.append(_summed(where[:parts], leader[:parts], length[:parts]))

    def take(self) -> NDArray[np.float32]:
        """[I, dimensions] as of `projected`, of the intervals that are complete, which are then forgotten."""
        parts, self._parts = self._parts, []
        rows = np.concatenate(parts) if parts else np.empty((0, self._dimensions), np.float32)
        return np.asarray(rows / np.float32(self.interval))

    def projected(self) -> NDArray[np.float32]:
        """[I, dimensions] projections of all intervals, each divided by its instructions; the last may be shorter."""
        inside = int(self._state[2])
        rows = [part / np.float32(self.interval) for part in self._parts]
        if inside:
            rows.append(self._open / np.float32(inside))
        return np.concatenate(rows) if rows else np.empty((0, self._dimensions), np.float32)

    def counts(self) -> BlockCounts:
        """The vectors themselves; ValueError without `sparse`."""
        if self._sparse is None:
            raise ValueError("BlockVectors was made without sparse=True")
        parts = list(zip(*self._sparse, strict=True))
        return BlockCounts(*_summed(*(np.concatenate(column) for column in parts)))


def _summed(
    interval: NDArray[np.int64], leader: NDArray[np.uint32], instructions: NDArray
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
    """Equal (interval, leader) added up, in their order."""
    key = interval.astype(np.uint64) << np.uint64(32) | leader
    values, inverse = np.unique(key, return_inverse=True)
    total = np.zeros(len(values), np.int64)
    np.add.at(total, inverse, instructions)
    return (values >> np.uint64(32)).astype(np.int64), (values & np.uint64(0xFFFFFFFF)).astype(np.uint32), total
