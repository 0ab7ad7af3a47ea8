"""Exact LRU stack distance of a stream of lines, pages or branch sites.

The stack distance of a reference is the number of distinct others referenced since the same one was referenced last
(Mattson et al., IBM Systems Journal 1970). Every reference takes a new time slot; a bitmap marks each line's newest
slot, so the distance is the number of marks after the line's previous slot (Bennett & Kruskal, IBM J. R&D 1975; with
a tree, Olken 1981). Here the tree is wide and shallow, as a cache-sensitive B-tree is (Rao & Ross, VLDB 1999) and the
rank directories of succinct bitmaps are (Vigna, WEA 2008): a block of 512 slots is one cache line of the bitmap, and
the counts of blocks and of groups of 32 blocks are rows of 32 numbers, each added up by a few vector
instructions. A reference reads a row of each of two such levels and the few counts of half a million slots above them,
and changes two counts a level; all of it fits a second-level cache where a million lines are alive. (Above a hundred
million distinct lines the uppermost counts, which are added up one by one, begin to show.)

Finding a line's previous slot: one hash table entry holds line and slot in 16 bytes, so that a probe is
one cache miss, and `measure` asks for the entries of coming references ahead of time, which overlaps the misses.

The top of the stack is a list of the lines referenced last, in order: a line found there has its place as its distance,
and nothing else changes (most references of most programs). Slots, marks and the tree are for the lines that fell off
its end; all lines of the list are newer than these.

Slots are renumbered, in order, when they run out: their number is proportional to that of distinct lines, and so are
the memory and, per reference, the cost of renumbering.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import compiled, kernel
from support.prefetch import prefetch

COLD = -1  # distance of the first reference to a line
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth, TAOCP 3, §6.4)
_AHEAD = 16  # references whose table entries are on their way
_NEAR = 16  # words whose marks are counted without the tree
_FAN = 32  # numbers in a row of the tree
_TOP = 8  # lines in the list
_LEAST_SLOTS = 1 << 16
_LEAST_ENTRIES = 1 << 8
_NEXT, _DISTINCT = 0, 1


class StackState(NamedTuple):
    """The arrays that `touch` works on; made by `StackDistance.reserve`."""

    scalars: NDArray[np.int64]  # next slot, distinct lines
    top: NDArray[np.uint64]  # [_TOP] the lines referenced last, + 1, newest first (0: none)
    table: NDArray[np.uint64]  # [entries, 2] line + 1 (0: free) and its slot, if not in `top`; linear probing
    words: NDArray[np.uint64]  # the bitmap
    blocks: NDArray[np.int32]  # marks of 512 slots
    groups: NDArray[np.int32]  # marks of 32 blocks
    regions: NDArray[np.int32]  # marks of 32 groups


@compiled
def _popcount(value: np.uint64) -> np.int64:  # the compiler knows this idiom
    value = value - ((value >> np.uint64(1)) & np.uint64(0x5555555555555555))
    value = (value & np.uint64(0x3333333333333333)) + ((value >> np.uint64(2)) & np.uint64(0x3333333333333333))
    value = (value + (value >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((value * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _home(table: NDArray[np.uint64], line: np.uint64) -> np.int64:
    mixed = line * _MULTIPLIER
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(table) - 1))


@compiled
def _find(table: NDArray[np.uint64], line: np.uint64) -> np.int64:
    """Position of `line`, or of the free place where it belongs."""
    mask = np.int64(len(table) - 1)
    place = _home(table, line)
    key = line + np.uint64(1)
    while table[place, 0] != key and table[place, 0] != 0:
        place = (place + 1) & mask
    return place


@compiled
def _row_after(counts: NDArray[np.int32], position: np.int64) -> np.int64:
    """Sum of the numbers after `position` in its row."""
    row = position & ~np.int64(_FAN - 1)
    within = position & np.int64(_FAN - 1)
    total = np.int64(0)
    for index in range(_FAN):
        total += counts[row + index] if index > within else np.int32(0)
    return total


@compiled
def _marks_after(state: StackState, slot: np.int64) -> np.int64:
    """Number of marked slots after `slot`."""
    word = slot >> 6
    newest = (state.scalars[_NEXT] - 1) >> 6
    marks = _popcount((state.words[word] >> np.uint64(slot & 63)) >> np.uint64(1))
    if newest - word <= _NEAR:
        for later in range(word + 1, newest + 1):
            marks += _popcount(state.words[later])
        return marks
    first = word & ~np.int64(7)
    for index in range(8):
        marks += _popcount(state.words[first + index]) if first + index > word else np.int64(0)
    block = slot >> 9
    group = block // _FAN
    marks += _row_after(state.blocks, block) + _row_after(state.groups, group)
    for region in range(group // _FAN + 1, len(state.regions)):
        marks += state.regions[region]
    return marks


@compiled
def _count(state: StackState, slot: np.int64 | int, amount: int) -> None:
    block = slot >> 9
    state.blocks[block] += np.int32(amount)
    state.groups[block // _FAN] += np.int32(amount)
    state.regions[block // (_FAN * _FAN)] += np.int32(amount)


@compiled
def has_room(state: StackState, references: int) -> bool:
    """Return whether `touch` may be called so many times before the next `StackDistance.reserve`."""
    scalars = state.scalars
    return bool(
        scalars[_NEXT] + references <= 64 * len(state.words)
        and 2 * (scalars[_DISTINCT] + references) <= len(state.table)
    )


@compiled
def prefetch_line(state: StackState, line: np.uint64) -> None:
    """Bring in what `touch` reads first of `line`."""
    prefetch(state.table, _home(state.table, line))


@compiled
def touch(state: StackState, line: np.uint64) -> np.int64:
    """Reference `line`; its stack distance, COLD at the first reference. Needs `has_room`."""
    top, key = state.top, line + np.uint64(1)
    fallen = top[0]
    if fallen == key:
        return np.int64(0)  # nothing moves
    for place in range(1, _TOP):
        line_here = top[place]
        top[place] = fallen
        if line_here == key:
            top[0] = key
            return np.int64(place)
        fallen = line_here
    top[0] = key
    return _from_below(state, line, fallen)


@compiled
def _from_below(state: StackState, line: np.uint64, fallen: np.uint64) -> np.int64:
    """The distance of a line that was not in `top`, off which `fallen` (+ 1; 0: none) fell."""
    scalars, words, table = state.scalars, state.words, state.table
    place = _find(table, line)
    distance = np.int64(COLD)
    if table[place, 0] == 0:
        table[place, 0] = line + np.uint64(1)
        scalars[_DISTINCT] += 1
    else:
        old = np.int64(table[place, 1])
        distance = _TOP + _marks_after(state, old)
        words[old >> 6] &= ~(np.uint64(1) << np.uint64(old & 63))
        _count(state, old, -1)
    if fallen != 0:
        slot = scalars[_NEXT]
        table[_find(table, fallen - np.uint64(1)), 1] = np.uint64(slot)
        words[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
        _count(state, slot, 1)
        scalars[_NEXT] = slot + 1
    return distance


@kernel
def _measure(state: StackState, lines: NDArray[np.uint64], begin: int, out: NDArray[np.int64]) -> int:
    """Fill `out` from `begin` on as long as there is room; where it stopped."""
    for index in range(begin, len(lines)):
        if not has_room(state, 1):
            return index
        if index + _AHEAD < len(lines):
            prefetch_line(state, lines[index + _AHEAD])
        out[index] = touch(state, lines[index])
    return len(lines)


@kernel
def _renumber(table: NDArray[np.uint64], words: NDArray[np.uint64], before: NDArray[np.int64]) -> None:
    """Give each line the number of marks before its slot as its new slot; `before` [words] is filled on the way.

    (What a line of the list gets means nothing: it has no slot.)
    """
    marks = np.int64(0)
    for word in range(len(words)):
        before[word] = marks
        marks += _popcount(words[word])
    for place in range(len(table)):
        if table[place, 0] != 0:
            old = np.int64(table[place, 1])
            below = words[old >> 6] & ((np.uint64(1) << np.uint64(old & 63)) - np.uint64(1))
            table[place, 1] = np.uint64(before[old >> 6] + _popcount(below))


@kernel
def _rehash(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> None:
    for place in range(len(old)):
        if old[place, 0] != 0:
            target = _find(new, old[place, 0] - np.uint64(1))
            new[target, 0] = old[place, 0]
            new[target, 1] = old[place, 1]


@kernel
def _mark(state: StackState, slots: int) -> None:
    """Mark the first `slots` slots of an empty bitmap."""
    for slot in range(slots):
        state.words[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
        _count(state, slot, 1)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _rows(count: int) -> NDArray[np.int32]:
    return np.zeros(-(-count // _FAN) * _FAN, np.int32)


class StackDistance:
    """The LRU stack of one stream; `measure` continues where the last call ended.

    Memory: 32–64 bytes and 4–8 slots of an eighth of a byte for each distinct line.
    """

    def __init__(self) -> None:
        table = np.zeros((_LEAST_ENTRIES, 2), np.uint64)
        self._state = self._sized(np.zeros(2, np.int64), np.zeros(_TOP, np.uint64), table, 0)

    @staticmethod
    def _sized(
        scalars: NDArray[np.int64], top: NDArray[np.uint64], table: NDArray[np.uint64], slots: int
    ) -> StackState:
        """Empty counts of at least so many slots."""
        words = _power_of_two(max(slots, _LEAST_SLOTS)) // 64
        blocks = words // 8
        return StackState(
            scalars,
            top,
            table,
            np.zeros(words, np.uint64),
            _rows(blocks),
            _rows(-(-blocks // _FAN)),
            np.zeros(-(-blocks // _FAN**2), np.int32),
        )

    @property
    def distinct(self) -> int:
        """Number of distinct lines referenced so far."""
        return int(self._state.scalars[_DISTINCT])

    def reserve(self, references: int) -> StackState:
        """The state, with room for this many calls of `touch`."""
        state = self._state
        distinct = self.distinct
        if 2 * (distinct + references) > len(state.table):
            table = np.zeros((_power_of_two(2 * (distinct + references)), 2), np.uint64)
            _rehash(state.table, table)
            self._state = state = state._replace(table=table)
        if state.scalars[_NEXT] + references > 64 * len(state.words):
            _renumber(state.table, state.words, np.empty(len(state.words), np.int64))
            below = max(distinct - _TOP, 0)
            state.scalars[_NEXT] = below
            self._state = state = self._sized(*state[:3], 4 * distinct + references)
            _mark(state, below)
        return state

    def measure(self, lines: NDArray[np.uint64]) -> NDArray[np.int64]:
        """[m] stack distance of each reference, COLD (−1) for a line's first."""
        lines = np.ascontiguousarray(lines, np.uint64)
        out = np.empty(len(lines), np.int64)
        done = 0
        while done < len(lines):
            done = _measure(self.reserve(1), lines, done, out)
        return out
