"""The training loss: errors of sums of consecutive latencies, from single instructions to a whole sequence."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

LENGTHS = ((1, 0.02), (16, 0.3), (96, 1.0), (288, 1.0))  # instructions averaged over, weight in the loss
OUTLIER = 4.0  # mean latencies


def difference_loss(error: Tensor) -> Tensor:
    """Loss of what changes cost, from the errors [T, B, M] of pairs of machines, two and two along the last dimension:
    of the whole sequence, relative to the first one's time.
    """
    pairs = error.mean(dim=0).unflatten(-1, (-1, 2))
    change = pairs[..., 1] - pairs[..., 0]
    return 2 * huber_loss(change, torch.zeros_like(change), delta=OUTLIER)


def averaged_loss(error: Tensor) -> Tensor:
    """Weighted mean of the squared mean error over `LENGTHS` of consecutive instructions; error is [T, B, U].

    Beyond OUTLIER an error counts linearly (Huber 1964): what one instruction cannot express, such as a `rep stosb`
    of tens of thousands of cycles, would otherwise rule the gradient.
    """
    total = error.new_zeros(())
    means, length = error, 1
    for longer, weight in LENGTHS:
        means = means.unflatten(0, (-1, longer // length)).mean(dim=1)
        length = longer
        total = total + weight * 2 * huber_loss(means, torch.zeros_like(means), delta=OUTLIER)
    return total
