"""Fitting a machine's vector: known answers, brute force, calibration, and properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from perfvec.machines import posterior
from perfvec.machines.posterior import Observations, fit
from support.errors import InputError


def problem(rng, programs=12, width=6, deviation=0.2, noise=0.0):
    """Programs of very different lengths, a prior, and a truth that is off by `deviation` as the model assumes."""
    vectors = rng.random((programs, width)) * np.exp(rng.normal(10, 2, (programs, 1)))
    prior = rng.random(width) + 0.5
    unit = ((vectors / (vectors @ prior)[:, None]) ** 2).sum(axis=1).mean()
    truth = prior + deviation / np.sqrt(unit) * rng.standard_normal(width)
    cycles = vectors @ truth * (1 + noise * rng.standard_normal(programs))
    return vectors, np.maximum(cycles, 1.0), prior, truth


def test_exact_times_of_many_programs_recover_the_truth():
    rng = np.random.default_rng(1)
    vectors, cycles, prior, truth = problem(rng, programs=60)
    unseen = rng.random((20, 6))
    found = fit(Observations(vectors, cycles, np.arange(60)), prior, leave_out=True)
    assert np.allclose(unseen @ found.mean, unseen @ truth, rtol=0.01)
    assert np.abs(found.left_out_errors).mean() < 0.2 * np.abs(found.prior_errors).mean()
    assert found.warnings() == []


def test_a_vector_is_recovered_from_a_prior_that_knows_nothing():
    rng = np.random.default_rng(0)
    vectors = rng.random((200, 8)) * 1000
    truth = rng.random(8)
    fitted = fit(Observations(vectors, vectors @ truth, np.arange(200)), np.zeros(8))
    assert np.allclose(vectors @ fitted.mean, vectors @ truth, rtol=0.02)


def test_the_posterior_covers_the_truth():
    rng = np.random.default_rng(2)
    inside = []
    for _ in range(150):
        deviation, noise = posterior.TAU * np.exp(0.5 * rng.normal()), posterior.SIGMA * np.exp(0.5 * rng.normal())
        vectors, cycles, prior, truth = problem(rng, 10, 8, deviation, noise)
        found = fit(Observations(vectors, cycles, np.arange(10)), prior)
        unseen = rng.random((10, 8))
        spread = np.linalg.norm(unseen @ found.factor, axis=1)
        inside.append(np.abs(unseen @ (found.mean - truth)) < 1.96 * spread)
    assert 0.90 < np.mean(inside) < 0.985


def test_the_mean_is_what_an_optimiser_finds(monkeypatch):
    tau, sigma = 0.3, 0.05
    monkeypatch.setattr(posterior, "TAUS", np.array([tau]))
    monkeypatch.setattr(posterior, "SIGMAS", np.array([sigma]))
    vectors, cycles, prior, _ = problem(np.random.default_rng(3), 4, 3, 0.2, 0.1)
    uncertainty = np.array([0.0, 0.1, 0.3, 0.0])
    found = fit(Observations(vectors, cycles, np.arange(4), uncertainty), prior)
    scale = np.maximum(cycles, vectors @ prior)
    unit = ((vectors / scale[:, None]) ** 2).sum() / 4
    noise = sigma**2 + (uncertainty * cycles / scale) ** 2

    def cost(vector):
        misfit = (cycles - vectors @ vector) / scale
        return (misfit**2 / noise).sum() + ((vector - prior) ** 2).sum() * unit / tau**2

    best = minimize(cost, prior, tol=1e-14).x
    assert np.allclose(found.mean, best, rtol=1e-4)
    hessian = (vectors / scale[:, None]).T @ (vectors / scale[:, None] / noise[:, None]) + np.eye(3) * unit / tau**2
    assert np.allclose(found.factor @ found.factor.T, np.linalg.inv(hessian), rtol=1e-6)


def test_left_out_errors_are_those_of_fits_without_the_program():
    """Also of the prior, where that is made from the times, and of the spread and the noise, which the times choose."""
    vectors, cycles, prior, _ = problem(np.random.default_rng(4), 6, 4, 0.2, 0.1)
    programs, uncertainty = np.array([0, 0, 1, 2, 2, 3]), np.array([0.0, 0.1, 0.0, 0.2, 0.0, 0.0])

    def scaled(observed):
        return prior * np.median(observed.cycles / (observed.vectors @ prior))

    for given_prior in (prior, scaled):
        found = fit(Observations(vectors, cycles, programs, uncertainty), given_prior, leave_out=True)
        for program in range(4):
            others, own = programs != program, programs == program
            rest = Observations(vectors[others], cycles[others], programs[others], uncertainty[others])
            error = (vectors[own] @ fit(rest, given_prior).mean - cycles[own]).sum() / cycles[own].sum()
            assert found.left_out_errors[program] == pytest.approx(error, rel=1e-9)
    assert len(fit(Observations(vectors, cycles, programs), prior).left_out_errors) == 0
    one = fit(Observations(vectors[:1], cycles[:1], programs[:1]), prior, leave_out=True)
    assert one.left_out_errors == pytest.approx(one.prior_errors)


def test_a_prior_of_twice_the_time_is_off_by_plus_1():
    found = fit(Observations(np.array([[2.0]]), np.array([1.0]), np.array([0])), np.array([1.0]))
    assert found.prior_errors.tolist() == [1.0]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 8), st.floats(0.01, 100.0))
def test_no_observed_program_gets_a_negative_time(seed, programs, contrast):
    """Even where the times contradict each other as no machine could."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(programs, 5)) + 2.0
    prior = np.ones(5)
    vectors = vectors[vectors @ prior > 1.0]
    if not len(vectors):
        return
    cycles = (vectors @ prior) * np.exp(np.log1p(contrast) * rng.normal(size=len(vectors)))
    found = fit(Observations(vectors, cycles, np.arange(len(vectors))), prior)
    assert (vectors @ found.mean / cycles >= 0).all()


