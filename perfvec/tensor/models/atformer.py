"""ATFormer (Bai et al., EMNLP 2023): self-attention among the statements of a program.

A statement's features, with the operator class of its task one-hot (the paper's ten), pass a kernel embedding of two
layers; encoder layers relate the statements to each other, a decoder gives every statement a score, and the program's
is their sum. `atformer` is the paper's network without a mask: candidates are padded, and padding takes part in the
attention. `atformer-m` masks it. The paper's device transfer is fine-tuning; so that one model may learn several
devices at once, their parameters are added to the embedding here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, encoder, mean, perceptron, total, weighted
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class ATFormerParameters:
    """`layers` 1, 2 or 3 are the paper's variants 1L, 2L, 3L. `features` "statements" leaves the operator class out.
    `padded`: rows to which candidates are padded where padding is not masked.
    """

    features: str = "statements+operator"
    width: int = 512
    layers: int = 2
    heads: int = 4
    feed: int = 2048
    masked: bool = False
    padded: int = 10
    dropout: float = 0.0
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="score", losses={"lambda": 1.0}, learning_rate=7e-4, batch=512)
    )


@dataclass(frozen=True)
class MaskedParameters(ATFormerParameters):
    """Parameters of `atformer-m`."""

    masked: bool = True


class ATFormerNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: ATFormerParameters) -> None:
        super().__init__()
        width = parameters.width
        self.padded = 0 if parameters.masked else parameters.padded
        self.embed = perceptron(inputs, width, width)
        self.device = DeviceEncoder(devices, width)
        self.encoder = encoder(width, parameters.layers, parameters.heads, parameters.feed, parameters.dropout)
        self.decode = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.embed(batch.x) + self.device(batch.parameters)[:, None]
        rows = x.shape[1]
        if self.padded:
            # All rows of padding are alike and stay alike, so one of them, whose attention weight is multiplied by
            # their number, is the same network; and a score does not depend on the batch that a candidate is in.
            x = torch.cat(
                [x, (self.embed(torch.zeros_like(batch.x[:, :1])) + self.device(batch.parameters)[:, None])], 1
            )
            count = (self.padded - batch.mask.sum(1, keepdim=True)).clamp(min=0)
            weight = torch.cat([batch.mask.to(x.dtype), count.to(x.dtype)], 1).log()
            x = weighted(self.encoder, x, weight)[:, :rows]
        else:
            x = self.encoder(x, src_key_padding_mask=~batch.mask)
        return total(self.decode(x), batch.mask).squeeze(-1), torch.tanh(mean(x, batch.mask))


class ATFormer(NetworkModel):
    NAME = "atformer"
    Parameters = ATFormerParameters
    NETWORK = ATFormerNetwork


class MaskedATFormer(NetworkModel):
    NAME = "atformer-m"
    Parameters = MaskedParameters
    NETWORK = ATFormerNetwork
