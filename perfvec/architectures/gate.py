"""The gated unit tanh(v)·σ(g) (van den Oord et al. 2016, arXiv 1609.03499, eq. 2) in one pass over memory.

With a convergent N/D of Lambert's continued fraction of tanh (DLMF 4.39.1) at half the argument,
tanh(2x) = 2ND/(D² + N²) and σ(4x) = (D + N)²/(2(D² + N²)): one division serves both functions. The convergent of
seventh order errs by 3·10⁻⁷ at most, which is float32's own rounding. PyTorch's tanh alone takes as long as this in
float32, and five times as long in bfloat16 (one core of an Intel Xeon with AMX, PyTorch 2.13, 2026-11-23; six and three
times on Zen 5, 2026-11-27; `benchmarks/libraries.py`).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from support.jit import cached

# Division by zero must not be an exception, or nothing is vectorised. NaN passes through.
_kernel = cached(nogil=True, error_model="numpy", fastmath={"contract"})

_HALF = np.float32(0.5)
_LIMIT = np.float32(5)  # tanh(10) is 1 in float32
_N0, _N1, _N2 = np.float32(135135), np.float32(17325), np.float32(378)
_D0, _D1, _D2, _D3 = np.float32(135135), np.float32(62370), np.float32(3150), np.float32(28)
_UPPER = np.uint32(16)
_STEP, _MIX = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)


def gated(both: Tensor, out: Tensor, row: int) -> Tensor:
    """`out` [R, width] = tanh(v)·σ(g) of `both` [R, 2·width], values v first; contiguous, both float32 or bfloat16.

    Rounded as by `add_rounded`, `row` as there.
    """
    if both.device.type != "cpu":
        value, gate = both.chunk(2, dim=-1)
        return torch.mul(value.tanh(), gate.sigmoid(), out=out)
    if both.dtype == torch.bfloat16:
        _gated_bfloat16(both.view(torch.uint16).numpy(), out.view(torch.uint16).numpy(), np.uint32(row % 2**32))
    else:
        _gated_float32(both.numpy(), out.numpy())
    return out


def add_rounded(sum_: Tensor, term: Tensor | None, rounded: Tensor, row: int) -> None:
    """`sum_` += `term`, where there is one, and `rounded` becomes the sum.

    [R, width] each, contiguous; `sum_` float32, the others of one type, row 0 being a stream's `row`. To bfloat16 a
    processor rounds up or down at random, with chances by which the mean is the sum (Gupta et al., ICML 2015, arXiv
    1502.02551, §3): a loop repeats the same few rows, whose nearest numbers would be off in the same way each time. The
    random numbers hang on the place alone.
    """
    if sum_.device.type == "cpu" and rounded.dtype == torch.bfloat16:
        to = rounded.view(torch.uint16).numpy()
        if term is None:
            _round(sum_.numpy(), to, np.uint32(row % 2**32))
        else:
            _add_rounded(sum_.numpy(), term.view(torch.uint16).numpy(), to, np.uint32(row % 2**32))
    else:
        rounded.copy_(sum_ if term is None else sum_.add_(term))


@_kernel
def _one(value: np.float32, gate: np.float32) -> np.float32:
    x, y = value * _HALF, gate * _HALF * _HALF
    x = _LIMIT if x > _LIMIT else (-_LIMIT if x < -_LIMIT else x)
    y = _LIMIT if y > _LIMIT else (-_LIMIT if y < -_LIMIT else y)
    xx, yy = x * x, y * y
    xn, xd = x * (_N0 + xx * (_N1 + xx * (_N2 + xx))), _D0 + xx * (_D1 + xx * (_D2 + xx * _D3))
    yn, yd = y * (_N0 + yy * (_N1 + yy * (_N2 + yy))), _D0 + yy * (_D1 + yy * (_D2 + yy * _D3))
    both = yd + yn
    return np.float32(xn * xd * both * both / ((xn * xn + xd * xd) * (yn * yn + yd * yd)))


@_kernel
def _widened(bits: np.uint16) -> np.float32:
    return np.uint32(np.uint32(bits) << _UPPER).view(np.float32)


@_kernel
def _rounded_at_random(number: np.float32, place: np.uint32) -> np.uint16:
    """Round by 16 bits of a hash of the place (MurmurHash3's finaliser, Appleby 2011), whose carry rounds up."""
    hashed = np.uint32(place * _STEP)
    hashed = np.uint32((hashed ^ np.uint32(hashed >> _UPPER)) * _MIX)
    return np.uint16(np.uint32(np.float32(number).view(np.uint32) + np.uint32(hashed >> _UPPER)) >> _UPPER)


@_kernel
def _gated_float32(both: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    width = out.shape[1]
    for row in range(len(out)):
        value, gate, here = both[row, :width], both[row, width:], out[row]
        for column in range(width):
            here[column] = _one(value[column], gate[column])


@_kernel
def _gated_bfloat16(both: NDArray[np.uint16], out: NDArray[np.uint16], first: np.uint32) -> None:
    width = out.shape[1]
    for row in range(len(out)):
        value, gate, here = both[row, :width], both[row, width:], out[row]
        place = np.uint32(np.uint32(first + np.uint32(row)) * np.uint32(width))
        for column in range(width):
            result = _one(_widened(value[column]), _widened(gate[column]))
            here[column] = _rounded_at_random(result, np.uint32(place + np.uint32(column)))


@_kernel
def _round(sums: NDArray[np.float32], rounded: NDArray[np.uint16], first: np.uint32) -> None:
    width = sums.shape[1]
    for row in range(len(sums)):
        here, to = sums[row], rounded[row]
        place = np.uint32(np.uint32(first + np.uint32(row)) * np.uint32(width))
        for column in range(width):
            to[column] = _rounded_at_random(here[column], np.uint32(place + np.uint32(column)))


@_kernel
def _add_rounded(
    sums: NDArray[np.float32], term: NDArray[np.uint16], rounded: NDArray[np.uint16], first: np.uint32
) -> None:
    width = sums.shape[1]
    for row in range(len(sums)):
        here, add, to = sums[row], term[row], rounded[row]
        place = np.uint32(np.uint32(first + np.uint32(row)) * np.uint32(width))
        for column in range(width):
            total = here[column] + _widened(add[column])
            here[column] = total
            to[column] = _rounded_at_random(total, np.uint32(place + np.uint32(column)))
