"""Long string instructions, which are simulated in parts.

A repeated string instruction may make millions of accesses, more than all sampled units together. So only its beginning
and, at equal distances, parts of the rest are simulated (systematic sampling). What lies between them passes through
the caches as a gap does, by its lines. The end of a part is measured, and stands for all since the part before; what is
simulated before it fills the memory system.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracegen.control_flow.straight_line import LINE_BITS
from uarch.instructions import Chunk
from uarch.timing.simulation import touches_of

# Accesses: of either operand whole pages, whose ends stop prefetchers, whatever an access's size. So what is left out
# moves none of them to another place in its page, and where each page costs the same, it is measured exactly.
_PAGES = 8192
LONG = 2 * _PAGES  # of an instruction that is simulated in parts, more than so many
_PERIOD = 8 * _PAGES  # of which one part is simulated
_NEAR = 2  # accesses further on, at most, in which a string instruction comes back to a line


class Part(NamedTuple):
    """Instructions `begin` … `end` of a piece, of the last one perhaps some accesses only."""

    begin: int
    end: int
    chunk: Chunk
    passed: NDArray[np.uint64] | None  # touches (`Simulation.touch`) before it
    times: float  # what it counts for; 0: it only warms


def parts(chunk: Chunk) -> Iterator[Part]:
    """Yield the parts of a piece in order: one, unless an instruction of it makes more than `LONG` accesses."""
    accesses = np.diff(chunk.access_offset)
    begin = 0
    for which in np.flatnonzero(accesses > LONG).tolist():
        if which > begin:
            yield Part(begin, which, chunk.part(begin, which), None, 1.0)
        yield from _of_string(chunk.part(which, which + 1), which)
        begin = which + 1
    if begin < len(chunk):
        yield Part(begin, len(chunk), chunk.part(begin, len(chunk)) if begin else chunk, None, 1.0)


def _of_string(whole: Chunk, which: int) -> Iterator[Part]:
    yield Part(which, which + 1, _accesses(whole, 0, _PAGES), None, 1.0)
    count = len(whole.address)
    for begin in range(_PAGES, count, _PERIOD):
        end = min(begin + _PERIOD, count)
        measured = max(end - _PAGES, begin)
        left_out = max(measured - _PAGES - begin, 0) // _PAGES * _PAGES
        warm = begin + left_out
        if left_out == 0:
            yield Part(which, which + 1, _accesses(whole, begin, end), None, 1.0)
            continue
        yield Part(which, which + 1, _accesses(whole, warm, measured), _touches(whole, begin, warm), 0.0)
        yield Part(which, which + 1, _accesses(whole, measured, end), None, (end - begin) / _PAGES)


def _accesses(whole: Chunk, begin: int, end: int) -> Chunk:
    """The one instruction with these accesses alone."""
    return replace(
        whole,
        access_offset=whole.access_offset[0] + np.array([begin, end]),
        address=whole.address[begin:end],
        size=whole.size[begin:end],
        is_store=whole.is_store[begin:end],
    )


def _touches(whole: Chunk, begin: int, end: int) -> NDArray[np.uint64]:
    """The lines of these accesses, each where it is touched last."""
    line = whole.address[begin:end] >> np.uint64(LINE_BITS)
    dirty = np.unique(line[whole.is_store[begin:end] != 0])
    again = np.zeros(len(line), bool)  # soon
    for ahead in range(1, _NEAR + 1):
        again[:-ahead] |= line[:-ahead] == line[ahead:]
    line = line[~again]
    _, last = np.unique(line[::-1], return_index=True)
    line = line[np.sort(len(line) - 1 - last)]
    return touches_of(line, np.zeros(len(line), np.bool_), np.isin(line, dirty))
