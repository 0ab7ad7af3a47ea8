"""The linear baseline: an instruction's vector is a linear map of its own features, so a program's is of their sum."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from perfvec.architectures.contract import Architecture, State


class Linear(Architecture):
    """One map, whatever `layers`; no state."""

    MEMORY: ClassVar[bool] = False

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.map = nn.Linear(inputs, width)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        return self.map(x), ()
