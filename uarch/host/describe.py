"""This computer as a machine: every field measured, told, or assumed of the nearest preset.

What is measured from outside is not what a field is: a cache's field is the latency of that level alone, a delay of the
front end is part of what a misprediction costs. The conversions are here, each beside its reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from uarch.configuration import Machine, flatten, machine_from_dict
from uarch.constraints import (
    CACHE,
    CACHES,
    DRAWN,
    IN_ORDER,
    ITTAGE,
    MICROCODES,
    RULES,
    SMALL_PAGE,
    STREAM,
    TAGGED,
    TARGET_TABLE,
)
from uarch.host.measure import Measurements
from uarch.host.told import Told
from uarch.machine_files import load_machine, native_family

# Measured in cycles by time, or in cycles that the processor counted.
MEASURED, COUNTED, TOLD, ASSUMED = ORIGINS = ("measured", "counted", "told", "assumed")
# Beyond its renaming registers a core keeps those of the architecture: 16 of x86-64's, and some of its microcode.
_ARCHITECTURAL = 16
_INTO_STORE = 1  # until what is stored is in the store queue
_INTO_L1D = 1  # cycles that the core adds to a load
_CROSSBAR, _TO_MEMORY = 2, 10  # both ways, behind a level and behind the last one (core/cache/hierarchy.cpp)
# Cycles of a misprediction of the loop `pattern` (snippets.py), simulated with these delays of the front end and 2
# cycles from rename to the issue queue (tests/uarch/host/test_describe.py simulates them again).
_DELAYS = (1, 3, 5, 8, 12)
_GEM5_COSTS, _NATIVE_COSTS = (16.9, 17.2, 18.5, 20.1, 24.0), (11.1, 13.0, 14.9, 17.8, 21.6)
_LINE = 64  # bytes
_MOST_WAYS = int(RULES["l3.associativity"].high)
_MOST_TAKEN, _DISTURBED = 4, 0.15  # branches in a cycle
_TABLE_MISSES = 0.8  # of the jumps `an order of 64` by a target table (tests/uarch/host/test_describe.py)
# Cycles of a loop of system calls that take no time in the kernel (tests/uarch/host/test_describe.py simulates it).
CALL_CYCLES, GEM5_CALL_CYCLES = {"zen2": 130, "zen3": 150, "zen4": 150, "zen5": 150}, 40
_CALLED = {
    "default": "getppid",
    "read": "4 KiB",
    "write": "4 KiB",
    "open": "a file three folders deep",
    "close": "of that file",
    "stat": "of that file",
    "getdents": "of the root folder",
    "mmap": "64 KiB",
    "munmap": "64 KiB, touched",
    "mprotect": "a page, touched",
    "brk": "132 KiB more",
    "clock": "clock_gettime",
}
_USED = (0.6, 0.9)  # of the last cache, where chases tell how pages lie in it
_SHARE = 0.6  # of the told size of a cache that must be seen, else others have the rest


@dataclass(frozen=True)
class Field:
    """Origin of a field's value, and in a few words where from."""

    origin: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.origin}: {self.note}" if self.note else self.origin


@dataclass(frozen=True)
class Host:
    """A computer described: `fields` has the origin of every field of `machine` by its dotted name."""

    machine: Machine
    fields: Mapping[str, Field]
    told: Told
    measurements: Measurements
    date: str


