"""Causal dilated convolutions with residual connections (Bai et al. 2018, arXiv 1803.01271; gated as WaveNet's).

Block k looks at `kernel` inputs, `kernel`^k instructions apart, so the stack reaches `kernel`^layers instructions back
and each of them by one path.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from perfvec.architectures import amx
from perfvec.architectures.contract import Architecture, State, absorb_into
from perfvec.architectures.gate import add_rounded, gated

PART_ROWS = 8192  # that a processor takes through all blocks at once; of half as many, a twentieth slower
_APART = 1 << 24  # rows between the random numbers of one rounding and those of the next


class Convolution(Architecture):
    """State: the last `(kernel − 1)·dilation` inputs of each block, [reach, B, width]; zeros before the stream."""

    NUMBERS: ClassVar[dict[str, int]] = {"kernel": 4}
    BATCH: ClassVar[int] = 8

    def __init__(self, inputs: int, width: int, layers: int, *, kernel: int = 4) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(_Block(width, kernel, kernel**layer) for layer in range(layers))
        self.width, self.kernel = width, kernel
        self.packed: list[amx.Packed] | None = None

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        if not torch.is_grad_enabled():
            return self.behind_first(self.enter(x).float(), state)
        r = self.enter(x).float()  # the sum of the blocks stays float32 where products are bfloat16
        after = []
        for index, block in enumerate(self.blocks):
            r, last = block(r, None if state is None else state[index])
            after.append(last)
        return r, tuple(after)

    @property
    def first(self) -> nn.Linear:
        return self.enter

    def behind_first(self, entered: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Write into memory that is taken once, part by part through all blocks."""
        (steps, batch, width), kind = entered.shape, _product_type(entered)
        if self.packed is not None and kind == torch.bfloat16 and entered.device.type == "cpu":
            tiles = amx.kernel_for(width, self.kernel)
            if tiles is not None:
                entered = entered.contiguous()
                return entered, amx.convolve(tiles, self.packed, entered, state)
        streams = []
        for index, block in enumerate(self.blocks):
            assert isinstance(block, _Block)
            streams.append(_Stream(block, steps, batch, None if state is None else state[index], kind))
        part = steps if entered.device.type != "cpu" else max(1, PART_ROWS // batch)
        room = _Room(min(part, steps) * batch, width, kind, entered.device)
        for begin in range(0, steps, part):
            end = min(begin + part, steps)
            here = entered[begin:end].flatten(0, 1)
            add_rounded(here, None, streams[0].inputs(begin, end), begin * batch)
            for index, stream in enumerate(streams):
                row = begin * batch + (2 * index + 1) * _APART
                inner = stream.result(begin, end, room, row)
                if index + 1 == len(streams):
                    here.add_(inner)
                else:
                    add_rounded(here, inner, streams[index + 1].inputs(begin, end), row + _APART)
        return entered, tuple(stream.last() for stream in streams)

    def freeze(self) -> None:
        super().freeze()
        blocks = [block for block in self.blocks if isinstance(block, _Block)]
        if amx.kernel_for(self.width, self.kernel) is not None:
            self.packed = [amx.pack(block.taps, block.out, block.dilation) for block in blocks]

    def absorb(self, mean: Tensor, scale: Tensor) -> bool:
        absorb_into(self.enter.weight, self.enter.bias, mean, scale)
        return True


class _Block(nn.Module):
    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.kernel, self.dilation = kernel, dilation
        self.taps = nn.Linear(kernel * width, 2 * width)  # the convolution as one matrix product over its taps
        self.out = nn.Linear(width, width)

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation

    def forward(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        steps, kind = len(x), _product_type(x)
        if before is None:
            before = x.new_zeros(self.reach, *x.shape[1:])
        stream = torch.cat([before.to(kind), x.to(kind)])  # rounded once, not in each tap
        taps = [stream[tap * self.dilation : tap * self.dilation + steps] for tap in range(self.kernel)]
        value, gate = self.taps(torch.cat(taps, dim=-1)).chunk(2, dim=-1)
        return x + self.out(torch.tanh(value) * torch.sigmoid(gate)).float(), stream[steps:]


class _Room:
    """Buffers for the results of `rows` rows, of every block in turn."""

    def __init__(self, rows: int, width: int, kind: torch.dtype, device: torch.device) -> None:
        self.gated = torch.empty(rows, width, dtype=kind, device=device)
        self.inner = torch.empty(rows, width, dtype=kind, device=device)


class _Stream:
    """A block where no gradient is wanted: its weights in `kind`, and its inputs behind those of its state.

    The steps are the rows of an image, the sequences its columns, the width its channels, which come last in memory: a
    convolution down the columns reads the taps where they are.
    """

    def __init__(self, block: _Block, steps: int, batch: int, before: Tensor | None, kind: torch.dtype) -> None:
        width, kernel = block.out.out_features, block.kernel
        self._reach, self._dilation = block.reach, block.dilation
        weight = block.taps.weight.to(kind).view(2 * width, kernel, width, 1).transpose(1, 2)
        self._weight = weight.contiguous(memory_format=torch.channels_last)
        self._bias = block.taps.bias.to(kind)
        self._out, self._out_bias = block.out.weight.to(kind).t(), block.out.bias.to(kind)
        self._stream = torch.empty(self._reach + steps, batch, width, dtype=kind, device=weight.device)
        past = self._stream[: self._reach]
        past.zero_() if before is None else past.copy_(before)

    def inputs(self, begin: int, end: int) -> Tensor:
        """[(end − begin)·batch, width], a view."""
        return self._stream[self._reach + begin : self._reach + end].flatten(0, 1)

    def last(self) -> Tensor:
        """The state after all steps."""
        return self._stream[len(self._stream) - self._reach :]

    def result(self, begin: int, end: int, room: _Room, row: int) -> Tensor:
        """[(end − begin)·batch, width], what the block adds to its inputs, in `room`; `row` as of `gated`."""
        image = self._stream[None, begin : self._reach + end].permute(0, 3, 1, 2)
        both = torch.nn.functional.conv2d(image, self._weight, self._bias, dilation=(self._dilation, 1))
        both = both[0].permute(1, 2, 0).flatten(0, 1)
        rows = len(both)
        return torch.addmm(self._out_bias, gated(both, room.gated[:rows], row), self._out, out=room.inner[:rows])


def _product_type(x: Tensor) -> torch.dtype:
    """Return the type of products with x: autocast's where that is on."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
