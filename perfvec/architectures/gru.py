"""GRU (Cho et al. 2014): three quarters of the LSTM's weights and work."""

from __future__ import annotations

from torch import Tensor, nn

from perfvec.architectures.contract import Architecture, State


class Gru(Architecture):
    """State: the hidden state [layers, B, width]."""

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, layers)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        r, hidden = self.gru(x, None if state is None else state[0])
        return r, (hidden,)