def describe(told: Told, found: Measurements, date: str, name: str = "host") -> Host:
    """Put the machine together. Raises InputError where the values do not make a machine."""
    base = load_machine(told.preset)
    values: dict[str, Any] = base.to_dict()
    fields: dict[str, Field] = {field: Field(ASSUMED, f"as {told.preset}") for field in flatten(values)}

    def put(field: str, value: Any, origin: str, note: str) -> None:
        target = values
        *sections, last = field.split(".")
        for section in sections:
            target = target[section]
        target[last] = value
        if origin == MEASURED and found.counted and not field.startswith("system_calls."):  # by time: in the kernel
            origin = COUNTED
        fields[field] = Field(origin, note)

    put("name", name, TOLD, f"{told.model_name}, {told.family}")
    put("core", "out-of-order" if "reorder buffer" in found.windows else base.core, *_core(found))
    put("frequency_ghz", round(found.ghz, 3), MEASURED, "additions that wait for one another")
    _widths(put, found)
    _windows(put, found, base)
    _units(put, found)
    family = told.family if told.family in MICROCODES else native_family(told.preset)
    _branches(put, found, _NATIVE_COSTS if family else _GEM5_COSTS)
    _caches(put, values, told, found)
    _translation(put, values, found)
    if family:
        own = family == told.family
        put("microcode", family, *((TOLD, "its microarchitecture") if own else (ASSUMED, f"as {told.preset}-native")))
        for field in [
            field for field, value in flatten(values).items() if field.endswith(".prefetcher") and value == TAGGED
        ]:
            put(field, STREAM, ASSUMED, f"as {told.preset}-native")
    put("first_touch", CACHE, ASSUMED, "Linux zeroes a page when it is touched first")
    if "retargeted jump" in found.latency:
        bubble = found.latency["retargeted jump"]
        put("indirect_delay", max(round(bubble), 0), MEASURED, f"{bubble:.1f} cycles beyond a jump to its last target")
    if "calls" in found.curves:
        pair = min(found.curves["calls"]["cycles a call"][1])
        put("call_delay", max(round(pair / 2) - 1, 0), MEASURED, f"{pair:.1f} cycles a call and its return")
    if "jumps" in found.curves:
        jumps = 1 / found.curves["jumps"]["cycles a jump"][1][0]
        taken = min(max(math.ceil(jumps - _DISTURBED), 1), _MOST_TAKEN)  # with fewer they would take longer
        put("taken_branches", taken, MEASURED, f"{jumps:.2f} jumps a cycle")
    if "store to another line" in found.per_cycle:
        lines = found.per_cycle["store to another line"]
        put("store_lines", max(round(lines), 1), MEASURED, f"{lines:.2f} stores a cycle, each to another line")
    reads, writes = (found.numbers.get(name, 0.0) for name in ("set reads", "set writes"))
    if round(reads) > 1 or (reads and base.l1d.set_fill_cycles > 1):
        put("l1d.set_fill_cycles", max(round(reads), 1), MEASURED, f"{reads:.1f} cycles a line of one set read from l2")
    refetch = round(writes) if writes > 2 * max(reads, 1.0) else 0  # else they wait for the lines alone
    if refetch or (writes and base.store_refetch):
        put("store_refetch", refetch, MEASURED, f"{writes:.1f} cycles a line of one set written")
    share = found.numbers.get("mispredicted_jumps", 1.0)
    indirect = ITTAGE if share < _TABLE_MISSES / 2 else TARGET_TABLE
    if "mispredicted_jumps" in found.numbers and ITTAGE in (indirect, base.branch_predictor.indirect):
        note = f"{share:.0%} mispredicted of four targets in an order of 64"
        put("branch_predictor.indirect", indirect, MEASURED, note)
    put("frames", *_frames(values, found))
    if "store to load" in found.latency:
        reach = found.numbers.get("renamed_stores")
        whole = found.latency["store to load" if reach is None else "store to load of a byte"]
        put("forward_latency", max(round(whole) - _INTO_STORE, 1), MEASURED, f"{whole:.1f} cycles store and load")
        if reach is not None:
            put("memory_renaming", int(reach), MEASURED, f"{found.latency['store to load']:.1f} cycles so far back")
    _system_calls(put, values, family, found)
    values["memory"] = {"model": "simple", "latency_ns": 0.0, "bandwidth_gbs": 0.0}
    for field in [field for field in fields if field.startswith("memory.")]:
        del fields[field]
    put("memory.model", "simple", MEASURED, "a latency and a bandwidth")
    levels = [level for level in ("l1d", "l2", "l3") if values[level]]
    on_the_way = _INTO_L1D + sum(_passed(values, level) for level in levels) - _CROSSBAR + _TO_MEMORY
    latency = (found.latency["memory"] - found.numbers.get("huge_walk", 0.0) - on_the_way) / found.ghz
    put("memory.latency_ns", round(max(latency, 1.0), 1), MEASURED, _ns(found, "memory") + " load to use")
    bandwidth = found.numbers["bandwidth_gbs"] * 1e9 / 2**30
    put("memory.bandwidth_gbs", round(bandwidth, 1), MEASURED, "reads of one core")
    return Host(machine_from_dict(values), fields, told, found, date)


