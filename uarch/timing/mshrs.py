"""The misses that a cache level has under way (Kroft, ISCA 1981), and when there is room for one more.

Accesses come in program order, not in the order of time: a miss may begin before others that are booked already. So a
level keeps the intervals of more misses than it can have under way, EARLIER more, and a further one must find one of
its MSHRs free as long as it lasts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.timing.compiled import out_of_line

Array = NDArray[np.int64]

MAX_MSHRS = 256
EARLIER = 32
BEGIN, END = 0, 1  # rows of `booked`
NEVER = 1 << 60


def new_mshrs() -> Array:
    """[4, 2, MAX_MSHRS + EARLIER] the first cycle of each level's misses, and the one after the last."""
    return np.zeros((4, 2, MAX_MSHRS + EARLIER), np.int64)


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
def room_from(booked: Array, mshrs: int, cycle: int, length: int) -> int:
    """First cycle from `cycle` on from which one is free for `length` cycles."""
    while True:
        others, free, end = 0, NEVER, cycle + length
        for entry in range(mshrs + EARLIER):
            inside = booked[BEGIN, entry] < end and cycle < booked[END, entry]
            others += 1 if inside else 0
            free = min(free, booked[END, entry] if inside else NEVER)
        if others < mshrs:
            return cycle
        most = occupied(booked, mshrs, cycle)  # they need not be under way all at once
        for entry in range(mshrs + EARLIER):
            begin = booked[BEGIN, entry]
            if most < mshrs and cycle < begin and begin < end and begin < booked[END, entry]:
                most = max(most, occupied(booked, mshrs, begin))
        if most < mshrs:
            return cycle
        cycle = free


@out_of_line
def book(booked: Array, mshrs: int, begin: int, end: int) -> int:
    """A miss from `begin` to `end`. Where it takes the last MSHR, returns when the first is free again, else 0."""
    first = 0
    for entry in range(mshrs + EARLIER):
        if booked[END, entry] < booked[END, first]:
            first = entry
    booked[BEGIN, first], booked[END, first] = begin, end
    taken, free = 0, NEVER
    for entry in range(mshrs + EARLIER):
        inside = booked[BEGIN, entry] <= begin and begin < booked[END, entry]
        taken += 1 if inside else 0
        free = min(free, booked[END, entry] if inside else NEVER)
    return free if taken >= mshrs else 0
