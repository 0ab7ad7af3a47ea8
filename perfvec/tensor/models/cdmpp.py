"""CDMPP (Hu et al., EuroSys 2024, arXiv 2311.09690): latency from the compact syntax tree and the device.

Every leaf of the tree is a computation vector, to which an encoding of its place in the pre-order of the whole tree is
added; a Transformer relates the leaves, a linear map takes them to one vector, to which an encoding of the device's
parameters is added, and a perceptron reads the transformed latency from the sum. Central moment discrepancy between
domains (operators, devices, or labelled and unlabelled candidates) regularises the vector; the loss is the squared
error plus the relative one.

The paper has a linear map per number of leaves. Here one map reads the first `leaves` in order, absent ones as zero,
and the mean of all, with a bias per number of leaves, so that a number that was never seen still has an output.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, encoder, mean, perceptron, sinusoids
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class CDMPPParameters:
    features: str = "ast"
    width: int = 256
    layers: int = 4
    heads: int = 4
    feed: int = 1024
    leaves: int = 8
    embedding: int = 128  # of the vector that domains share
    hidden: int = 512  # of the decoder
    decoder_layers: int = 3
    dropout: float = 0.0
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(
            target="box-cox", losses={"mse": 1.0, "mape": 0.3, "cmd": 0.01}, learning_rate=5e-4, weight_decay=1.3e-3
        )
    )


class CDMPPNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: CDMPPParameters) -> None:
        super().__init__()
        self.leaves = parameters.leaves
        width = parameters.width
        self.enter = nn.Linear(inputs, width)
        self.encoder = encoder(width, parameters.layers, parameters.heads, parameters.feed, parameters.dropout)
        self.join = nn.Linear((parameters.leaves + 1) * width, parameters.embedding)
        self.count = nn.Embedding(parameters.leaves + 1, parameters.embedding)
        nn.init.zeros_(self.count.weight)
        self.device = DeviceEncoder(devices, parameters.embedding)
        self.decode = nn.Sequential(
            perceptron(parameters.embedding, *[parameters.hidden] * parameters.decoder_layers),
            nn.Linear(parameters.hidden, 1),
        )

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.enter(batch.x) + sinusoids(batch.position, self.enter.out_features)
        x = self.encoder(x, src_key_padding_mask=~batch.mask) * batch.mask[..., None]
        first = pad(x[:, : self.leaves], (0, 0, 0, max(self.leaves - x.shape[1], 0)))
        z = self.join(torch.cat([first.flatten(1), mean(x, batch.mask)], 1))
        z = z + self.count(batch.mask.sum(1).clamp(max=self.leaves)) + self.device(batch.parameters)
        return self.decode(z).squeeze(-1), torch.tanh(z)


class CDMPP(NetworkModel):
    NAME = "cdmpp"
    Parameters = CDMPPParameters
    NETWORK = CDMPPNetwork
