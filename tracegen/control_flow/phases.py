"""Phases of a run: intervals that execute the same code alike, found as SimPoint does, and its files.

Intervals of equal length are clustered by their basic-block vectors, projected at random onto 15 dimensions (Sherwood
et al., ASPLOS 2002). Of the clusterings into up to `most` phases the smallest is taken whose Bayesian information
criterion reaches 90 % of the way from the worst to the best (SimPoint 3.0: Hamerly et al., JILP 2005). A phase's
simulation point is the interval nearest to its centre; its weight, the phase's share of the intervals.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.files import atomic_path, require_writable
from support.progress import instruction_bar
from tracegen.control_flow import MOST_PHASES
from tracegen.control_flow.basic_blocks import BlockCounts, BlockVectors
from tracegen.formats.trace import Trace
from tracegen.statistics.kmeans import Clusters, bic, kmeans

_ENOUGH = 0.9  # of the range of the criterion


@dataclass(frozen=True)
class Phases:
    """Phase `phase[i]` of each interval i; `point[p]` is phase p's simulation point, `weight[p]` its share.

    Phases are numbered by their first interval. The last interval is left out where it is shorter, unless it is alone.
    """

    trace: str
    interval: int  # instructions
    phase: NDArray[np.int32]  # [I]
    point: NDArray[np.int64]  # [P] intervals
    weight: NDArray[np.float64]  # [P]
    address: NDArray[np.uint64]  # [S] of the trace's static instructions
    counts: BlockCounts  # the intervals' basic-block vectors
    left_out: int = 0  # instructions after the last interval

    def document(self) -> dict[str, Any]:
        """The `--json` document."""
        return {
            "trace": self.trace,
            "interval": self.interval,
            "phases": [
                {
                    "phase": p,
                    "point": int(i),
                    "instruction": int(i) * self.interval,
                    "weight": float(w),
                    "intervals": int((self.phase == p).sum()),
                }
                for p, (i, w) in enumerate(zip(self.point, self.weight, strict=True))
            ],
            "over_time": self.phase.tolist(),
        }


def choose(vectors: NDArray[np.float32], most: int = MOST_PHASES, *, seed: int = 0) -> Clusters:
    """The clustering of `vectors` [I, d] with the number of clusters that the criterion asks for.

    Bisection between one and `most`, as SimPoint 3.0 searches: the criterion grows with k up to there.
    """
    most = max(1, min(most, len(vectors) - 1))
    found = {k: kmeans(vectors, k, seed=seed) for k in {1, most}}
    scores = {k: bic(clusters) for k, clusters in found.items()}
    low, high = 1, most
    wanted = scores[1] + _ENOUGH * (scores[most] - scores[1])
    if scores[most] <= scores[1]:
        return found[1]
    while high - low > 1:
        middle = (low + high) // 2
        found[middle] = kmeans(vectors, middle, seed=seed)
        low, high = (low, middle) if bic(found[middle]) >= wanted else (middle, high)
    return found[high]


def phases(
    trace: Trace | str | os.PathLike[str],
    *,
    interval: int | None = None,
    most: int = MOST_PHASES,
    seed: int = 0,
    progress: bool = True,
) -> Phases:
    """The phases of a trace in intervals of `interval` instructions.

    By default an interval is a 200th of the trace, at least 1,000 instructions, or all of a shorter one.

    Raises InputError for a bad trace or an interval that is longer than it.
    """
    if not isinstance(trace, Trace):
        with Trace(trace) as opened:
            return phases(opened, interval=interval, most=most, seed=seed, progress=progress)
    if interval is None:
        interval = min(max(1_000, len(trace) // 200), max(len(trace), 1))
    if interval < 1:
        raise InputError(f"interval = {interval:,} must be at least 1 instruction")
    if interval > len(trace):
        raise InputError(f"{trace.path}: has {len(trace):,} instructions, less than an interval of {interval:,}")
    blocks = BlockVectors(trace.static, interval, sparse=True)
    with instruction_bar("phases", len(trace), progress) as bar:
        for chunk in trace.chunks():
            blocks.observe(chunk)
            bar.update(len(chunk))
    whole = len(trace) // interval
    clusters = choose(blocks.projected()[:whole], most, seed=seed)
    first = np.full(len(clusters.centre), whole)
    np.minimum.at(first, clusters.label, np.arange(whole))
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    phase = number[clusters.label]
    nearest = np.lexsort((np.arange(whole), clusters.distance, phase))
    point = nearest[np.searchsorted(phase[nearest], np.arange(len(order)))]
    counts = blocks.counts()
    inside = counts.interval < whole
    return Phases(
        trace.name,
        interval,
        phase,
        point.astype(np.int64),
        np.bincount(phase) / whole,
        trace.address,
        BlockCounts(counts.interval[inside], counts.leader[inside], counts.instructions[inside]),
        len(trace) - whole * interval,
    )


def strip(found: Phases, width: int = 240) -> str:
    """The phases over time as letters, at most `width` of them: of equal parts of the run, the most frequent phase."""
    letters = "".join(chr(c) for c in (*range(65, 91), *range(97, 123)))
    parts = np.array_split(found.phase, min(width, len(found.phase)))
    return "".join(letters[int(np.bincount(part).argmax()) % len(letters)] for part in parts)


def write_simpoints(found: Phases, prefix: str | os.PathLike[str]) -> list[Path]:
    """PREFIX.simpoints (`interval phase`), PREFIX.weights (`weight phase`), PREFIX.bb, as SimPoint and gem5 read them.

    A line of `.bb` is an interval's vector, `T:block:instructions :block:instructions …`; blocks count from 1, in order
    of their addresses. gem5 reads the first two: `--take-simpoint-checkpoint=S,W,INTERVAL,WARMUP`.
    """
    contents = {
        ".simpoints": (f"{point} {phase}\n" for phase, point in enumerate(found.point)),
        ".weights": (f"{weight:.6g} {phase}\n" for phase, weight in enumerate(found.weight)),
        ".bb": _block_lines(found),
    }
    paths = [Path(f"{prefix}{suffix}") for suffix in contents]
    for path in paths:
        require_writable(path)
    for path, lines in zip(paths, contents.values(), strict=True):
        with atomic_path(path) as temporary, temporary.open("w") as file:
            file.writelines(lines)
    return paths


def _block_lines(found: Phases) -> Iterator[str]:
    counts = found.counts
    leaders = np.unique(counts.leader)
    leaders = leaders[np.argsort(found.address[leaders])]
    block = np.zeros(len(found.address), np.int64)
    block[leaders] = np.arange(1, len(leaders) + 1)
    edges = np.searchsorted(counts.interval, np.arange(len(found.phase) + 1))
    for begin, end in pairwise(edges):
        entries = zip(block[counts.leader[begin:end]], counts.instructions[begin:end], strict=True)
        yield "T" + "".join(f":{number}:{count} " for number, count in entries) + "\n"
