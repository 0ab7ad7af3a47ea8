"""Inception-v3 (Szegedy et al., CVPR 2016), without the auxiliary classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tracegen.tensor.networks import Network
from tracegen.tensor.networks.layers import classifier, conv_norm


class Parallel(nn.Module):
    """Branches over the same input, their channels side by side."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _pooled(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv_norm(inputs, outputs))


def _blocks_35(inputs: int, pooled: int) -> nn.Module:
    return Parallel(
        conv_norm(inputs, 64),
        nn.Sequential(conv_norm(inputs, 48), conv_norm(48, 64, 5)),
        nn.Sequential(conv_norm(inputs, 64), conv_norm(64, 96, 3), conv_norm(96, 96, 3)),
        _pooled(inputs, pooled),
    )


def _blocks_17(inputs: int, width: int) -> nn.Module:
    """n×n convolutions in two steps (figure 6)."""
    long = [conv_norm(inputs, width), conv_norm(width, width, (7, 1)), conv_norm(width, width, (1, 7))]
    return Parallel(
        conv_norm(inputs, 192),
        nn.Sequential(conv_norm(inputs, width), conv_norm(width, width, (1, 7)), conv_norm(width, 192, (7, 1))),
        nn.Sequential(*long, conv_norm(width, width, (7, 1)), conv_norm(width, 192, (1, 7))),
        _pooled(inputs, 192),
    )


def _blocks_8(inputs: int) -> nn.Module:
    """A wide block at the coarsest size (figure 7)."""

    def split() -> nn.Module:
        return Parallel(conv_norm(384, 384, (1, 3)), conv_norm(384, 384, (3, 1)))

    return Parallel(
        conv_norm(inputs, 320),
        nn.Sequential(conv_norm(inputs, 384), split()),
        nn.Sequential(conv_norm(inputs, 448), conv_norm(448, 384, 3), split()),
        _pooled(inputs, 192),
    )


def inception_v3() -> nn.Module:
    shrink_35 = Parallel(
        conv_norm(288, 384, 3, 2, padding=0),
        nn.Sequential(conv_norm(288, 64), conv_norm(64, 96, 3), conv_norm(96, 96, 3, 2, padding=0)),
        nn.MaxPool2d(3, 2),
    )
    shrink_17 = Parallel(
        nn.Sequential(conv_norm(768, 192), conv_norm(192, 320, 3, 2, padding=0)),
        nn.Sequential(
            conv_norm(768, 192),
            conv_norm(192, 192, (1, 7)),
            conv_norm(192, 192, (7, 1)),
            conv_norm(192, 192, 3, 2, padding=0),
        ),
        nn.MaxPool2d(3, 2),
    )
    return nn.Sequential(
        conv_norm(3, 32, 3, 2, padding=0),
        conv_norm(32, 32, 3, padding=0),
        conv_norm(32, 64, 3),
        nn.MaxPool2d(3, 2),
        conv_norm(64, 80, padding=0),
        conv_norm(80, 192, 3, padding=0),
        nn.MaxPool2d(3, 2),
        _blocks_35(192, 32),
        _blocks_35(256, 64),
        _blocks_35(288, 64),
        shrink_35,
        _blocks_17(768, 128),
        _blocks_17(768, 160),
        _blocks_17(768, 160),
        _blocks_17(768, 192),
        shrink_17,
        _blocks_8(1280),
        _blocks_8(2048),
        classifier(2048),
    )


NETWORKS = {"inception_v3": Network(inception_v3, 299)}
