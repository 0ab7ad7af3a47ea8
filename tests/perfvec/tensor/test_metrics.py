"""Metrics and targets, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfvec.tensor.metrics import bias, mape, pairwise_accuracy, rmse, top_k
from perfvec.tensor.targets import fit_target, relevance
from support.errors import InputError


def test_mape_and_rmse():
    predicted, seconds = np.array([1.5, 3.0]), np.array([1.0, 4.0])
    assert mape(predicted, seconds) == pytest.approx((0.5 + 0.25) / 2)
    assert rmse(predicted, seconds) == pytest.approx(math.sqrt((0.25 + 1.0) / 2))


def test_bias_is_of_the_median():
    assert bias(np.array([1.5, 3.0, 9.0]), np.array([1.0, 4.0, 1.0])) == pytest.approx(0.5)
    assert bias(np.array([3.0]), np.array([4.0])) == pytest.approx(-0.25)


def test_pairwise_accuracy_counts_pairs_of_a_group():
    # Group 0: 1 < 2 < 3 s scored 9, 1, 5: pairs (0,1) and (0,2) right, (1,2) wrong. Group 1: one pair, wrong.
    seconds, score = np.array([1.0, 2.0, 3.0, 1.0, 2.0]), np.array([9.0, 1.0, 5.0, 0.0, 1.0])
    group = np.array([0, 0, 0, 1, 1])
    assert pairwise_accuracy(score, seconds, group) == pytest.approx((3 * 2 / 3 + 2 * 0.0) / 5)


def test_pairwise_accuracy_gives_half_to_equal_scores_and_skips_equal_times():
    seconds, group = np.array([1.0, 2.0, 2.0]), np.zeros(3, np.int64)
    assert pairwise_accuracy(np.zeros(3), seconds, group) == 0.5
    assert pairwise_accuracy(np.array([2.0, 1.0, 0.0]), seconds, group) == 1.0
    assert math.isnan(pairwise_accuracy(np.zeros(2), np.ones(2), np.zeros(2, np.int64)))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=30))
def test_pairwise_accuracy_is_that_of_two_loops(rows):
    score, seconds, group = (np.array(column) for column in zip(*rows, strict=True))
    shares, sizes = [], []
    for name in np.unique(group):
        own = np.flatnonzero(group == name)
        points, pairs = 0.0, 0
        for i in own:
            for j in own:
                if seconds[i] < seconds[j]:
                    pairs += 1
                    points += 1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0
        if pairs:
            shares.append(points / pairs)
            sizes.append(len(own))
    found = pairwise_accuracy(score.astype(float), seconds.astype(float), group)
    if shares:
        assert found == pytest.approx(np.average(shares, weights=sizes))
    else:
        assert math.isnan(found)


def test_top_k_weighs_tasks():
    # Group 0 (weight 2): best 1, the top-scored took 2. Group 1 (weight 1): best 4 is found.
    score, seconds = np.array([5.0, 4.0, 1.0, 0.0]), np.array([2.0, 1.0, 4.0, 8.0])
    group = np.array([0, 0, 1, 1])
    assert top_k(score, seconds, group, 1, {0: 2.0, 1: 1.0}) == pytest.approx((2 * 1 + 4) / (2 * 2 + 4))
    assert top_k(score, seconds, group, 1) == pytest.approx((1 + 4) / (2 + 4))
    assert math.isnan(top_k(score, seconds, group, 2))  # two of two are found by any scores
    more = [np.append(values, value) for values, value in ((score, -1.0), (seconds, 3.0), (group, 1))]
    assert top_k(*more, 2) == 3 / 4  # of group 1 alone
    assert top_k(-more[0], *more[1:], 1) == 1.0


def test_relevance_is_best_over_latency_within_the_group():
    assert relevance(np.array([2.0, 1.0, 8.0, 4.0]), np.array([0, 0, 1, 1])).tolist() == [0.5, 1.0, 0.5, 1.0]


@pytest.mark.parametrize("kind", ["log", "box-cox"])
def test_targets_of_latencies_are_standard_rise_with_speed_and_go_back(kind):
    seconds = np.exp(np.random.default_rng(0).normal(-7, 1, 500)) + 1e-4
    target = fit_target(kind, seconds)
    y = target.of(seconds, np.zeros(500, np.int64))
    assert (y.mean(), y.std()) == (pytest.approx(0.0, abs=1e-9), pytest.approx(1.0))
    assert np.array_equal(np.argsort(-y), np.argsort(seconds))
    assert target.seconds(y) == pytest.approx(seconds, rel=1e-6)


def test_box_cox_takes_the_likeliest_exponent():
    # Squares of normal values: the square root, λ = 1/2, makes them normal.
    seconds = np.random.default_rng(1).normal(10.0, 1.0, 20000) ** 2 * 1e-5
    assert fit_target("box-cox", seconds).exponent == pytest.approx(0.5, abs=0.1)


def test_an_unknown_target_is_named():
    with pytest.raises(InputError, match="'speed': expected one of score, log, box-cox"):
        fit_target("speed", np.ones(3))


def test_pairs_that_are_close_may_be_left_out():
    # 1.00 and 1.05 are wrongly ordered, 2 is right against both.
    score, seconds, group = np.array([1.0, 2.0, 0.0]), np.array([1.0, 1.05, 2.0]), np.zeros(3, np.int64)
    assert pairwise_accuracy(score, seconds, group) == pytest.approx(2 / 3)
    assert pairwise_accuracy(score, seconds, group, apart=0.1) == 1.0
