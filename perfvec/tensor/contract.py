"""Cost model: the contract that every file of `models/` fills.

To add one: a file with one subclass (or, for a network, a module that `network.NetworkModel` wraps), a line in
`models.MODELS`, nothing else; `models/mean.py` is the smallest example.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.metrics import pairwise_accuracy
from perfvec.tensor.records import FeatureGroup, Records
from support.errors import InputError
from support.text import show
from tracegen.tensor.dataset import Device, Rows

Floats = NDArray[np.float64]
P = TypeVar("P")
M = TypeVar("M", bound="CostModel")  # typing.Self is of Python 3.11
CRITERIA = ("both", "pairwise", "latency")
_MOST = 65_536  # of a whole number: a mistyped one must not take all memory
_MOST_OF = {
    **dict.fromkeys(("layers", "encoder_layers", "decoder_layers", "blocks", "steps", "heads", "depth"), 64),
    **dict.fromkeys(("width", "feed", "embedding", "hidden", "decision", "attention"), 8192),
    "leaves": 1024,
}
_OF_LATENCY = 0.25  # weight of the distance of logs beside the share of misordered pairs


@dataclass(frozen=True)
class State:
    """All that a model learned: arrays by name, and what JSON can say."""

    arrays: dict[str, NDArray[Any]]
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Budget:
    """Budget of a training: whole passes over the data, and seconds of processor time; the first to end ends it.

    Boosters count a pass as `ROUNDS` rounds each. `None` seconds: passes only, which a seed then repeats exactly.
    `patience` > 0 stops early by validation records: after so many passes (of boosters: so many times 20 rounds)
    without a better one, a network goes on from its best weights with a fifth of the learning rate, twice, and then
    ends with its best weights; trees end with the best number of rounds. `criterion`: what is judged, `pairwise` (the
    share of misordered pairs), `latency` (the mean distance of log latencies), or `both` (the first and a quarter of
    the second, which differ from pass to pass about as much); of a model that only ranks always the first.
    """

    epochs: int = 40
    seconds: float | None = None
    patience: int = 0
    criterion: str = "both"

    def __post_init__(self) -> None:
        if self.criterion not in CRITERIA:
            raise InputError(f"criterion {self.criterion!r}: expected one of {', '.join(CRITERIA)}")


@dataclass(frozen=True)
class Beside:
    """Records beside those that are learned from.

    `other`: candidates of another domain, for the loss `cmd`: in a training those to be predicted, in fine-tuning
    those of the source devices. Their latencies are not read. `validation`: records that only say when to stop.
    """

    other: Records | None = None
    validation: Records | None = None


class CostModel(ABC):
    """Features of a batch of candidates and a device in, scores or latencies out.

    A device may have a factor (`fine_tuning`): it takes so many times what its scores say, and the model learns its
    latencies divided by it.

    A subclass has `NAME`, frozen dataclass `Parameters` (its `features` names the feature group), and fills `_fit`,
    `_predict`, `_update`, `state` and `restore`. What is common to all is here: which features, in which version and
    width, and which devices the model knows.
    """

    NAME: ClassVar[str]
    Parameters: ClassVar[type]

    def __init__(self, parameters: Any = None) -> None:
        self.parameters = self.Parameters() if parameters is None else parameters
        self.devices: tuple[Device, ...] = ()
        self.factors: dict[str, float] = {}  # of devices' latencies; 1 where absent
        self.feature_version = ""
        self.width = 0
        self.on = "cpu"  # where networks compute
        self.curve: list[dict[str, float]] = []  # of the last training: see `loop.Learned`

    def check_parameters(self) -> None:  # noqa: B027 (most models have nothing to check)
        """Raise InputError, in one line, where a model with these parameters cannot be built."""

    @property
    def kind(self) -> str:
        """The feature group that the model reads."""
        return self.parameters.features

    def fit(
        self,
        records: Records,
        *,
        budget: Budget | None = None,
        seed: int = 0,
        unlabelled: Records | None = None,
        validation: Records | None = None,
    ) -> None:
        """Train from nothing. `unlabelled`: candidates of the domain to predict, whose latencies are not looked at.
        `validation`: records of the same devices that say when to stop, where the budget has patience.

        Raises InputError where there is no measured record or no such features.
        """
        group = records.features(self.kind)
        records = records.measured()
        self.devices = tuple(records.devices[index] for index in np.unique(records.device))
        self.factors = {}
        self.feature_version, self.width = group.version, group.width
        if validation is not None:
            validation = validation.measured()
        self._fit(records, budget or Budget(), seed, Beside(unlabelled, validation))

    def update(
        self, records: Records, *, budget: Budget | None = None, seed: int = 0, source: Records | None = None
    ) -> None:
        """Learn from new measurements, on devices known or new, and keep what is known (online, or fine-tuning).

        `source`: candidates that trained the model; CDMPP's discrepancy is between them and the new ones.
        """
        group = records.features(self.kind)
        self.check(group)
        records = records.measured()
        if not self.devices:
            return self.fit(records, budget=budget, seed=seed, unlabelled=source)
        known = {device.name for device in self.devices}
        new = [records.devices[index] for index in np.unique(records.device)]
        common = replace(records, seconds=records.seconds / self._factor(records))
        self._update(common, budget or Budget(epochs=10), seed, Beside(source))
        self.devices += tuple(device for device in new if device.name not in known)
        return None

    def score(self, features: Rows, device: Device | str, *, zero_shot: bool = False) -> Floats:
        """[candidates] higher for those believed to be faster; comparable among candidates of one task."""
        return self._predict(features, [self._device(device, zero_shot)], np.zeros(len(features), np.int64))

    def seconds(self, features: Rows, device: Device | str, *, zero_shot: bool = False) -> Floats:
        """[candidates] predicted latencies; NaN from a model that only ranks."""
        return self.latencies(self.score(features, device, zero_shot=zero_shot), device)

    def latencies(self, score: Floats, device: Device | str) -> Floats:
        """[n] what scores on a device stand for, in seconds; NaN from a model that only ranks."""
        name = device if isinstance(device, str) else device.name
        return self.factors.get(name, 1.0) * self.to_seconds(score)

    def record_latencies(self, records: Records, *, zero_shot: bool = False) -> Floats:
        """[n] predicted latencies of records, each on its own device; NaN from a model that only ranks."""
        return self._factor(records) * self.to_seconds(self.score_records(records, zero_shot=zero_shot))

    def score_records(self, records: Records, *, zero_shot: bool = False) -> Floats:
        """[n] scores of records, each on its own device."""
        group = records.features(self.kind)
        self.check(group)
        devices = [self._device(device, zero_shot) for device in _used(records)]
        _, device = np.unique(records.device, return_inverse=True)
        return self._predict(group.rows, devices, device.astype(np.int64), records.candidate)

    def check(self, group: FeatureGroup) -> None:
        """Raise InputError unless these are the features that the model was trained on."""
        if not self.devices:
            return
        if group.version != self.feature_version:
            raise InputError(
                f"the {self.NAME} model was trained on {self.kind} features of version {self.feature_version!r}; "
                f"these are of version {group.version!r}: train again, or extract the features anew"
            )
        self._check_width(group.rows)

    def use(self, device: str) -> None:
        """Compute on this device from now on (`cpu`, `cuda`, `cuda:1`); only networks do.

        Raises InputError for a device that PyTorch does not have.
        """
        self.on = torch_device(device)

    def shortfall(self, records: Records, criterion: str = "both") -> float:
        """Return the distance of the model from measured records; lower is better: see `Budget.criterion`."""
        return self.validation_errors(records, criterion)["shortfall"]

    def validation_errors(self, records: Records, criterion: str = "both") -> dict[str, float]:
        """{"shortfall", "rmse_ms", "log_rmse"} of validation records, for a training's curve; no errors of latencies
        from a model that only ranks.

        Where no two records can be ordered the shortfall is the distance of latencies. Raises InputError where there
        are none of these either.
        """
        score = self.score_records(records, zero_shot=True)
        misordered = 1.0 - pairwise_accuracy(score, records.seconds, records.group)
        seconds = self._factor(records) * self.to_seconds(score)
        ordered = math.isfinite(misordered)
        if not np.isfinite(seconds).all():
            if not ordered:
                raise InputError(
                    "the validation records have no two of a task and device, which a model that only ranks is judged "
                    "by; leave --patience out, or give more records of each task"
                )
            return {"shortfall": misordered}
        logs = np.log(seconds / records.seconds)
        distance = float(np.abs(logs).mean())
        shortfalls = {"pairwise": misordered, "latency": distance, "both": misordered + _OF_LATENCY * distance}
        return {
            "shortfall": shortfalls[criterion] if ordered else distance,
            "rmse_ms": 1e3 * float(np.sqrt(np.mean(np.square(seconds - records.seconds)))),
            "log_rmse": float(np.sqrt(np.mean(np.square(logs)))),
        }

    def copy(self: M) -> M:
        """A trained model of its own with what this one has learned so far."""
        other = type(self)(self.parameters)
        other.use(self.on)
        other.devices, other.factors = self.devices, dict(self.factors)
        other.feature_version, other.width = self.feature_version, self.width
        state = self.state()
        other.restore(State({name: np.array(array) for name, array in state.arrays.items()}, state.notes))
        return other

    @abstractmethod
    def _fit(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None: ...

    @abstractmethod
    def _update(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None: ...

    @abstractmethod
    def _predict(
        self,
        rows: Rows,
        devices: Sequence[Device],
        device: NDArray[np.int64],
        candidates: NDArray[np.int64] | None = None,
    ) -> Floats:
        """[n] scores of `candidates` (all by default) on `devices[device[i]]`, some of which may be unknown."""

    @abstractmethod
    def to_seconds(self, score: Floats) -> Floats:
        """[n] latencies that scores stand for on a device of factor 1; NaN where they only rank."""

    @abstractmethod
    def state(self) -> State:
        """All that was learned."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """The inverse of `state`; `devices`, `width`, `feature_version` are set before. KeyError where one lacks."""

    def _factor(self, records: Records) -> Floats:
        """[n] the factor of each record's device."""
        return np.array([self.factors.get(device.name, 1.0) for device in records.devices])[records.device]

    def _device(self, device: Device | str, zero_shot: bool) -> Device:
        name = device if isinstance(device, str) else device.name
        for known in self.devices:
            if known.name == name:
                return known
        if zero_shot and not isinstance(device, str):
            return device
        names = ", ".join(known.name for known in self.devices)
        raise InputError(
            f"device {name!r} did not train this {self.NAME} model (it knows {names}); fine-tune it on records of that "
            "device, or ask for a zero-shot prediction"
        )

    def _check_width(self, rows: Rows) -> None:
        if rows.values.shape[1] != self.width and len(rows.values):
            raise InputError(
                f"the {self.NAME} model reads {self.width} {self.kind} features a row; these rows have "
                f"{rows.values.shape[1]}"
            )


