"""Architecture: the contract that every file of this folder fills.

To add one: a file with one subclass, a line in `ARCHITECTURES`, nothing else; `linear.py` is the smallest example.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]


class Architecture(nn.Module):
    """Features in, one vector per executed instruction out.

    `forward(x [T, B, inputs], state) -> (r [T, B, width], state)`, time first; x is normalised; r[t] depends on
    x[0 … t] only. The state carries all that later outputs need of earlier inputs, so that a stream may be cut into
    parts anywhere: the parts' outputs are the whole's. Its tensors have the sequences (B) as their last dimension but
    one; None stands for the beginning of a stream, and an architecture without memory has the empty tuple.

    A subclass is built as `Subclass(inputs, width, layers, **numbers)`; `NUMBERS` has the names and defaults of its
    `numbers`, which the model's file keeps.
    """

    NUMBERS: ClassVar[dict[str, int]] = {}
    # Inference batch size: the sequences that a chunk is cut into, each behind a warm-up. A recurrent step
    # is a product over the batch, which hardly takes longer for more; what takes many steps at once needs few.
    BATCH: ClassVar[int] = 32
    MEMORY: ClassVar[bool] = True  # r[t] depends on more than x[t]

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        raise NotImplementedError

    @property
    def first(self) -> nn.Linear | None:
        """The layer that all of x enters by, and only by, where `behind_first` goes on from its result."""
        return None

    def behind_first(self, entered: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """`forward` of the x that `first` made `entered` [T, B, …] of, which is written over; without gradients."""
        raise NotImplementedError

    def freeze(self) -> None:
        """The weights stay as they are from now on, so that `behind_first` may keep what it makes of them."""
        self.requires_grad_(False)

    def absorb(self, mean: Tensor, scale: Tensor) -> bool:
        """Change the first layer so that it takes x for what was (x − mean)·scale; [inputs] each. False: cannot."""
        return False


@torch.no_grad()
def absorb_into(weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor) -> None:
    """`Architecture.absorb` for a first layer x·weightᵀ + bias, in place."""
    bias.sub_((weight.double() @ (mean * scale).double()).float())
    weight.mul_(scale)
