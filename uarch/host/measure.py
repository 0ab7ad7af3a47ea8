"""Every measurement of a computer: numbers, and the curves that they are read from.

Sizes are read from curves, never from what the computer tells: a curve's levels lie between the told capacities, but
what a level costs is the median of the points on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from uarch.constraints import SYSTEM_CALLS
from uarch.host.counters import BRANCH_MISSES, CYCLES, Event, refusal
from uarch.host.probe import Probe
from uarch.host.snippets import (
    DEPTHS,
    INDIRECT_ORDER,
    JUMPS,
    LOOP_SIZES,
    RENAMED,
    SET_LINES,
    SET_STRIDE,
    STRUCTURES,
    WINDOW_SIZES,
)
from uarch.host.told import Told

Curve = tuple[list[float], list[float]]  # x, y

_RANDOM = 1 << 20  # bits, which no predictor keeps
_MEMORY_KIB = 1 << 17  # at least, for what is to be in no cache
_BESIDE = {"divide 32": 2, "divide 64": 2}  # cycles of an `and` and an `add`, which make the operands again
_LEARNT = 200_000  # rounds: Zen 4 still misses twice as many jumps after a tenth of them
_BUSY = 0.05  # spread of repeats beyond which a computer is busy
_CALL_REPEATS = 31
_TOUCHED = 16  # pages by each of probes.c's calls that it calls TOUCH


@dataclass
class Measurements:
    """Cycles unless named otherwise."""

    ghz: float
    latency: dict[str, float] = field(default_factory=dict)  # of operations, and of `l1d`, `l2`, `l3`, `memory`
    per_cycle: dict[str, float] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)
    curves: dict[str, dict[str, Curve]] = field(default_factory=dict)  # by subject, then by line
    misprediction: float = 0.0
    numbers: dict[str, float] = field(default_factory=dict)  # of what there is one of
    system_calls: dict[str, float] = field(default_factory=dict)  # by kind, with their instruction
    spread: float = 0.0  # median of the spreads of all repeats
    counted: bool = False  # cycles by the processor's counter, else by time
    refusal: str = ""  # why they are not counted, in a word (`counters.refusal`)

    @property
    def busy(self) -> bool:
        return self.spread > _BUSY


def measure(
    told: Told, progress: Callable[[str], object] = lambda _: None, repeats: int = 7, event: Event = CYCLES
) -> Measurements:
    """Measure this computer by counting the event, or by time where it is refused; a minute or two. Raises InputError
    without a compiler.
    """
    refused = refusal(event)
    with Probe(told.features, repeats, event=None if refused else event) as probe:
        progress("clock")
        found = Measurements(1 / probe.ask("clock", 15), counted=not refused, refusal=refused)
        for subject, measured in _SUBJECTS:
            progress(subject)
            measured(probe, told, found)
        found.spread = float(np.median(probe.spreads))
    return found


def _operations(probe: Probe, told: Told, found: Measurements) -> None:
    """Latencies and throughputs, each the best of this pass and those before."""
    for snippet in probe.snippets:
        kind, _, name = snippet.name.partition(" ")
        if kind == "latency":
            beside = found.latency["fp multiply"] if name == "fp divide" else _BESIDE.get(name, 0)
            cycles = probe.cycles(snippet.name) - beside
            found.latency[name] = min(cycles, found.latency.get(name, cycles))
        elif kind == "throughput":
            found.per_cycle[name] = max(1 / probe.cycles(snippet.name), found.per_cycle.get(name, 0.0))
        elif kind == "set" and _way_bytes(told) <= SET_STRIDE:
            cycles = probe.cycles(snippet.name, 100 * SET_LINES, SET_LINES * SET_STRIDE)
            found.numbers[snippet.name] = min(cycles, found.numbers.get(snippet.name, cycles))


def _way_bytes(told: Told) -> int:
    """Bytes of a way of L1D; none where nothing tells of its ways."""
    cache = told.caches.get("l1d")
    return (cache.size_kib << 10) // cache.associativity if cache is not None else 1 << 60


def _chases(probe: Probe, told: Told, found: Measurements) -> None:
    """Latency by size, in huge pages and in those of 4 KiB, and by stride; the least of this pass and those before."""
    last = max((cache.size_kib for cache in told.caches.values()), default=32768)
    most = max(min(8 * last, 1 << 19), _MEMORY_KIB)
    # Four sizes an octave beyond the second level, where the part that others leave of the last one ends.
    octaves = [k / 4 for k in range(128) if k % 2 == 0 or 2 * _of(told, "l2", last) < 4 * 2 ** (k / 4) < last]
    sizes = [int(4 * 2**k) for k in octaves if 4 * 2**k <= most]
    for name, huge in (("huge pages", 1), ("4 KiB pages", 0)):
        steps = [1 << 17 if size < 4096 else 1 << 16 for size in sizes]
        times = [
            probe.ask("chase", size << 10, 64, huge, count, 5 if size < 1 << 16 else 3)
            for size, count in zip(sizes, steps, strict=True)
        ]
        before = found.curves.setdefault("latency", {}).get(name, (sizes, times))[1]
        found.curves["latency"][name] = (
            [float(size) for size in sizes],
            [min(pair) for pair in zip(times, before, strict=True)],
        )
    level_latencies(told, found)
    strides = [64, 128, 256, 512, 1024, 2048, 4096]
    for level, size in (("L2", _of(told, "l2", 512) // 2), ("memory", min(most, _MEMORY_KIB))):
        times = [probe.ask("chase", size << 10, stride, 1, 1 << 15, 3) for stride in strides]
        found.curves.setdefault("strides", {})[level] = ([float(stride) for stride in strides], times)


def _of(told: Told, level: str, otherwise: int) -> int:
    return told.caches[level].size_kib if level in told.caches else otherwise


def level_latencies(told: Told, found: Measurements) -> None:
    """Read the levels' latencies from the curve of huge pages: points between twice the level before and most of it.

    Memory's is that of the largest sizes.
    """
    sizes, times = (np.array(column) for column in found.curves["latency"]["huge pages"])
    low = 0.0
    for level in ("l1d", "l2", "l3"):
        if level not in told.caches:
            continue
        size = told.caches[level].size_kib
        inside = (sizes >= 2 * low) & (sizes <= (0.75 if level != "l3" else 0.4) * size)
        if level == "l3" and inside.any():  # others may have most of it: up to where it is more like memory's
            limit = np.sqrt(times[inside][0] * np.median(times[sizes >= 0.7 * sizes.max()]))
            inside &= np.cumsum(times * inside > limit) == 0
        if inside.any():
            found.latency[level] = float(np.median(times[inside]))
        low = float(size)
    found.latency["memory"] = float(np.median(times[sizes >= 0.7 * sizes.max()]))


def _tlb(probe: Probe, told: Told, found: Measurements) -> None:
    """One line a page: what is beyond the latency of the cache that holds so many lines."""
    counts = [16, 32, 48, 56, 60, 64, 68, 72, 80, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 1792, 2048, 2304, 3072]
    for name, huge in (("4 KiB pages", 0), ("the same lines in huge pages", 1)):
        times = [probe.ask("chase", count << 12, 4096, huge, 1 << 14, 9) for count in counts]
        found.curves.setdefault("TLB", {})[name] = ([float(count) for count in counts], times)
    read_tlb(told, found)


def read_tlb(told: Told, found: Measurements) -> None:
    """Read entries of both levels and what their misses cost from the curve of 4 KiB pages."""
    counts, times = (np.array(column) for column in found.curves["TLB"]["4 KiB pages"])
    few = counts <= 0.75 * 16 * _of(told, "l1d", 32)  # their lines are in L1D
    if few.sum() < 2:
        return
    first = step_at(counts[few].tolist(), (times[few] - found.latency.get("l1d", 4.0)).tolist(), 3.0)
    if first is None:
        return
    found.numbers["tlb_entries"] = first
    found.numbers["tlb2_latency"] = float(np.median(times[few & (counts > first)])) - found.latency.get("l1d", 4.0)
    _read_translation_of_huge_pages(found, first, few)
    added = times - np.where(few, found.latency.get("l1d", 4.0), found.latency.get("l2", 14.0))
    walk = float(added[-1])
    if walk > 3 * found.numbers["tlb2_latency"]:
        second = step_at(counts.tolist(), added.tolist(), (found.numbers["tlb2_latency"] + walk) / 2)
        if second is not None and second > first:
            found.numbers["tlb2_entries"], found.numbers["walk"] = second, walk


def _read_translation_of_huge_pages(found: Measurements, first: float, few: np.ndarray) -> None:
    """Read what translation adds to the latencies of huge pages: nothing, but in a virtual machine whose host has them
    in small ones.
    """
    if "the same lines in huge pages" not in found.curves["TLB"]:
        return
    counts, times = (np.array(column) for column in found.curves["TLB"]["the same lines in huge pages"])
    beyond = few & (counts > first)
    if beyond.any():
        found.numbers["huge_tlb2"] = max(float(np.median(times[beyond])) - found.latency.get("l1d", 4.0), 0.0)
    found.numbers["huge_walk"] = max(float(times[-1]) - found.latency.get("l2", 14.0), 0.0)


def step_at(x: Sequence[float], y: Sequence[float], limit: float) -> float | None:
    """The last x before y stays above the limit; None where it never does."""
    above = np.array(y) > limit
    if not above[-1]:
        return None
    low = np.flatnonzero(~above)
    return float(x[low[-1]]) if len(low) else None


def _bandwidth(probe: Probe, told: Told, found: Measurements) -> None:
    last = max((cache.size_kib for cache in told.caches.values()), default=32768)
    most = max(min(4 * last, 1 << 18), _MEMORY_KIB)
    sizes = [int(16 * 2 ** (k / 2)) for k in range(64) if 16 * 2 ** (k / 2) <= most]
    for kind, name in enumerate(("reads", "writes", "copies")):
        rate = [1 / probe.ask("bandwidth", size << 10, kind, 5) for size in sizes]
        found.curves.setdefault("bandwidth", {})[name] = ([float(size) for size in sizes], rate)
    found.numbers["bandwidth_gbs"] = found.curves["bandwidth"]["reads"][1][-1] * found.ghz


def _parallel(probe: Probe, told: Told, found: Measurements) -> None:
    """Misses of the first level side by side, until no more of them are in flight."""
    chains = [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48]
    size = max(min(2 * _of(told, "l3", 32768), 1 << 18), _MEMORY_KIB)
    times = [probe.ask("parallel", size << 10, count, max((1 << 15) // count, 1024), 5) for count in chains]
    together = [times[0] / time for time in times]
    found.curves["parallel misses"] = {"misses in flight": ([float(c) for c in chains], together)}
    found.numbers["misses_in_flight"] = float(np.sort(together)[-3])


def _least_cycles(probe: Probe, name: str, rounds: int = 20_000) -> float:
    """The least of three measurements: how a loop lies in the front end's buffers may change it, and only upwards."""
    return min(probe.cycles(name, rounds) for _ in range(3))


