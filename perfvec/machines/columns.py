"""The encoder's features of many machines at once (`uarch.columns`), and which of them lie outside its training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfvec.machines.encoder import (
    _CACHES,
    _PIPELINE,
    _PREFETCHERS,
    _UNITS,
    _WIDTHS,
    MachineEncoder,
    _field_names,
)
from uarch.columns import Columns
from uarch.constraints import PREDICTORS, dram_models

CHUNK = 1 << 14  # machines at once: their features and the encoder's activations fit the caches


def cycles_of_columns(encoder: MachineEncoder, columns: Columns, programs: NDArray[np.float64]) -> NDArray[np.float64]:
    """[count, P] cycles of the program vectors [P, d], in bounded memory beside the result."""
    found = np.empty((columns.count, len(programs)))
    for begin in range(0, columns.count, CHUNK):
        rows = slice(begin, begin + CHUNK)
        found[rows] = encoder.cycles(features_of_columns(columns.rows(rows)), programs)
    return found


def features_of_columns(columns: Columns) -> NDArray[np.float32]:
    """[count, F]: row k is `machine_features` of machine k."""
    get = _Fields(columns)
    in_order = get.is_name("core", "in-order")
    frequency = get("frequency_ghz")
    values: list[Any] = [in_order, np.log2(frequency)]
    values += [get.log(f"pipeline.{name}") for name in _PIPELINE]
    values += [get.log(f"functional_units.{name}") for name in _UNITS]
    values += [get.is_name("branch_predictor.kind", kind) for kind in PREDICTORS]
    values += [get.log(f"branch_predictor.{name}") for name in ("entries", "btb_entries", "ras_entries")]
    for cache in _CACHES:
        values.append(np.isfinite(get(f"{cache}.size_kib")))
        values += [get.log(f"{cache}.{name}") for name in ("size_kib", "associativity", "latency", "mshrs")]
        values += [get.is_name(f"{cache}.prefetcher", kind) for kind in _PREFETCHERS]
    latency_ns, bandwidth, dram = get.memory()
    values += [np.log2(1 + latency_ns), np.log2(1 + bandwidth), np.log2(1 + latency_ns * frequency)]
    values += [np.log2(1 + 64.0 / bandwidth * frequency), dram]
    values += _together(get, in_order, latency_ns, bandwidth)
    features = np.empty((columns.count, len(values)), np.float32)
    for number, value in enumerate(values):
        features[:, number] = value
    return features


def _together(get: _Fields, in_order: Any, latency_ns: Any, bandwidth: Any) -> list[Any]:
    """As `perfvec.machines.encoder._together`."""
    frequency, has_l3 = get("frequency_ghz"), np.isfinite(get("l3.size_kib"))
    width = get(f"pipeline.{_WIDTHS[0]}")
    for name in _WIDTHS[1:]:
        width = np.fmin(width, get(f"pipeline.{name}"))  # the number, where one is none
    line = 64.0 / bandwidth * frequency
    l1d, l1i = get("l1d.latency"), get("l1i.latency")
    l2 = l1d + get("l2.latency")
    l3 = l2 + np.nan_to_num(get("l3.latency"))
    memory = l3 + latency_ns * frequency
    in_flight = np.fmin(np.fmin(get("l1d.mshrs"), get("l2.mshrs")), get("l3.mshrs"))
    window = np.fmin(
        _else(get("pipeline.rob_entries"), 8 * width), _else(get("pipeline.int_registers"), 8 * width)
    )  # fmt: skip
    depth = 3 + get("pipeline.frontend_delay") + np.nan_to_num(get("pipeline.dispatch_delay"))
    last = np.where(has_l3, get("l3.size_kib"), get("l2.size_kib"))
    quantities = (
        width, l1d, l2, l3, memory, l1i + get("l2.latency"), last, in_flight, memory / in_flight, line, line / memory,
        window, window / memory, get("functional_units.load_ports") / width, depth,
    )  # fmt: skip
    unpredicted = np.logical_and(in_order, get.is_name("branch_predictor.kind", "none"))
    return [*map(np.log2, quantities), unpredicted, in_order * np.log2(width), in_order * np.log2(memory)]


def _else(value: Any, other: Any) -> Any:
    return np.where(np.isnan(value), other, value)


class _Fields:
    """Columns as numbers in double precision."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def __call__(self, field: str) -> Any:
        """Numbers; NaN where a machine does not have the field."""
        return np.asarray(self.columns.get(field, math.nan), np.float64)

    def log(self, field: str) -> Any:
        """log2 (1 + x); 0 where a machine does not have the field."""
        return np.nan_to_num(np.log2(1.0 + self(field))) if field in self.columns else 0.0

    def is_name(self, field: str, name: str) -> Any:
        return np.asarray(self.columns.get(field) == name, np.float64)

    def memory(self) -> tuple[Any, Any, Any]:
        """Latency (ns), bandwidth (GB/s), whether it is a named DRAM; as `perfvec.machines.encoder.memory_timing`."""
        latency, bandwidth = self("memory.latency_ns"), self("memory.bandwidth_gbs")
        for name, dram in dram_models().items():
            chosen = self.is_name("memory.model", name)
            if chosen.any():
                bursts = 64.0 / dram["burst_bytes"]
                latency = np.where(chosen, dram["t_rcd"] + dram["t_cl"] + bursts * dram["t_burst"], latency)
                bandwidth = np.where(chosen, 64.0 / (bursts * dram["t_burst"]), bandwidth)
        return latency, bandwidth, 1.0 - self.is_name("memory.model", "simple")


def outside_of_columns(encoder: MachineEncoder, columns: Mapping[str, Any]) -> list[str]:
    """What of the machines no machine that taught the encoder had, as `MachineEncoder.outside`; each field once, by the
    value that lies furthest off.
    """
    found = []
    for name, low, high in zip(_field_names(), encoder.low.tolist(), encoder.high.tolist(), strict=False):
        field, is_kind, kind = name.partition(" = ")
        if field not in columns:
            continue
        value = columns[field]
        if is_kind:
            present = bool(np.any(value == kind))
            if present and not low <= 1 <= high:
                found.append(f"{name} (never)")
            continue
        numbers = np.atleast_1d(np.asarray(value, np.float64))
        numbers = numbers[np.isfinite(numbers)]
        if not numbers.size:
            continue
        least, most = float(numbers.min()), float(numbers.max())
        bounds = f"{low:g} to {high:g}" if low <= high else "never"
        for extreme, beyond in ((least, least < low * (1 - 1e-6)), (most, most > high * (1 + 1e-6))):
            if beyond or low > high:
                found.append(f"{field} = {extreme:g} ({bounds})")
                break
    return found
