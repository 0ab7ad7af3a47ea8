"""Encoder: from a machine's configuration to its vector, for machines that the model never saw (zero-shot).

PerfVec §V trains a small network from cache sizes to machine vectors with the foundation model frozen; this one reads
every field of the configuration (`perfvec.machines.features`). Machines that lie outside what taught the encoder are
told on stderr.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perfvec.machines.features import (
    CACHES,
    KINDS_IN_PLACE,
    PIPELINE,
    PREFETCHERS_IN_PLACE,
    UNITS,
    features_of_machines,
)
from uarch.configuration import OPTIONAL, Machine, flatten
from uarch.constraints import CORES, PREDICTORS, PREFETCHERS, STREAM, TAGGED, memory_models
from uarch.space import load_space, ranges


def _fields(machine: Machine) -> dict[str, float]:
    """Numbers by their field, and 1 for each name that a field holds, as `branch_predictor.kind = tage`."""
    flat = flatten(machine.to_dict())
    numbers = {field: float(value) for field, value in flat.items() if isinstance(value, (int, float))}
    names = {
        f"{field} = {TAGGED if value == STREAM else value}": 1.0  # one feature
        for field, value in flat.items()
        if isinstance(value, str) and field != "name"
    }
    return numbers | names


def field_names() -> list[str]:
    """Every key of `_fields`, in the order of the encoder's ranges: new ones go to the end."""
    caches = [f"{cache}.{field}" for cache in CACHES for field in ("size_kib", "associativity", "latency", "mshrs")]
    names = ["frequency_ghz", *(f"pipeline.{field}" for field in PIPELINE)]
    names += [f"functional_units.{field}" for field in UNITS]
    names += [f"branch_predictor.{field}" for field in ("entries", "btb_entries", "ras_entries")]
    names += [*caches, "memory.latency_ns", "memory.bandwidth_gbs"]
    kinds = [f"branch_predictor.kind = {kind}" for kind in PREDICTORS]
    names += [f"core = {kind}" for kind in CORES] + kinds[:KINDS_IN_PLACE]
    known, later = PREFETCHERS[:PREFETCHERS_IN_PLACE], PREFETCHERS[PREFETCHERS_IN_PLACE:]
    names += [f"{cache}.prefetcher = {kind}" for cache in CACHES for kind in known if kind != STREAM]
    names += [f"memory.model = {model}" for model in memory_models()]
    return [*names, *kinds[KINDS_IN_PLACE:], *(f"{cache}.prefetcher = {kind}" for kind in later for cache in CACHES)]


# Fields that no machine of the training has, and no feature tells of: only a simulation sees them.
NO_INPUTS = tuple(field for field in OPTIONAL if field != "functional_units.div_step_latency")


def no_inputs(fields: Iterable[str]) -> list[str]:
    """Return those of a machine's dotted `fields` that the encoder has no input of, a section as a whole."""
    sections = [(field, field.partition(".")[0]) for field in fields]
    known = [section if section in NO_INPUTS else field for field, section in sections]
    return [field for field in dict.fromkeys(known) if field in NO_INPUTS]


HINGES = (-1.0, 0.0, 1.0)  # in deviations of a normalised feature
_DROPOUT = 0.1
LARGEST = 12.0  # of a logarithm of cycles: what training may try
_TOLD = 4  # fields in one warning
_ALL = slice(None)
_COVERED = 0.9  # of a range of the default space, in the logarithm: 160 sampled machines cover 0.91 of every field's


