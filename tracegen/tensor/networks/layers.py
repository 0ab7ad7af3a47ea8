"""Layers that several networks share."""

from __future__ import annotations

from torch import Tensor, nn


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int] = 1,
    stride: int = 1,
    groups: int = 1,
    padding: int | tuple[int, int] | None = None,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution, batch normalisation, activation; padded to keep the size unless `padding` is given."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    around = (height // 2, width // 2) if padding is None else padding
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, (height, width), stride, around, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)


class SqueezeExcite(nn.Module):
    """Channels weighted by a gate that two dense layers make of their means (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.gate = nn.Sequential(
            nn.Conv2d(channels, squeezed, 1), nn.ReLU(), nn.Conv2d(squeezed, channels, 1), nn.Hardsigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.pool(x))


def classifier(channels: int, classes: int = 1000) -> nn.Sequential:
    """Global average pooling and a dense layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
