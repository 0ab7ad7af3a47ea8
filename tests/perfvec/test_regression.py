"""Estimates by signatures of units that were not drawn."""

import numpy as np
import pytest

from perfvec.representation.regression import Regression


@pytest.fixture
def population():
    """Three strata; values of two numbers that follow from the signatures of three, up to a little noise."""
    random = np.random.default_rng(3)
    label = random.integers(0, 3, 3000).astype(np.int32)
    signatures = (random.normal(size=(3000, 3)) + label[:, None]).astype(np.float32)
    slopes = np.array([[1.0, 0.0], [-2.0, 0.5], [0.0, 3.0]])
    values = 10.0 + 5.0 * label[:, None] + signatures @ slopes + random.normal(0, 0.1, (3000, 2))
    return label, signatures, values, slopes


def drawn_of(label, values, count, seed):
    random = np.random.default_rng(seed)
    units = [random.permutation(np.flatnonzero(label == h))[:count] for h in range(3)]
    return units, [values[numbers] for numbers in units]


def test_slopes_are_found_and_their_share_of_the_variance_vanishes(population):
    label, signatures, values, slopes = population
    size = np.bincount(label)
    known = Regression(signatures, label, size)
    units, drawn = drawn_of(label, values, 100, 0)
    adjusted, found = known.adjusted(units, drawn)
    assert np.allclose(found, slopes, atol=0.1)
    for h in range(3):
        assert adjusted[h].std(axis=0).max() < 0.2 < 1 < drawn[h].std(axis=0).min()


def test_errors_of_totals_are_those_that_the_residuals_tell_and_have_no_bias(population):
    label, signatures, values, _ = population
    values = values + np.random.default_rng(1).normal(0, 2, values.shape)  # so that the slopes' own error matters
    size = np.bincount(label)
    known = Regression(signatures, label, size)
    errors, told = [], []
    for seed in range(300):
        adjusted, _ = known.adjusted(*drawn_of(label, values, 15, seed))
        mean = np.array([units.mean(axis=0) for units in adjusted])
        variance = np.array([units.var(axis=0, ddof=1) for units in adjusted])
        errors.append(size @ mean - values.sum(axis=0))
        told.append((size**2 * (1 - 15 / size) / 15) @ variance)
    errors, told = np.array(errors), np.array(told).mean(axis=0)
    assert np.abs(errors.mean(axis=0)).max() < 4 * np.sqrt(told / 300).max()
    assert errors.var(axis=0) == pytest.approx(told, rel=0.25)


def test_a_stratum_that_is_drawn_whole_stays_as_it_is(population):
    label, signatures, values, _ = population
    size = np.bincount(label)
    units, drawn = drawn_of(label, values, 100, 0)
    units[1] = np.flatnonzero(label == 1)
    drawn[1] = values[units[1]]
    adjusted, _ = Regression(signatures, label, size).adjusted(units, drawn)
    assert (adjusted[1] == drawn[1]).all()


def test_of_few_units_or_of_signatures_that_do_not_vary_nothing_is_said(population):
    label, signatures, values, _ = population
    size = np.bincount(label)
    units, drawn = drawn_of(label, values, 8, 0)
    adjusted, slopes = Regression(signatures, label, size).adjusted(units, drawn)
    assert (slopes == 0).all() and all((a == b).all() for a, b in zip(adjusted, drawn, strict=True))
    units, drawn = drawn_of(label, values, 100, 0)
    constant = np.concatenate([signatures, np.ones((3000, 1), np.float32)], axis=1)
    adjusted, slopes = Regression(constant, label, size).adjusted(units, drawn)
    assert (slopes[3] == 0).all() and np.abs(slopes[:3]).max() > 1
    same, slopes = Regression(0 * signatures, label, size).adjusted(units, drawn)
    assert (slopes == 0).all() and np.allclose(same[0], drawn[0])


def test_what_is_said_of_intervals_adds_up_to_nothing_over_the_run(population):
    label, signatures, _, _ = population
    known = Regression(signatures, label, np.bincount(label))
    interval = np.arange(3000) // 64
    shares = np.stack([np.bincount(interval, label == h) for h in range(3)], axis=1)
    of_intervals = known.of_intervals(interval, shares)
    assert of_intervals.shape == (47, 3)
    assert np.allclose(of_intervals[1], known.centred(np.arange(64, 128)).sum(axis=0), atol=1e-3)
    assert np.abs(of_intervals.sum(axis=0)).max() < 1e-2