def _loops(probe: Probe, told: Told, found: Measurements) -> None:
    """Loops of additions: a round takes a cycle more where it does not fit into one group of fetch."""
    times = [_least_cycles(probe, f"loop of {size}") for size in LOOP_SIZES]
    found.curves["loops"] = {"cycles a round": ([float(size) for size in LOOP_SIZES], times)}


def _renaming(probe: Probe, told: Told, found: Measurements) -> None:
    """Read from how many last stores a load takes its register: with more between it waits for the store queue.

    The least of this pass and those before.
    """
    _, before = found.curves.get("stores", {}).get("cycles a round", ([], [np.inf] * len(RENAMED)))
    times = [min(_least_cycles(probe, f"stores {count}"), least) for count, least in zip(RENAMED, before, strict=True)]
    found.curves["stores"] = {"cycles a round": ([float(count) for count in RENAMED], times)}
    forwarded = found.latency["store to load of a byte"]
    if found.latency["store to load"] < forwarded / 2:
        reach = step_at(RENAMED, times, min(times) + forwarded / 2)
        found.numbers["renamed_stores"] = RENAMED[-1] if reach is None else reach


def _branches(probe: Probe, told: Told, found: Measurements) -> None:
    lengths = [1 << k for k in range(2, 21)]
    even = sum(min(probe.pattern(4096, kind) for _ in range(3)) for kind in (1, 2)) / 2
    times = [probe.pattern(length, 0, max(100_000, 2 * length)) for length in lengths]
    least = min(probe.pattern(length, 0, 2 * length) for length in (_RANDOM // 2, _RANDOM, _RANDOM))
    cost = (min(least, times[-1]) - even) * 2  # half of the random branches are mispredicted
    found.misprediction = cost
    missed = [max(time - even, 0.0) / cost for time in times]
    if found.counted and not refusal(BRANCH_MISSES):
        with Probe(told.features, probe.repeats, event=BRANCH_MISSES) as missing:
            missed = [missing.pattern(length, 0, max(100_000, 2 * length)) for length in lengths]
    found.curves["branch patterns"] = {"mispredicted": ([float(length) for length in lengths], missed)}
    times = [probe.cycles(f"jumps {count}", 100) for count in JUMPS]
    found.curves["jumps"] = {"cycles a jump": ([float(count) for count in JUMPS], times)}
    reach = step_at(JUMPS, times, found.misprediction / 3)
    if reach is not None:
        found.numbers["btb_entries"] = reach
    to_last, to_others = (_least_cycles(probe, f"indirect jump, {name}") for name in ("one target", "four targets"))
    found.latency["retargeted jump"] = max(to_others - to_last, 0.0)
    in_order = _least_cycles(probe, f"indirect jump, {INDIRECT_ORDER}", _LEARNT)
    found.numbers["mispredicted_jumps"] = max(in_order - to_others, 0.0) / cost
    times = [probe.cycles(f"calls {depth}", 500) for depth in DEPTHS]
    found.curves["calls"] = {"cycles a call": ([float(depth) for depth in DEPTHS], times)}
    flat = float(np.median([time for depth, time in zip(DEPTHS, times, strict=True) if depth <= 14]))
    depth = step_at(DEPTHS, times, 1.08 * flat)
    if depth is not None:
        found.numbers["ras_entries"] = depth


def _windows(probe: Probe, told: Told, found: Measurements) -> None:
    """Two misses overlap until what is between them fills a structure (Wong 2013)."""
    kib = max(min(2 * _of(told, "l3", 32768), 1 << 18), _MEMORY_KIB)
    for name in STRUCTURES:
        passes = [[probe.window(name, size, kib) for size in WINDOW_SIZES] for _ in range(3)]
        times = np.median(passes, axis=0).tolist()
        found.curves.setdefault("windows", {})[name] = ([float(size) for size in WINDOW_SIZES], times)
        size = window_end(WINDOW_SIZES, times)
        if size is not None:
            found.windows[name] = size


def window_end(sizes: Sequence[int], times: Sequence[float]) -> int | None:
    """The largest size with which two misses still overlap: in front of the first rise by two fifths; None without one.

    The medians of three points on each side, so that single disturbed points do not count.
    """
    y = np.array(times)
    for k in range(3, len(y) - 2):
        low, high = np.median(y[k - 3 : k]), np.median(y[k : k + 3])
        if high > 1.4 * low and y[k] > 1.2 * low:
            return (int(sizes[k - 1]) + int(sizes[k])) // 2
    return None


def _system(probe: Probe, told: Told, found: Measurements) -> None:
    for kind, name in enumerate(SYSTEM_CALLS):
        found.system_calls[name] = probe.ask("syscall", kind, _CALL_REPEATS)
    found.numbers["first_touch"] = probe.ask("syscall", len(SYSTEM_CALLS), _CALL_REPEATS) / _TOUCHED


# What most of a machine depends on is measured three times, some seconds apart: other tenants of a computer disturb for
# longer than the repeats of one measurement take.
_AGAIN = (("operations", _operations), ("latency by size", _chases), ("renaming", _renaming))
_SUBJECTS = (
    *_AGAIN,
    ("loops", _loops),
    ("branches", _branches),
    *_AGAIN,
    ("parallel misses", _parallel),
    ("windows", _windows),
    *_AGAIN,
    ("translation", _tlb),
    ("bandwidth", _bandwidth),
    ("system calls", _system),
)
