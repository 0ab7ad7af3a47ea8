"""What the two boosters share: trees over pooled candidates (log latency), or Ansor's sum over statements (a score).

`rows="pooled"`: a tree reads one vector per candidate (`pooled.pooled`) and predicts the log latency.
`rows="packed"`: a tree reads a statement; the candidate's score is the sum over its statements, and the squared error
of that sum is what is boosted (Ansor, Zheng et al., OSDI 2020, §5.2), the gradient of the sum being every statement's.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.contract import Budget, CostModel, Floats, State
from perfvec.tensor.devices import DeviceScale, device_scale, fit_devices
from perfvec.tensor.models.pooled import pooled
from perfvec.tensor.records import Records
from perfvec.tensor.targets import Target, fit_target
from tracegen.tensor.dataset import Device, Rows
from uarch.errors import InputError

ROUNDS = 10  # of boosting that a budget's epoch stands for
Matrix = NDArray[np.float32]


class Boosted(CostModel):
    """A subclass fills `_boost` (more rounds on top of what there is), `_evaluate`, `_text` and `_read`."""

    def _fit(self, records: Records, budget: Budget, seed: int, unlabelled: Records | None) -> None:
        if self.parameters.rows not in ("pooled", "packed"):
            raise InputError(f"{self.NAME}: rows is 'pooled' or 'packed', not {self.parameters.rows!r}")
        self.scale: DeviceScale = fit_devices(self.devices)
        self.target: Target = fit_target("log" if self.parameters.rows == "pooled" else "score", records.seconds)
        self.booster: Any = None
        self._update(records, budget, seed, unlabelled)

    def _update(self, records: Records, budget: Budget, seed: int, unlabelled: Records | None) -> None:
        _, device = np.unique(records.device, return_inverse=True)
        devices = [records.devices[index] for index in np.unique(records.device)]
        matrix, owner = self._matrix(
            records.features(self.kind).rows, records.candidate, devices, device.astype(np.int64)
        )
        target = self.target.of(records.seconds, records.group)
        deadline = None if budget.seconds is None else time.process_time() + budget.seconds
        self._boost(matrix, owner, target, min(budget.epochs * ROUNDS, self.parameters.rounds), seed, deadline)

    def _predict(
        self, rows: Rows, devices: Sequence[Device], device: NDArray[np.int64],
        candidates: NDArray[np.int64] | None = None,
    ) -> Floats:  # fmt: skip
        self._check_width(rows)
        candidates = np.arange(len(rows)) if candidates is None else candidates
        if not len(candidates):
            return np.zeros(0)
        matrix, owner = self._matrix(rows, candidates, devices, device)
        return np.bincount(owner, self._evaluate(matrix), len(candidates)).astype(np.float64)

    def _matrix(
        self, rows: Rows, candidates: NDArray[np.int64], devices: Sequence[Device], device: NDArray[np.int64]
    ) -> tuple[Matrix, NDArray[np.int64]]:
        """(what a tree reads [m, d], the candidate whose output row m is part of [m])."""
        if self.parameters.rows == "pooled":
            return pooled(rows, candidates, self.scale, devices, device), np.arange(len(candidates))
        length = rows.length[candidates]
        owner = np.repeat(np.arange(len(candidates)), length)
        starts = np.cumsum(length) - length
        index = np.arange(len(owner)) - starts[owner] + rows.offset[candidates][owner]
        return np.concatenate([rows.values[index], self.scale.vectors(devices)[device[owner]]], axis=1), owner

    def to_seconds(self, score: Floats) -> Floats:
        return self.target.seconds(score)

    def state(self) -> State:
        return State(
            {"booster": np.frombuffer(self._text(), np.uint8)},
            {"target": asdict(self.target), "device_scale": asdict(self.scale)},
        )

    def restore(self, state: State) -> None:
        self.target, self.scale = Target(**state.notes["target"]), device_scale(state.notes["device_scale"])
        self.booster = self._read(state.arrays["booster"].tobytes())

    @abstractmethod
    def _boost(
        self, matrix: Matrix, owner: NDArray[np.int64], target: Floats, rounds: int, seed: int, deadline: float | None
    ) -> None:
        """Add rounds that bring the sum of outputs over each owner's rows to `target` [owners], until `deadline`."""

    @abstractmethod
    def _evaluate(self, matrix: Matrix) -> Floats:
        """[m] output of every row."""

    @abstractmethod
    def _text(self) -> bytes:
        """The trees in the library's own text format."""

    @abstractmethod
    def _read(self, text: bytes) -> Any:
        """The inverse of `_text`."""


def packed_gradient(
    output: Floats, owner: NDArray[np.int64], target: Floats
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Gradient and second derivative [m] of Σ_owners (Σ its rows' outputs − target)² / 2 by the outputs [m]."""
    total = np.bincount(owner, output, len(target))
    return (total - target)[owner].astype(np.float32), np.ones(len(owner), np.float32)