def library(name: str) -> Any:
    """An optional library. Raises InputError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.split(".")[0].replace("_", "-")
        raise InputError(f"{package} is not installed; run pip install 'perfvec-toolkit[tensor-models]'") from error


def _used(records: Records) -> list[Device]:
    return [records.devices[index] for index in np.unique(records.device)]


def torch_device(name: str) -> str:
    """`name`, as PyTorch's: cpu, cuda or cuda:N. Raises InputError for another one, or a GPU that it does not have."""
    import torch

    wrong = f"device {name!r}: PyTorch does not have it here"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise InputError(f"{wrong}; expected cpu, cuda or cuda:N")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # what is raised depends on the build
        raise InputError(f"{wrong} ({str(error).splitlines()[0]})") from error
    return name


def from_mapping(parameters: type[P], values: Mapping[str, Any], where: str) -> P:
    """A frozen dataclass of parameters from a mapping (YAML, JSON), nested dataclasses included, types checked.

    Raises InputError for a name that there is not, a value of another type than the default's, and what the class's
    own `check` refuses.
    """
    fields = {field.name: field for field in dataclasses.fields(parameters)}  # type: ignore[arg-type]
    defaults = parameters()
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            raise InputError(f"{where}: no parameter {name!r}; there are {', '.join(fields)}")
        default = getattr(defaults, name)
        if dataclasses.is_dataclass(default):
            if not isinstance(value, Mapping):
                raise InputError(f"{where}: {name} is a table of parameters, not {value!r}")
            given[name] = from_mapping(type(default), {**dataclasses.asdict(default), **value}, f"{where}: {name}")  # type: ignore[arg-type]
        elif isinstance(default, Mapping):
            if not isinstance(value, Mapping) or not all(_is_number(part) for part in value.values()):
                raise InputError(f"{where}: {name} is a table of numbers of at least 0, not {value!r}")
            given[name] = {str(key): float(part) for key, part in value.items()}
        elif isinstance(default, float) and isinstance(value, int | float) and not isinstance(value, bool):
            if not _is_finite(value):
                raise InputError(f"{where}: {name} is a number of at least 0, not {value!r}")
            given[name] = float(value)
        elif type(value) is type(default):
            if type(value) is int and value < 1:
                raise InputError(f"{where}: {name} is at least 1, not {value}")
            if type(value) is int and value > (most := _MOST_OF.get(name, _MOST)):
                raise InputError(f"{where}: {name} is at most {most:,}, not {show(value)}")
            given[name] = value
        else:
            raise InputError(f"{where}: {name} is {type(default).__name__} (by default {default!r}), not {value!r}")
    made = parameters(**given)
    check = getattr(made, "check", None)
    if check is not None:
        try:
            check()
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    for name, value in given.items():  # after `check`, which may know a narrower range
        if isinstance(value, float) and value < 0:
            raise InputError(f"{where}: {name} is a number of at least 0, not {value!r}")
    return made


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond a float
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value) and value >= 0
