"""Inputs of the machine encoder: a table of formulas over its fields (`uarch.formula`).

Quantities enter as log2 (1 + x), kinds as one-hot; what a machine does not have is 0. What the fields mean together is
added: hit latencies from the core on, memory's in cycles, the narrowest width, misses in flight, and the latency of an
access by its distance of reuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from uarch.columns import Columns, of_machines
from uarch.configuration import Machine
from uarch.constraints import PREDICTORS, STREAM, TAGGED, dram_models
from uarch.formula import Formula, evaluate, names

CACHES = ("l1i", "l1d", "l2", "l3")
PIPELINE = (
    "fetch_width",
    "decode_width",
    "rename_width",
    "issue_width",
    "commit_width",
    "frontend_delay",
    "dispatch_delay",
    "rob_entries",
    "issue_queue_entries",
    "load_queue_entries",
    "store_queue_entries",
    "int_registers",
    "fp_registers",
    "width",
    "memory_width",
    "store_buffer",
    "memory_in_flight",
)
# Names that models know by their place; those added later follow all else.
KINDS_IN_PLACE, PREFETCHERS_IN_PLACE = 8, 4
_WIDTHS = ("fetch_width", "decode_width", "rename_width", "issue_width", "commit_width", "width")
UNITS = (
    "int_alu",
    "int_mul",
    "fp_add",
    "fp_mul",
    "simd",
    "load_ports",
    "store_ports",
    "mul_latency",
    "div_latency",
    "fp_add_latency",
    "fp_mul_latency",
    "fp_div_latency",
)


# Distances of reuse between the sizes that caches have.
REUSED_KIB = (6.0, 12.0, 24.0, 40.0, 56.0, 96.0, 192.0, 384.0, 768.0, 1536.0, 3072.0, 6144.0, 12288.0, 24576.0)

# Cycles of a step of x86-64's divisions.
_STEP: Formula = ("else", "functional_units.div_step_latency", "functional_units.div_latency")


@cache
def quantities() -> dict[str, Formula]:
    """Named formulas, each over fields and the quantities before it; latencies and delays in core cycles."""
    window = ("*", 8, "narrowest")
    return {
        "latency ns": _of_dram(lambda d: d["t_rcd"] + d["t_cl"] + _line(d), "memory.latency_ns"),  # idle
        # Peak, 1e9 bytes a second; `simple` memory's are of 2**30.
        "bandwidth": _of_dram(lambda d: 64.0 / _line(d), ("*", "memory.bandwidth_gbs", 2**30 / 1e9)),
        # A row that a request finds open, and one that another row is open in place of; closed rows are all alike.
        "row hit ns": _of_dram(lambda d: d["closed"] * d["t_rcd"] + d["t_cl"] + _line(d), "memory.latency_ns"),
        "row conflict ns": _of_dram(
            lambda d: (1 - d["closed"]) * d["t_rp"] + d["t_rcd"] + d["t_cl"] + _line(d), "memory.latency_ns"
        ),
        "open rows KiB": _of_dram(lambda d: (1 - d["closed"]) * d["ranks"] * d["banks"] * d["row_bytes"] / 1024, 0.0),
        "rows at once": _of_dram(lambda d: d["ranks"] * d["banks"], 0.0),
        "refresh": _of_dram(lambda d: d["t_rfc"] / d["t_refi"], 0.0),
        "in order": ("is", "core", "in-order"),
        "narrowest": ("min", *(f"pipeline.{width}" for width in _WIDTHS)),
        "to L2": ("+", "l1d.latency", "l2.latency"),
        "to L3": ("+", "to L2", ("else", "l3.latency", 0.0)),
        "to memory": ("+", "to L3", ("*", "latency ns", "frequency_ghz")),
        "a line": ("*", ("/", 64.0, "bandwidth"), "frequency_ghz"),  # cycles of one at the memory's peak
        "last level": ("else", "l3.size_kib", "l2.size_kib"),
        "in flight": ("min", "l1d.mshrs", "l2.mshrs", "l3.mshrs"),
        "window": ("min", ("else", "pipeline.rob_entries", window), ("else", "pipeline.int_registers", window)),
        "depth": ("+", 3, "pipeline.frontend_delay", ("else", "pipeline.dispatch_delay", 0.0)),
    }


@cache
def features() -> tuple[Formula, ...]:
    """The encoder's features in their order: new ones go to the end, since older models read only those before."""
    found: list[Formula] = ["in order", ("log2", "frequency_ghz")]
    found += [_log(f"pipeline.{name}") for name in PIPELINE]
    found += [_log(_STEP if name == "div_latency" else f"functional_units.{name}") for name in UNITS]
    found += [("is", "branch_predictor.kind", kind) for kind in PREDICTORS[:KINDS_IN_PLACE]]
    found += [_log(f"branch_predictor.{name}") for name in ("entries", "btb_entries", "ras_entries")]
    for level in CACHES:
        found.append(("has", f"{level}.size_kib"))
        found += [_log(f"{level}.{name}") for name in ("size_kib", "associativity", "latency", "mshrs")]
        prefetcher = f"{level}.prefetcher"
        found += [("is", prefetcher, "stride"), ("or", ("is", prefetcher, TAGGED), ("is", prefetcher, STREAM))]
    found += [_log("latency ns"), _log("bandwidth"), _log(("*", "latency ns", "frequency_ghz")), _log("a line")]
    found.append(("-", 1, ("is", "memory.model", "simple")))
    together: tuple[Formula, ...] = (
        "narrowest",
        "l1d.latency",
        "to L2",
        "to L3",
        "to memory",
        ("+", "l1i.latency", "l2.latency"),
        "last level",
        "in flight",
        ("/", "to memory", "in flight"),
        "a line",
        ("/", "a line", "to memory"),
        "window",
        ("/", "window", "to memory"),
        ("/", "functional_units.load_ports", "narrowest"),
        "depth",
    )
    found += [("log2", quantity) for quantity in together]
    found.append(("and", "in order", ("is", "branch_predictor.kind", "none")))
    found += [("*", "in order", ("log2", "narrowest")), ("*", "in order", ("log2", "to memory"))]
    found += [_log("row hit ns"), _log("row conflict ns"), _log(("*", "row hit ns", "frequency_ghz"))]
    found += [("log2", ("/", "row hit ns", "row conflict ns")), _log("open rows KiB"), _log("rows at once"), "refresh"]
    found += [_log(_reuse_latency(first, kib)) for first in ("l1d", "l1i") for kib in REUSED_KIB]
    found += [("is", "branch_predictor.kind", kind) for kind in PREDICTORS[KINDS_IN_PLACE:]]
    return tuple(found)


