"""ATFormer (Bai et al., EMNLP 2023): self-attention among the statements of a program.

A kernel embedding of two layers takes a statement's features to a vector, encoder layers relate the statements to each
other, a decoder gives every statement a score, and the program's is their sum. The paper's device transfer is
fine-tuning; so that one model may learn several devices at once, their parameters are added to the embedding here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, encoder, mean, perceptron, total
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class ATFormerParameters:
    """`layers` 1, 2 or 3 are the paper's variants 1L, 2L, 3L; `masked`: padding takes no part in the attention."""

    features: str = "statements"
    width: int = 512
    layers: int = 2
    heads: int = 4
    feed: int = 2048
    masked: bool = True
    dropout: float = 0.0
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="score", losses={"lambda": 1.0}, learning_rate=7e-4, batch=512)
    )


class ATFormerNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: ATFormerParameters) -> None:
        super().__init__()
        width = parameters.width
        self.masked = parameters.masked
        self.embed = perceptron(inputs, width, width)
        self.device = DeviceEncoder(devices, width)
        self.encoder = encoder(width, parameters.layers, parameters.heads, parameters.feed, parameters.dropout)
        self.decode = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.embed(batch.x) + self.device(batch.parameters)[:, None]
        x = self.encoder(x, src_key_padding_mask=~batch.mask if self.masked else None)
        return total(self.decode(x), batch.mask).squeeze(-1), torch.tanh(mean(x, batch.mask))


class ATFormer(NetworkModel):
    NAME = "atformer"
    Parameters = ATFormerParameters
    NETWORK = ATFormerNetwork
