"""MobileNetV2 (Sandler et al., CVPR 2018)."""

from __future__ import annotations

from torch import Tensor, nn

from tracegen.tensor.networks import Network
from tracegen.tensor.networks.layers import classifier, conv_norm

# expansion, output channels, blocks, stride of the first (table 2)
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class InvertedResidual(nn.Module):
    """Expand, filter each channel by itself, project."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers: list[nn.Module] = [conv_norm(inputs, wide, activation=nn.ReLU6)] if expansion > 1 else []
        layers.append(conv_norm(wide, wide, 3, stride, groups=wide, activation=nn.ReLU6))
        layers.append(conv_norm(wide, outputs, activation=None))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2, activation=nn.ReLU6)]
    channels = 32
    for expansion, outputs, blocks, stride in _STAGES:
        for block in range(blocks):
            layers.append(InvertedResidual(channels, outputs, 1 if block else stride, expansion))
            channels = outputs
    return nn.Sequential(*layers, conv_norm(channels, 1280, activation=nn.ReLU6), classifier(1280))


NETWORKS = {"mobilenet_v2": Network(mobilenet_v2, 224)}
