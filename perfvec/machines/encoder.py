"""From a machine's configuration to its vector, for machines that the model never saw (zero-shot).

PerfVec §V trains a small network from cache sizes to machine vectors with the foundation model frozen; this one reads
every field of the configuration. Quantities enter as log2, kinds as one-hot; fields that a core does not have are 0.
What the fields mean together is added: hit latencies from the core on, memory's in cycles, the narrowest width, misses
in flight. Machines that lie outside what taught the encoder are told on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uarch.configuration import Machine, SimpleMemory, flatten
from uarch.constraints import CORES, PREDICTORS, PREFETCHERS, dram_models, memory_models

_PREFETCHERS = tuple(kind for kind in PREFETCHERS if kind != "none")
_CACHES = ("l1i", "l1d", "l2", "l3")
_PIPELINE = (
    "fetch_width", "decode_width", "rename_width", "issue_width", "commit_width", "frontend_delay", "dispatch_delay",
    "rob_entries", "issue_queue_entries", "load_queue_entries", "store_queue_entries", "int_registers", "fp_registers",
    "width", "memory_width", "store_buffer", "memory_in_flight",
)  # fmt: skip
_WIDTHS = ("fetch_width", "decode_width", "rename_width", "issue_width", "commit_width", "width")
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
    """[F] numbers in a fixed order, microarchitectural quantities as log2 (1 + x)."""
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
    return np.array(values + _together(machine), np.float32)


def _together(machine: Machine) -> list[float]:
    """What no field says alone, in log2: models of before this list existed read only the features before it."""
    pipeline, last = machine.pipeline, machine.l3 or machine.l2
    width = min(getattr(pipeline, name) for name in _WIDTHS if hasattr(pipeline, name))
    latency_ns, bandwidth = memory_timing(machine)
    line = 64.0 / bandwidth * machine.frequency_ghz  # cycles a line at the memory's peak
    l2 = machine.l1d.latency + machine.l2.latency
    l3 = l2 + (machine.l3.latency if machine.l3 else 0)
    memory = l3 + latency_ns * machine.frequency_ghz
    in_flight = min(cache.mshrs for cache in (machine.l1d, machine.l2, machine.l3) if cache)
    window = min(getattr(pipeline, "rob_entries", 8 * width), getattr(pipeline, "int_registers", 8 * width))
    depth = 3 + pipeline.frontend_delay + getattr(pipeline, "dispatch_delay", 0)
    quantities = (
        width, machine.l1d.latency, l2, l3, memory, machine.l1i.latency + machine.l2.latency, last.size_kib, in_flight,
        memory / in_flight, line, line / memory, window, window / memory,
        machine.functional_units.load_ports / width, depth,
    )  # fmt: skip
    values = [float(np.log2(quantity)) for quantity in quantities]
    in_order = float(machine.core == "in-order")
    unpredicted = in_order * float(machine.branch_predictor.kind == "none")
    return [*values, unpredicted, in_order * float(np.log2(width)), in_order * float(np.log2(memory))]


def _fields(machine: Machine) -> dict[str, float]:
    """Numbers by their field, and 1 for each name that a field holds, as `branch_predictor.kind = tage`."""
    flat = flatten(machine.to_dict())
    numbers = {field: float(value) for field, value in flat.items() if isinstance(value, (int, float))}
    names = {f"{field} = {value}": 1.0 for field, value in flat.items() if isinstance(value, str) and field != "name"}
    return numbers | names


def _field_names() -> list[str]:
    """Every key of `_fields`, in the order of the encoder's ranges: new ones go to the end."""
    caches = [f"{cache}.{field}" for cache in _CACHES for field in ("size_kib", "associativity", "latency", "mshrs")]
    names = ["frequency_ghz", *(f"pipeline.{field}" for field in _PIPELINE)]
    names += [f"functional_units.{field}" for field in _UNITS]
    names += [f"branch_predictor.{field}" for field in ("entries", "btb_entries", "ras_entries")]
    names += [*caches, "memory.latency_ns", "memory.bandwidth_gbs"]
    names += [f"core = {kind}" for kind in CORES] + [f"branch_predictor.kind = {kind}" for kind in PREDICTORS]
    names += [f"{cache}.prefetcher = {kind}" for cache in _CACHES for kind in PREFETCHERS]
    return [*names, *(f"memory.model = {model}" for model in memory_models())]


def _log(value: float) -> float:
    return float(np.log2(1.0 + value))


_DROPOUT = 0.1
_TOLD = 4  # fields in one warning


