"""From a machine's configuration to its vector, for machines that the model never saw (zero-shot).

PerfVec §V trains a small network from cache sizes to machine vectors with the foundation model frozen; this one reads
every field of the configuration. Quantities enter as log2, kinds as one-hot; fields that a core does not have are 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uarch.configuration import Machine, SimpleMemory
from uarch.constraints import PREDICTORS, PREFETCHERS, dram_models

_PREFETCHERS = tuple(kind for kind in PREFETCHERS if kind != "none")
_CACHES = ("l1i", "l1d", "l2", "l3")
_PIPELINE = (
    "fetch_width", "decode_width", "rename_width", "issue_width", "commit_width", "frontend_delay", "dispatch_delay",
    "rob_entries", "issue_queue_entries", "load_queue_entries", "store_queue_entries", "int_registers", "fp_registers",
    "width", "memory_width", "store_buffer", "memory_in_flight",
)  # fmt: skip
_UNITS = (
    "int_alu", "int_mul", "fp_add", "fp_mul", "simd", "load_ports", "store_ports", "mul_latency", "div_latency",
    "fp_add_latency", "fp_mul_latency", "fp_div_latency",
)  # fmt: skip


def memory_timing(machine: Machine) -> tuple[float, float]:
    """Idle latency (ns) and peak bandwidth (GB/s) of the machine's memory, simple or named DRAM."""
    memory = machine.memory
    if isinstance(memory, SimpleMemory):
        return memory.latency_ns, memory.bandwidth_gbs
    dram = dram_models()[memory.model]
    bursts = 64.0 / dram["burst_bytes"]
    return dram["t_rcd"] + dram["t_cl"] + bursts * dram["t_burst"], 64.0 / (bursts * dram["t_burst"])


def machine_features(machine: Machine) -> NDArray[np.float32]:
    """[feature_count()] numbers in a fixed order, microarchitectural quantities as log2 (1 + x)."""
    values: list[float] = [float(machine.core == "in-order"), np.log2(machine.frequency_ghz)]
    values += [_log(getattr(machine.pipeline, name, 0)) for name in _PIPELINE]
    values += [_log(getattr(machine.functional_units, name)) for name in _UNITS]
    predictor = machine.branch_predictor
    values += [float(predictor.kind == kind) for kind in PREDICTORS]
    values += [_log(predictor.entries), _log(predictor.btb_entries), _log(predictor.ras_entries)]
    for name in _CACHES:
        cache = getattr(machine, name)
        if cache is None:
            values += [0.0] * (5 + len(_PREFETCHERS))
        else:
            values += [1.0, _log(cache.size_kib), _log(cache.associativity), _log(cache.latency), _log(cache.mshrs)]
            values += [float(cache.prefetcher == kind) for kind in _PREFETCHERS]
    latency_ns, bandwidth = memory_timing(machine)
    values += [_log(latency_ns), _log(bandwidth), _log(latency_ns * machine.frequency_ghz)]
    values += [_log(64.0 / bandwidth * machine.frequency_ghz), float(not isinstance(machine.memory, SimpleMemory))]
    return np.array(values, np.float32)


def feature_count() -> int:
    """Length of `machine_features`."""
    return 2 + len(_PIPELINE) + len(_UNITS) + len(PREDICTORS) + 3 + len(_CACHES) * (5 + len(_PREFETCHERS)) + 5


def _log(value: float) -> float:
    return float(np.log2(1.0 + value))


class MachineEncoder(nn.Module):
    """Configuration features [K, F] → machine vectors [K, d]: an affine map plus a two-layer correction."""

    def __init__(self, width: int, hidden: int = 192) -> None:
        super().__init__()
        features = feature_count()
        self.linear = nn.Linear(features, width)
        self.correction = nn.Sequential(
            nn.Linear(features, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, width)
        )
        for name in ("mean", "scale"):
            self.register_buffer(name, torch.zeros(features) if name == "mean" else torch.ones(features))
        for name in ("basis_mean", "basis_scale"):
            self.register_buffer(name, torch.zeros(width) if name == "basis_mean" else torch.ones(width))
        self.register_buffer("basis", torch.eye(width))
        self.mean: Tensor
        self.scale: Tensor
        self.basis: Tensor
        self.basis_mean: Tensor
        self.basis_scale: Tensor

    def forward(self, features: Tensor) -> Tensor:
        x = (features - self.mean) * self.scale
        coordinates = (self.linear(x) + self.correction(x)) * self.basis_scale
        return self.basis_mean + coordinates @ self.basis

    @torch.no_grad()
    def vectors(self, machines: Sequence[Machine]) -> NDArray[np.float64]:
        """[K, d] vectors of these machines."""
        return self.encode(np.stack([machine_features(machine) for machine in machines]))

    @torch.no_grad()
    def encode(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """[K, d] vectors from `machine_features` rows [K, F]."""
        return self(torch.from_numpy(features)).double().numpy()
