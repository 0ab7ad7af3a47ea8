"""Code that the two boosters share: what a tree reads, and what its outputs are of.

| `rows` | a tree reads | outputs |
|---|---|---|
| `pooled` | one vector per candidate (`pooled.pooled`) | the transformed log latency |
| `packed` | a statement | the candidate's score is the sum over its statements (Ansor, Zheng et al., OSDI 2020, §5.2) |
| `summed` | a row, beside the candidate's heaviest row | the log latency of that row's executions; the candidate's latency is the sum |

`summed` is this toolkit's own: a program takes the time of its loop nests, one after the other, and that of one nest is
its executions times what one of them takes, of which trees learn the logarithm. Trees never extrapolate, so it matters
that only a factor, which is alike in small and large nests, is left to them. The squared error of the sum's logarithm is
boosted; a row's share of the gradient is its share of the latency.
"""  # noqa: E501

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.contract import Beside, Budget, CostModel, Floats, State
from perfvec.tensor.devices import DeviceScale, device_scale, fit_devices
from perfvec.tensor.models.pooled import pooled, rows_of, work
from perfvec.tensor.records import Records
from perfvec.tensor.targets import Target, fit_target
from support.errors import InputError
from tracegen.tensor.dataset import Device, Rows

ROUNDS = 10  # of boosting that a budget's epoch stands for
STEP = 20  # rounds between two looks at the validation records
KINDS = ("pooled", "packed", "summed")
_SMALLEST = 0.01  # second derivative by a row that takes no time
Matrix = NDArray[np.float32]
Objective = Callable[[Floats], tuple[NDArray[np.float32], NDArray[np.float32]]]


@dataclass(frozen=True)
class BoostedParameters:
    """Parameters of both libraries, each of which sets its own defaults."""

    features: str = "statements"
    rows: str = "pooled"
    rounds: int = 300
    learning_rate: float = 0.2
    subsample: float = 1.0
    columns: float = 1.0  # share of the features that a tree may read

    def check(self) -> None:
        """Raise InputError for shares that are none."""
        for name in ("subsample", "columns"):
            if not 0 < (share := getattr(self, name)) <= 1:
                raise InputError(f"subsample and columns are shares above 0, at most 1; {name} is {share}")
        if not 0 < self.learning_rate <= 1:
            raise InputError(f"learning_rate is above 0 and at most 1, not {self.learning_rate}")


@dataclass(frozen=True)
class Boosting:
    """Rounds to add: they follow `objective` (outputs [m] → first and second derivatives), where there is none the
    squared error of the outputs to `target` [m].
    """

    matrix: Matrix
    target: Floats
    objective: Objective | None
    rounds: int
    seed: int
    deadline: float | None
    watch: _Watch | None = None

    @property
    def gradient(self) -> Callable[[Any, Any], Any] | None:
        """`objective` as both libraries take it: a function, as LightGBM makes deep copies of its settings."""
        objective = self.objective
        return None if objective is None else lambda output, _: objective(np.asarray(output, np.float64))

    def ends(self, booster: Any, rounds: int) -> bool:
        """Return whether the time is over, or the validation no longer gains, after `rounds` rounds."""
        late = self.deadline is not None and time.process_time() > self.deadline
        return late or (self.watch is not None and self.watch.ends(booster, rounds))


@dataclass(frozen=True)
class _Input:
    """Inputs of trees [m, d], the candidate whose each row is [m], ascending, and the log of the row's executions."""

    matrix: Matrix
    owner: NDArray[np.int64]
    work: Floats


