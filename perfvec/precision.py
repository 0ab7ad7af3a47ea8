"""bfloat16 where the processor multiplies it natively, float32 elsewhere."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from perfvec.architectures import State
from perfvec.model import FoundationModel

_CPUINFO = Path("/proc/cpuinfo")


def native_bf16(device: torch.device | None = None) -> bool:
    """Whether matrix products in bfloat16 are faster than in float32 on this device, by default the processor."""
    if device is not None and device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        flags = _CPUINFO.read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def forward(foundation: FoundationModel, x: Tensor, state: State | None, bf16: bool) -> tuple[Tensor, State]:
    """`foundation(x, state)` with the architecture's products in bfloat16 where asked."""
    return foundation(x, state, bf16=True) if bf16 else foundation(x, state)
