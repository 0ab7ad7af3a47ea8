"""DenseNet (Huang et al., CVPR 2017)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from tracegen.tensor.networks import Network
from tracegen.tensor.networks.layers import classifier, conv_norm


def _normed(channels: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(channels), nn.ReLU()]


class Grown(nn.Module):
    """The input and beside it `growth` new channels, made of it through a bottleneck."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        narrow = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        filtered = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.layers = nn.Sequential(*_normed(inputs), narrow, *_normed(4 * growth), filtered)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet(depths: tuple[int, ...], growth: int) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        if stage:
            layers += [*_normed(channels), nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
            channels //= 2
        for _ in range(depth):
            layers.append(Grown(channels, growth))
            channels += growth
    return nn.Sequential(*layers, *_normed(channels), classifier(channels))


NETWORKS = {"densenet121": Network(partial(densenet, (6, 12, 24, 16), 32), 224)}
