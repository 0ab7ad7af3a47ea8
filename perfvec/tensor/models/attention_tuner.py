"""The multi-head attention tuner of Verma et al. (preprints 202401.0208): one encoder, one head per hardware platform.

Statements pass an encoder of linear layers, attention relates them, residual blocks with batch normalisation follow
their sum, and every device has a head of its own. A new device gets a new head, which begins as the mean of those
that there are; `adapt` says whether fine-tuning changes the heads only, or all weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from perfvec.tensor.batches import Batch
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import DeviceEncoder, perceptron, total
from perfvec.tensor.network import NetworkModel
from support.errors import InputError


@dataclass(frozen=True)
class AttentionTunerParameters:
    features: str = "statements"
    width: int = 256
    encoder_layers: int = 4
    heads: int = 4
    blocks: int = 2
    adapt: str = "all"  # or "heads"
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="log", losses={"mse": 1.0, "rank": 1.0}, learning_rate=7e-4)
    )


class AttentionTunerNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: AttentionTunerParameters) -> None:
        if parameters.adapt not in ("all", "heads"):
            raise InputError(f"attention-tuner: adapt is 'all' or 'heads', not {parameters.adapt!r}")
        super().__init__()
        width = parameters.width
        self.adapt = parameters.adapt
        self.encode = perceptron(inputs, *[width] * parameters.encoder_layers)
        self.device = DeviceEncoder(devices, width)
        self.attention = nn.MultiheadAttention(width, parameters.heads, batch_first=True)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(parameters.blocks))
        self.heads = nn.ModuleList()
        self.width = width

    def set_devices(self, count: int) -> None:
        while len(self.heads) < count:
            head = nn.Linear(self.width, 1)
            if len(self.heads):
                others = [dict(old.named_parameters()) for old in self.heads]
                with torch.no_grad():
                    for name, value in head.named_parameters():
                        value.copy_(torch.stack([other[name] for other in others]).mean(0))
            self.heads.append(head)

    def adapting(self, new: bool) -> Iterable[nn.Parameter]:
        return self.heads.parameters() if self.adapt == "heads" else self.parameters()

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.encode(batch.x) + self.device(batch.parameters)[:, None]
        x = x + self.attention(x, x, x, key_padding_mask=~batch.mask, need_weights=False)[0]
        z = total(x, batch.mask)
        for block in self.blocks:
            z = block(z)
        outputs = torch.cat([head(z) for head in self.heads], 1)  # [B, heads]
        own = outputs.gather(1, batch.device.clamp(min=0)[:, None]).squeeze(1)
        # A device without a head (zero-shot) gets what the heads say on average.
        return torch.where(batch.device < 0, outputs.mean(1), own), torch.tanh(z)


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = nn.BatchNorm1d(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, z: Tensor) -> Tensor:
        return z + self.outer(torch.relu(self.inner(self.norm(z))))


class AttentionTuner(NetworkModel):
    NAME = "attention-tuner"
    Parameters = AttentionTunerParameters
    NETWORK = AttentionTunerNetwork
