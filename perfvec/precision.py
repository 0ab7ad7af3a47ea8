"""bfloat16 where the processor multiplies it natively, float32 elsewhere."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from perfvec.model import FoundationModel, State

_CPUINFO = Path("/proc/cpuinfo")


def native_bf16() -> bool:
    """Whether matrix products in bfloat16 are faster than in float32 on this machine's default device."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    try:
        flags = _CPUINFO.read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def forward(foundation: FoundationModel, x: Tensor, state: State | None, bf16: bool) -> tuple[Tensor, State]:
    """`foundation(x, state)` with the recurrent products in bfloat16; weights, inputs and results stay float32."""
    if not bf16:
        return foundation(x, state)
    weights = {name: value.to(torch.bfloat16) for name, value in foundation.lstm.named_parameters()}
    normalised = ((x - foundation.mean) * foundation.scale).to(torch.bfloat16)
    half = None if state is None else (state[0].to(torch.bfloat16), state[1].to(torch.bfloat16))
    output, (hidden, cell) = torch.func.functional_call(foundation.lstm, weights, (normalised, half))
    return output.float(), (hidden.float(), cell.float())
