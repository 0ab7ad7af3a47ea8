"""TabNet (Arik and Pfister, AAAI 2021), by pytorch-tabnet's network, over pooled candidates.

Only the library's network is used, in the loop that all networks share: its own trainer pickles, and knows no groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec

import torch
from torch import Tensor

from perfvec.tensor.batches import Batch
from perfvec.tensor.contract import library
from perfvec.tensor.loop import Network, Training
from perfvec.tensor.models.layers import mean, total
from perfvec.tensor.network import NetworkModel
from support.errors import InputError


@dataclass(frozen=True)
class TabNetParameters:
    """Widths of decision and attention, steps, relaxation (γ), and the weight of the masks' entropy in the loss (λ)."""

    features: str = "statements"
    decision: int = 16
    attention: int = 16
    steps: int = 3
    gamma: float = 1.3
    sparsity: float = 1e-4
    update_rate: float = 0.3  # of the learning rate, when fine-tuning
    training: Training = field(
        default_factory=lambda: Training(target="log", losses={"mse": 1.0}, learning_rate=1e-2, weight_decay=1e-5)
    )


class TabNetNetwork(Network):
    def __init__(self, inputs: int, devices: int, parameters: TabNetParameters) -> None:
        super().__init__()
        width = 2 * inputs + 1 + devices
        self.sparsity = parameters.sparsity
        self.tabnet = library("pytorch_tabnet.tab_network").TabNetNoEmbeddings(
            width,
            1,
            n_d=parameters.decision,
            n_a=parameters.attention,
            n_steps=parameters.steps,
            gamma=parameters.gamma,
            virtual_batch_size=128,
            group_attention_matrix=torch.eye(width),
        )
        for part in self.tabnet.modules():  # the library keeps it as an attribute, which stays behind on the processor
            if vars(part).pop("group_attention_matrix", None) is not None:
                part.register_buffer("group_attention_matrix", torch.eye(width), persistent=False)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        count = torch.log2(batch.mask.sum(1, keepdim=True).float())
        z = torch.cat([total(batch.x, batch.mask), mean(batch.x, batch.mask), count, batch.parameters], 1)
        output, negative_entropy = self.tabnet(z)  # of the masks, mean over candidates and steps
        if self.training:
            self.penalty = -self.sparsity * negative_entropy
        return output.squeeze(-1), torch.tanh(output)


class TabNet(NetworkModel):
    NAME = "tabnet"
    Parameters = TabNetParameters
    NETWORK = TabNetNetwork

    def check_parameters(self) -> None:
        try:
            super().check_parameters()
        except InputError:
            if find_spec("pytorch_tabnet") is not None:  # without the library a configuration may still name the model
                raise
