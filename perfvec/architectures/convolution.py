"""Causal dilated convolutions with residual connections (Bai et al. 2018, arXiv 1803.01271; gated as WaveNet's).

Block k looks at `kernel` inputs, `kernel`^k instructions apart, so the stack reaches `kernel`^layers instructions back
and each of them by one path.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

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
        before, seen = before.to(kind), x.to(kind)  # rounded once, not in each tap
        if torch.is_grad_enabled():
            stream = torch.cat([before, seen])
            taps = [stream[tap * self.dilation : tap * self.dilation + steps] for tap in range(self.kernel)]
            value, gate = self.taps(torch.cat(taps, dim=-1)).chunk(2, dim=-1)
            return x + self.out(torch.tanh(value) * torch.sigmoid(gate)).float(), stream[steps:]
        last = _between(before, seen, steps - reach, steps).clone()
        self._add_to(x, before, seen)
        return x, last

    def _add_to(self, x: Tensor, before: Tensor, seen: Tensor) -> None:
        """Add the block's result to x [T, B, width] in place, where no gradient is wanted; `seen` is x, or x rounded.

        From the last instructions to the first, so that inputs are still there for those that look back at them; on a
        processor by pieces that stay in its second cache. The gate σ(g) = (1 + tanh(g/2))/2 is had by one tanh over
        values and gates together; halving is exact in any precision, so it is done to the weights. In float32 every tap
        is a product of its own that adds to the sum: nothing is copied side by side. In bfloat16 the sum would be
        rounded after each.
        """
        steps, (lanes, width) = len(x), x.shape[1:]
        half = torch.ones_like(self.taps.bias)
        half[width:] = 0.5
        weight, bias, out = self.taps.weight * half[:, None], self.taps.bias * half, self.out.weight * 0.5
        by_tap = [part.t() for part in weight.split(width, dim=1)]
        piece = steps
        if x.device.type == "cpu":
            piece = max(1, _PIECE_BYTES // (lanes * width * self.kernel * seen.element_size()))
        room = x.new_empty(min(piece, steps) * lanes, 2 * width)
        for end in range(steps, 0, -piece):
            begin = max(0, end - piece)
            backs = [(self.kernel - 1 - tap) * self.dilation for tap in range(self.kernel)]
            taps = [_between(before, seen, begin - back, end - back).flatten(0, 1) for back in backs]
            if seen is x:
                both = torch.addmm(bias, taps[0], by_tap[0], out=room[: len(taps[0])])
                for tap, product in zip(taps[1:], by_tap[1:], strict=True):
                    both.addmm_(tap, product)
            else:
                both = functional.linear(torch.cat(taps, dim=-1), weight, bias)
            value, gate = both.tanh_().chunk(2, dim=-1)
            inner = functional.linear(torch.addcmul(value, value, gate), out, self.out.bias)
            x[begin:end].add_(inner.view_as(x[begin:end]))


def _between(before: Tensor, after: Tensor, begin: int, end: int) -> Tensor:
    """Steps from `begin` to `end` of what ends with `before` and goes on with `after`, whose first step is 0."""
    if begin >= 0:
        return after[begin:end]
    old = before[len(before) + begin : len(before) + min(end, 0)]
    return old if end <= 0 else torch.cat([old, after[:end]])
