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
from tracegen.tensor.dataset import Device, Rows


@dataclass(frozen=True)
class BlendParameters:
    """`share`: weight of the trees. Both members read `features`."""

    features: str = "ast"
    share: float = 0.6
    trees: LightGBMParameters = field(default_factory=lambda: LightGBMParameters(rows="summed", leaves=31, columns=0.2))
    network: AdditiveParameters = field(default_factory=AdditiveParameters)


class Blend(CostModel):
    """Members divide the budget's seconds evenly."""

    NAME = "blend"
    Parameters = BlendParameters

    def _fit(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        self.target = fit_target("log", records.seconds)
        self._make()
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
        self._make()
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

    def _make(self) -> None:
        features = self.parameters.features
        self.members: dict[str, CostModel] = {
            "trees": LightGBM(replace(self.parameters.trees, features=features)),
            "network": Additive(replace(self.parameters.network, features=features)),
        }


def _half(budget: Budget) -> Budget:
    return replace(budget, seconds=None if budget.seconds is None else budget.seconds / 2)