def _reuse_latency(first: str, kib: float) -> Formula:
    """Cycles of an access behind so many KiB of other lines: latencies of the levels that are smaller, and of that with
    its line.
    """
    missed = {level: ("not", ("<=", kib, f"{level}.size_kib")) for level in (first, "l2", "l3")}  # also one not there
    memory: Formula = ("*", "latency ns", "frequency_ghz")
    behind: Formula = ("*", missed["l3"], memory)
    for level, above in (("l3", "l2"), ("l2", first)):
        behind = ("*", missed[above], ("+", ("else", f"{level}.latency", 0.0), behind))
    return ("+", f"{first}.latency", behind)


def _of_dram(parameter: Callable[[Mapping[str, float]], float], simple: Formula) -> Formula:
    """The parameter of the named DRAM, in ns unless it says otherwise, or else the `simple` memory's."""
    drams = dram_models()
    return ("choose", "memory.model", tuple(drams), tuple(map(parameter, drams.values())), simple)


def _line(dram: Mapping[str, float]) -> float:
    """Nanoseconds of a 64-byte line on the data bus."""
    return 64.0 / dram["burst_bytes"] * dram["t_burst"]


def _log(of: Formula) -> Formula:
    return ("else", ("log2", ("+", 1.0, of)), 0.0)


def features_of_columns(columns: Columns, most: int | None = None) -> NDArray[np.float32]:
    """[count, F] of many machines at once; the first `most` features, where that is given."""
    known = dict(columns)
    for name, formula in quantities().items():
        known[name] = evaluate(formula, known)
    wanted = features()[:most]
    found = np.empty((columns.count, len(wanted)), np.float32)
    for number, formula in enumerate(wanted):
        found[:, number] = evaluate(formula, known)
    return found


def varying_features(columns: Columns, most: int | None = None) -> NDArray[np.bool_]:
    """[F] which features read a field that has a column: all others are alike on all of the machines."""
    varied = set(columns.varied)
    for name, formula in quantities().items():
        if not varied.isdisjoint(names(formula)):
            varied.add(name)
    return np.array([not varied.isdisjoint(names(formula)) for formula in features()[:most]])


def narrowest(columns: Columns) -> NDArray[np.float64]:
    """[count] instructions a cycle at most, by the narrowest width."""
    found = evaluate(quantities()["narrowest"], dict(columns))
    return np.broadcast_to(np.asarray(found, np.float64), columns.count)


def features_of_machines(machines: Sequence[Machine]) -> NDArray[np.float32]:
    """[K, F] of machines of any kinds."""
    return features_of_columns(of_machines(machines))
