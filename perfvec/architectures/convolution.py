"""Causal dilated convolutions with residual connections (Bai et al. 2018, arXiv 1803.01271; gated as WaveNet's).

Block k looks at `kernel` inputs, `kernel`^k instructions apart, so the stack reaches `kernel`^layers instructions back
and each of them by one path.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from perfvec.architectures.contract import Architecture, State, absorb_into

_PIECE_BYTES = 1 << 20  # of one block's taps

class Convolution(Architecture):
    """State: the last `(kernel − 1)·dilation` inputs of each block, [reach, B, width]; zeros before the stream."""

    NUMBERS: ClassVar[dict[str, int]] = {"kernel": 4}

    def __init__(self, inputs: int, width: int, layers: int, *, kernel: int = 4) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(_Block(width, kernel, kernel**layer) for layer in range(layers))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        r = self.enter(x).float()  # the sum of the blocks stays float32 where products are bfloat16
        after = []
        for index, block in enumerate(self.blocks):
            r, last = block(r, None if state is None else state[index])
            after.append(last)
        return r, tuple(after)

    def absorb(self, mean: Tensor, scale: Tensor) -> bool:
        absorb_into(self.enter.weight, self.enter.bias, mean, scale)
        return True


class _Block(nn.Module):
    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.kernel, self.dilation = kernel, dilation
        self.taps = nn.Linear(kernel * width, 2 * width)  # the convolution as one matrix product over its taps
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        steps, reach = len(x), (self.kernel - 1) * self.dilation
        if before is None:
            before = x.new_zeros(reach, *x.shape[1:])
        kind = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        stream = torch.cat([before.to(kind), x.to(kind)])  # rounded once, not in each tap
        if torch.is_grad_enabled():
            return x + self._inner(stream, 0, steps), stream[steps:]
        # Added in place, and on a processor by pieces that stay in its second cache: a third faster.
        piece = steps
        if x.device.type == "cpu":
            piece = max(1, _PIECE_BYTES // (x[0].numel() * self.kernel * stream.element_size()))
        for begin in range(0, steps, piece):
            end = min(begin + piece, steps)
            x[begin:end].add_(self._inner(stream, begin, end))
        return x, stream[steps:]

    def _inner(self, stream: Tensor, begin: int, end: int) -> Tensor:
        """Of the instructions from `begin` to `end`; stream's first is as far back as the first one reaches."""
        taps = [stream[begin + tap * self.dilation : end + tap * self.dilation] for tap in range(self.kernel)]
        value, gate = self.taps(torch.cat(taps, dim=-1)).chunk(2, dim=-1)
        if torch.is_grad_enabled():
            return self.out(torch.tanh(value) * torch.sigmoid(gate)).float()
        return self.out(value.tanh_() * gate.sigmoid_())  # fresh memory for each of these costs time
