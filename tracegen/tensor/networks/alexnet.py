"""AlexNet (Krizhevsky et al., NeurIPS 2012), in the single-tower form of Krizhevsky 2014."""

from __future__ import annotations

from torch import nn

from tracegen.tensor.networks import Network


def alexnet() -> nn.Module:
    """Five convolutions, three of them followed by pooling, and three dense layers."""
    layers: list[nn.Module] = []
    channels = 3
    for outputs, kernel, stride, padding, pooled in (
        (64, 11, 4, 2, True),
        (192, 5, 1, 2, True),
        (384, 3, 1, 1, False),
        (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ):
        layers += [nn.Conv2d(channels, outputs, kernel, stride, padding), nn.ReLU()]
        if pooled:
            layers.append(nn.MaxPool2d(3, 2))
        channels = outputs
    dense = [nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(6), nn.Flatten(), *dense)


NETWORKS = {"alexnet": Network(alexnet, 224)}
