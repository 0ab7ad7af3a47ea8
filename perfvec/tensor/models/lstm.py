"""An LSTM over the statements (or primitives) in their order; its last state is decoded, of both ways where `both`."""

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
    width: int = 1024
    layers: int = 1
    both: bool = False  # a BiLSTM
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
        self.back = nn.LSTM(width, width, parameters.layers, batch_first=True) if parameters.both else None
        ways = 2 if parameters.both else 1
        self.decode = nn.Sequential(nn.Linear(ways * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.embed(batch.x) + self.device(batch.parameters)[:, None]
        count = batch.mask.sum(1)
        z = _last(self.lstm, x, count)
        if self.back is not None:
            step = torch.arange(x.shape[1], device=x.device)
            turned = (count[:, None] - 1 - step).clamp(min=0)  # row i is the one i before the last
            z = torch.cat([z, _last(self.back, x.gather(1, turned[..., None].expand_as(x)), count)], 1)
        return self.decode(z).squeeze(-1), torch.tanh(z)


def _last(lstm: nn.LSTM, x: Tensor, count: Tensor) -> Tensor:
    """[B, width] the state after the last of `count` [B] rows of x [B, L, width]; padding comes behind."""
    states, _ = lstm(x)
    return states.gather(1, (count - 1)[:, None, None].expand(-1, 1, states.shape[-1])).squeeze(1)


class LSTM(NetworkModel):
    NAME = "lstm"
    Parameters = LSTMParameters
    NETWORK = LSTMNetwork
