"""Optimizers that do without PyTorch's compiler: bit for bit torch's."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR

from perfvec import eager

ROOT = Path(__file__).parents[2]


def by_adam(kind):
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(5, 7)), torch.nn.Parameter(torch.randn(7))]
    optimizer = kind(weights, lr=1e-2, weight_decay=0.1)
    schedule = CosineAnnealingLR(optimizer, 10)
    for _ in range(10):
        optimizer.zero_grad()
        (weights[0] @ weights[1]).square().sum().backward()
        optimizer.step()
        schedule.step()
        optimizer.load_state_dict(optimizer.state_dict())
    return torch.cat([weight.flatten() for weight in weights])


def by_lbfgs(kind):
    torch.manual_seed(0)
    weights = torch.randn(9, dtype=torch.float64, requires_grad=True)
    matrix = torch.randn(9, 9, dtype=torch.float64)
    optimizer = kind([weights], line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = (matrix @ weights.sin()).square().sum() + weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weights


@pytest.mark.parametrize(("name", "trained"), [("AdamW", by_adam), ("LBFGS", by_lbfgs)])
def test_the_weights_are_those_of_torchs_optimizer(name, trained):
    assert torch.equal(trained(getattr(eager, name)), trained(getattr(torch.optim, name)))


@pytest.mark.slow
def test_the_compiler_is_not_imported():
    code = (
        "import sys\n"
        "from perfvec.eager import LBFGS, AdamW\n"
        "from tests.perfvec.test_eager import by_adam, by_lbfgs\n"
        "by_adam(AdamW), by_lbfgs(LBFGS)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
