"""The time of a graph of kernels on one or more streams, by list scheduling. No TVM, nothing of tensors."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError


@dataclass(frozen=True)
class Timeline:
    """When and where each of n kernels ran: seconds from the start, stream number."""

    start: NDArray[np.float64]  # [n]
    end: NDArray[np.float64]  # [n]
    stream: NDArray[np.int64]  # [n]

    @property
    def makespan(self) -> float:
        """Seconds until all are done."""
        return float(self.end.max(initial=0.0))


def list_schedule(seconds: Sequence[float], predecessors: Sequence[Sequence[int]], streams: int) -> Timeline:
    """Replay kernels that take `seconds` [n] on `streams` equal streams.

    A kernel is ready when all its predecessors (of lower numbers: the program's order is a topological one) have ended;
    whenever a stream is free, the ready kernel with the longest path to the end of the graph starts on it (Graham 1969;
    the priority is Hu's level). Streams share nothing: a kernel takes as long beside others as alone. With one stream
    this is the sum of all kernels. Raises InputError for a predecessor that does not come before, or no stream.
    """
    if streams < 1:
        raise InputError(f"{streams} streams; at least one is needed")
    count = len(seconds)
    followers: list[list[int]] = [[] for _ in range(count)]
    missing = np.zeros(count, np.int64)
    for kernel, before in enumerate(predecessors):
        for other in set(before):
            if not 0 <= other < kernel:
                raise InputError(f"kernel {kernel} waits for kernel {other}, which does not come before it")
            followers[other].append(kernel)
            missing[kernel] += 1
    level = levels(seconds, predecessors)
    ready = [(-level[kernel], kernel) for kernel in range(count) if not missing[kernel]]
    heapq.heapify(ready)
    free = list(range(streams))
    running: list[tuple[float, int, int]] = []  # end, kernel, stream
    start, end, stream = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
    now = 0.0
    while ready or running:
        while ready and free:
            _, kernel = heapq.heappop(ready)
            start[kernel], stream[kernel] = now, heapq.heappop(free)
            end[kernel] = now + seconds[kernel]
            heapq.heappush(running, (float(end[kernel]), kernel, int(stream[kernel])))
        now = running[0][0]
        while running and running[0][0] <= now:
            _, kernel, freed = heapq.heappop(running)
            heapq.heappush(free, freed)
            for follower in followers[kernel]:
                missing[follower] -= 1
                if not missing[follower]:
                    heapq.heappush(ready, (-level[follower], follower))
    return Timeline(start, end, stream)


def levels(seconds: Sequence[float], predecessors: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """[n] seconds of the longest path from each kernel's start to the end of the graph; the largest is a lower bound
    of the makespan on any number of streams."""
    level = np.array(seconds, np.float64)
    longest = np.zeros(len(level))  # of what follows
    for kernel in reversed(range(len(level))):
        level[kernel] += longest[kernel]
        for other in predecessors[kernel]:
            longest[other] = max(longest[other], level[kernel])
    return level
