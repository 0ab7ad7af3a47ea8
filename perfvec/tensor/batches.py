"""Batches of candidates of any length: padded without a Python loop, made of parts of groups of like length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from perfvec.tensor.metrics import groups_of
from tracegen.tensor.dataset import Rows

Integers = NDArray[np.int64]
_SORTED = 16  # batches whose parts are sorted by length together


@dataclass(frozen=True)
class Batch:
    """B candidates of at most L rows. Padding is zero and has a False mask."""

    x: Tensor  # [B, L, F] features
    mask: Tensor  # [B, L] whether the row is one of the candidate's
    position: Tensor  # [B, L] of a row: in pre-order of the syntax tree, or in the sequence
    parameters: Tensor  # [B, P] of the device, standardised
    device: Tensor  # [B] index of the device among those that the model knows; −1 of an unknown one

    def to(self, device: str | torch.device) -> Batch:
        """The same batch in that device's memory."""
        parts = (self.x, self.mask, self.position, self.parameters, self.device)
        return Batch(*(part.to(device, non_blocking=True) for part in parts))


def pad(rows: Rows, candidates: Integers, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """(x [B, L, F], mask [B, L], position [B, L]) of these candidates; of longer ones the first `most` rows.

    A candidate without rows has one of zeros.
    """
    begin = rows.offset[candidates]
    length = np.minimum(rows.offset[candidates + 1] - begin, most)
    step = np.arange(max(int(length.max(initial=1)), 1))
    real = step[None, :] < length[:, None]
    index = np.where(real, begin[:, None] + step[None, :], 0)
    if not len(rows.values):
        values = np.zeros((*index.shape, rows.values.shape[1]), np.float32)
    else:
        values = rows.values[index]
        values[~real] = 0.0
    position = np.broadcast_to(step, index.shape) if rows.position is None else np.where(real, rows.position[index], 0)
    real[:, 0] = True
    return torch.from_numpy(values), torch.from_numpy(real), torch.from_numpy(np.array(position, np.int64))


def training_batches(
    group: Integers, length: Integers, size: int, most: int, random: np.random.Generator
) -> Iterator[Integers]:
    """One epoch: positions of records, in batches of about `size`, each made of whole parts of groups.

    A part has at most `most` records of one group (ranking losses need company), and parts of like length come
    together, so that little is padding.
    """
    parts: list[Integers] = []
    for rows in groups_of(group):
        shuffled = random.permutation(rows)
        parts += np.array_split(shuffled, -(-len(shuffled) // most))
    order = random.permutation(len(parts))
    together = max(size * _SORTED // most, 1)
    batches: list[Integers] = []
    for start in range(0, len(order), together):
        near = sorted((parts[index] for index in order[start : start + together]), key=lambda c: int(length[c].max()))
        batches += _filled(near, size)
    for index in random.permutation(len(batches)):
        yield batches[index]


def steps_of_pass(group: Integers, size: int, most: int) -> int:
    """Return about how many `training_batches` a pass has: which parts come together is drawn."""
    parts = [len(part) for rows in groups_of(group) for part in np.array_split(rows, -(-len(rows) // most))]
    together = max(size * _SORTED // most, 1)
    return sum(-(-sum(parts[start : start + together]) // size) for start in range(0, len(parts), together))


def prediction_batches(length: Integers, size: int) -> Iterator[Integers]:
    """All positions once, candidates of like length together."""
    order = np.argsort(length, kind="stable")
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _filled(parts: list[Integers], size: int) -> list[Integers]:
    batches, current, held = [], [], 0
    for part in parts:
        current.append(part)
        held += len(part)
        if held >= size:
            batches.append(np.concatenate(current))
            current, held = [], 0
    if current:
        batches.append(np.concatenate(current))
    return batches
