"""The multi-head attention tuner of Verma et al. (preprints 202401.0208): one encoder, one head per hardware platform.

Schedule primitives pass an encoder of linear layers, attention relates them, residual blocks follow row by row, and
their sum goes to a head of linear layers and batch normalisation, of which every device has its own. A new device gets
a new head, which begins as the mean of those that there are. `adapt` says what fine-tuning changes: `all` weights, the
`heads`, or `tickets`, the weights that matter for the new records: the `ticket_share` of largest |w · dL/dw|, as the
lottery-ticket criterion of selective fine-tuning; the others stay as they are.
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

ADAPT = ("all", "heads", "tickets")


@dataclass(frozen=True)
class AttentionTunerParameters:
    features: str = "primitives"
    width: int = 256
    encoder_layers: int = 4
    heads: int = 4
    blocks: int = 2
    adapt: str = "all"  # or "heads", "tickets"
    ticket_share: float = 0.5
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="log", losses={"mse": 1.0, "rank": 1.0}, learning_rate=7e-4)
    )


class AttentionTunerNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: AttentionTunerParameters) -> None:
        if parameters.adapt not in ADAPT:
            raise InputError(f"adapt is one of {', '.join(ADAPT)}, not {parameters.adapt!r}")
        if not 0 < parameters.ticket_share <= 1:
            raise InputError(f"ticket_share is above 0 and at most 1, not {parameters.ticket_share}")
        super().__init__()
        width = parameters.width
        self.adapt, self.ticket_share = parameters.adapt, parameters.ticket_share
        self.encode = perceptron(inputs, *[width] * parameters.encoder_layers)
        self.device = DeviceEncoder(devices, width)
        self.attention = nn.MultiheadAttention(width, parameters.heads, batch_first=True)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(parameters.blocks))
        self.heads = nn.ModuleList()
        self.width = width

    def set_devices(self, count: int) -> None:
        while len(self.heads) < count:
            head = _head(self.width)
            if len(self.heads):
                others = [old.state_dict() for old in self.heads]
                with torch.no_grad():
                    for name, value in head.state_dict().items():
                        old = torch.stack([other[name].to(value.device) for other in others])
                        value.copy_(old.float().mean(0) if old.is_floating_point() else old.amax(0))
            self.heads.append(head)

    def adapting(self, new: bool) -> Iterable[nn.Parameter]:
        return self.heads.parameters() if self.adapt == "heads" else self.parameters()

    @property
    def tickets(self) -> float:
        return self.ticket_share if self.adapt == "tickets" else 1.0

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        x = self.encode(batch.x) + self.device(batch.parameters)[:, None]
        x = x + self.attention(x, x, x, key_padding_mask=~batch.mask, need_weights=False)[0]
        for block in self.blocks:
            x = block(x)
        z = total(x, batch.mask)
        outputs = torch.cat([head(z) for head in self.heads], 1)  # [B, heads]
        own = outputs.gather(1, batch.device.clamp(min=0)[:, None]).squeeze(1)
        # A device without a head (zero-shot) gets what the heads say on average.
        return torch.where(batch.device < 0, outputs.mean(1), own), torch.tanh(z)


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.outer(torch.relu(self.inner(x))))


def _head(width: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm1d(width), nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 1)
    )


class AttentionTuner(NetworkModel):
    NAME = "attention-tuner"
    Parameters = AttentionTunerParameters
    NETWORK = AttentionTunerNetwork
