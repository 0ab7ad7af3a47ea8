"""PyTorch's optimizers without its compiler: each imports `torch._dynamo` as soon as it is made, a second of processor
time, to keep `torch.compile` out of methods that nothing here compiles.
"""

from __future__ import annotations

from inspect import unwrap

import torch
from torch.optim import Optimizer


class _Eager(Optimizer):
    """The methods that `torch._disable_dynamo` wraps, as they are inside."""

    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)


class AdamW(_Eager, torch.optim.AdamW):
    """torch's."""

    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))


class LBFGS(_Eager, torch.optim.LBFGS):
    """torch's, whose step is not wrapped."""
