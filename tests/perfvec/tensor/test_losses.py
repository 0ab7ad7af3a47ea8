"""Losses, the discrepancy and their gradients, against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from perfvec.tensor.discrepancy import central_moment_discrepancy
from perfvec.tensor.losses import huber, lambda_rank, mape, mse, pairwise_rank


def test_mse_of_errors_1_and_3_is_5():
    assert mse(torch.tensor([1.0, 5.0]), torch.tensor([0.0, 2.0])).item() == pytest.approx(5.0)


def test_huber_is_square_to_its_width_and_straight_beyond():
    # Errors 0.1 and 1 with the width 0.2: 0.01/0.4 and 1 − 0.1.
    found = huber(torch.tensor([0.1, 1.0]), torch.zeros(2), width=0.2)
    assert found.item() == pytest.approx((0.025 + 0.9) / 2)


def test_mape_of_half_and_a_quarter_too_much():
    assert mape(torch.tensor([1.5, 5.0]), torch.tensor([1.0, 4.0])).item() == pytest.approx((0.5 + 0.25) / 2)


def test_pairwise_rank_is_the_mean_over_the_ordered_pairs_of_a_group():
    output, relevance = torch.tensor([2.0, 1.0, 9.0]), torch.tensor([1.0, 0.5, 0.7])
    # Groups {0, 1} and {2}: one pair, in the right order by 1.
    group = torch.tensor([0, 0, 1])
    assert pairwise_rank(output, relevance, group).item() == pytest.approx(math.log(1 + math.exp(-1.0)), rel=1e-6)
    # One group: 0 before 2 before 1.
    pairs = [2.0 - 9.0, 2.0 - 1.0, 9.0 - 1.0]
    expected = sum(math.log(1 + math.exp(-difference)) for difference in pairs) / 3
    assert pairwise_rank(output, relevance, torch.zeros(3)).item() == pytest.approx(expected, rel=1e-6)


def test_pairwise_rank_without_any_pair_is_zero():
    assert pairwise_rank(torch.ones(2), torch.ones(2), torch.zeros(2)).item() == 0.0


def test_lambda_rank_of_two_candidates_in_the_wrong_order():
    # Gains 2^2 − 1 = 3 and 2^1 − 1 = 1; the better one stands second: discounts 1/log2(3) and 1/log2(2).
    ideal = 3.0 + 1 / math.log2(3.0)
    weight = (3.0 - 1.0) * (1.0 - 1 / math.log2(3.0)) / ideal
    loss = lambda_rank(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0]), torch.zeros(2))
    assert loss.item() == pytest.approx(weight * math.log(1 + math.exp(1.0)), rel=1e-6)


def test_lambda_rank_averages_over_groups():
    output, relevance = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])
    one = lambda_rank(output, relevance, torch.zeros(2))
    two = lambda_rank(output.repeat(2), relevance.repeat(2), torch.tensor([0, 0, 7, 7]))
    assert two.item() == pytest.approx(one.item(), rel=1e-6)


def test_lambda_rank_pushes_the_better_candidate_up():
    output = torch.zeros(3, requires_grad=True)
    lambda_rank(output, torch.tensor([0.2, 1.0, 0.5]), torch.zeros(3)).backward()
    assert output.grad is not None
    assert output.grad[1] < 0 < output.grad[0]


def test_discrepancy_by_its_definition():
    x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [0.0]])
    # Means 1/2 and 0; central moments of x: order 2: 1/4, 3: 0, 4: 1/16, 5: 0; of y: 0; the bounds span 1.
    found = central_moment_discrepancy(x, y, moments=5, low=0.0, high=1.0)
    assert found.item() == pytest.approx(0.5 + 0.25 + 0.0 + 0.0625 + 0.0, rel=1e-5)
    # Bounds twice as wide divide order k by 2^k.
    wide = central_moment_discrepancy(x, y, moments=5, low=-1.0, high=1.0)
    assert wide.item() == pytest.approx(0.5 / 2 + 0.25 / 4 + 0.0625 / 16, rel=1e-5)


def test_discrepancy_takes_the_norm_over_coordinates():
    x, y = torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)
    assert central_moment_discrepancy(x, y, moments=2, low=0.0, high=5.0).item() == pytest.approx(1.0, rel=1e-6)


def test_discrepancy_of_a_sample_with_itself_is_zero_and_has_a_gradient():
    x = torch.rand(5, 3, requires_grad=True)
    found = central_moment_discrepancy(x, x.detach())
    found.backward()
    assert found.item() == pytest.approx(0.0, abs=1e-9)
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
