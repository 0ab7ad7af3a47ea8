"""Central moment discrepancy: how far apart two clouds of latent vectors are.

CMD_K(X, Y) = ‖E X − E Y‖ / |b − a| + Σ_{k=2…K} ‖C_k(X) − C_k(Y)‖ / |b − a|^k, where C_k is the vector of the k-th
central moments of each coordinate and [a, b] bounds the coordinates (Zellinger et al., ICLR 2017, definition 2; CDMPP
regularises the latent space of its predictor by it).
"""

from __future__ import annotations

import torch
from torch import Tensor


def central_moment_discrepancy(
    x: Tensor, y: Tensor, *, moments: int = 5, low: float = -1.0, high: float = 1.0
) -> Tensor:
    """CMD of samples `x` [n, d] and `y` [m, d] whose coordinates lie within [low, high]; a scalar ≥ 0."""
    span = high - low
    mean_x, mean_y = x.mean(0), y.mean(0)
    total = _norm(mean_x - mean_y) / span
    centred_x, centred_y = x - mean_x, y - mean_y
    for order in range(2, moments + 1):
        total = total + _norm((centred_x**order).mean(0) - (centred_y**order).mean(0)) / span**order
    return total


def _norm(vector: Tensor) -> Tensor:
    """The Euclidean norm, with a finite gradient at zero."""
    return torch.sqrt(vector.square().sum() + 1e-24)