def test_a_negative_time_is_moved_to_the_bound_by_the_shortest_way():
    mean, factor = np.array([1.0, -1.0]), np.diag([1.0, 2.0])
    moved = posterior.non_negative(mean, factor, np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert np.allclose(moved, [1.0, 0.0], atol=1e-6)
    moved = posterior.non_negative(np.array([-1.0, 0.0]), np.diag([1.0, 2.0]), np.array([[1.0, 1.0]]))
    assert np.allclose(moved, [-1.0 + 0.2, 0.8], atol=1e-6)  # shares 1 : 4, as the variances


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_the_units_do_not_matter(seed, factor):
    vectors, cycles, prior, _ = problem(np.random.default_rng(seed), 5, 4, 0.2, 0.1)
    one = fit(Observations(vectors, cycles, np.arange(5)), prior)
    other = fit(Observations(vectors, cycles * factor, np.arange(5)), prior * factor)
    assert np.allclose(other.mean, one.mean * factor, rtol=1e-6)
    assert np.allclose(np.abs(other.factor @ other.factor.T), np.abs(one.factor @ one.factor.T) * factor**2, rtol=1e-5)


def test_an_uncertain_time_counts_less():
    rng = np.random.default_rng(5)
    vectors, cycles, prior, truth = problem(rng, 8, 4, 0.2, 0.0)
    wrong = cycles.copy()
    wrong[0] *= 1.6
    uncertainty = np.zeros(8)
    uncertainty[0] = 2.0
    sure = fit(Observations(vectors, wrong, np.arange(8)), prior)
    doubtful = fit(Observations(vectors, wrong, np.arange(8), uncertainty), prior)
    rest = vectors[1:] @ truth
    error = [np.abs(vectors[1:] @ found.mean / rest - 1).mean() for found in (sure, doubtful)]
    assert error[1] < 0.5 * error[0]


def test_too_few_times_are_said_so():
    rng = np.random.default_rng(6)
    vectors, cycles, prior, _ = problem(rng, 2, 6, 0.3, 0.0)
    assert "too few" in fit(Observations(vectors, cycles, np.arange(2)), prior).warnings()[0]
    noisy = prior @ vectors.T * np.exp(rng.normal(size=2))
    assert fit(Observations(vectors, noisy, np.arange(2)), prior).warnings()


@pytest.mark.parametrize("cycles", [[0.0, 1.0], [-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_times_that_are_none_are_refused(cycles):
    with pytest.raises(InputError, match="finite, and times positive"):
        fit(Observations(np.eye(2), np.array(cycles), np.arange(2)), np.ones(2))