class Boosted(CostModel):
    """A subclass fills `_boost` (more rounds on top of what there is), `_evaluate`, `_text` and `_read`."""

    def check_parameters(self) -> None:
        if self.parameters.rows not in KINDS:
            raise InputError(f"rows is one of {', '.join(KINDS)}, not {self.parameters.rows!r}")
        if self.parameters.rows == "summed" and self.kind == "primitives":
            raise InputError(
                "rows summed adds up the times of loop nests, and primitives take none; use pooled or packed"
            )

    def _fit(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        if self.parameters.rows not in KINDS:
            raise InputError(f"{self.NAME}: rows is one of {', '.join(KINDS)}, not {self.parameters.rows!r}")
        self.scale: DeviceScale = fit_devices(self.devices)
        self.target: Target = fit_target("score" if self.parameters.rows == "packed" else "log", records.seconds)
        self.booster: Any = None
        self.offset: float | None = None
        self._update(records, budget, seed, beside)

    def _update(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        _, device = np.unique(records.device, return_inverse=True)
        devices = [records.devices[index] for index in np.unique(records.device)]
        rows = records.features(self.kind).rows
        read = self._input(rows, records.candidate, devices, device.astype(np.int64))
        target = self.target.of(records.seconds, records.group)
        objective: Objective | None = None
        if self.parameters.rows == "packed":

            def objective(output: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
                return packed_gradient(output, read.owner, target)

        elif self.parameters.rows == "summed":
            logs = np.log(records.seconds)
            if self.offset is None:
                self.offset = float(np.mean(logs - log_sum(read.work, read.owner, len(logs))))
            base = read.work + self.offset

            def objective(output: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
                return summed_gradient(base + output, read.owner, logs)

        deadline = None if budget.seconds is None else time.process_time() + budget.seconds
        rounds = min(budget.epochs * ROUNDS, self.parameters.rounds)
        if not rounds:
            return
        wanted = Boosting(read.matrix, target, objective, rounds, seed, deadline)
        if not budget.patience or beside.validation is None:
            self._boost(wanted)
            return
        watch = _Watch(self, beside.validation, budget)
        self._boost(replace(wanted, watch=watch))
        self.curve = watch.curve
        if watch.best_rounds:
            self._cut(watch.best_rounds)

    def _predict(
        self,
        rows: Rows,
        devices: Sequence[Device],
        device: NDArray[np.int64],
        candidates: NDArray[np.int64] | None = None,
    ) -> Floats:
        self._check_width(rows)
        candidates = np.arange(len(rows)) if candidates is None else candidates
        if not len(candidates):
            return np.zeros(0)
        read = self._input(rows, candidates, devices, device)
        output = self._evaluate(read.matrix)
        if self.parameters.rows == "summed":
            logs = log_sum(read.work + (self.offset or 0.0) + output, read.owner, len(candidates))
            return -(logs - self.target.mean) / self.target.scale
        return np.bincount(read.owner, output, len(candidates)).astype(np.float64)

    def _input(
        self, rows: Rows, candidates: NDArray[np.int64], devices: Sequence[Device], device: NDArray[np.int64]
    ) -> _Input:
        if self.parameters.rows == "pooled":
            matrix = pooled(rows, candidates, self.scale, devices, device)
            return _Input(matrix, np.arange(len(candidates)), np.zeros(len(candidates)))
        values, owner = rows_of(rows, candidates)
        parts, executions = [values], np.zeros(len(values))
        if self.parameters.rows == "summed":
            vector_bytes = np.array([_vector_bytes(known) for known in devices])[device[owner]]
            executions = work(self.kind, values, vector_bytes)
            order = np.lexsort((-executions, owner))  # each candidate's heaviest row first
            heaviest = order[np.searchsorted(owner, owner)]
            parts += [values[heaviest], executions[:, None].astype(np.float32)]
        parts.append(self.scale.vectors(devices)[device[owner]])
        return _Input(np.concatenate(parts, axis=1), owner, executions)

    def to_seconds(self, score: Floats) -> Floats:
        return self.target.seconds(score)

    def state(self) -> State:
        return State(
            {"booster": np.frombuffer(self._text(), np.uint8)},
            {"target": asdict(self.target), "device_scale": asdict(self.scale), "offset": self.offset},
        )

    def restore(self, state: State) -> None:
        self.target, self.scale = Target(**state.notes["target"]), device_scale(state.notes["device_scale"])
        self.offset = state.notes.get("offset")
        self.booster = self._read(state.arrays["booster"].tobytes())

    @abstractmethod
    def _boost(self, wanted: Boosting) -> None:
        """Add the rounds, until the request `ends`."""

    @abstractmethod
    def _cut(self, rounds: int) -> None:
        """Keep so many of the first rounds."""

    @abstractmethod
    def _evaluate(self, matrix: Matrix) -> Floats:
        """[m] output of every row."""

    @abstractmethod
    def _text(self) -> bytes:
        """The trees in the library's own text format."""

    @abstractmethod
    def _read(self, text: bytes) -> Any:
        """The inverse of `_text`."""


class _Watch:
    """Looks at validation records every `STEP` rounds, keeps the best number of rounds, ends where none is better."""

    def __init__(self, model: Boosted, validation: Records, budget: Budget) -> None:
        self.model, self.validation, self.budget = model, validation, budget
        self.best, self.best_rounds, self.since = float("inf"), 0, 0
        self.curve: list[dict[str, float]] = []
        self.began = time.process_time()

    def ends(self, booster: Any, rounds: int) -> bool:
        """Return whether the training ends after `rounds` rounds."""
        if rounds % STEP:
            return False
        before, self.model.booster = self.model.booster, booster
        errors = self.model.validation_errors(self.validation, self.budget.criterion)
        shortfall = errors["shortfall"]
        self.curve.append({"pass": rounds / ROUNDS, "seconds": time.process_time() - self.began} | errors)
        self.model.booster = before
        if shortfall < self.best:
            self.best, self.best_rounds, self.since = shortfall, rounds, 0
        else:
            self.since += 1
        return self.since >= self.budget.patience


def _vector_bytes(device: Device) -> float:
    value = device.parameters.get("vector_bytes")
    return float(value) if isinstance(value, int | float) and value > 0 else float("nan")


def packed_gradient(
    output: Floats, owner: NDArray[np.int64], target: Floats
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Gradient and second derivative [m] of Σ_owners (Σ its rows' outputs − target)² / 2 by the outputs [m]."""
    total = np.bincount(owner, output, len(target))
    return (total - target)[owner].astype(np.float32), np.ones(len(owner), np.float32)


def summed_gradient(
    logs: Floats, owner: NDArray[np.int64], target: Floats
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Gradient and (of Gauss and Newton, bounded below) second derivative [m] of Σ_owners (log Σ its rows' exp(logs) −
    target)² / 2 by the rows' logs [m].
    """
    total = log_sum(logs, owner, len(target))
    share = np.exp(logs - total[owner])
    return ((total - target)[owner] * share).astype(np.float32), (share + _SMALLEST).astype(np.float32)


def log_sum(logs: Floats, owner: NDArray[np.int64], count: int) -> Floats:
    """[count] log Σ exp(logs) over each owner's rows, of which it has at least one."""
    starts = np.searchsorted(owner, np.arange(count))
    largest = np.maximum.reduceat(logs, starts)
    return largest + np.log(np.add.reduceat(np.exp(logs - largest[owner]), starts))
