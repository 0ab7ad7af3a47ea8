"""The MLP baseline: each instruction by itself. What it lacks against the others is what context is worth."""

from __future__ import annotations

from torch import Tensor, nn

from perfvec.architectures.contract import Architecture, State


class Mlp(Architecture):
    """`layers` hidden layers of `width`, then a linear one; no state."""

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        hidden = [(nn.Linear(inputs if layer == 0 else width, width), nn.GELU()) for layer in range(layers)]
        self.net = nn.Sequential(*(module for pair in hidden for module in pair), nn.Linear(width, width))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        return self.net(x), ()
