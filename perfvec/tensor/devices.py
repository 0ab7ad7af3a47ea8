"""Hardware parameters of devices as numbers a model can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.tensor.dataset import Device


@dataclass(frozen=True)
class DeviceScale:
    """Turns devices into standardised vectors [P]: signed log2(1 + |parameter|), then the training devices' mean and
    spread. A parameter that a device lacks counts as their mean; one that they share says nothing and is left out.
    """

    names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Number of inputs, at least one, so that networks have an input where no parameter tells devices apart."""
        return max(len(self.names), 1)

    def vectors(self, devices: Sequence[Device]) -> NDArray[np.float32]:
        """[devices, width]."""
        result = np.zeros((len(devices), self.width), np.float32)
        for row, device in enumerate(devices):
            for column, name in enumerate(self.names):
                value = _number(device, name)
                if value is not None:
                    result[row, column] = (value - self.mean[column]) / self.scale[column]
        return np.clip(result, -3.0, 3.0)


def fit_devices(devices: Sequence[Device]) -> DeviceScale:
    """The scale of these devices' numeric parameters."""
    names, means, scales = [], [], []
    for name in sorted({str(key) for device in devices for key in device.parameters}):
        values = [value for value in (_number(device, name) for device in devices) if value is not None]
        if values and np.ptp(values) > 0:
            names.append(name)
            means.append(float(np.mean(values)))
            scales.append(float(np.std(values)))
    return DeviceScale(tuple(names), tuple(means), tuple(scales))


def device_scale(values: Mapping[str, Any]) -> DeviceScale:
    """The inverse of `dataclasses.asdict`, after JSON."""
    return DeviceScale(tuple(values["names"]), tuple(values["mean"]), tuple(values["scale"]))


def _number(device: Device, name: str) -> float | None:
    value = device.parameters.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        return None
    return float(np.sign(value) * np.log2(1.0 + abs(value)))
