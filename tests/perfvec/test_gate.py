"""The gated unit and the rounded sum against PyTorch's functions in double precision."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from perfvec.architectures.gate import add_rounded, gated

WIDTH = 16
numbers = (
    st.floats(-50, 50, width=32)
    | st.floats(-(2**-20), 2**-20, width=32)
    | st.sampled_from([2.0**127, -(2.0**127), 0.0, -0.0])
)
pairs = arrays.arrays(np.float32, st.tuples(st.integers(0, 5), st.just(2 * WIDTH)), elements=numbers)


def exact(both):
    value, gate = both.double().chunk(2, dim=-1)
    return torch.tanh(value) * torch.sigmoid(gate)


@settings(deadline=None)  # the first call may compile
@given(pairs)
def test_in_float32_it_errs_by_its_rounding(both):
    given = torch.from_numpy(both)
    torch.testing.assert_close(gated(given, torch.empty(len(both), WIDTH)).double(), exact(given), rtol=1e-6, atol=5e-7)


@settings(deadline=None)  # the first call may compile
@given(pairs)
def test_in_bfloat16_it_is_the_exact_one_rounded_once(both):
    given = torch.from_numpy(both).bfloat16()
    found = gated(given, torch.empty(len(both), WIDTH, dtype=torch.bfloat16))
    torch.testing.assert_close(found.double(), exact(given), rtol=2**-8, atol=5e-7)


def test_whole_range_in_float32():
    line = torch.linspace(-30, 30, 400_000).view(-1, WIDTH)
    both = torch.cat([line, line.flip(0)], dim=1)
    assert (gated(both, torch.empty_like(line)).double() - exact(both)).abs().max() < 5e-7


def test_what_is_not_a_number_stays_so():
    both = torch.zeros(1, 2 * WIDTH)
    both[0, 3], both[0, WIDTH + 5] = float("nan"), float("nan")
    assert gated(both, torch.empty(1, WIDTH)).isnan().nonzero()[:, 1].tolist() == [3, 5]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_sum_stays_exact_and_is_rounded_as_pytorch_rounds(kind):
    torch.manual_seed(0)
    before, term = torch.randn(7, WIDTH), torch.randn(7, WIDTH).to(kind)
    before[0, 0], term[0, 0] = 1 + 2**-8, 0.0  # halfway: to the even one
    before[0, 1], term[0, 1] = 1 + 3 * 2**-8, 0.0
    total, rounded = before.clone(), torch.empty(7, WIDTH, dtype=kind)
    add_rounded(total, term, rounded)
    assert torch.equal(total, before + term.float())
    assert torch.equal(rounded, total.to(kind))
