"""Sampling: weights, intervals and deviations, of populations that are known."""

from __future__ import annotations

import numpy as np
import pytest

from tracegen.live_points.sampling import Sample, draw


@pytest.mark.parametrize("population", [5000, 20_000])  # all units have signatures, or every fourth has
def test_weights_stand_for_the_run(population):
    random = np.random.default_rng(0)
    rows = random.gamma(2, 1, (5000, 36)).astype(np.float32)
    numbers = np.arange(5000, dtype=np.uint64)
    held = np.sort(random.choice(numbers, 1500, replace=False))
    drawn = draw(numbers, rows, held, population, 300, seed=1)
    sample = drawn.sample
    assert set(drawn.unit.tolist()) <= set(held.tolist())
    assert sample.weight.sum() == pytest.approx(population, rel=1e-6)
    assert np.bincount(sample.stratum).min() >= 3 and sample.size.sum() == pytest.approx(population)
    linear = rows[:, :20] @ random.normal(1, 0.1, 20) + 3  # known from the signatures: almost without error
    values = linear[drawn.unit.astype(int)][None].astype(float)
    total = population / 5000 * linear.sum()
    assert sample.totals(values)[0] == pytest.approx(total, rel=2e-3)
    assert sample.half_width(values)[0] < 0.005 * total


def test_what_is_all_taken_stands_for_itself():
    random = np.random.default_rng(0)
    rows = random.gamma(2, 1, (3000, 36)).astype(np.float32)
    numbers = np.arange(3000, dtype=np.uint64)
    taken = np.array([2999, 7], np.uint64)
    held = np.union1d(random.choice(numbers, 900, replace=False), taken)
    drawn = draw(numbers, rows, held, 3000, 300, 1, taken)
    sample, those = drawn.sample, np.isin(drawn.unit, taken)
    assert (np.diff(drawn.unit.astype(int)) > 0).all() and those.sum() == 2
    assert (sample.weight[those] == 1).all() and len(set(sample.stratum[those])) == 1
    assert sample.weight.sum() == pytest.approx(3000, rel=1e-6)
    values = np.where(those, 0.0, rows[drawn.unit.astype(int), 30])
    huge = np.where(those, 1e9 * np.arange(len(those)), values)
    assert sample.half_width(huge[None]) == pytest.approx(sample.half_width(values[None]))


def population_and_samples(count):
    """Values [4000] of units that signatures tell in part, and so many samples of them, each with its units."""
    random = np.random.default_rng(1)
    rows = random.gamma(2, 1, (4000, 36)).astype(np.float32)
    numbers = np.arange(4000, dtype=np.uint64)
    values = rows[:, 0] + rows[:, 5] ** 2 + random.gamma(0.5, 3, 4000)

    def one(seed):
        held = np.sort(np.random.default_rng(seed).choice(numbers, 1200, replace=False))
        drawn = draw(numbers, rows, held, 4000, 200, seed=seed)
        return drawn.sample, drawn.unit.astype(int)

    return values, map(one, range(count))


@pytest.mark.slow
def test_intervals_cover():
    """Intervals at 95 %, of values that signatures tell in part, hold nine times of ten at least."""
    values, samples = population_and_samples(60)
    inside = []
    for sample, units in samples:
        some = values[units][None]
        inside.append(abs(sample.totals(some)[0] - values.sum()) <= sample.half_width(some)[0])
    assert np.mean(inside) >= 0.9


@pytest.mark.slow
def test_deviations_tell_how_far_totals_are_off_and_those_of_differences():
    first, samples = population_and_samples(100)
    values = np.stack([first, 1.05 * first + np.random.default_rng(2).normal(0, 0.2, 4000)])
    total = values.sum(axis=1)
    errors, told = [], []
    for sample, units in samples:
        some = values[:, units]
        deviations = sample.deviations(some)
        assert sample.deviations(some[1:] - some[:1]) == pytest.approx(np.diff(deviations, axis=0))
        relative, error = deviations / total[:, None], sample.totals(some) / total - 1
        errors.append([error[0], error[1] - error[0]])
        told.append([(relative[0] ** 2).sum(), ((relative[1] - relative[0]) ** 2).sum()])
    of_total, of_change = np.sqrt(np.mean(np.square(errors), axis=0))
    assert np.sqrt(np.mean(told, axis=0)) == pytest.approx([of_total, of_change], rel=0.3)
    assert of_change < of_total / 3


def test_what_is_all_taken_deviates_by_nothing():
    assert not Sample.of_all(5).deviations(np.arange(10.0).reshape(2, 5)).any()