def _core(found: Measurements) -> tuple[str, str]:
    if "reorder buffer" in found.windows:
        return MEASURED, "misses overlap across other instructions"
    return ASSUMED, "no window was seen"


def _ns(found: Measurements, level: str) -> str:
    return f"{found.latency[level] / found.ghz:.0f} ns"


def _widths(put: Any, found: Measurements) -> None:
    """Measure what can be renamed a cycle with instructions that need no unit; a micro-operation cache feeds it.

    Not with nops, which Zen 4 joins in pairs.
    """
    most = max(found.per_cycle[name] for name in ("copy", "zero"))
    width = max(int(most + 0.6), 1)
    note = f"{most:.2f} instructions a cycle"
    for field in ("decode_width", "rename_width", "commit_width"):
        put(f"pipeline.{field}", width, MEASURED, note + ("" if field == "rename_width" else ", no wider than rename"))
    fetched = max(loop_of_one_group(found, width), width)
    put("pipeline.fetch_width", fetched, MEASURED, "the largest loop that is fetched in a cycle")


def loop_of_one_group(found: Measurements, width: int) -> int:
    """Micro-operations of the largest loop of which a round takes what renaming takes, not two cycles of fetch.

    A round of the smallest ones takes between 1 and 1.5 cycles, as they happen to lie.
    """
    sizes, times = found.curves["loops"]["cycles a round"]
    shortest = float(np.median(times[:4]))
    largest, behind = 0, False
    for size, time in zip(sizes, times, strict=True):
        above = time > (max(size / width, shortest) + 2) / 2
        if above and behind:  # a single one was disturbed
            break
        behind = above
        largest = largest if above else int(size)
    return largest


def _windows(put: Any, found: Measurements, base: Machine) -> None:
    sizes, windows = "misses overlap across so many", found.windows
    assumed = base.to_dict()["pipeline"]
    most = assumed.get("rob_entries")
    if "reorder buffer" in windows:
        # The load behind them needs an entry too, and the answer lies between two sizes.
        most = windows["reorder buffer"] + 1
        put("pipeline.rob_entries", most, MEASURED, sizes)
    queues = {
        f"{name.replace(' ', '_')}_entries": (windows[name], f"{sizes} {name.split()[0]}s")
        for name in ("load queue", "store queue")
        if name in windows
    }
    schedulers = [windows[name] for name in ("integer scheduler", "vector scheduler") if name in windows]
    if len(schedulers) == 2:
        queues["issue_queue_entries"] = sum(schedulers), f"{schedulers[0]} integer, {schedulers[1]} vector"
    for field in ("issue_queue_entries", "load_queue_entries", "store_queue_entries"):
        if field in queues:
            size, note = queues[field]
            put(f"pipeline.{field}", min(size, most or size), MEASURED, note)
        elif most is not None and assumed.get(field, 0) > most:
            put(f"pipeline.{field}", most, ASSUMED, f"as {base.name}, but no more than the reorder buffer")
    for field, name in (("int_registers", "integer registers"), ("fp_registers", "vector registers")):
        if name in windows:
            put(f"pipeline.{field}", windows[name] + _ARCHITECTURAL, MEASURED, f"{sizes} results, and {_ARCHITECTURAL}")


def _units(put: Any, found: Measurements) -> None:
    for field, name in (
        ("int_alu", "add"),
        ("int_mul", "multiply"),
        ("fp_add", "fp add"),
        ("fp_mul", "fp multiply"),
        ("simd", "vector add"),
        ("load_ports", "load"),
        ("store_ports", "store"),
    ):
        rate = found.per_cycle[name]
        put(f"functional_units.{field}", max(round(rate), 1), MEASURED, f"{rate:.2f} a cycle")
    for field, name in (
        ("mul_latency", "multiply"),
        ("div_latency", "divide 64"),
        ("fp_add_latency", "fp add"),
        ("fp_mul_latency", "fp multiply"),
        ("fp_div_latency", "fp divide"),
    ):
        put(
            f"functional_units.{field}",
            max(round(found.latency[name]), 1),
            MEASURED,
            f"{found.latency[name]:.1f} cycles",
        )
    steps = 7  # of gem5's microcode, besides two cycles (uarch/timing/static.py)
    whole = found.latency["divide 32"]
    put(
        "functional_units.div_step_latency",
        max(round((whole - 2) / steps), 1),
        MEASURED,
        f"{whole:.1f} cycles a division",
    )


