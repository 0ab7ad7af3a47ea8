"""LSTM (Hochreiter and Schmidhuber 1997), PerfVec's own choice (arXiv 2310.16792 §IV) and the default."""

from __future__ import annotations

from torch import Tensor, nn

from perfvec.architectures.contract import Architecture, State


class Lstm(Architecture):
    """State: hidden and cell state, [layers, B, width] each."""

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, layers)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        r, (hidden, cell) = self.lstm(x, state)
        return r, (hidden, cell)
