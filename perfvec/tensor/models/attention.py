"""One layer of multi-head attention among the statements, summed and decoded: a baseline between MLP and ATFormer."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, perceptron, total
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class AttentionParameters:
    features: str = "statements"
    width: int = 512
    heads: int = 4
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="log", losses={"mse": 1.0, "rank": 1.0}, learning_rate=7e-4)
    )


class AttentionNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: AttentionParameters) -> None:
        super().__init__()
        width = parameters.width
        self.embed = perceptron(inputs, width, width)
        self.device = DeviceEncoder(devices, width)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, parameters.heads, batch_first=True)
        self.decode = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.embed(batch.x) + self.device(batch.parameters)[:, None]
        y = self.norm(x)
        x = x + self.attention(y, y, y, key_padding_mask=~batch.mask, need_weights=False)[0]
        z = total(x, batch.mask)
        return self.decode(z).squeeze(-1), torch.tanh(z)


class Attention(NetworkModel):
    NAME = "attention"
    Parameters = AttentionParameters
    NETWORK = AttentionNetwork
