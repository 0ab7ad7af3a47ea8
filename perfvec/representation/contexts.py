"""PerfVec's own way to a representation: every instruction at the end of a context of its own (arXiv 2310.16792 §IV).

Each context begins with an empty state, so an instruction costs as many steps as the context has; `sequence_sums` goes
on from the state before, at one step. Kept as the reference that shows what carrying the state changes.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from perfvec.model import FoundationModel

PERFVEC_CONTEXT = 256
_BATCH = 128  # contexts side by side


@torch.no_grad()
def context_sums(
    foundation: FoundationModel,
    static: NDArray[np.float32],
    static_id: NDArray[np.uint32],
    stored: NDArray,
    lead: int,
    *,
    context: int = PERFVEC_CONTEXT,
    bf16: bool = False,
) -> NDArray[np.float64]:
    """[d] sum of the representations of the instructions from `lead` on, each the last of its `context`.

    `static` [S, static width], `static_id` [lead+n], `stored` [lead+n, columns]. Before the first instruction given the
    input is the training data's mean, so `lead` should be `context` − 1 wherever the trace has as many.
    """
    total = np.zeros(foundation.width)
    device = foundation.mean.device
    for begin in range(lead, len(static_id), _BATCH):
        end = min(begin + _BATCH, len(static_id))
        first = max(0, begin - context + 1)
        x = torch.from_numpy(foundation.schema.expand(static, static_id[first:end], stored[first:end])).to(device)
        missing = end - begin + context - 1 - len(x)
        x = torch.cat([foundation.mean.expand(missing, -1), x])
        contexts = x.unfold(0, context, 1).permute(2, 0, 1).contiguous()  # [context, end − begin, inputs]
        representation, _ = foundation(contexts, bf16=bf16)
        total += representation[-1].double().sum(dim=0).cpu().numpy()
    return total
