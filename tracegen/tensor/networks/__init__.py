"""Real networks in plain PyTorch, sizes and batch as parameters: where tensor programs come from.

To add one, write a family's file
with a `NETWORKS` table of its own and name it in `_FAMILIES`. Weights are not initialised: only shapes matter here.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

_FAMILIES = (
    "resnet",
    "mobilenet_v2",
    "mobilenet_v3",
    "alexnet",
    "vgg",
    "inception",
    "squeezenet",
    "densenet",
    "shufflenet",
    "mlp_mixer",
    "transformer",
)


@dataclass(frozen=True)
class Network:
    """`build()` makes the module (`build(size=…)` where `sized`: where the weights' shapes depend on it).

    `layers`: how many alike layers it has, where `build(…, blocks=N)` makes it with N of them; 0 where its layers
    differ. It reads images of 3 × `size` × `size`, or where `tokens` sequences of `size` token numbers.
    """

    build: Callable[..., nn.Module]
    size: int
    tokens: bool = False
    sized: bool = False
    layers: int = 0

    def shapes(self, size: int | None = None, layers: int | None = None) -> nn.Module:
        """The network without weights, with so many of its layers (all by default)."""
        import torch

        options = {"size": size or self.size} if self.sized else {}
        if self.layers:
            options["blocks"] = layers or self.layers
        with torch.device("meta"):
            return self.build(**options)

    def module(self, size: int | None = None, layers: int | None = None) -> nn.Module:
        """The network, for inference, its weights zero."""
        import torch

        module = self.shapes(size, layers)
        module = module.to_empty(device="cpu").eval()
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                tensor.zero_()
        return module

    def example(self, batch: int = 1, size: int | None = None) -> Tensor:
        """An input of the right shape and type."""
        import torch

        side = size or self.size
        if self.tokens:
            return torch.zeros((batch, side), dtype=torch.int64)
        return torch.zeros((batch, 3, side, side))


def networks() -> dict[str, Network]:
    """All networks by name."""
    found: dict[str, Network] = {}
    for family in _FAMILIES:
        found |= importlib.import_module(f"{__name__}.{family}").NETWORKS
    return found


def network_named(name: str) -> Network:
    """The network called `name`; InputError names the valid ones."""
    known = networks()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
        raise InputError(f"there is no network {name!r}; {hint}")
    return known[name]
