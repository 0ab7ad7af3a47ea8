"""A convolution's blocks on the matrix tiles of Intel's AMX, all work of a block in one pass (amx.c).

oneDNN's products write their results to memory, where the vector work between two of them takes them up again. That
takes longer than the products themselves where a core multiplies bfloat16 at 4 TFLOP/s; here both happen at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from support.compiled import compiled
from support.errors import InputError

SOURCE = Path(__file__).with_name("amx.c")
_FLAGS = ("-O3", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512bf16", "-mfma", "-mamx-tile", "-mamx-bf16")
_NEEDED = {"amx_bf16", "amx_tile", "avx512_bf16", "avx512bw", "avx512vl"}
CPUINFO = Path("/proc/cpuinfo")
_SIDE, _INNER = 16, 32  # a tile's rows, and columns of bfloat16
_ROOM = 2 * _SIDE  # rows behind the last one that are read, and not used


@dataclass(frozen=True)
class Packed:
    """A block's weights as tiles, in the order in which they are used."""

    taps: Tensor  # bfloat16 [groups of 16 columns, steps of 32 rows, values and gates, 16, 16, 2]
    taps_bias: Tensor  # float32 [groups of 16 columns, values and gates, 16]
    out: Tensor  # bfloat16 [groups of 32 columns, steps of 32 rows, halves, 16, 16, 2]
    out_bias: Tensor  # float32 [width]
    kernel: int
    dilation: int

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation


class _Block(ctypes.Structure):
    """amx.c's `struct block`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("taps", "taps_bias", "out", "out_bias", "stream", "rest")),
        ("dilation", ctypes.c_int64),
    ]


@cache
def kernel_for(width: int, kernel: int) -> ctypes.CDLL | None:
    """amx.c for rows of `width` and so many taps; None where `compiled_for` has none, and PyTorch does the same."""
    try:
        return compiled_for(width, kernel)
    except InputError:
        return None


def compiled_for(width: int, kernel: int) -> ctypes.CDLL:
    """amx.c for rows of `width` and so many taps. Raises InputError, which says what is missing."""
    if width % _INNER:
        raise InputError(f"a width of {width} does not fill tiles; a multiple of {_INNER} does")
    try:
        missing = sorted(_NEEDED - set(CPUINFO.read_text().split()))
    except OSError:
        missing = sorted(_NEEDED)
    if missing:
        raise InputError(f"the processor has no {', '.join(missing)}")
    path = compiled(SOURCE, [*_FLAGS, f"-DWIDTH={width}", f"-DKERNEL={kernel}"], SOURCE.name)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise InputError(f"{path}: is not what a compiler makes of {SOURCE.name}; delete it") from error
    if not library.permitted():
        raise InputError("the system gives no tiles to programs; Linux does from 5.16 on")
    library.convolve.argtypes = [ctypes.c_void_p, *(ctypes.c_int64,) * 3, ctypes.c_void_p]
    library.convolve.restype = None
    return library


@torch.no_grad()
def pack(taps: nn.Linear, out: nn.Linear, dilation: int) -> Packed:
    """Return the packed form of a block's `taps` [2·width, kernel·width], values first, oldest tap first, and `out`."""
    width = out.out_features
    weight = taps.weight.bfloat16().view(2, width // _SIDE, _SIDE, -1, _SIDE, 2)
    second = out.weight.bfloat16().view(-1, 2, _SIDE, width // _INNER, _SIDE, 2)
    return Packed(
        taps=weight.permute(1, 3, 0, 4, 2, 5).contiguous(),
        taps_bias=taps.bias.float().view(2, -1, _SIDE).transpose(0, 1).contiguous(),
        out=second.permute(0, 3, 1, 4, 2, 5).contiguous(),
        out_bias=out.bias.float().contiguous(),
        kernel=taps.in_features // width,
        dilation=dilation,
    )


def convolve(
    library: ctypes.CDLL, blocks: Sequence[Packed], sum_: Tensor, state: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Add to `sum_` [T, B, width], float32, what all blocks make of it; their states after it [reach, B, width].

    The first block's state is float32, the others' bfloat16.
    """
    steps, batch, width = sum_.shape
    assert sum_.is_contiguous() and sum_.dtype == torch.float32

    def room(block: Packed, past: Tensor) -> Tensor:
        """A block's inputs, of which those of its state are there."""
        stream = torch.empty(past.numel() // width + steps * batch + _ROOM, width, dtype=torch.bfloat16)
        stream[: block.reach * batch].copy_(past.reshape(-1, width))
        return stream

    if state is None:
        state = [torch.zeros(block.reach, batch, width) for block in blocks]
    streams = [room(block, past) for block, past in zip(blocks, state, strict=True)]
    first, entered = blocks[0].reach, state[0].float()
    rest = room(blocks[0], entered - entered.bfloat16())
    entered = torch.cat([entered, sum_[max(0, steps - first) :]])  # a copy, as the sum is written over
    entered = entered[len(entered) - first :]
    arguments = (_Block * len(blocks))()
    for index, (block, stream) in enumerate(zip(blocks, streams, strict=True)):
        tensors = block.taps, block.taps_bias, block.out, block.out_bias, stream
        arguments[index] = _Block(*(t.data_ptr() for t in tensors), None if index else rest.data_ptr(), block.dilation)
    library.convolve(arguments, len(blocks), steps, batch, sum_.data_ptr())
    rows = steps * batch
    return entered, *(
        stream[rows : rows + block.reach * batch].view(block.reach, batch, width)
        for block, stream in zip(blocks[1:], streams[1:], strict=True)
    )
