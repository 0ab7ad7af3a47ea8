"""Targets that a network learns in place of a latency, higher for faster candidates, and the way back to seconds.

- `score`: best latency of the group / latency, in (0, 1], as Ansor and TenSet; an order, no latency.
- `log`: −log latency, standardised.
- `box-cox`: −((latency^λ − 1) / λ), standardised, λ of the largest likelihood (Box and Cox 1964), as CDMPP.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from perfvec.tensor.metrics import groups_of
from support.errors import InputError

KINDS = ("score", "log", "box-cox")
_LEAST = 0.1  # a scale in logarithms of latencies: a model goes on to learn other ones
_REACH = 12.0  # standard deviations that a prediction may lie outside the training latencies


@dataclass(frozen=True)
class Target:
    """y = −(t(latency) − mean) / scale, t = log where `exponent` is 0; of `score` only the kind means anything."""

    kind: str
    exponent: float = 0.0
    mean: float = 0.0
    scale: float = 1.0

    @property
    def has_seconds(self) -> bool:
        return self.kind != "score"

    def of(self, seconds: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
        """[n] targets of latencies [n]."""
        if self.kind == "score":
            return relevance(seconds, group)
        return -(_transform(seconds, self.exponent) - self.mean) / self.scale

    def seconds(self, output: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n] latencies of outputs [n]; NaN for `score`."""
        if not self.has_seconds:
            return np.full(len(output), np.nan)
        return self.torch_seconds(torch.from_numpy(np.asarray(output, np.float64))).numpy()

    def torch_seconds(self, output: Tensor) -> Tensor:
        """`seconds` of a tensor, with its gradient."""
        value = -output.clamp(-_REACH, _REACH) * self.scale + self.mean
        if self.exponent == 0.0:
            return value.exp()
        return (value * self.exponent + 1.0).clamp(min=1e-12) ** (1.0 / self.exponent)


def fit_target(kind: str, seconds: NDArray[np.float64]) -> Target:
    """The target whose mean and scale (and λ) are those of the latencies `seconds` [n] > 0."""
    if kind not in KINDS:
        raise InputError(f"target {kind!r}: expected one of {', '.join(KINDS)}")
    if kind == "score":
        return Target(kind)
    exponent = 0.0
    if kind == "box-cox" and len(np.unique(seconds)) > 2:
        from scipy.stats import boxcox

        # In units of the geometric mean, where λ is as likely and its search well conditioned, λ stays the same.
        middle = float(np.exp(np.log(seconds).mean()))
        exponent = float(np.clip(boxcox(seconds / middle)[1], -1.0, 1.0))
        exponent = 0.0 if abs(exponent) < 1e-3 else exponent
    values = _transform(seconds, exponent)
    least = _LEAST * float(np.exp(exponent * np.log(seconds).mean()))  # in the transform's unit
    return Target(kind, exponent, float(values.mean()), max(float(values.std()), least))


def relevance(seconds: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """[n] best latency of the group / latency, in (0, 1]."""
    result = np.empty(len(seconds))
    for rows in groups_of(group):
        result[rows] = seconds[rows].min() / seconds[rows]
    return result


def _transform(seconds: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    return np.log(seconds) if exponent == 0.0 else (seconds**exponent - 1.0) / exponent
