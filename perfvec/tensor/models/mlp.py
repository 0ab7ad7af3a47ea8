"""A perceptron over statements, as TenSet's (Zheng et al., NeurIPS Datasets 2021): encode, sum, residual, decode."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, perceptron, total
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class MLPParameters:
    features: str = "statements"
    width: int = 256
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="log", losses={"mse": 1.0, "rank": 1.0}, learning_rate=7e-4)
    )


class MLPNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: MLPParameters) -> None:
        super().__init__()
        width = parameters.width
        self.encode = perceptron(inputs, width, width)
        self.device = DeviceEncoder(devices, width)
        self.norm = nn.LayerNorm(width)
        self.first, self.second = perceptron(width, width), perceptron(width, width)
        self.decode = nn.Linear(width, 1)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        z = self.norm(total(self.encode(batch.x) + self.device(batch.parameters)[:, None], batch.mask))
        z = z + self.first(z)
        z = z + self.second(z)
        return self.decode(z).squeeze(-1), torch.tanh(z)


class MLP(NetworkModel):
    NAME = "mlp"
    Parameters = MLPParameters
    NETWORK = MLPNetwork
