"""This toolkit's own network: a program takes the time of its loop nests, one after the other.

The other networks sum vectors (or scores) of rows and read a latency from the sum, although the latencies of rows are
what adds up. Here every row x_i, knowing the mean of all, says the logarithm of its own latency c_i, linear in x_i
(among which are the logarithms of its executions and of the bytes that it moves) plus what a perceptron adds, and the
output is −(1/σ) log Σ_i exp(σ c_i), in the unit of the target, whose spread σ is learned. So a kernel that is larger
than all that trained costs more in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, mean, perceptron
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class AdditiveParameters:
    features: str = "ast"
    width: int = 128
    blocks: int = 2
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(
            target="log", losses={"huber": 4.0, "rank": 0.3}, sharpness=8.0, learning_rate=2e-3, batch=192
        )
    )


class AdditiveNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: AdditiveParameters) -> None:
        super().__init__()
        width = parameters.width
        self.linear = nn.Linear(inputs, 1, bias=False)
        nn.init.zeros_(self.linear.weight)
        self.enter = perceptron(inputs, width)
        self.device = DeviceEncoder(devices, width)
        self.context = nn.Linear(width, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(parameters.blocks))
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, 1)
        self.log_spread = nn.Parameter(torch.tensor(1.0))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        h = self.enter(batch.x) + self.device(batch.parameters)[:, None]
        h = h + self.context(mean(h, batch.mask))[:, None]
        for block in self.blocks:
            h = block(h)
        cost = (self.linear(batch.x) + self.leave(self.norm(h))).squeeze(-1)
        spread = self.log_spread.exp()
        logs = (spread * cost).masked_fill(~batch.mask, -torch.inf)
        return -torch.logsumexp(logs, 1) / spread, torch.tanh(mean(h, batch.mask))


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        return h + torch.relu(self.layer(self.norm(h)))


class Additive(NetworkModel):
    NAME = "additive"
    Parameters = AdditiveParameters
    NETWORK = AdditiveNetwork
