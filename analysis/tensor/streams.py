"""The time of a graph of kernels on one or more streams, of one or several engines, by list scheduling. No TVM."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError


@dataclass(frozen=True)
class Timeline:
    """Times of n kernels in seconds from the start, and the stream that each ran on."""

    start: NDArray[np.float64]  # [n]
    end: NDArray[np.float64]  # [n]
    stream: NDArray[np.int64]  # [n]

    @property
    def makespan(self) -> float:
        """Seconds until all are done."""
        return float(self.end.max(initial=0.0))


def list_schedule(
    seconds: Sequence[float],
    predecessors: Sequence[Sequence[int]],
    streams: int | Mapping[str, int],
    engines: Sequence[str] | None = None,
) -> Timeline:
    """Replay kernels that take `seconds` [n] on `streams` equal streams, or on those of several engines.

    A kernel is ready when all its predecessors (of lower numbers: the program's order is a topological one) have ended;
    whenever a stream is free, the ready kernel with the longest path to the end of the graph starts on it (Graham 1969;
    the priority is Hu's level). With `streams` {engine: number} and `engines` [n], a kernel runs on a stream of its own
    engine only (CDMPP's replayer has a queue for every engine); streams are numbered in the engines' order. Streams
    share nothing: a kernel takes as long beside others as alone. With one stream this is the sum of all kernels. Raises
    InputError for a predecessor that does not come before, and for no stream of a kernel's engine.
    """
    count = len(seconds)
    numbers = {"": streams} if isinstance(streams, int) else dict(streams)
    engine = [""] * count if isinstance(streams, int) or engines is None else list(engines)
    for name in dict.fromkeys([*numbers, *engine]):
        if numbers.get(name, 0) < 1:
            raise InputError(
                f"{numbers.get(name, 0)} streams{f' of engine {name!r}' if name else ''}; at least one is needed"
            )
    followers: list[list[int]] = [[] for _ in range(count)]
    missing = np.zeros(count, np.int64)
    for kernel, before in enumerate(predecessors):
        for other in set(before):
            if not 0 <= other < kernel:
                raise InputError(f"kernel {kernel} waits for kernel {other}, which does not come before it")
            followers[other].append(kernel)
            missing[kernel] += 1
    level = levels(seconds, predecessors)
    ready: dict[str, list[tuple[float, int]]] = {name: [] for name in numbers}
    free: dict[str, list[int]] = {}
    first = 0
    for name, number in numbers.items():
        free[name] = list(range(first, first + number))
        first += number
    for kernel in range(count):
        if not missing[kernel]:
            heapq.heappush(ready[engine[kernel]], (-level[kernel], kernel))
    running: list[tuple[float, int, int]] = []  # end, kernel, stream
    start, end, stream = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
    now = 0.0
    while running or any(ready.values()):
        for name in numbers:
            while ready[name] and free[name]:
                _, kernel = heapq.heappop(ready[name])
                start[kernel], stream[kernel] = now, heapq.heappop(free[name])
                end[kernel] = now + seconds[kernel]
                heapq.heappush(running, (float(end[kernel]), kernel, int(stream[kernel])))
        now = running[0][0]
        while running and running[0][0] <= now:
            _, kernel, freed = heapq.heappop(running)
            heapq.heappush(free[engine[kernel]], freed)
            for follower in followers[kernel]:
                missing[follower] -= 1
                if not missing[follower]:
                    heapq.heappush(ready[engine[follower]], (-level[follower], follower))
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