def input_scale(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """[F] what inputs are multiplied by: 1 over their deviation in `features` [K, F], 0 where all are alike."""
    spread = features.std(axis=0)
    return np.where(spread > 1e-6, 1.0 / np.maximum(spread, 1e-6), 0.0).astype(np.float32)


class MachineEncoder(nn.Module):
    """Configuration features [K, F] → machine vectors [K, d]: a pace and a direction, and costs.

    m = exp(pace) · (mean direction + coordinates · basis) + exp(costs) · cost basis: how slow a machine is spans two
    orders of magnitude, where its time goes is a mixture of what the table's machines show. What one kind of event
    costs, as a miss does, is ten times as much on one machine as on another whose other times are the same. Pace,
    coordinates and costs are an affine map of the normalised features plus a two-layer correction. With `hinges`
    max(0, x − h) is added for each feature x and each h of HINGES, so that the affine map is piecewise linear in each
    feature (Friedman, Multivariate Adaptive Regression Splines, 1991, without its products). Sizes are read from the
    tensors when a state is loaded.
    """

    def __init__(
        self,
        width: int,
        *,
        features: int = 1,
        coordinates: int = 1,
        costs: int = 0,
        hidden: int = 64,
        hinges: Sequence[float] = (),
    ) -> None:
        super().__init__()
        inputs, outputs = features * (1 + len(hinges)), 1 + coordinates + costs
        self.linear = nn.Linear(inputs, outputs)
        self.correction = nn.Sequential(
            nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs)
        )
        for layer in (self.linear, self.correction[-1]):
            assert isinstance(layer, nn.Linear)
            layer.weight.data.zero_()
            layer.bias.data.zero_()
        ranges = len(field_names())
        for name, value in (
            ("mean", torch.zeros(features)),
            ("scale", torch.ones(features)),
            ("limit", torch.tensor(4.0)),
            ("hinges", torch.tensor(tuple(hinges))),
            ("pace", torch.tensor(0.0)),
            ("basis_mean", torch.zeros(width)),
            ("basis_scale", torch.ones(coordinates)),
            ("basis", torch.zeros(coordinates, width)),
            ("low", torch.full((ranges,), -torch.inf)),
            ("high", torch.full((ranges,), torch.inf)),
        ):
            self.register_buffer(name, value)
        self.register_buffer("cost_basis", torch.zeros(costs, width), persistent=costs > 0)
        self._said: set[tuple[str, str]] = set()  # machine, and a value of its that stderr has named
        self.mean: Tensor
        self.scale: Tensor
        self.limit: Tensor
        self.hinges: Tensor
        self.pace: Tensor
        self.basis: Tensor
        self.basis_mean: Tensor
        self.basis_scale: Tensor
        self.cost_basis: Tensor
        self.low: Tensor
        self.high: Tensor
        self.eval()  # dropout is for training alone

    def _normalised(self, features: Tensor, which: Tensor | slice = _ALL) -> Tensor:
        """The inputs that `which` of the features make."""
        x = features[:, : len(self.mean)][:, which]
        x = ((x - self.mean[which]) * self.scale[which]).clamp(-self.limit, self.limit)
        return torch.cat([x, *(torch.relu(x - hinge) for hinge in self.hinges)], dim=1)

    def forward(self, features: Tensor) -> Tensor:
        hidden = x = self._normalised(features)
        for layer in self.correction:
            hidden = layer(hidden)
            if isinstance(layer, nn.SiLU):
                hidden = nn.functional.dropout(hidden, _DROPOUT, self.training)
        pace, coordinates, costs = (self.linear(x) + hidden).split([1, len(self.basis), len(self.cost_basis)], dim=1)
        direction = self.basis_mean + (coordinates * self.basis_scale) @ self.basis
        return torch.exp(self.pace + pace) * direction + self._exp(costs) @ self.cost_basis

    def _exp(self, costs: Tensor) -> Tensor:
        return torch.exp((self.pace + costs).clamp(max=LARGEST))

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state of any sizes; one of an older release has no costs."""
        hidden, features = len(state_dict["correction.0.weight"]), len(state_dict["mean"])
        coordinates, width = state_dict["basis"].shape
        MachineEncoder.__init__(
            self,
            width,
            features=features,
            coordinates=coordinates,
            costs=len(state_dict.get("cost_basis", ())),
            hidden=hidden,
            hinges=state_dict["hinges"].tolist(),
        )
        self.low, self.high = torch.empty_like(state_dict["low"]), torch.empty_like(state_dict["high"])
        return super().load_state_dict(state_dict, strict, assign)

    def remember(self, machines: Sequence[Machine]) -> None:
        """Keep the range of each field over these machines; a field or name that none has is marked as never seen.

        Machines that were drawn from the default space end a little before its ends, and so would others that are
        drawn from it lie outside. Where the machines cover nearly all of the space's range of a field, the range is
        the space's own: `uarch.space.ranges` is the one description of both.
        """
        fields, space = [_fields(machine) for machine in machines], ranges(load_space("default"))
        for index, name in enumerate(field_names()):
            values = [values[name] for values in fields if name in values]
            low, high = min(values, default=torch.inf), max(values, default=-torch.inf)
            if values and name in space:
                least, most = space[name]
                inside = math.log1p(min(high, most)) - math.log1p(max(low, least))
                if inside >= _COVERED * (math.log1p(most) - math.log1p(least)):
                    low, high = min(low, least), max(high, most)
            self.low[index], self.high[index] = low, high

    def field_ranges(self) -> list[tuple[str, float, float]]:
        """Return each of `field_names` with its range; one that the encoder is older than was never seen."""
        low, high = self.low.tolist(), self.high.tolist()
        names = field_names()
        later = len(names) - len(low)
        return list(zip(names, low + [math.inf] * later, high + [-math.inf] * later, strict=True))

    def outside(self, machine: Machine) -> list[str]:
        """Return the field values that no machine in the encoder's training had: `field = value (low to high)`, or
        `field (no input)`.
        """
        fields, found = _fields(machine), []
        for name, low, high in self.field_ranges():
            value = fields.get(name)
            if value is not None and not low * (1 - 1e-6) <= value <= high * (1 + 1e-6):  # ranges are float32
                shown = name if " = " in name else f"{name} = {value:g}"
                found.append(f"{shown} ({f'{low:g} to {high:g}' if low <= high else 'never'})")
        return found + [f"{field} (no input)" for field in no_inputs(flatten(machine.to_dict()))]

    @torch.no_grad()
    def vectors(self, machines: Sequence[Machine]) -> NDArray[np.float64]:
        """[K, d] vectors of these machines; one line on stderr names what lies outside the encoder's ranges, once."""
        found = {(machine.name, field): None for machine in reversed(machines) for field in self.outside(machine)}
        told = {field: name for name, field in found if (name, field) not in self._said}
        self._said.update(found)
        if told:
            some = ", ".join(list(told)[:_TOLD]) + (f" and {len(told) - _TOLD} more" if len(told) > _TOLD else "")
            names = sorted({name for name, field in found if field in told})
            others = "" if len(names) == 1 else f" and {len(names) - 1} more machine{'s' * (len(names) > 2)}"
            which = f"{names[0]}{others}"
            print(f"perfvec: {which}: beyond what the encoder was trained on: {some}", file=sys.stderr)
        return self.encode(features_of_machines(machines))

    @torch.no_grad()
    def encode(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """[K, d] vectors from `features_of_machines` rows [K, F]."""
        return self(torch.from_numpy(features)).double().numpy()

    @torch.no_grad()
    def cycles(
        self, features: NDArray[np.float32], programs: NDArray[np.float64], varying: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """[K, P] cycles of the program vectors [P, d] on the machines of `features_of_machines` rows [K, F].

        As `encode(features) @ programs.T`, but the last layers, which are linear, are multiplied with the programs
        first: a machine then costs 1 + P outputs, and the costs, instead of d. Features that are not among the
        `varying` [F] are the first machine's on all, and multiplied once.
        """
        vectors = torch.from_numpy(programs).float()
        entry, *inner, last = self.correction
        assert isinstance(entry, nn.Linear) and isinstance(last, nn.Linear)
        onto = self.basis_scale[:, None] * (self.basis @ vectors.T)  # [coordinates, P]
        sizes = [1, len(self.basis), len(self.cost_basis)]

        def outputs(of: Tensor) -> Tensor:  # of `linear` and `last`, of their weights or biases
            pace, coordinates, costs = of.split(sizes)
            return torch.cat([pace, onto.T @ coordinates, costs])

        given = torch.from_numpy(features)
        weight = torch.cat([outputs(self.linear.weight), entry.weight])
        bias = torch.cat([outputs(self.linear.bias), entry.bias])
        varies = torch.ones(len(self.mean), dtype=torch.bool) if varying is None else torch.from_numpy(varying)
        inputs = varies.repeat(1 + len(self.hinges))
        bias = bias + weight[:, ~inputs] @ self._normalised(given[:1], ~varies)[0]
        x = nn.functional.linear(self._normalised(given, varies), weight[:, inputs], bias)
        output, hidden = x.split([1 + len(vectors) + sizes[2], len(entry.weight)], dim=1)
        for layer in inner:
            hidden = layer(hidden)
        output = output + nn.functional.linear(hidden, outputs(last.weight), outputs(last.bias))
        pace, projected, costs = output.split([1, len(vectors), sizes[2]], dim=1)
        direction = self.basis_mean @ vectors.T + projected
        found = torch.exp(self.pace + pace) * direction + self._exp(costs) @ (self.cost_basis @ vectors.T)
        return found.double().numpy()
