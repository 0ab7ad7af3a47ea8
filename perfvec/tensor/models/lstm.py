"""An LSTM over the statements (or primitives) in their order; its last state is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, perceptron
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class LSTMParameters:
    features: str = "statements"
    width: int = 256
    layers: int = 1
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="log", losses={"mse": 1.0, "rank": 1.0}, learning_rate=7e-4)
    )


class LSTMNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: LSTMParameters) -> None:
        super().__init__()
        width = parameters.width
        self.embed = perceptron(inputs, width)
        self.device = DeviceEncoder(devices, width)
        self.lstm = nn.LSTM(width, width, parameters.layers, batch_first=True)
        self.decode = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        states, _ = self.lstm(self.embed(batch.x) + self.device(batch.parameters)[:, None])
        last = (batch.mask.sum(1) - 1)[:, None, None].expand(-1, 1, states.shape[-1])
        z = states.gather(1, last).squeeze(1)  # rows are padded at the end, so what follows the last does not count
        return self.decode(z).squeeze(-1), torch.tanh(z)


class LSTM(NetworkModel):
    NAME = "lstm"
    Parameters = LSTMParameters
    NETWORK = LSTMNetwork
