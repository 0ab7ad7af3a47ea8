"""ShuffleNetV2 (Ma et al., ECCV 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tracegen.tensor.networks import Network
from tracegen.tensor.networks.layers import classifier, conv_norm


class Unit(nn.Module):
    """Half of the channels pass, half are filtered (all where the size halves); then the halves are mixed."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.split = stride == 1
        entering, half = inputs // 2 if self.split else inputs, outputs // 2
        self.passing: nn.Module = nn.Identity()
        if not self.split:
            filtered = conv_norm(inputs, inputs, 3, 2, groups=inputs, activation=None)
            self.passing = nn.Sequential(filtered, conv_norm(inputs, half))
        self.layers = nn.Sequential(
            conv_norm(entering, half),
            conv_norm(half, half, 3, stride, groups=half, activation=None),
            conv_norm(half, half),
        )

    def forward(self, x: Tensor) -> Tensor:
        passing, entering = torch.chunk(x, 2, 1) if self.split else (x, x)
        mixed = torch.stack([self.passing(passing), self.layers(entering)], 2)
        return mixed.flatten(1, 2)


def shufflenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for outputs, repeats in ((116, 4), (232, 8), (464, 4)):
        for unit in range(repeats):
            layers.append(Unit(channels, outputs, 1 if unit else 2))
            channels = outputs
    return nn.Sequential(*layers, conv_norm(channels, 1024), classifier(1024))


NETWORKS = {"shufflenet_v2": Network(shufflenet_v2, 224)}
