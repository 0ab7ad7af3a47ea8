"""MLP-Mixer (Tolstikhin et al., NeurIPS 2021)."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from tracegen.tensor.networks import Network


def _dense(width: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class Mixer(nn.Module):
    """Dense layers over the patches of each channel, then over the channels of each patch."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norm_patches, self.norm_channels = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_patches, self.over_channels = _dense(patches, width // 2), _dense(width, width * 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.over_patches(self.norm_patches(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.norm_channels(x))


class MlpMixer(nn.Module):
    """`blocks` mixers over patches of `patch`² pixels."""

    def __init__(self, width: int, blocks: int, size: int, patch: int = 16) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(Mixer((size // patch) ** 2, width) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.embed(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))


NETWORKS = {"mlp_mixer_s16": Network(partial(MlpMixer, 512, 8), 224, sized=True)}
