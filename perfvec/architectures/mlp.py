"""The MLP: each instruction by itself.

Of the schema `default` it is a baseline, and what it lacks against the others is what context is worth. Of `timed`,
whose reference machines have seen the context, it is the cheapest architecture.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from perfvec.architectures.contract import Architecture, State, absorb_into


class Mlp(Architecture):
    """`layers` hidden layers of `width`, then a linear one; no state."""

    MEMORY: ClassVar[bool] = False

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        hidden = [(nn.Linear(inputs if layer == 0 else width, width), nn.GELU()) for layer in range(layers)]
        self.net = nn.Sequential(*(module for pair in hidden for module in pair), nn.Linear(width, width))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        return self.net(x), ()

    @property
    def first(self) -> nn.Linear:
        layer = self.net[0]
        assert isinstance(layer, nn.Linear)
        return layer

    def behind_first(self, entered: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        return self.net[1:](entered), ()

    def absorb(self, mean: Tensor, scale: Tensor) -> bool:
        absorb_into(self.first.weight, self.first.bias, mean, scale)
        return True
