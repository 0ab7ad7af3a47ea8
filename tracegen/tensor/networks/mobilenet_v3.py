"""MobileNetV3 (Howard et al., ICCV 2019)."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from tracegen.tensor.networks import Network
from tracegen.tensor.networks.layers import SqueezeExcite, conv_norm

# kernel, expanded channels, output channels, squeeze-and-excite, hard swish, stride (tables 1 and 2)
_LARGE = (
    (3, 16, 16, 0, 0, 1),
    (3, 64, 24, 0, 0, 2),
    (3, 72, 24, 0, 0, 1),
    (5, 72, 40, 1, 0, 2),
    (5, 120, 40, 1, 0, 1),
    (5, 120, 40, 1, 0, 1),
    (3, 240, 80, 0, 1, 2),
    (3, 200, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1),
    (3, 480, 112, 1, 1, 1),
    (3, 672, 112, 1, 1, 1),
    (5, 672, 160, 1, 1, 2),
    (5, 960, 160, 1, 1, 1),
    (5, 960, 160, 1, 1, 1),
)
_SMALL = (
    (3, 16, 16, 1, 0, 2),
    (3, 72, 24, 0, 0, 2),
    (3, 88, 24, 0, 0, 1),
    (5, 96, 40, 1, 1, 2),
    (5, 240, 40, 1, 1, 1),
    (5, 240, 40, 1, 1, 1),
    (5, 120, 48, 1, 1, 1),
    (5, 144, 48, 1, 1, 1),
    (5, 288, 96, 1, 1, 2),
    (5, 576, 96, 1, 1, 1),
    (5, 576, 96, 1, 1, 1),
)


def _eighths(channels: int) -> int:
    return max(8, (channels + 4) // 8 * 8)


class Block(nn.Module):
    """An inverted residual with a gate."""

    def __init__(self, inputs: int, kernel: int, wide: int, outputs: int, gate: int, swish: int, stride: int) -> None:
        super().__init__()
        activation = nn.Hardswish if swish else nn.ReLU
        layers: list[nn.Module] = [conv_norm(inputs, wide, activation=activation)] if wide != inputs else []
        layers.append(conv_norm(wide, wide, kernel, stride, groups=wide, activation=activation))
        if gate:
            layers.append(SqueezeExcite(wide, _eighths(wide // 4)))
        layers.append(conv_norm(wide, outputs, activation=None))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v3(blocks: tuple[tuple[int, ...], ...], dense: int) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 16, 3, 2, activation=nn.Hardswish)]
    channels = 16
    for kernel, wide, outputs, gate, swish, stride in blocks:
        layers.append(Block(channels, kernel, wide, outputs, gate, swish, stride))
        channels = outputs
    last = channels * 6
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, dense), nn.Hardswish(), nn.Linear(dense, 1000)]
    return nn.Sequential(*layers, conv_norm(channels, last, activation=nn.Hardswish), *head)


NETWORKS = {
    "mobilenet_v3_large": Network(partial(mobilenet_v3, _LARGE, 1280), 224),
    "mobilenet_v3_small": Network(partial(mobilenet_v3, _SMALL, 1024), 224),
}
