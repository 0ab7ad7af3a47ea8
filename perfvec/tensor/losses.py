"""Losses of cost models: errors of values, and orders of candidates of one group.

Every loss is a scalar; lower is better. `output` and `relevance` are higher for faster candidates. Ranking losses
compare candidates of the same group (one task on one device) only, `group` [n] says which.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss, softplus


def mse(output: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of [n] values."""
    return (output - target).square().mean()


def rmse(output: Tensor, target: Tensor) -> Tensor:
    """Root of the mean squared error of [n] values (ATFormer's alternative to the ranking loss)."""
    return torch.sqrt((output - target).square().mean() + 1e-12)


def huber(output: Tensor, target: Tensor, width: float = 0.125) -> Tensor:
    """Mean of e²/(2·width) up to |e| = width and |e| − width/2 beyond, of [n] errors e: large ones count less."""
    return smooth_l1_loss(output, target, beta=width)


def mape(seconds: Tensor, measured: Tensor) -> Tensor:
    """Mean absolute error as a fraction of what was measured, of [n] latencies."""
    return ((seconds - measured).abs() / measured).mean()


def pairwise_rank(output: Tensor, relevance: Tensor, group: Tensor) -> Tensor:
    """Mean of log(1 + exp(−(o_i − o_j))) over all pairs of a group where i is faster than j (RankNet, Burges 2005)."""
    ahead = _ahead(relevance, group)
    pairs = ahead.sum().clamp(min=1)
    return (softplus(output[None, :] - output[:, None]) * ahead).sum() / pairs


def lambda_rank(output: Tensor, relevance: Tensor, group: Tensor) -> Tensor:
    """RankNet's loss with every pair weighted by |ΔNDCG|, what exchanging the two would change (Burges 2010, §4).

    Gains are 2^relevance − 1, discounts 1/log2(1 + rank) by the current outputs, both within the group; summed over
    pairs, averaged over the groups. `relevance` [n] ≥ 0.
    """
    same = group[:, None] == group[None, :]
    ahead = _ahead(relevance, group)
    with torch.no_grad():
        rank = 1 + (same & _before(output)).sum(1)
        ideal_rank = 1 + (same & _before(relevance)).sum(1)
        gain = torch.exp2(relevance) - 1
        ideal = (same * (gain / torch.log2(1.0 + ideal_rank))[None, :]).sum(1).clamp(min=1e-12)
        discount = 1 / torch.log2(1.0 + rank)
        weight = (gain[:, None] - gain[None, :]).abs() * (discount[:, None] - discount[None, :]).abs() / ideal[:, None]
    groups = max(len(torch.unique(group)), 1)
    return (softplus(output[None, :] - output[:, None]) * weight * ahead).sum() / groups


def _ahead(relevance: Tensor, group: Tensor) -> Tensor:
    """[n, n]: whether i and j are of one group and i is the faster."""
    return (group[:, None] == group[None, :]) & (relevance[:, None] > relevance[None, :])


def _before(values: Tensor) -> Tensor:
    """[n, n]: whether j stands before i when values fall; equal values stand as they come."""
    index = torch.arange(len(values), device=values.device)
    tie = (values[None, :] == values[:, None]) & (index[None, :] < index[:, None])
    return (values[None, :] > values[:, None]) | tie
