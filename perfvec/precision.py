"""bfloat16 where the processor multiplies it natively, float32 elsewhere; the weights are the same numbers in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from perfvec.architectures import State
from perfvec.architectures.contract import absorb_into
from perfvec.model import FoundationModel
from perfvec.projection import Projection

_CPUINFO = Path("/proc/cpuinfo")


def native_bf16(device: torch.device | None = None) -> bool:
    """Return whether matrix products in bfloat16 are faster than in float32 on this device (default: the processor)."""
    if device is not None and device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        return fast_bf16(_CPUINFO.read_text())
    except OSError:
        return False


def fast_bf16(cpuinfo: str) -> bool:
    """Return whether the processor that /proc/cpuinfo describes so multiplies bfloat16 at more than float32's rate.

    By AMX's tiles, or by AVX-512's dot products where these have the width of its other products. Intel's cores have
    them in one of two units and without AMX lose by them: 80 GFLOP/s where float32 has 160 (Emerald Rapids VM whose
    AMX is hidden, one core, PyTorch 2.13, 2026-11-23); AMD's do not: 207 and 93 (Zen 4), 415 and 100 (Zen 5;
    `benchmarks/libraries.py`).
    """
    words = set(cpuinfo.split())
    return "amx_bf16" in words or ("avx512_bf16" in words and "GenuineIntel" not in words)


@contextmanager
def flushed_subnormals() -> Iterator[None]:
    """Numbers below the least normal one are 0 meanwhile, in this thread and those that it starts; then as before.

    Gradients reach down to them, and an Intel core takes a hundred cycles and more for each.
    """
    flushed = float(torch.tensor(torch.finfo(torch.float32).tiny).mul(0.5)) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


class Rounded(FoundationModel):
    """A trained model with weights and biases that bfloat16 has, of features as they are instead of normalised ones.

    What bfloat16 changes is mostly the rounding of the weights, which does not average out where a program repeats the
    same few instructions. Here that is done once, for both precisions. Normalisation is part of the first layer's
    weights, so that inputs are mostly 0 and 1, which bfloat16 has too. A skip connection stays in float32.
    """

    @torch.no_grad()
    def __init__(self, trained: FoundationModel) -> None:
        super().__init__(trained.schema, len(trained.head.weight), **trained.shape)  # type: ignore[arg-type]
        self.load_state_dict(trained.state_dict())
        self.to(trained.mean.device).eval()
        self.absorbed = self.architecture.absorb(self.mean, self.scale)
        for weight in self.architecture.parameters():
            weight.copy_(weight.bfloat16())
        self.architecture.freeze()
        skip = self.skip_connection
        if skip is not None:
            skip.bias = nn.Parameter(torch.zeros(self.width, device=self.mean.device), requires_grad=False)
            absorb_into(skip.weight.requires_grad_(False), skip.bias, self.mean, self.scale)
        first, there = self.architecture.first, self.mean.device.type == "cpu" and Projection.fits(self.schema)
        self.projection: Projection | None = None
        if there and first is not None:
            self.projection = Projection(self.schema, first if skip is None else _side_by_side(first, skip), self.mean)

    def forward(self, x: Tensor, state: State | None = None, *, bf16: bool = False) -> tuple[Tensor, State]:
        """Return what FoundationModel.forward does."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=bf16):
            r, state = self.architecture(x, state)
        return r.float() if self.skip_connection is None else r.float() + self.skip_connection(x), state

    def behind_first(self, entered: Tensor, state: State | None, *, bf16: bool) -> tuple[Tensor, State]:
        """`forward` of the x whose `projection` is `entered`, which is written over; without gradients."""
        skipped = None
        if self.skip_connection is not None:
            entered, skipped = entered.split([entered.shape[-1] - self.width, self.width], dim=-1)
        with torch.autocast(entered.device.type, torch.bfloat16, enabled=bf16):
            r, state = self.architecture.behind_first(entered, state)
        return r.float() if skipped is None else skipped.add_(r), state


def _side_by_side(one: nn.Linear, other: nn.Linear) -> nn.Linear:
    """Return the layer whose outputs are those of both."""
    both = nn.Linear(one.in_features, one.out_features + other.out_features)
    both.weight.copy_(torch.cat([one.weight, other.weight]))
    both.bias.copy_(torch.cat([one.bias, other.bias]))
    return both


def rounded(foundation: FoundationModel) -> FoundationModel:
    """Return a Rounded that represents programs in place of `foundation`, or itself where none can be made."""
    changed = Rounded(foundation)
    return changed if changed.absorbed else foundation
