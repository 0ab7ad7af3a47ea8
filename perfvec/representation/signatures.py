"""Signatures of a run's units: what code each executes (its projected basic-block vector), and its features' means.

Of a run of at most MOST units all are kept, of a longer one those with the MOST lowest keys: memory is bounded. Keys
are hashes of the units' numbers: the units with the k lowest are a simple random sample, at any time and of any
k, and of two such samples the larger one contains the other (bottom-k sampling: Cohen & Kaplan, *Summarizing data
using bottom-k sketches*, PODC 2007).
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from support.splitmix import splitmix
from tracegen.control_flow.basic_blocks import BlockVectors
from uarch.instructions import Chunk, StaticInstructions

MOST = 1 << 20  # a billion instructions' units; 140 MB
_LAST = 2**64 - 1


def keys(units: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """[n] a random number for each unit's number: the stream of SplitMix64."""
    begin = np.random.SeedSequence([seed, 0]).generate_state(1, np.uint64)
    return splitmix(units.astype(np.uint64) + np.uint64(1), begin)


class Reservoir:
    """Slots for the units with the `capacity` lowest keys of those that came so far, one after another."""

    def __init__(self, capacity: int, seed: int) -> None:
        self.seed = seed
        self.capacity = capacity
        self._held: list[tuple[int, int]] = []  # -key, slot: the first one has the highest key

    def slots(self, first: int, count: int) -> NDArray[np.int64]:
        """[count] where units first … first+count go; -1: nowhere."""
        key, slot = keys(np.arange(first, first + count), self.seed), np.full(count, -1, np.int64)
        bound = _LAST if len(self._held) < self.capacity else -self._held[0][0]
        for k in np.flatnonzero(key <= np.uint64(bound)).tolist():
            here = int(key[k])
            if len(self._held) < self.capacity:
                slot[k] = len(self._held)
                heapq.heappush(self._held, (-here, len(self._held)))
            elif here < -self._held[0][0]:
                slot[k] = self._held[0][1]
                heapq.heapreplace(self._held, (-here, self._held[0][1]))
        return slot


class UnitSignatures:
    """Fed with the chunks of one run in order (`add`)."""

    def __init__(self, instructions: StaticInstructions, unit: int, seed: int, most: int | None = None) -> None:
        self._blocks = BlockVectors(instructions, unit)
        self._seed, self._most = seed, MOST if most is None else most
        self._seen, self._kept, self._bound = 0, 0, _LAST  # only keys up to the bound are kept
        self._units: list[NDArray[np.int64]] = []
        self.rows: list[NDArray[np.float32]] = []

    def grow(self, instructions: StaticInstructions) -> None:
        """Go on with more static instructions, of which the ones so far are the first, unchanged."""
        self._blocks.grow(instructions)

    def add(self, chunk: Chunk, means: NDArray[np.float32]) -> None:
        """The next chunk, and the means [n, columns] of the features of the units that end in it."""
        self._blocks.observe(chunk)
        units = np.arange(self._seen, self._seen + len(means))
        rows = np.concatenate([means, self._blocks.take()], axis=1)
        self._seen += len(means)
        if self._bound < _LAST:
            keep = keys(units, self._seed) <= np.uint64(self._bound)
            units, rows = units[keep], rows[keep]
        self._units.append(units)
        self.rows.append(rows)
        self._kept += len(units)
        if self._kept > 2 * self._most:
            self._thin()

    def _thin(self) -> None:
        units, rows = np.concatenate(self._units), np.concatenate(self.rows)
        if len(units) > self._most:
            key = keys(units, self._seed)
            self._bound = int(np.partition(key, self._most - 1)[self._most - 1])
            keep = key <= np.uint64(self._bound)
            units, rows = units[keep], rows[keep]
        self._units, self.rows, self._kept = [units], [rows], len(units)

    def table(self, columns: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Numbers [m] of the units that are kept, ascending, and their signatures [m, columns + dimensions].

        Features (the first `columns`) and code weigh alike, and so do the columns of features.
        """
        if self._kept == 0:
            return np.empty(0, np.int64), np.empty((0, columns), np.float32)
        self._thin()
        units, rows = self._units[0], self.rows[0]
        means, blocks = rows[:, :columns], rows[:, columns:]
        features = (means - means.mean(axis=0)) / np.maximum(means.std(axis=0), 1e-6)
        spread = np.sqrt(max(float(blocks.var(axis=0).sum()), 1e-12) / columns)
        code = (blocks - blocks.mean(axis=0)) / np.float32(spread)
        return units, np.concatenate([features, code], axis=1, dtype=np.float32)
