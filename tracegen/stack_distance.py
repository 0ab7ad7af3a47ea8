"""Exact LRU stack distance of a stream of lines, pages or branch sites, in O(log n) a reference.

The stack distance of a reference is the number of distinct others referenced since the same one was referenced last
(Mattson et al., IBM Systems Journal 1970). Every reference takes a new time slot; a bitmap marks each line's newest
slot, so the distance is the number of marks after the line's previous slot. Marks are counted by a Fenwick tree over
64-slot words (Bennett & Kruskal, IBM J. R&D 1975; Olken 1981), except for the newest words, which are counted
directly: most references are near. Slots are renumbered when they run out, so memory is proportional to the number of
distinct lines (plus one chunk), not to the length of the stream.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

COLD = -1  # distance of the first reference to a line
_RECENT = 16  # words counted directly before they enter the tree
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth, TAOCP 3, §6.4)
_NEXT, _DISTINCT, _RECENT_START, _INDEXED, _LAST_SLOT = range(5)


class StackState(NamedTuple):
    """The arrays that `touch` works on; made by `StackDistance.reserve`."""

    scalars: NDArray[np.int64]  # next slot, distinct lines, first word not in the tree, marks in the tree, last slot
    words: NDArray[np.uint64]  # the bitmap
    tree: NDArray[np.int32]  # Fenwick tree of marks per word
    keys: NDArray[np.uint64]  # hash table: line + 1, 0 where free
    slots: NDArray[np.int64]  # hash table: the line's newest slot


@njit(inline="always")
def _popcount(value: np.uint64) -> np.int64:
    value = value - ((value >> np.uint64(1)) & np.uint64(0x5555555555555555))
    value = (value & np.uint64(0x3333333333333333)) + ((value >> np.uint64(2)) & np.uint64(0x3333333333333333))
    value = (value + (value >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((value * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(inline="always")
def _find(keys: NDArray[np.uint64], line: np.uint64) -> np.int64:
    """Position of `line` in the hash table, or of the free place where it belongs (linear probing)."""
    mask = np.int64(len(keys) - 1)
    mixed = line * _MULTIPLIER
    place = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))
    key = line + np.uint64(1)
    while keys[place] != key and keys[place] != 0:
        place = (place + 1) & mask
    return place


@njit(inline="always")
def _tree_add(tree: NDArray[np.int32], word: np.int64, amount: np.int64) -> None:
    position = word + 1
    while position < len(tree):
        tree[position] += amount
        position += position & -position


@njit(cache=True)
def touch(state: StackState, line: np.uint64) -> np.int64:
    """Reference `line`; its stack distance, COLD at the first reference. Needs a slot reserved."""
    scalars, words, tree, keys, slots = state
    place = _find(keys, line)
    slot = scalars[_NEXT]
    if keys[place] == 0:
        keys[place] = line + np.uint64(1)
        scalars[_DISTINCT] += 1
        distance = np.int64(COLD)
    else:
        old = slots[place]
        if old == slot - 1:
            return np.int64(0)  # the newest line again: nothing moves
        word = old >> 6
        bit = np.uint64(old & 63)
        newest = (slot - 1) >> 6
        recent_start = scalars[_RECENT_START]
        distance = _popcount((words[word] >> bit) >> np.uint64(1))
        if word >= recent_start:
            for later in range(word + 1, newest + 1):
                distance += _popcount(words[later])
        else:
            before = np.int64(0)
            position = word + 1
            while position > 0:
                before += tree[position]
                position -= position & -position
            distance += scalars[_DISTINCT] - before  # the tree holds the words up to recent_start; the rest is newer
            _tree_add(tree, word, np.int64(-1))
            scalars[_INDEXED] -= 1
        words[word] &= ~(np.uint64(1) << bit)
    slots[place] = slot
    word = slot >> 6
    words[word] |= np.uint64(1) << np.uint64(slot & 63)
    scalars[_NEXT] = slot + 1
    if word - scalars[_RECENT_START] >= _RECENT:
        for flushed in range(scalars[_RECENT_START], scalars[_RECENT_START] + _RECENT // 2):
            marks = _popcount(words[flushed])
            if marks:
                _tree_add(tree, np.int64(flushed), marks)
                scalars[_INDEXED] += marks
        scalars[_RECENT_START] += _RECENT // 2
    return distance


@njit(cache=True)
def _renumber(old: StackState, new: StackState) -> None:
    """Copy the lines into a larger, empty state with slots 0, 1, 2, … in the order of their newest references."""
    order = np.full(old.scalars[_NEXT], -1, np.int64)
    for place in range(len(old.keys)):
        if old.keys[place] != 0:
            order[old.slots[place]] = place
    slot = 0
    for place in order:
        if place >= 0:
            key = old.keys[place]
            target = _find(new.keys, key - np.uint64(1))
            new.keys[target] = key
            new.slots[target] = slot
            new.words[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
            slot += 1
    new.scalars[_NEXT] = slot
    new.scalars[_DISTINCT] = slot
    indexed_words = max(0, (slot >> 6) - _RECENT // 2)
    for word in range(indexed_words):
        _tree_add(new.tree, np.int64(word), np.int64(64))
    new.scalars[_RECENT_START] = indexed_words
    new.scalars[_INDEXED] = 64 * indexed_words


@njit(cache=True)
def _measure(state: StackState, lines: NDArray[np.uint64], out: NDArray[np.int64]) -> None:
    for index in range(len(lines)):
        out[index] = touch(state, lines[index])


def _empty(slots: int) -> StackState:
    capacity = 1 << max(slots - 1, 1023).bit_length()
    return StackState(
        scalars=np.zeros(5, np.int64),
        words=np.zeros(capacity // 64 + 1, np.uint64),
        tree=np.zeros(capacity // 64 + 2, np.int32),
        keys=np.zeros(capacity, np.uint64),
        slots=np.zeros(capacity, np.int64),
    )


class StackDistance:
    """The LRU stack of one stream; `measure` continues where the last call ended."""

    def __init__(self) -> None:
        self._state = _empty(1024)

    @property
    def distinct(self) -> int:
        """Number of distinct lines referenced so far."""
        return int(self._state.scalars[_DISTINCT])

    def reserve(self, references: int) -> StackState:
        """The state, with room for this many calls of `touch`."""
        state = self._state
        if state.scalars[_NEXT] + references > len(state.keys) // 2:  # at most half full: short probes
            self._state = _empty(4 * max(self.distinct, 512) + 2 * references)
            _renumber(state, self._state)
        return self._state

    def measure(self, lines: NDArray[np.uint64]) -> NDArray[np.int64]:
        """[m] stack distance of each reference, COLD (−1) for a line's first."""
        out = np.empty(len(lines), np.int64)
        _measure(self.reserve(len(lines)), np.ascontiguousarray(lines, np.uint64), out)
        return out
