"""The misses that a cache level has under way (Kroft, ISCA 1981), and when there is room for one more.

Accesses come in program order, not in the order of time: a miss may begin before others that are booked already. So a
level keeps the intervals of more misses than it can have under way, EARLIER more. What comes beyond these displaces the
miss that is done first; nothing begins before a displaced one was done, so that none is forgotten while it matters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.jit import out_of_line

Array = NDArray[np.int64]

MAX_MSHRS = 256
EARLIER = 32
FORGOTTEN = MAX_MSHRS + EARLIER  # column of `booked`: the end of what has been displaced
BEGIN, END = 0, 1  # rows of `booked`
NEVER = 1 << 60


def new_mshrs() -> Array:
    """[4, 2, MAX_MSHRS + EARLIER] the first cycle of each level's misses, and the one after the last."""
    return np.zeros((4, 2, FORGOTTEN + 1), np.int64)


@out_of_line
def occupied(booked: Array, mshrs: int, cycle: int) -> int:
    """How many MSHRs are taken in a cycle."""
    taken = 0
    for entry in range(mshrs + EARLIER):
        taken += 1 if booked[BEGIN, entry] <= cycle and cycle < booked[END, entry] else 0
    return taken


@out_of_line
def free_from(booked: Array, mshrs: int, most: int, cycle: int) -> int:
    """First cycle from `cycle` on in which fewer than `most` (at least 1) are taken."""
    cycle = max(cycle, booked[END, FORGOTTEN])
    while True:
        taken, free = 0, NEVER
        for entry in range(mshrs + EARLIER):
            inside = booked[BEGIN, entry] <= cycle and cycle < booked[END, entry]
            taken += 1 if inside else 0
            free = min(free, booked[END, entry] if inside else NEVER)
        if taken < most:
            return cycle
        cycle = free


@out_of_line
def _crowded_out(booked: Array, mshrs: int, begin: int, end: int) -> int:
    """The first of the misses booked that would find no MSHR if one more had it from `begin` to `end`, or -1."""
    others, first = 0, -1
    for entry in range(mshrs + EARLIER):
        others += 1 if booked[BEGIN, entry] < end and begin < booked[END, entry] else 0
    if others < mshrs:
        return first
    for entry in range(mshrs + EARLIER):
        at = booked[BEGIN, entry]
        if at <= begin or at >= end or at >= booked[END, entry] or (first >= 0 and at >= booked[BEGIN, first]):
            continue
        if occupied(booked, mshrs, at) >= mshrs:
            first = entry
    return first


@out_of_line
def book(booked: Array, mshrs: int, begin: int, end: int) -> int:
    """A miss from `begin`, when one is free, to `end`; returns until when all may be taken then, 0 where not all are.

    It goes before misses that begin later, booked already. They are known to be done as they are; but in the book the
    first of them that it leaves without an MSHR begins when one is free, and so on, so that what comes next waits.
    """
    start, last = begin, 0
    for _ in range(EARLIER):
        entry = _crowded_out(booked, mshrs, begin, end)
        if entry < 0:
            break
        later, length = booked[BEGIN, entry], booked[END, entry] - booked[BEGIN, entry]
        booked[BEGIN, entry], booked[END, entry] = begin, end
        begin = free_from(booked, mshrs, mshrs, later)
        end = begin + length
        last = end
    first = 0
    for entry in range(mshrs + EARLIER):
        if booked[END, entry] < booked[END, first]:
            first = entry
    booked[END, FORGOTTEN] = max(booked[END, FORGOTTEN], booked[END, first])
    booked[BEGIN, first], booked[END, first] = begin, end
    free = free_from(booked, mshrs, mshrs, start)
    return max(free, last) if free > start or last > 0 else 0
