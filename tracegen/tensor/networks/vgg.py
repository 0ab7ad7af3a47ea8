"""VGG (Simonyan and Zisserman, ICLR 2015)."""

from __future__ import annotations

from functools import partial

from torch import nn

from tracegen.tensor.networks import Network


def vgg(depths: tuple[int, ...]) -> nn.Module:
    """`depths` 3×3 convolutions at each of five sizes, three dense layers."""
    layers: list[nn.Module] = []
    channels = 3
    for stage, depth in enumerate(depths):
        for _ in range(depth):
            outputs = min(64 << stage, 512)
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU()]
            channels = outputs
        layers.append(nn.MaxPool2d(2, 2))
    dense = [nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *dense)


NETWORKS = {"vgg11": Network(partial(vgg, (1, 1, 2, 2, 2)), 224), "vgg16": Network(partial(vgg, (2, 2, 3, 3, 3)), 224)}
