"""Layers that several networks share."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with a ReLU after each; weights as He et al. 2015: depth loses no signal."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        linear = nn.Linear(inputs, outputs)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers)


def encoder(width: int, layers: int, heads: int, feed: int, dropout: float) -> nn.TransformerEncoder:
    """Self-attention layers (Vaswani et al. 2017) that normalise first; `forward(x, src_key_padding_mask=padding)`."""
    layer = nn.TransformerEncoderLayer(
        width, heads, dim_feedforward=feed, dropout=dropout, batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)


def weighted(layers: nn.TransformerEncoder, x: Tensor, weight: Tensor) -> Tensor:
    """The encoder over x [B, L, width], with `weight` [B, L] added to the logarithms of the attention to each row.

    PyTorch's fused path, which it takes where no gradient is wanted, would read the weights as a mask.
    """
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        found: Tensor = layers(x, src_key_padding_mask=weight)
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    return found


def total(x: Tensor, mask: Tensor) -> Tensor:
    """[B, …] sum over the real rows of x [B, L, …]."""
    return (x * mask.view(*mask.shape, *([1] * (x.ndim - 2)))).sum(1)


def mean(x: Tensor, mask: Tensor) -> Tensor:
    """[B, d] mean over the real rows of x [B, L, d]."""
    return total(x, mask) / mask.sum(1, keepdim=True).clamp(min=1)


def sinusoids(position: Tensor, width: int) -> Tensor:
    """[…, width] sines and cosines of positions […] at geometric wavelengths from 2π to 10000·2π."""
    half = (width + 1) // 2
    rate = torch.exp(torch.arange(half, device=position.device) * (-math.log(10000.0) / max(half, 1)))
    angle = position[..., None].float() * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :width]


class DeviceEncoder(nn.Module):
    """Two layers from a device's parameters [B, P] to a vector [B, width], zero before training."""

    def __init__(self, parameters: int, width: int) -> None:
        super().__init__()
        self.enter = nn.Linear(parameters, width)
        self.leave = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.leave.weight)

    def forward(self, parameters: Tensor) -> Tensor:
        return self.leave(torch.relu(self.enter(parameters)))