def _branches(put: Any, found: Measurements, costs: tuple[float, ...]) -> None:
    cost = found.misprediction
    delay = round(float(np.interp(cost, costs, _DELAYS)))
    put("pipeline.frontend_delay", delay, MEASURED, f"a misprediction costs {cost:.1f} cycles")
    if "btb_entries" in found.numbers:
        entries = 1 << int(np.log2(found.numbers["btb_entries"]) + 0.5)
        put(
            "branch_predictor.btb_entries",
            entries,
            MEASURED,
            f"jumps are known up to {found.numbers['btb_entries']:.0f}",
        )
    if "ras_entries" in found.numbers:
        put("branch_predictor.ras_entries", int(found.numbers["ras_entries"]), MEASURED, "nested calls return unmissed")


def _passed(values: Mapping[str, Any], level: str) -> int:
    """Cycles of a miss in a level: its look-up, the crossbar both ways, its answer, which takes half a look-up."""
    own = int(values[level]["latency"])
    return own + _CROSSBAR + max(1, own // 2)


def _caches(put: Any, values: dict[str, Any], told: Told, found: Measurements) -> None:
    for level in ("l1i", "l1d", "l2", "l3"):
        cache = told.caches.get(level)
        if cache is None:
            continue
        if values[level] is None:
            values[level] = dict(values["l2"])
            for field in values[level]:
                put(f"{level}.{field}", values[level][field], ASSUMED, "as l2")
        size, ways = geometry(cache.size_kib, cache.associativity)
        for field, value, own in (("size_kib", size, cache.size_kib), ("associativity", ways, cache.associativity)):
            origin = (TOLD, "sysfs") if value == own else (ASSUMED, f"sysfs: {own}; the sets are a power of two")
            put(f"{level}.{field}", value, *origin)
        seen = seen_size(found, level)
        if level == "l3" and seen is not None and seen < _SHARE * size:
            eighth = 1 << max(int(np.log2(seen)) - 3, 4)  # with 8 to 15 ways the sets are a power of two
            put(
                "l3.size_kib",
                int(seen / eighth) * eighth,
                MEASURED,
                f"seen of the {size} KiB told; others have the rest",
            )
            put("l3.associativity", int(seen / eighth), MEASURED, "as many as its size has")
    before = _INTO_L1D
    for level in ("l1d", "l2", "l3"):
        if values[level] is None:
            continue
        if level in found.latency:
            whole = found.latency[level]
            if level == "l3":
                whole -= found.numbers.get("huge_tlb2", 0.0)
            put(f"{level}.latency", max(round(whole) - before, 1), MEASURED, f"{whole:.1f} cycles load to use")
        before += _passed(values, level)
    for level, below in (("l1d", "l2"), ("l2", "l3")):
        line = _cycles_a_line(values, found, level, below)
        if line is not None and (round(line) > 1 or values[level].get("fill_cycles", 1) > 1):
            put(f"{level}.fill_cycles", max(round(line), 1), MEASURED, f"{line:.1f} cycles a line read from {below}")
    if "misses_in_flight" in found.numbers:
        misses = max(round(found.numbers["misses_in_flight"]), 1)
        put("l1d.mshrs", misses, MEASURED, "misses side by side")


def _frames(values: Mapping[str, Any], found: Measurements) -> tuple[str, str, str]:
    """Tell whether pages lie in the last cache as if drawn: then some of its sets are full before the rest, and a chase
    through most of it misses there. A set of w ways, of which a share s is used, has a line's place with a probability
    of P(n < w), where the number n of others is Poisson-distributed with mean s·w.
    """
    unknown = DRAWN, ASSUMED, "the kernel's free pages are in no order"
    level = next((level for level in ("l3", "l2") if values[level] and level in found.latency), None)
    curve = found.curves.get("latency", {}).get("4 KiB pages")
    if level is None or curve is None:
        return unknown
    size, ways = values[level]["size_kib"], values[level]["associativity"]
    missed = expected = 0.0
    for used, time in zip(*curve, strict=True):
        if _USED[0] * size <= used <= _USED[1] * size:
            mean = ways * used / size
            expected += 1 - sum(math.exp(-mean) * mean**n / math.factorial(n) for n in range(ways))
            hit = found.latency[level] + _translated(used, found)
            missed += (time - hit) / (found.latency["memory"] - found.latency[level])
    if expected == 0:
        return unknown
    note = f"a chase through most of {level} misses {missed / expected:.0%} as often as in drawn pages"
    return IN_ORDER if missed < expected / 2 else DRAWN, MEASURED, note


def _translated(kib: float, found: Measurements) -> float:
    """Cycles by which misses of both levels of the TLB prolong a load of a chase through `kib` of small pages."""
    numbers = found.numbers
    if "tlb_entries" not in numbers:
        return 0.0
    second = numbers["tlb2_latency"]
    steps = [(numbers["tlb_entries"], second)]
    if "tlb2_entries" in numbers:
        steps.append((numbers["tlb2_entries"], numbers["walk"] - second))
    return sum(cost * max(1 - entries * SMALL_PAGE / kib, 0.0) for entries, cost in steps)


def _cycles_a_line(values: Mapping[str, Any], found: Measurements, level: str, below: str) -> float | None:
    """The shortest time from one line to the next where reads in order go beyond `level` and stay within half of
    `below`; None where that was not measured.
    """
    if "bandwidth" not in found.curves or not values[below]:
        return None
    least, most = 1.5 * values[level]["size_kib"], values[below]["size_kib"] / 2
    sizes, rates = found.curves["bandwidth"]["reads"]
    return min((_LINE / rate for size, rate in zip(sizes, rates, strict=True) if least < size <= most), default=None)


def _translation(put: Any, values: dict[str, Any], found: Measurements) -> None:
    """Put in what a miss of either level of the TLB costs, where a curve shows both."""
    numbers = found.numbers
    if "walk" not in numbers:
        return
    values["tlb"] = {}
    second = numbers["tlb2_latency"]
    for field, count in (("entries", numbers["tlb_entries"]), ("l2_entries", numbers["tlb2_entries"])):
        put(f"tlb.{field}", 1 << int(np.log2(count) + 0.5), MEASURED, f"pages are known up to {count:.0f}")
    put("tlb.l2_latency", max(round(second), 0), MEASURED, f"{second:.1f} cycles beyond the first level's")
    walk, in_l2 = numbers["walk"] - second, found.latency.get("l2", 14.0)
    told = f"{walk:.1f} cycles more, one line a page, less {in_l2:.1f} to read its entry in L2"
    put("tlb.walk_latency", max(round(walk - in_l2), 0), MEASURED, told)
    put("tlb.walk", CACHES, ASSUMED, "page tables are cached as data are")


def _system_calls(put: Any, values: dict[str, Any], family: str | None, found: Measurements) -> None:
    """Put in what a call of each kind takes beyond what the simulator takes for its instruction."""
    if found.system_calls:
        values["system_calls"] = {}
    own = CALL_CYCLES.get(family or "", GEM5_CALL_CYCLES)
    for kind, cycles in found.system_calls.items():
        put(f"system_calls.{kind}", max(round(cycles) - own, 0), MEASURED, f"{cycles:,.0f} cycles, {_CALLED[kind]}")


def geometry(size_kib: int, ways: int) -> tuple[int, int]:
    """Return the size and the ways nearest to the told ones with which the sets are a power of two.

    Of a cache in slices they need not be: the size is kept where some number of ways allows it.
    """
    lines, ways = size_kib * 16, min(ways, _MOST_WAYS)
    odd = lines // (lines & -lines)
    able = [odd << k for k in range(_MOST_WAYS.bit_length()) if odd << k <= min(lines, _MOST_WAYS)]
    if able:
        return size_kib, min(able, key=lambda count: abs(math.log(count / ways)))
    sets = 1 << max(round(math.log2(lines / ways)), 4)
    return sets * ways // 16, ways


def seen_size(found: Measurements, level: str) -> float | None:
    """KiB up to which a chase costs less than halfway (by ratio) from this level's latency to the next one's.

    Where others share L3, reads in order keep more of it than a chase, which asks seldom, as most programs do.
    """
    following = {"l2": "l3" if "l3" in found.latency else "memory", "l3": "memory"}.get(level)
    if following is None or level not in found.latency:
        return None
    limit = float(np.sqrt(found.latency[level] * found.latency[following]))
    sizes, times = found.curves["latency"]["huge pages"]
    below = [size for size, time in zip(sizes, times, strict=True) if time <= limit]
    return max(below) if below else None
