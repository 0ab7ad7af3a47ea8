"""Muon for matrices, Adam for the rest.

Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon) makes the momentum of a matrix orthogonal before it steps
along it, so that every direction of the matrix moves alike; rare features, whose gradients are small, are learned as
soon as common ones. A recurrent layer stacks its gates in one matrix: each gate is made orthogonal by itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from perfvec.eager import AdamW
from perfvec.model import FoundationModel

OPTIMIZERS = ("muon", "adam")
_MOMENTUM = 0.95
_BETAS, EPSILON = (0.9, 0.999), 1e-8
# Coefficients of the quintic iteration that the authors give: fast rather than exact, singular values end near 1.
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest (semi-)orthogonal ones of `matrices` [K, m, n], roughly: singular values from about 0.7 to 1.2."""
    wide = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if wide else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-9)
    a, b, c = _QUINTIC
    for _ in range(_ITERATIONS):
        square = x @ x.transpose(1, 2)
        x = a * x + (b * square + c * square @ square) @ x
    return x.transpose(1, 2) if wide else x


class Muon(AdamW):
    """Groups with `rows` > 0 hold matrices [K·rows, n] of K stacked ones and are stepped by Muon, the others by AdamW.

    Each group's `peak` is its largest learning rate; `lr` is what the schedule makes of it. `torch.optim.Muon` takes a
    parameter as one matrix: it would make the four gates of a recurrent layer orthogonal together. A step of two such
    stacks [4·256, 256] takes 52 ms, torch's 1,331 ms, which rounds to bfloat16 (`benchmarks/libraries.py`, 2026-11-25,
    two cores of an AMD EPYC virtual machine).
    """

    def __init__(self, groups: list[dict[str, Any]], *, weight_decay: float = 0.0) -> None:
        super().__init__(groups, betas=_BETAS, eps=EPSILON, weight_decay=weight_decay)
        for group in self.param_groups:
            group["lr"] = group["peak"]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step of every parameter that has a gradient; `closure` is not used."""
        every = self.param_groups
        for group in every:
            for parameter in group["params"] if group["rows"] else ():
                if parameter.grad is not None:
                    parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                    self._step_matrix(parameter, parameter.grad, group)
        self.param_groups = [group for group in every if not group["rows"]]
        try:
            super().step()
        finally:
            self.param_groups = every

    def _step_matrix(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
            state["step"] = torch.zeros(())  # AdamW looks for it in every state that it loads
        state["momentum"].lerp_(gradient, 1.0 - _MOMENTUM)
        ahead = gradient.lerp(state["momentum"], _MOMENTUM)  # Nesterov's
        stacked = ahead.reshape(-1, group["rows"], parameter.shape[1])
        scale = max(1.0, group["rows"] / parameter.shape[1]) ** 0.5
        parameter.add_(orthogonal(stacked).reshape(parameter.shape), alpha=-group["lr"] * scale)


def optimizer_for(
    foundation: FoundationModel,
    kind: str,
    *,
    rate: float,
    muon_lr: float,
    weight_decay: float,
    beside: nn.Module | None = None,
) -> Muon:
    """The optimizer of a foundation model: `adam` at `rate` throughout, or `muon` with the architecture's matrices at
    `muon_lr`. The head, whose rows are machines, vectors and all of the module `beside` are Adam's.
    """
    matrices: dict[int, list[Tensor]] = {}
    others: list[Tensor] = []
    inside = {id(parameter) for parameter in foundation.architecture.parameters() if parameter.ndim == 2}
    for parameter in foundation.parameters():
        if kind == "muon" and id(parameter) in inside:
            rows = foundation.width if len(parameter) % foundation.width == 0 else len(parameter)
            matrices.setdefault(rows, []).append(parameter)
        else:
            others.append(parameter)
    others += list(beside.parameters()) if beside is not None else []
    groups: list[dict[str, Any]] = [{"params": others, "peak": rate, "rows": 0}]
    groups += [{"params": of, "peak": muon_lr, "rows": rows} for rows, of in sorted(matrices.items())]
    return Muon(groups, weight_decay=weight_decay)
