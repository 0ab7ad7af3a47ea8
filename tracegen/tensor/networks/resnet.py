"""ResNet (He et al., CVPR 2016)."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from tracegen.tensor.networks import Network
from tracegen.tensor.networks.layers import classifier, conv_norm


class Residual(nn.Module):
    """A block's layers beside its input, which a 1×1 convolution fits where the shape changes."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            layers = [conv_norm(inputs, width), conv_norm(width, width, 3, stride)]
            layers.append(conv_norm(width, outputs, activation=None))
        else:
            layers = [conv_norm(inputs, outputs, 3, stride), conv_norm(outputs, outputs, 3, activation=None)]
        self.layers = nn.Sequential(*layers)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv_norm(inputs, outputs, stride=stride, activation=None)
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.layers(x) + self.shortcut(x))


def resnet(depths: tuple[int, ...], bottleneck: bool) -> nn.Module:
    """`depths` blocks at each of four sizes."""
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        outputs = width * 4 if bottleneck else width
        for block in range(depth):
            layers.append(Residual(channels, width, outputs, 2 if stage and not block else 1, bottleneck))
            channels = outputs
    return nn.Sequential(*layers, classifier(channels))


NETWORKS = {
    "resnet18": Network(partial(resnet, (2, 2, 2, 2), False), 224),
    "resnet34": Network(partial(resnet, (3, 4, 6, 3), False), 224),
    "resnet50": Network(partial(resnet, (3, 4, 6, 3), True), 224),
}
