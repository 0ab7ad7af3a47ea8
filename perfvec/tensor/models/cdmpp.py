"""CDMPP (Hu et al., EuroSys 2024, arXiv 2311.09690): latency from the compact syntax tree and the device.

Every leaf of the tree is a computation vector, to which an encoding of its place in the pre-order of the whole tree is
added; a Transformer relates the leaves, a linear map of its own for every number of leaves takes them to one vector, to
which an encoding of the device's parameters is added, and a perceptron reads the transformed latency from the sum.
Central moment discrepancy between domains (candidates that train and those to be predicted; in fine-tuning, source and
target device) regularises the vector; the loss is the squared error plus the relative one.

The paper has a map for every number of leaves that occurs. Here there are `leaves` maps; of a longer candidate the last
one reads the first leaves, and the mean of the others in the place of the last. A number that no training candidate had
is read by the map of the nearest smaller one that had (of a larger one, absent leaves as zero, where there is none).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, encoder, perceptron, sinusoids
from perfvec.tensor.network import NetworkModel


@dataclass(frozen=True)
class CDMPPParameters:
    """`layers`: eleven, as the paper's tuner found. `features` "ast-published" leaves out the 51 columns of our own."""

    features: str = "ast"
    width: int = 256
    layers: int = 11
    heads: int = 4
    feed: int = 1024
    leaves: int = 16
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


class LeafEmbedding(nn.Module):
    """x [B, L, width], L real rows by `mask` [B, L] → [B, outputs], by a linear map for each number of rows."""

    def __init__(self, leaves: int, width: int, outputs: int) -> None:
        super().__init__()
        self.leaves = leaves
        self.maps = nn.ModuleList(nn.Linear((count + 1) * width, outputs) for count in range(leaves))
        self.register_buffer("seen", torch.zeros(leaves, dtype=torch.bool))
        self.seen: Tensor

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        host = torch.cat([mask.sum(1), self.seen]).cpu().numpy()  # together: the one time that a GPU is waited for
        count, seen = host[: len(x)], host[len(x) :]
        order = np.argsort(count, kind="stable")
        numbers, starts = np.unique(count[order], return_index=True)
        x = x.index_select(0, torch.from_numpy(order).to(x.device, non_blocking=True))
        parts = []
        for number, start, end in zip(numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), len(x)], strict=True):
            place = self.map_of(number, seen)
            parts.append(self.maps[place - 1](_leaves(x[start:end, :number], place).flatten(1)))
        back = torch.from_numpy(np.argsort(order)).to(x.device, non_blocking=True)
        return torch.cat(parts).index_select(0, back)

    @torch.no_grad()
    def see(self, numbers: Sequence[int]) -> None:
        """Maps of so many rows will be trained; after a first training each begins as what was used in its place."""
        trained = self.seen.cpu().numpy().copy()
        for number in (min(one, self.leaves) for one in numbers):
            place = self.map_of(number, trained)
            self.seen[number - 1] = True
            if place == number:
                continue
            used, own = (cast(nn.Linear, self.maps[one - 1]) for one in (place, number))
            outputs, width = used.out_features, used.in_features // place
            weight = used.weight.view(outputs, place, width)[:, :number]
            if place < number:  # which read the mean of the last rows
                last = weight[:, -1:] / (number - place + 1)
                weight = torch.cat([weight[:, :-1], last.expand(-1, number - place + 1, -1)], 1)
            own.weight.copy_(weight.reshape(outputs, -1))
            own.bias.copy_(used.bias)

    def map_of(self, number: int, trained: NDArray[np.int64]) -> int:
        """The number of leaves whose map reads `number` leaves; `trained` [leaves]: `seen`."""
        number = min(number, self.leaves)
        seen = (np.flatnonzero(trained) + 1).tolist()
        if not seen or number in seen:
            return number
        smaller = [place for place in seen if place < number]
        return max(smaller) if smaller else min(seen)


def _leaves(x: Tensor, count: int) -> Tensor:
    """[B, count, width] of x [B, n, width]: padded with zeros, or the last ones as their mean."""
    if x.shape[1] <= count:
        return pad(x, (0, 0, 0, count - x.shape[1]))
    return torch.cat([x[:, : count - 1], x[:, count - 1 :].mean(1, keepdim=True)], 1)


class CDMPPNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: CDMPPParameters) -> None:
        super().__init__()
        width = parameters.width
        self.enter = nn.Linear(inputs, width)
        self.encoder = encoder(width, parameters.layers, parameters.heads, parameters.feed, parameters.dropout)
        self.join = LeafEmbedding(parameters.leaves, width, parameters.embedding)
        self.device = DeviceEncoder(devices, parameters.embedding)
        self.decode = nn.Sequential(
            perceptron(parameters.embedding, *[parameters.hidden] * parameters.decoder_layers),
            nn.Linear(parameters.hidden, 1),
        )

    def set_lengths(self, lengths: Sequence[int]) -> None:
        self.join.see(lengths)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.enter(batch.x) + sinusoids(batch.position, self.enter.out_features)
        x = self.encoder(x, src_key_padding_mask=~batch.mask)
        z = self.join(x, batch.mask) + self.device(batch.parameters)
        return self.decode(z).squeeze(-1), torch.tanh(z)


class CDMPP(NetworkModel):
    NAME = "cdmpp"
    Parameters = CDMPPParameters
    NETWORK = CDMPPNetwork
