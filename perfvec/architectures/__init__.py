"""Architectures of the foundation model, all behind one contract. `ARCHITECTURES` lists them by name."""

from __future__ import annotations

from collections.abc import Mapping

from perfvec.architectures.contract import Architecture, State
from perfvec.architectures.convolution import Convolution
from perfvec.architectures.gru import Gru
from perfvec.architectures.linear import Linear
from perfvec.architectures.lstm import Lstm
from perfvec.architectures.mlp import Mlp
from perfvec.architectures.transformer import Transformer
from support.errors import InputError

ARCHITECTURES: dict[str, type[Architecture]] = {
    "lstm": Lstm,
    "gru": Gru,
    "convolution": Convolution,
    "transformer": Transformer,
    "linear": Linear,
    "mlp": Mlp,
}

__all__ = ["ARCHITECTURES", "Architecture", "State", "build", "complete"]


def complete(name: str, numbers: Mapping[str, int]) -> dict[str, int]:
    """The numbers of the architecture `name`: its defaults, with these instead. InputError for unknown names."""
    if name not in ARCHITECTURES:
        raise InputError(f"unknown architecture {name!r}; this release has {', '.join(ARCHITECTURES)}")
    known = ARCHITECTURES[name].NUMBERS
    if unknown := sorted(set(numbers) - set(known)):
        having = f"it has {', '.join(known)}" if known else "it has none but width and layers"
        raise InputError(f"the architecture {name} has no number {unknown[0]!r}; {having}")
    if small := [key for key, value in numbers.items() if value < 1]:
        raise InputError(f"the architecture's {small[0]} is {numbers[small[0]]}; it must be at least 1")
    return {**known, **numbers}


def build(name: str, inputs: int, width: int, layers: int, numbers: Mapping[str, int]) -> Architecture:
    """The architecture `name` with random weights. Raises InputError for an unknown name or impossible numbers."""
    numbers = complete(name, numbers)
    return ARCHITECTURES[name](inputs, width, layers, **numbers)
