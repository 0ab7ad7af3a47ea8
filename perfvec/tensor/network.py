"""A cost model that is a network: the contract filled for any `loop.Network`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perfvec.tensor.batches import Batch, prediction_batches
from perfvec.tensor.contract import Beside, Budget, CostModel, Floats, State
from perfvec.tensor.devices import DeviceScale, device_scale, fit_devices
from perfvec.tensor.loop import Learned, Network, make_batch, train
from perfvec.tensor.records import Records
from perfvec.tensor.targets import Target, fit_target
from support.errors import InputError
from tracegen.tensor.dataset import Device, Rows

_AT_ONCE = 1024  # candidates of a prediction
_REACH = 8.0  # standard deviations that an input may lie outside the training data


class Standardised(Network):
    """A network behind the standardisation of its inputs; a feature that never changed in training is left out."""

    def __init__(self, network: Network, inputs: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.mean: Tensor
        self.scale: Tensor

    def fit(self, rows: NDArray[np.float32]) -> None:
        """Take mean and spread of feature rows [m, inputs]."""
        mean, spread = rows.mean(0, dtype=np.float64), rows.std(0, dtype=np.float64)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(np.where(spread > 1e-6, 1.0 / np.maximum(spread, 1e-6), 0.0)))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = ((batch.x - self.mean) * self.scale).clamp(-_REACH, _REACH) * batch.mask[..., None]
        return self.network(Batch(x, batch.mask, batch.position, batch.parameters, batch.device))

    def take_penalty(self) -> Tensor | None:
        return self.network.take_penalty()


class NetworkModel(CostModel):
    """A subclass adds `NETWORK`, built as `NETWORK(inputs, width of device parameters, parameters)`, and `Parameters`
    with `features` and `training` (loop.Training) among them.
    """

    NETWORK: ClassVar[type[Network]]
    learned: Learned | None = None

    def check_parameters(self) -> None:
        self.parameters.training.check()
        share = getattr(self.parameters, "dropout", 0.0)
        if share >= 1:
            raise InputError(f"dropout is a share below 1, not {share}")
        try:
            with torch.device("meta"):  # shapes only
                self.NETWORK(1, 1, self.parameters)
        except InputError:
            raise
        except (AssertionError, ValueError, RuntimeError, ZeroDivisionError, TypeError) as error:
            heads, width = getattr(self.parameters, "heads", 1), getattr(self.parameters, "width", 1)
            if width % heads:
                raise InputError(f"width {width} is not a multiple of heads {heads}") from error
            raise InputError(f"no such network ({str(error).splitlines()[0]})") from error

    def _fit(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        rows = records.features(self.kind).rows
        self.scale: DeviceScale = fit_devices(self.devices)
        self.target: Target = fit_target(self.parameters.training.target, records.seconds)
        torch.manual_seed(seed)
        self._build()
        used = np.unique(records.candidate)
        self.network.fit(_rows_of(rows, used))
        self._learn(records, self.devices, budget, seed, beside, None, self.parameters.training.learning_rate)

    def _update(self, records: Records, budget: Budget, seed: int, beside: Beside) -> None:
        known = {device.name for device in self.devices}
        there = [records.devices[index] for index in np.unique(records.device)]
        new = tuple(device for device in there if device.name not in known)
        self.network.network.set_devices(len(self.devices) + len(new))
        weights = list(self.network.network.adapting(bool(new)))
        self._learn(
            records,
            self.devices + new,
            budget,
            seed,
            beside,
            weights,
            self.parameters.training.learning_rate * self.parameters.update_rate,
        )

    def _build(self) -> None:
        network = self.NETWORK(self.width, self.scale.width, self.parameters)
        network.set_devices(len(self.devices))
        self.network = Standardised(network, self.width).to(self.on)

    def _learn(
        self,
        records: Records,
        devices: Sequence[Device],
        budget: Budget,
        seed: int,
        beside: Beside,
        weights: list[nn.Parameter] | None,
        rate: float,
    ) -> None:
        ordered, index = _ordered(devices, records.devices)
        length = records.features(self.kind).rows.length[records.candidate]
        if budget.epochs and len(records) > 1:  # something is learned
            self.network.network.set_lengths(np.unique(length.clip(1, self.parameters.training.rows)).tolist())
        other = None if beside.other is None else (beside.other.candidate, index[beside.other.device])

        def judge() -> dict[str, float]:
            assert beside.validation is not None
            return self.validation_errors(beside.validation, budget.criterion)

        self.learned = train(
            self.network,
            records,
            records.features(self.kind).rows,
            self.scale.vectors(ordered),
            index[records.device],
            self.target,
            replace(self.parameters.training, learning_rate=rate),
            budget,
            seed,
            known=len(devices),
            weights=weights,
            other=other,
            judge=None if beside.validation is None else judge,
            on=self.on,
            share=1.0 if weights is None else self.network.network.tickets,
            title=self.NAME,
        )
        self.curve = self.learned.curve

    def _predict(
        self,
        rows: Rows,
        devices: Sequence[Device],
        device: NDArray[np.int64],
        candidates: NDArray[np.int64] | None = None,
    ) -> Floats:
        self._check_width(rows)
        candidates = np.arange(len(rows)) if candidates is None else candidates
        ordered, index = _ordered(self.devices, devices)
        table, device = torch.from_numpy(self.scale.vectors(ordered)), index[device]
        most = self.parameters.training.rows
        result = np.empty(len(candidates))
        self.network.eval()
        with torch.inference_mode():
            for at in prediction_batches(np.minimum(rows.length[candidates], most), _AT_ONCE):
                batch = make_batch(rows, candidates[at], table, device[at], len(self.devices), most).to(self.on)
                result[at] = self.network(batch)[0].double().cpu().numpy()
        return result

    def use(self, device: str) -> None:
        super().use(device)
        if hasattr(self, "network"):
            self.network.to(device)

    def to_seconds(self, score: Floats) -> Floats:
        return self.target.seconds(score)

    def state(self) -> State:
        weights = {name: value.cpu().numpy() for name, value in self.network.state_dict().items()}
        return State(weights, {"target": asdict(self.target), "device_scale": asdict(self.scale)})

    def restore(self, state: State) -> None:
        self.target, self.scale = Target(**state.notes["target"]), device_scale(state.notes["device_scale"])
        self._build()
        self.network.load_state_dict({name: torch.from_numpy(value) for name, value in state.arrays.items()})
        self.network.eval()


def _ordered(known: Sequence[Device], asked: Sequence[Device]) -> tuple[list[Device], NDArray[np.int64]]:
    """(the known devices and then the other ones, where among them each of those asked for is)."""
    ordered = list(known)
    place = {device.name: at for at, device in enumerate(ordered)}
    for device in asked:
        if device.name not in place:
            place[device.name] = len(ordered)
            ordered.append(device)
    return ordered, np.array([place[device.name] for device in asked], np.int64)


def _rows_of(rows: Rows, candidates: NDArray[np.int64]) -> NDArray[np.float32]:
    """The feature rows of these candidates, one after the other."""
    keep = np.zeros(len(rows), bool)
    keep[candidates] = True
    return rows.values[np.repeat(keep, rows.length)]