class MachineEncoder(nn.Module):
    """Configuration features [K, F] → machine vectors [K, d]: a pace and a direction.

    m = exp(pace) · (mean direction + coordinates · basis): how slow a machine is spans two orders of magnitude, where
    its time goes is a mixture of what the table's machines show. Pace and coordinates are an affine map of the
    normalised features plus a two-layer correction. Sizes are read from the tensors when a state is loaded.
    """

    def __init__(self, width: int, *, features: int = 1, coordinates: int = 1, hidden: int = 64) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 1 + coordinates)
        self.correction = nn.Sequential(
            nn.Linear(features, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 1 + coordinates),
        )  # fmt: skip
        for layer in (self.linear, self.correction[-1]):
            assert isinstance(layer, nn.Linear)
            layer.weight.data.zero_()
            layer.bias.data.zero_()
        ranges = len(_field_names())
        for name, value in (
            ("mean", torch.zeros(features)), ("scale", torch.ones(features)), ("limit", torch.tensor(4.0)),
            ("pace", torch.tensor(0.0)), ("basis_mean", torch.zeros(width)), ("basis_scale", torch.ones(coordinates)),
            ("basis", torch.zeros(coordinates, width)),
            ("low", torch.full((ranges,), -torch.inf)), ("high", torch.full((ranges,), torch.inf)),
        ):  # fmt: skip
            self.register_buffer(name, value)
        self.mean: Tensor
        self.scale: Tensor
        self.limit: Tensor
        self.pace: Tensor
        self.basis: Tensor
        self.basis_mean: Tensor
        self.basis_scale: Tensor
        self.low: Tensor
        self.high: Tensor
        self.eval()  # dropout is for training alone

    def _normalised(self, features: Tensor) -> Tensor:
        x = (features[:, : len(self.mean)] - self.mean) * self.scale
        return x.clamp(-self.limit, self.limit)

    def forward(self, features: Tensor) -> Tensor:
        hidden = x = self._normalised(features)
        for layer in self.correction:
            hidden = layer(hidden)
            if isinstance(layer, nn.SiLU):
                hidden = nn.functional.dropout(hidden, _DROPOUT, self.training)
        output = self.linear(x) + hidden
        direction = self.basis_mean + (output[:, 1:] * self.basis_scale) @ self.basis
        return torch.exp(self.pace + output[:, :1]) * direction

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As torch's, of any sizes. A state of before there was a pace is one whose pace is 0 for every machine."""
        state = dict(state_dict)
        if "pace" not in state:
            for name in ("linear", "correction.4"):
                for tensor in (f"{name}.weight", f"{name}.bias"):
                    state[tensor] = torch.cat([torch.zeros_like(state[tensor][:1]), state[tensor]])
            state["pace"], state["limit"] = torch.tensor(0.0), torch.tensor(torch.inf)
            state["low"], state["high"] = torch.tensor([]), torch.tensor([])
        hidden, features = state["correction.0.weight"].shape
        coordinates, width = state["basis"].shape
        MachineEncoder.__init__(self, width, features=features, coordinates=coordinates, hidden=hidden)
        self.low, self.high = torch.empty_like(state["low"]), torch.empty_like(state["high"])
        return super().load_state_dict(state, strict, assign)

    def remember(self, machines: Sequence[Machine]) -> None:
        """Keep the range of each field over these machines; a field or name that none has is marked as never seen."""
        fields = [_fields(machine) for machine in machines]
        for index, name in enumerate(_field_names()):
            values = [values[name] for values in fields if name in values]
            self.low[index] = min(values, default=torch.inf)
            self.high[index] = max(values, default=-torch.inf)

    def outside(self, machine: Machine) -> list[str]:
        """What of the machine no machine that taught the encoder had: `field = value (low to high)`."""
        fields, found = _fields(machine), []
        for name, low, high in zip(_field_names(), self.low.tolist(), self.high.tolist(), strict=False):
            value = fields.get(name)
            if value is not None and not low * (1 - 1e-6) <= value <= high * (1 + 1e-6):  # ranges are float32
                shown = name if " = " in name else f"{name} = {value:g}"
                found.append(f"{shown} ({f'{low:g} to {high:g}' if low <= high else 'never'})")
        return found

    @torch.no_grad()
    def vectors(self, machines: Sequence[Machine]) -> NDArray[np.float64]:
        """[K, d] vectors of these machines; one line on stderr where some lie outside what taught the encoder."""
        told = {field: machine.name for machine in reversed(machines) for field in self.outside(machine)}
        if told:
            some = ", ".join(list(told)[:_TOLD]) + (f" and {len(told) - _TOLD} more" if len(told) > _TOLD else "")
            names = sorted(set(told.values()))
            which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more machines"
            print(f"perfvec: {which}: beyond what the encoder was trained on: {some}", file=sys.stderr)
        return self.encode(np.stack([machine_features(machine) for machine in machines]))

    @torch.no_grad()
    def encode(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """[K, d] vectors from `machine_features` rows [K, F]."""
        return self(torch.from_numpy(features)).double().numpy()

    @torch.no_grad()
    def cycles(self, features: NDArray[np.float32], programs: NDArray[np.float64]) -> NDArray[np.float64]:
        """[K, P] cycles of the program vectors [P, d] on the machines of `machine_features` rows [K, F].

        As `encode(features) @ programs.T`, but the last layers, which are linear, are multiplied with the programs
        first: a machine then costs 1 + P outputs instead of d.
        """
        vectors = torch.from_numpy(programs).float()
        *inner, last = self.correction
        assert isinstance(last, nn.Linear)
        onto = self.basis_scale[:, None] * (self.basis @ vectors.T)  # [coordinates, P]
        hidden = x = self._normalised(torch.from_numpy(features))
        for layer in inner:
            hidden = layer(hidden)
        output = torch.zeros(len(x), 1 + len(vectors))
        for layer, given in ((self.linear, x), (last, hidden)):
            weight = torch.cat([layer.weight[:1], onto.T @ layer.weight[1:]])
            bias = torch.cat([layer.bias[:1], onto.T @ layer.bias[1:]])
            output += nn.functional.linear(given, weight, bias)
        direction = self.basis_mean @ vectors.T + output[:, 1:]
        return (torch.exp(self.pace + output[:, :1]) * direction).double().numpy()
