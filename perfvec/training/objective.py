"""The objective of training: errors relative to mean latencies, of the table's machines and of the encoder's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from perfvec.machines.encoder import MachineEncoder
from perfvec.model import FoundationModel
from perfvec.training.data import Shard
from perfvec.training.loss import averaged_loss, difference_loss

_ENCODED, _CHANGES = 0.5, 1.0  # weights in the loss: rows told by the encoder, and differences between two machines


@dataclass(frozen=True)
class Scales:
    """Mean latencies by which labels are scaled: of each machine, and of each shard on it."""

    machine: Tensor  # [U] geometric mean over the shards
    shard: Tensor  # [shards, U]


def scales_of(shards: Sequence[Shard]) -> Scales:
    mean = np.stack([shard.mean for shard in shards])
    machine = np.exp(np.log(np.maximum(mean, 1e-6)).mean(axis=0))
    return Scales(torch.from_numpy(machine).float(), torch.from_numpy(mean).float())


class Objective(nn.Module):
    """The loss of a batch of sequences. One module, so that DistributedDataParallel can wrap all of a step."""

    def __init__(
        self,
        foundation: FoundationModel,
        machine_scale: Tensor,
        warmup: int,
        bf16: bool,
        together: MachineEncoder | None = None,
    ) -> None:
        super().__init__()
        self.foundation, self.warmup, self.bf16, self.together = foundation, warmup, bf16, together
        self.register_buffer("machine_scale", machine_scale)
        self.machine_scale: Tensor

    def forward(
        self,
        x: Tensor,
        present: Tensor,
        latency: Tensor,
        relative: Tensor,
        encoded: Tensor | None = None,
        sampled: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Return the loss of `x` [warmup + T, B, F], `present` [warmup + T, B], `latency` [T, B, U] and `relative` [B,
        U], the mean latency that each error counts against.

        `encoded` [U, F'] are those machines' configurations, by which the encoder tells their times as well. With
        `sampled` x has S sequences more; it has their latency [T, S, M], relative [S, M] and the configurations
        [S, M, F'] that each is labelled on.
        """
        # Before a trace's start the input is its mean: as if nothing were known.
        x = torch.where(present[..., None], x, self.foundation.mean)
        r, _ = self.foundation(x, bf16=self.bf16)
        r = r[self.warmup :]
        rows = r[:, : latency.shape[1]]
        predicted = self.foundation.head(rows)
        loss = averaged_loss(predicted * (self.machine_scale / relative) - latency / relative)
        if self.together is None or encoded is None or sampled is None:
            return loss
        vectors = self.together(encoded)
        loss = loss + _ENCODED * averaged_loss((rows @ vectors.T - latency) / relative)
        latency, relative, features = sampled
        vectors = self.together(features.flatten(0, 1)).unflatten(0, features.shape[:2])  # [S, M, d]
        predicted = torch.einsum("tsd,smd->tsm", r[:, rows.shape[1] :], vectors)
        error = (predicted - latency) / relative
        pair = relative.unflatten(-1, (-1, 2))[..., :1].expand(-1, -1, 2).flatten(-2)
        change = (predicted - latency) / pair
        return loss + averaged_loss(error) + _CHANGES * difference_loss(change)
