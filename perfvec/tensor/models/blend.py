"""Trees and a network together: the geometric mean of what they predict.

Both say the latency of a program as the sum of its loop nests' (`boosted`, rows "summed", and `additive`), and err
differently: trees find thresholds (what fits a register, what does not), the network is smooth between and beyond what
it has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.contract import Beside, Budget, CostModel, Floats, State
from perfvec.tensor.models.additive import Additive, AdditiveParameters
from perfvec.tensor.models.lightgbm import LightGBM, LightGBMParameters
from perfvec.tensor.records import Records
from perfvec.tensor.targets import Target, fit_target
from support.errors import InputError
from tracegen.tensor.dataset import Device, Rows


@dataclass(frozen=True)
class BlendParameters:
    """`share`: weight of the trees, 0 to 1. Both members read `features`, and name none themselves."""

    features: str = "ast"
    share: float = 0.6
    trees: LightGBMParameters = field(
        default_factory=lambda: LightGBMParameters(features="", rows="summed", leaves=31, columns=0.2)
    )
    network: AdditiveParameters = field(default_factory=lambda: AdditiveParameters(features=""))

    def check(self) -> None:
        """Raise InputError for a share that is none, and for members that have no latency or features of their own."""
        if not 0 <= self.share <= 1:
            raise InputError(f"share is the weight of the trees, 0 to 1, not {self.share}")
        for name, member in (("trees", self.trees), ("network", self.network)):
            if member.features:
                raise InputError(
                    f"{name}: features {member.features!r}: set features beside {name}; both members read them"
                )
        if self.trees.rows == "packed":
            raise InputError("trees: rows packed only rank, and a blend is of latencies; use pooled or summed")
        if not Target(self.network.training.target).has_seconds:
            raise InputError("network: the target score only ranks, and a blend is of latencies; use log or box-cox")


class Blend(CostModel):
    """Members divide the budget's seconds evenly."""

    NAME = "blend"
    Parameters = BlendParameters

    def check_parameters(self) -> None:
        for name, member in self._made().items():
            try:
                member.check_parameters()
            except InputError as error:
                raise InputError(f"{name}: {error}") from error

    def _fit(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        self.target = fit_target("log", records.seconds)
        self.members = self._made()
        for member in self.members.values():
            member.use(self.on)
            member.fit(records, budget=_half(budget), seed=seed, unlabelled=beside.other, validation=beside.validation)

    def _update(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        for member in self.members.values():
            member.update(records, budget=_half(budget), seed=seed, source=beside.other)

    def _predict(
        self,
        rows: Rows,
        devices: Sequence[Device],
        device: NDArray[np.int64],
        candidates: NDArray[np.int64] | None = None,
    ) -> Floats:
        self._check_width(rows)
        trees, network = (
            np.log(member.to_seconds(member._predict(rows, devices, device, candidates)))
            for member in (self.members["trees"], self.members["network"])
        )
        logs = self.parameters.share * trees + (1 - self.parameters.share) * network
        return -(logs - self.target.mean) / self.target.scale

    def to_seconds(self, score: Floats) -> Floats:
        return self.target.seconds(score)

    def state(self) -> State:
        states = {name: member.state() for name, member in self.members.items()}
        arrays = {f"{name}.{key}": array for name, state in states.items() for key, array in state.arrays.items()}
        return State(arrays, {name: state.notes for name, state in states.items()} | {"target": asdict(self.target)})

    def restore(self, state: State) -> None:
        self.target = Target(**state.notes["target"])
        self.members = self._made()
        for name, member in self.members.items():
            member.use(self.on)
            member.devices, member.feature_version, member.width = self.devices, self.feature_version, self.width
            own = {
                key.removeprefix(f"{name}."): array for key, array in state.arrays.items() if key.startswith(f"{name}.")
            }
            member.restore(State(own, state.notes[name]))

    def use(self, device: str) -> None:
        super().use(device)
        for member in getattr(self, "members", {}).values():
            member.use(device)

    def _made(self) -> dict[str, CostModel]:
        """The untrained members."""
        features = self.parameters.features
        return {
            "trees": LightGBM(replace(self.parameters.trees, features=features)),
            "network": Additive(replace(self.parameters.network, features=features)),
        }


def _half(budget: Budget) -> Budget:
    return replace(budget, seconds=None if budget.seconds is None else budget.seconds / 2)
