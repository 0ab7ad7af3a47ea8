"""The gated unit and the rounded sum against PyTorch's functions in double precision."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
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


@given(pairs)
def test_in_float32_it_errs_by_its_rounding(both):
    given = torch.from_numpy(both)
    torch.testing.assert_close(
        gated(given, torch.empty(len(both), WIDTH), 0).double(), exact(given), rtol=1e-6, atol=5e-7
    )


@given(pairs)
def test_in_bfloat16_it_is_next_to_the_exact_one(both):
    given = torch.from_numpy(both).bfloat16()
    found = gated(given, torch.empty(len(both), WIDTH, dtype=torch.bfloat16), 3)
    torch.testing.assert_close(found.double(), exact(given), rtol=2**-7, atol=5e-7)


def test_in_bfloat16_it_is_right_on_average():
    """The mean of 20,000 rows that are all alike is within 5 deviations of a rounding."""
    torch.manual_seed(0)
    given = torch.randn(2 * WIDTH).bfloat16().expand(20_000, -1).contiguous()
    found = gated(given, torch.empty(len(given), WIDTH, dtype=torch.bfloat16), 3).double().mean(dim=0)
    one = exact(given[:1])[0]
    assert ((found - one).abs() < 5 * one.abs() * 2**-7 / 2 / len(given) ** 0.5 + 1e-6).all()


def test_whole_range_in_float32():
    line = torch.linspace(-30, 30, 400_000).view(-1, WIDTH)
    both = torch.cat([line, line.flip(0)], dim=1)
    assert (gated(both, torch.empty_like(line), 0).double() - exact(both)).abs().max() < 5e-7


def test_what_is_not_a_number_stays_so():
    both = torch.zeros(1, 2 * WIDTH)
    both[0, 3], both[0, WIDTH + 5] = float("nan"), float("nan")
    assert gated(both, torch.empty(1, WIDTH), 0).isnan().nonzero()[:, 1].tolist() == [3, 5]


def test_the_sum_is_exact_and_goes_on_in_float32():
    torch.manual_seed(0)
    before, term = torch.randn(7, WIDTH), torch.randn(7, WIDTH)
    total, rounded = before.clone(), torch.empty(7, WIDTH)
    add_rounded(total, term, rounded, 0)
    assert torch.equal(total, before + term) and torch.equal(rounded, total)
    add_rounded(total, None, rounded.zero_(), 0)
    assert torch.equal(rounded, total)


@given(arrays.arrays(np.float32, st.tuples(st.integers(0, 5), st.just(WIDTH)), elements=numbers), st.integers(0, 2**40))
def test_a_rounded_number_is_one_of_its_neighbours(values, row):
    given, rounded = torch.from_numpy(values), torch.empty(len(values), WIDTH, dtype=torch.bfloat16)
    add_rounded(given.clone(), None, rounded, row)
    bits = given.view(torch.int32) & -(1 << 16)
    down, up = bits.view(torch.float32), (bits + (1 << 16)).view(torch.float32)
    found = rounded.float()
    assert ((found == down) | (found == up)).all()
    assert (found == given)[given == down].all()  # those that bfloat16 has stay


@pytest.mark.parametrize("stride", [1, 2, 3, 8, 31])
def test_rounding_at_random_is_right_on_average(stride):
    """An eighth of the way from 1 to the next number: by every loop's rows the mean is that, within 5 deviations."""
    rows, step = 40_000, 2**-7
    given, rounded = torch.full((rows, WIDTH), 1 + step / 8), torch.empty(rows, WIDTH, dtype=torch.bfloat16)
    term = torch.full((rows, WIDTH), 0.25).bfloat16()
    add_rounded(given - 0.25, term, rounded, 77)
    again = torch.empty_like(rounded)
    add_rounded(given, None, again, 77)
    assert torch.equal(again, rounded)  # by the place alone
    found = rounded[::stride].double().mean(dim=0)
    deviation = step * (7 / 64 / len(rounded[::stride])) ** 0.5
    assert (found - (1 + step / 8)).abs().max() < 5 * deviation


def test_what_is_not_a_number_is_not_one_rounded():
    rounded = torch.empty(1, WIDTH, dtype=torch.bfloat16)
    add_rounded(torch.tensor([[float("nan"), float("inf"), -float("inf")] + [0.0] * (WIDTH - 3)]), None, rounded, 0)
    assert rounded[0, 0].isnan() and rounded[0, 1] == float("inf") and rounded[0, 2] == -float("inf")
