"""Pairs of machines of which the second is not slower: it has twice as much of one thing, or waits half as long.

That a larger cache of the same latency costs no time is known of every program, while labels of a few thousand windows
say it only roughly. The encoder learns from such pairs without any label: where its time grows, it is wrong. Simulated
times have exceptions (a prefetcher that fetches too much into a larger window), which the loss outweighs where labels
show them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from perfvec.machines.features import CACHES, features_of_machines
from support.errors import InputError
from uarch.configuration import Machine, flatten, replace_field
from uarch.space import sample

SIZES = tuple(f"{cache}.size_kib" for cache in CACHES)
_WAITING = ("latency", "delay")
_LEAST = 0.05  # cycles an instruction: no machine takes less, and what is predicted so is no measure
_EITHER_WAY = ("frequency_ghz", "associativity")  # more cycles of a miss; other conflicts


def not_slower(count: int, seed: int, fields: Iterable[str] | None = None) -> Tensor:
    """[n, 2, F] features of up to `count` machines of the default space, and of each with one of the `fields` better,
    by default any number that has a better direction. A machine that none of these makes a valid one is left out.
    """
    generator = np.random.default_rng(seed)
    pairs: list[Machine] = []
    for machine in sample(count, seed):
        other = better(machine, generator, fields)
        pairs += [machine, other] if other is not None else []
    return torch.from_numpy(features_of_machines(pairs)).unflatten(0, (-1, 2))


def better(machine: Machine, generator: np.random.Generator, fields: Iterable[str] | None = None) -> Machine | None:
    """The machine with one of these fields twice as large, a latency or delay half; None where none can be."""
    values = flatten(machine.to_dict())
    chosen = [field for field in fields or values if _has_direction(field, values.get(field))]
    for field in generator.permutation(chosen):
        value = values[field]
        other = value / 2 if any(word in field for word in _WAITING) else value * 2
        with suppress(InputError):  # beyond a field's bounds, or against another's
            found = replace_field(machine, str(field), type(value)(other))
            if found != machine:
                return found
    return None


def _has_direction(field: str, value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and not any(word in field for word in _EITHER_WAY)


def excess(encoder: torch.nn.Module, pairs: Tensor, vectors: Tensor) -> Tensor:
    """[n, W] by how much of its time the encoder has the second machine of `pairs` [n, 2, F] slower, for the program
    vectors [W, d], latencies of an instruction; 0 where it is not.
    """
    first, second = encoder(pairs.flatten(0, 1)).unflatten(0, pairs.shape[:2]).unbind(1)
    cycles = first @ vectors.T
    return torch.relu((second @ vectors.T - cycles) / cycles.abs().clamp(min=_LEAST).detach())
