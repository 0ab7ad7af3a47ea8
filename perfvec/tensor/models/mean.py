"""The mean of the device's training latencies, whatever the candidate: what every model must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.contract import Beside, Budget, CostModel, Floats, State
from perfvec.tensor.records import Records
from tracegen.tensor.dataset import Device, Rows


@dataclass(frozen=True)
class MeanParameters:
    features: str = "statements"


class Mean(CostModel):
    """The geometric mean, per device; of all devices for one that did not train."""

    NAME = "mean"
    Parameters = MeanParameters

    def _fit(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        self.logs: dict[str, float] = {}
        self._update(records, budget, seed, beside)

    def _update(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        for index in np.unique(records.device):
            logs = np.log(records.seconds[records.device == index])
            self.logs[records.devices[index].name] = float(logs.mean())

    def _predict(
        self,
        rows: Rows,
        devices: Sequence[Device],
        device: NDArray[np.int64],
        candidates: NDArray[np.int64] | None = None,
    ) -> Floats:
        self._check_width(rows)
        middle = float(np.mean(list(self.logs.values())))
        return -np.array([self.logs.get(known.name, middle) for known in devices])[device]

    def to_seconds(self, score: Floats) -> Floats:
        return np.exp(-score)

    def state(self) -> State:
        return State({"logs": np.array([self.logs[device.name] for device in self.devices])})

    def restore(self, state: State) -> None:
        self.logs = {device.name: float(log) for device, log in zip(self.devices, state.arrays["logs"], strict=True)}
