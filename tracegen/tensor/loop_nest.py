"""Memory behaviour of the loops around a statement: tiles, strides, traffic at every capacity of a cache.

Ansor's and CDMPP's features give the number, product and innermost extent of loops of a kind, and the bytes that the
whole nest touches. Two schedules that differ by the order and the extents of the loops in between, which decide what
stays in registers and caches, may look the same to them. Here a nest is described level by level, innermost first:
`COLUMNS` of one statement, counts and bytes as they are (`compact_ast` takes their logarithms).

| columns | of one statement |
|---|---|
| `tile{k}` | distinct bytes that all accesses touch in one run of the k + 1 innermost loops, of all where there are fewer |
| `stride{a}_{k}` | bytes that access a (the store, then the loads of other elements) moves by in a step of loop k; 0: it stands still |
| `traffic{c}` | bytes that come into a cache of c bytes, the least recently used making way |
| `unrolled` | copies of the statement in straight code: the innermost loops that fit the unrolling asked for |
| `unrolled_stored`, `unrolled_bytes` | distinct bytes that those copies store, and touch: what registers would have to hold |
| `accumulated`, `accumulated_loads` | distinct bytes stored and loaded by the loops inside of the innermost one along which the store stands still: the registers that a sum needs, and what feeds them |
| `accumulation` | steps of that loop, and of those next to it of its kind; 0 where there is none |
| `operations` | arithmetic of floats in all executions |
| `issued` | executions over the lanes of vectorized loops |
| `odd_lanes`, `odd_innermost` | the largest odd factor of those lanes, and of the innermost loop's extent: a compiler splits what is no power of two, at a cost that differs between devices |

Traffic: let L loops be the most whose tile fits in c. From one step of loop L + 1 to the next, whatever is touched again
is still there; over the loops outside of it nothing is: Σ over accesses of the distinct bytes of L + 1 loops, times the
steps of the loops outside. It is the curve of misses over capacity, as stack distances give it, for a nest that is known.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TILES, STRIDES, ACCESSES = 8, 6, 4
CAPACITIES = tuple(512 * 4**step for step in range(9))  # bytes: a register file's to a last-level cache's
COLUMNS = (
    *(f"tile{level}" for level in range(TILES)),
    *(f"stride{access}_{level}" for access in range(ACCESSES) for level in range(STRIDES)),
    *(f"traffic{capacity}" for capacity in CAPACITIES),
    "unrolled",
    "unrolled_stored",
    "unrolled_bytes",
    "accumulated",
    "accumulated_loads",
    "accumulation",
    "operations",
    "issued",
    "odd_lanes",
    "odd_innermost",
)


@dataclass(frozen=True)
class Term:
    """A summand of an index: it takes `count` values, `factor` elements apart, as these loops (innermost 0) run."""

    loops: frozenset[int]
    count: float
    factor: float


@dataclass(frozen=True)
class Dimension:
    """One index of an access: elements from an index to the next, how many indices there are, the index's terms, and
    (loop, by how much a step of the loop moves it), nearly always where a division or remainder is in it.
    """

    step: float
    extent: float
    terms: tuple[Term, ...]
    moves: tuple[tuple[int, float], ...]

    def reach(self, extents: Sequence[float]) -> float:
        """Distinct values over loops of these extents, at most: as many as combinations, as the span holds, as there
        are.
        """
        inside = range(len(extents))
        loops: set[int] = set()
        span = 1.0
        for term in self.terms:
            moving = [loop for loop in term.loops if loop in inside]
            loops.update(moving)
            span += abs(term.factor) * (min(term.count, math.prod(extents[loop] for loop in moving)) - 1)
        return max(min(math.prod(extents[loop] for loop in loops), span, self.extent), 1.0)


@dataclass(frozen=True)
class Access:
    """A load or the store of a buffer (any number that tells buffers apart); `size` is an element's, in bytes."""

    buffer: int
    size: int
    dimensions: tuple[Dimension, ...]

    def touched(self, extents: Sequence[float]) -> float:
        """Distinct bytes in one run of the loops with these extents, innermost first."""
        return self.size * math.prod(dimension.reach(extents) for dimension in self.dimensions)

    def stride(self, loop: int) -> float:
        """Bytes from one step of a loop to the next."""
        moves = ((dimension.step * by, at) for dimension in self.dimensions for at, by in dimension.moves)
        return abs(sum(by for by, at in moves if at == loop)) * self.size


def loop_nest(
    extents: Sequence[float], accesses: Sequence[Access], *, lanes: float, unroll: float, operations: float
) -> list[float]:
    """`COLUMNS` of a statement within loops of these extents, innermost first.

    `accesses`: the store first; `lanes`: the product of the vectorized loops' extents; `unroll`: the most copies that
    automatic unrolling may make; `operations`: of floats, in one execution.
    """
    touched = [[access.touched(extents[:level]) for access in accesses] for level in range(len(extents) + 1)]
    tiles = [sum(level) for level in touched]
    row = [tiles[min(level + 1, len(extents))] for level in range(TILES)]
    for number in range(ACCESSES):
        for loop in range(STRIDES):
            row.append(accesses[number].stride(loop) if number < len(accesses) and loop < len(extents) else 0.0)
    for capacity in CAPACITIES:
        fits = max((level for level, tile in enumerate(tiles) if tile <= capacity), default=-1)
        level = min(fits + 1, len(extents))
        row.append(tiles[level] * math.prod(extents[level:]))
    straight = _straight(extents, lanes, unroll)
    first, last = _sum(accesses[0], len(extents)) if accesses else (0, 0)
    executions = math.prod(extents)
    row += [
        math.prod(extents[:straight]) / lanes if straight else 1.0,
        touched[straight][0] if accesses else 0.0,
        tiles[straight],
        touched[first][0] if last > first else 0.0,
        sum(touched[first][1:]) if last > first else 0.0,
        math.prod(extents[first:last]) if last > first else 0.0,
        operations * executions,
        executions / lanes,
        _odd(lanes),
        _odd(extents[0]) if extents else 1.0,
    ]
    return row


def _straight(extents: Sequence[float], lanes: float, unroll: float) -> int:
    """Return how many innermost loops become straight code: the vectorized ones (`lanes`), and more while `unroll`
    allows.
    """
    count, copies = 0, 1.0
    while count < len(extents) and copies * extents[count] <= lanes * max(unroll, 1.0):
        copies *= extents[count]
        count += 1
    return count


def _odd(count: float) -> float:
    """The largest odd factor."""
    whole = max(int(count), 1)
    return float(whole // (whole & -whole))


def _sum(store: Access, loops: int) -> tuple[int, int]:
    """[first, last) of the innermost run of loops along which the store stands still; empty where there is none."""
    still = [store.stride(loop) == 0 for loop in range(loops)]
    first = still.index(True) if True in still else 0
    last = first
    while last < loops and still[last]:
        last += 1
    return first, last
