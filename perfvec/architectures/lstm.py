"""LSTM (Hochreiter and Schmidhuber 1997), PerfVec's own choice (arXiv 2310.16792 §IV) and the default."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from perfvec.architectures.contract import Architecture, State, absorb_into


class Lstm(Architecture):
    """State: hidden and cell state, [layers, B, width] each."""

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, layers)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        r, (hidden, cell) = self.lstm(x, state)
        return r, (hidden, cell)

    @torch.no_grad()
    def absorb(self, mean: Tensor, scale: Tensor) -> bool:
        weights = dict(self.lstm.named_parameters())
        absorb_into(weights["weight_ih_l0"], weights["bias_ih_l0"], mean, scale)
        for layer in range(self.lstm.num_layers):  # two biases that are only ever added: one, which is rounded once
            weights[f"bias_ih_l{layer}"].add_(weights[f"bias_hh_l{layer}"])
            weights[f"bias_hh_l{layer}"].zero_()
        return True
