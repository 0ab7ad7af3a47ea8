"""Values that each field of a machine may hold: one table of types and bounds, one table of relations between fields.

Units are in the field names (`size_kib`, `latency_ns`); latencies without a unit are core cycles, delays are pipeline
stages. Both tables are data: `uarch.configuration` reads them, and so can a command that lists what may be varied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from uarch.formula import Formula, evaluate

PREDICTORS = ("none", "local", "bimode", "tournament", "tage", "ltage", "tage-sc-l", "perceptron")
TARGET_TABLE, ITTAGE = "target-table", "ittage"
NO_PREDICTOR = {"kind": "none", "entries": 0, "btb_entries": 0, "ras_entries": 0}
INDIRECT_PREDICTORS = (TARGET_TABLE, ITTAGE)
TAGGED, STREAM = "tagged", "stream"
PREFETCHERS = ("none", "stride", TAGGED, STREAM)
LRU = "lru"
REPLACEMENT_POLICIES = (LRU, "tree-plru", "srrip", "random")
CORES = ("out-of-order", "in-order")
GEM5 = "gem5"
MEMORY, CACHE = "memory", "cache"  # of `first_touch`
FIXED, CACHES = "fixed", "caches"  # of `tlb.walk`
VIRTUAL, IN_ORDER, DRAWN = FRAMES = ("virtual", "in-order", "drawn")
SMALL_PAGE = 4  # KiB
# Kinds of system calls that may have a time of their own (uarch/system_calls.yaml), and all others.
_FILE_CALLS = ("read", "write", "open", "close", "stat", "getdents")
SYSTEM_CALLS = ("default", *_FILE_CALLS, "mmap", "munmap", "mprotect", "brk", "clock")
# Families whose micro-operations there are tables of (tracegen/decode/native), with their instruction set.
IN_ORDER_FAMILIES = ("cortex-a53",)
FAMILIES = dict.fromkeys((*IN_ORDER_FAMILIES, "cortex-a72", "neoverse-n1"), "aarch64")
FAMILIES |= dict.fromkeys(("golden-cove", "haswell", "icelake", "skylake", "zen2", "zen3", "zen4", "zen5"), "x86-64")
MICROCODES = (GEM5, *FAMILIES)


@cache
def dram_models() -> dict[str, dict[str, float]]:
    """Timing parameters of every named DRAM (`uarch/dram.yaml`), nanoseconds unless the name says otherwise."""
    return yaml.safe_load((Path(__file__).parent / "dram.yaml").read_text())


def memory_models() -> tuple[str, ...]:
    return ("simple", *dram_models())


@dataclass(frozen=True)
class Rule:
    """Type and closed range of a field, or the names it may hold."""

    type: type
    low: float = 0
    high: float = 0
    names: Callable[[], tuple[str, ...]] | None = None
    power_of_two: bool = False  # where not zero

    def describe(self) -> str:
        if self.names is not None:
            return "one of " + ", ".join(self.names())
        if self.type is str:
            return "a text that can be printed, not empty"
        kind = "a whole number" if self.type is int else "a number"
        extra = " and a power of two" if self.power_of_two else ""
        return f"{kind} from {self.low:,} to {self.high:,}{extra}"


def _width(high: int = 32) -> Rule:
    return Rule(int, 1, high)


def _latency() -> Rule:
    return Rule(int, 1, 500)


_CACHE = {
    "size_kib": Rule(int, 1, 1 << 20),
    "associativity": Rule(int, 1, 64),
    "latency": _latency(),
    "mshrs": Rule(int, 1, 256),
    "prefetcher": Rule(str, names=lambda: PREFETCHERS),
    "replacement": Rule(str, names=lambda: REPLACEMENT_POLICIES),
    "fill_cycles": Rule(int, 1, 64),
    "set_fill_cycles": Rule(int, 1, 64),
}

CACHE_FIELDS = tuple(_CACHE)

# By dotted field name. Fields of `pipeline` depend on the core, so they are listed under the core's name.
RULES: dict[str, Rule] = {
    "name": Rule(str),
    "core": Rule(str, names=lambda: CORES),
    "frequency_ghz": Rule(float, 0.01, 20),
    "out-of-order.fetch_width": _width(),
    "out-of-order.decode_width": _width(),
    "out-of-order.rename_width": _width(),
    "out-of-order.issue_width": _width(),
    "out-of-order.commit_width": _width(),
    "out-of-order.frontend_delay": Rule(int, 1, 40),
    "out-of-order.dispatch_delay": Rule(int, 1, 40),
    "out-of-order.rob_entries": Rule(int, 4, 4096),
    "out-of-order.issue_queue_entries": Rule(int, 2, 4096),
    "out-of-order.load_queue_entries": Rule(int, 2, 4096),
    "out-of-order.store_queue_entries": Rule(int, 2, 4096),
    "out-of-order.int_registers": Rule(int, 33, 8192),
    "out-of-order.fp_registers": Rule(int, 33, 8192),
    "in-order.width": _width(16),
    "in-order.frontend_delay": Rule(int, 1, 40),
    "in-order.memory_width": _width(16),
    "in-order.store_buffer": Rule(int, 1, 256),
    "in-order.memory_in_flight": Rule(int, 1, 256),
    **{f"functional_units.{unit}": _width() for unit in ("int_alu", "int_mul", "fp_add", "fp_mul", "simd")},
    **{f"functional_units.{unit}": _width(8) for unit in ("load_ports", "store_ports")},
    **{f"functional_units.{kind}_latency": _latency() for kind in ("mul", "div", "fp_add", "fp_mul", "fp_div")},
    "functional_units.div_step_latency": _latency(),
    "tlb.entries": Rule(int, 8, 1 << 16, power_of_two=True),
    "tlb.l2_entries": Rule(int, 8, 1 << 20, power_of_two=True),
    "tlb.l2_latency": Rule(int, 0, 500),
    "tlb.walk_latency": Rule(int, 0, 5000),
    "tlb.page_kib": Rule(int, SMALL_PAGE, 2048, power_of_two=True),
    "tlb.walk": Rule(str, names=lambda: (FIXED, CACHES)),
    **{f"system_calls.{kind}": Rule(int, 0, 10_000_000) for kind in SYSTEM_CALLS},
    "frames": Rule(str, names=lambda: FRAMES),
    "first_touch": Rule(str, names=lambda: (MEMORY, CACHE)),
    "indirect_delay": Rule(int, 0, 100),
    "call_delay": Rule(int, 0, 100),
    "taken_branches": Rule(int, 1, 4),
    "store_lines": Rule(int, 1, 8),
    "store_refetch": Rule(int, 0, 500),
    "forward_latency": _latency(),
    "memory_renaming": Rule(int, 1, 256),
    "microcode": Rule(str, names=lambda: MICROCODES),
    "branch_predictor.kind": Rule(str, names=lambda: PREDICTORS),
    "branch_predictor.entries": Rule(int, 0, 1 << 20, power_of_two=True),
    "branch_predictor.btb_entries": Rule(int, 0, 1 << 20, power_of_two=True),
    "branch_predictor.ras_entries": Rule(int, 0, 1024),
    "branch_predictor.indirect": Rule(str, names=lambda: INDIRECT_PREDICTORS),
    **{f"{level}.{field}": rule for level in ("l1i", "l1d", "l2", "l3") for field, rule in _CACHE.items()},
    "memory.model": Rule(str, names=memory_models),
    "memory.latency_ns": Rule(float, 0.1, 1e5),
    "memory.bandwidth_gbs": Rule(float, 0.01, 1e5),
}


def _dotted(name: str) -> str:
    """The field that a name in RULES is of: those of a core are all of `pipeline`."""
    section, _, last = name.partition(".")
    return f"pipeline.{last}" if section in CORES else name


FIELDS = tuple(dict.fromkeys(map(_dotted, RULES)))  # of machines


def rules_of(field: str) -> list[Rule]:
    """Return the rules of a dotted field: none where there is no such field, of `pipeline` those of both cores."""
    section, _, last = field.partition(".")
    names = [field] if section != "pipeline" else [f"{core}.{last}" for core in CORES]
    return [RULES[name] for name in names if name in RULES]


@dataclass(frozen=True)
class Relation:
    """A condition between fields. NaN stands for a field that a machine does not have."""

    field: str  # the one that the error blames
    bound: str  # what would be right; {names} are filled in with the machine's values
    condition: Formula

    def holds(self, machine: Mapping[str, Any]) -> Any:
        """Return whether the relation holds for a machine as a flat mapping of dotted names to values, or of each of
        many as columns (`uarch.columns`).
        """
        return evaluate(self.condition, machine)


def _at_most(field: str, other: str, why: str) -> Relation:
    return Relation(field, f"at most {other} = {{{other}}} ({why})", ("not", (">", field, other)))


def _predicting(field: str, low: int) -> Relation:
    text = f"at least {low} with predictor {{branch_predictor.kind}}"
    return Relation(field, text, ("or", ("is", "branch_predictor.kind", "none"), (">=", field, low)))


def _cache(level: str) -> list[Relation]:
    size, ways = f"{level}.size_kib", f"{level}.associativity"
    lines = ("*", 1024 / 64, size)
    return [
        Relation(ways, f"at most the number of 64-byte lines in {size} = {{{size}}}", ("not", (">", ways, lines))),
        Relation(
            size,
            f"a whole power of two of sets of {ways} = {{{ways}}} lines of 64 bytes",
            ("or", ("not", ("has", ways)), ("power of two", ("/", lines, ways))),
        ),
    ]


def _of_core(core: str, other: str, families: tuple[str, ...]) -> Relation:
    """A core of this kind has none of the families that are of the other."""
    valid = ", ".join(name for name in MICROCODES if name not in families)
    none = ("not", ("or", *(("is", "microcode", name) for name in families)))
    return Relation(
        "microcode", f"one of {valid}: the others are of {other} cores", ("or", ("is", "core", other), none)
    )


# What the tables of a family (`microcode`) say of nearly every instruction, and the fields say otherwise.
OF_TABLES = tuple(name for name in RULES if name.startswith("functional_units.") and name.endswith("_latency"))

_QUEUE = "no entry could be used beyond the reorder buffer"
RELATIONS: tuple[Relation, ...] = (
    _at_most("pipeline.issue_queue_entries", "pipeline.rob_entries", _QUEUE),
    _at_most("pipeline.load_queue_entries", "pipeline.rob_entries", _QUEUE),
    _at_most("pipeline.store_queue_entries", "pipeline.rob_entries", _QUEUE),
    _at_most("pipeline.memory_width", "pipeline.width", "memory instructions are part of the issue width"),
    _predicting("branch_predictor.entries", 16),
    _predicting("branch_predictor.btb_entries", 1),
    _predicting("branch_predictor.ras_entries", 1),
    Relation(
        "branch_predictor.kind",
        "a predictor: an out-of-order core does not work without one",
        ("or", ("is", "core", "in-order"), ("not", ("is", "branch_predictor.kind", "none"))),
    ),
    _of_core("in-order", "out-of-order", tuple(name for name in FAMILIES if name not in IN_ORDER_FAMILIES)),
    _of_core("out-of-order", "in-order", IN_ORDER_FAMILIES),
    *(relation for level in ("l1i", "l1d", "l2", "l3") for relation in _cache(level)),
)
