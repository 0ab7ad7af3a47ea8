"""A machine's vector from times, in closed form, with the foundation model frozen.

PerfVec (arXiv 2310.16792, §IV) regresses a new machine's vector on labels. A whole-program time y = R·m + noise is
linear in the machine's vector m too, so a handful of times is enough to correct a guess. Few equations for many
unknowns need a prior: Bayesian linear regression (Bishop, Pattern Recognition and Machine Learning, §3.3) with

    m ~ N(m₀, τ² / k · I),     (y − R·m) / s ~ N(0, σ² + u²),     s = max(y, R·m₀)

m₀ is the vector of the configuration where that is known (table or encoder), else the mean direction of the table at
the scale of the times. Noise is relative: σ is by what fraction the foundation model misses a program, u what the
measurement is uncertain by. k is the mean square of R / s, so τ is the fraction by which the prior's times may be off.
The prior is isotropic because the representation's coordinates share one scale (docs/appendix/machine-vectors.md
compares others). τ and σ are integrated over, on a grid: each pair counts by its evidence (§3.5) and weak log-normal
priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from perfvec.model import Model
from support.errors import InputError

# Log-normal priors of τ and σ: an encoder's typical error, and a foundation model's on unseen programs.
TAU, SIGMA, _SPREAD = 0.25, 0.1, 0.7
TAUS = np.geomspace(0.01, 2.0, 24)
SIGMAS = np.geomspace(0.003, 1.0, 24)
_NEGLIGIBLE = 1e-6  # weight of a pair
_GROUPS = 8  # of segments, into which a program's labels are summed


@dataclass(frozen=True)
class Observations:
    """Vectors of programs, or of groups of their segments, and their cycles on one machine."""

    vectors: NDArray[np.float64]  # [n, d]
    cycles: NDArray[np.float64]  # [n]
    program: NDArray[np.int64]  # [n] numbers from 0 on: groups of one program share theirs
    uncertainty: NDArray[np.float64] | None = None  # [n] relative standard deviation of the measurement


def observations(parts: Sequence[tuple[str, NDArray[np.float64], NDArray[np.float64]]]) -> Observations:
    """Those of labels on one machine, of one part at least: a program's digest, its segments' vectors, their cycles."""
    digests, vectors, cycles = zip(*parts, strict=True)
    programs = np.repeat(digests, list(map(len, vectors)))
    return Observations(np.concatenate(vectors), np.concatenate(cycles), np.unique(programs, return_inverse=True)[1])


Prior = NDArray[np.float64] | Callable[[Observations], NDArray[np.float64]]  # [d], or what gives it for times


@dataclass(frozen=True)
class Posterior:
    """The machine's vector N(`mean`, `factor`·`factor`ᵀ), the model's relative misses, and what they rest on."""

    mean: NDArray[np.float64]  # [d]
    factor: NDArray[np.float64]  # [d, d]
    noise: float  # σ
    prior_deviation: float  # τ
    degrees: float  # effective number of coefficients that the data determine (Bishop, eq. 3.91)
    prior_errors: NDArray[np.float64]  # [programs] relative errors of the prior's times, with sign
    left_out_errors: NDArray[np.float64]  # [programs] the same, each predicted by a fit to the others; [0]: not asked
    projected: bool  # whether the mean had to be moved for a time that would have been negative

    def warnings(self) -> list[str]:
        """One line for each sign that the data are too few."""
        programs, lines = len(self.prior_errors), []
        if programs < self.degrees + 1:
            lines.append(
                f"{programs} programs determine {self.degrees:.1f} coefficients: too few to check the fit; "
                "the deviations rest on the prior"
            )
        left_out = float(np.abs(self.left_out_errors).mean()) if len(self.left_out_errors) else 0.0
        prior = float(np.abs(self.prior_errors).mean())
        if programs > 1 and left_out >= prior:
            lines.append(
                f"programs predicted from the others are off by {left_out:.1%}, by the prior alone by {prior:.1%}: "
                "the times are too few to improve on the prior"
            )
        if self.projected:
            lines.append("a program's time came out negative and was bounded at 0: its time or its trace may be wrong")
        return lines


def fit(observed: Observations, prior: Prior, *, leave_out: bool = False) -> Posterior:
    """The posterior of the machine's vector around `prior`; predicts no negative time for the programs observed.

    With `leave_out` each program is also predicted by a fit to the others: prior, τ and σ are found without it. Raises
    InputError for times that are not positive, or where no vector gives non-negative times.
    """
    if not len(observed.cycles):
        raise InputError("no times to fit a machine to")
    if not (np.isfinite(observed.vectors).all() and np.isfinite(observed.cycles).all() and (observed.cycles > 0).all()):
        raise InputError("times and vectors to fit a machine to must be finite, and times positive")
    centre = prior(observed) if callable(prior) else prior
    mean, average, design, unit = _mean(observed, centre)
    # Of Bishop's eqs. 3.50 and 3.51 in their dual form (Sherman-Morrison-Woodbury), averaged.
    covariance = average.variance / unit * np.eye(len(mean)) - design.T @ average.reduction @ design / unit**2
    values, basis = np.linalg.eigh(covariance)
    factor = basis * np.sqrt(np.maximum(values, 0.0))
    totals, time = wholes(observed)
    moved = non_negative(mean, factor, totals / time[:, None])
    return Posterior(
        mean=moved,
        factor=factor,
        noise=average.noise,
        prior_deviation=math.sqrt(average.variance),
        degrees=float(np.trace(average.hat)),
        prior_errors=(totals @ centre - time) / time,
        left_out_errors=_left_out(observed, prior, centre) if leave_out else np.empty(0),
        projected=moved is not mean,
    )


def wholes(observed: Observations) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Vectors [programs, d] and times of whole programs, in the order of their numbers."""
    programs = np.unique(observed.program, return_inverse=True)[1]
    totals = np.zeros((int(programs.max()) + 1, observed.vectors.shape[1]))
    np.add.at(totals, programs, observed.vectors)
    return totals, np.bincount(programs, observed.cycles).astype(np.float64)


def _mean(
    observed: Observations, prior: NDArray[np.float64]
) -> tuple[NDArray[np.float64], _Average, NDArray[np.float64], float]:
    """The posterior's mean, what it is averaged from, the design, and k of the module's description."""
    vectors, cycles = observed.vectors, observed.cycles
    programs = np.unique(observed.program, return_inverse=True)[1]
    totals, time = wholes(observed)
    count = len(time)
    whole, relative, _ = _relative(totals, time, prior)
    unit = float((whole**2).sum() / count)
    design, residual, scale = _relative(vectors, cycles, prior)
    extra = np.zeros(len(cycles)) if observed.uncertainty is None else observed.uncertainty * cycles / scale
    per_program = np.zeros(count)
    np.maximum.at(per_program, programs, extra)
    weights = _weights(whole @ whole.T / unit, relative, per_program)
    average = _integrate(design @ design.T / unit, residual, extra, weights, len(cycles) / count)
    return prior + design.T @ average.dual / unit, average, design, unit


def _left_out(observed: Observations, prior: Prior, alone: NDArray[np.float64]) -> NDArray[np.float64]:
    """[programs] relative errors of each program by a fit to all others; `alone` is the prior where there are none."""
    totals, time = wholes(observed)
    errors = np.zeros(len(time))
    for number, program in enumerate(np.unique(observed.program)):
        rows = observed.program != program
        mean = alone
        if rows.any():
            uncertainty = None if observed.uncertainty is None else observed.uncertainty[rows]
            others = Observations(observed.vectors[rows], observed.cycles[rows], observed.program[rows], uncertainty)
            mean = _mean(others, prior(others) if callable(prior) else prior)[0]
        errors[number] = float(totals[number] @ mean) / time[number] - 1.0
    return errors


@dataclass(frozen=True)
class _Average:
    """The posterior's parts, averaged over τ and σ: with C = τ² kernel + noise, and a = τ² C⁻¹ residual,"""

    dual: NDArray[np.float64]  # [n] a
    reduction: NDArray[np.float64]  # [n, n] τ⁴ C⁻¹, less the covariance of a
    hat: NDArray[np.float64]  # [n, n] τ² kernel C⁻¹
    variance: float  # τ²
    noise: float  # σ


def _relative(
    vectors: NDArray[np.float64], cycles: NDArray[np.float64], prior: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Design R / s, residual (y − R·m₀) / s, and s."""
    predicted = vectors @ prior
    scale = np.maximum(cycles, predicted)
    return vectors / scale[:, None], (cycles - predicted) / scale, scale


def _weights(
    kernel: NDArray[np.float64], residual: NDArray[np.float64], extra: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[σ, τ] weights of the grid: evidence N(residual | 0, τ² kernel + σ² + extra²) of whole programs times prior.

    Of whole programs, also where there are groups: the model misses those of one program alike, so that they would
    make believe a small σ.
    """
    costs = np.zeros((len(SIGMAS), len(TAUS)))
    eigen: _Eigen | None = None
    for row, sigma in enumerate(SIGMAS.tolist()):
        if eigen is None or extra.any():
            eigen = _eigen(kernel, extra, sigma)
        values, basis, determinant = eigen
        spectrum = TAUS[:, None] ** 2 * values + sigma**2
        fit = ((basis.T @ residual) ** 2 / spectrum).sum(axis=1)
        costs[row] = 0.5 * (np.log(spectrum).sum(axis=1) + determinant + fit)
    costs += 0.5 * (np.log(TAUS / TAU) ** 2 + np.log(SIGMAS / SIGMA)[:, None] ** 2) / _SPREAD**2
    weights = np.exp(costs.min() - costs)
    return weights / weights.sum()


_Eigen = tuple[NDArray[np.float64], NDArray[np.float64], float]


def _eigen(kernel: NDArray[np.float64], extra: NDArray[np.float64], sigma: float) -> _Eigen:
    """Values and basis B for which B diag(1 / (τ² values + σ²)) Bᵀ inverts τ² kernel + σ² + extra², and −log |BBᵀ|."""
    whiten = 1.0 / np.sqrt(1.0 + (extra / sigma) ** 2)
    values, basis = np.linalg.eigh(kernel * whiten[:, None] * whiten[None, :])
    return np.maximum(values, 0.0), whiten[:, None] * basis, -2.0 * float(np.log(whiten).sum())


def _integrate(
    kernel: NDArray[np.float64],
    residual: NDArray[np.float64],
    extra: NDArray[np.float64],
    weights: NDArray[np.float64],
    groups: float,
) -> _Average:
    """Averages over the grid; with `groups` a program, each has the variance groups · σ², and the whole has σ²."""
    count = len(residual)
    dual, square, inverse = np.zeros(count), np.zeros((count, count)), np.zeros((count, count))
    hat = np.zeros((count, count))
    eigen: _Eigen | None = None
    for row in np.flatnonzero(weights.max(axis=1) > _NEGLIGIBLE).tolist():
        if eigen is None or extra.any():
            eigen = _eigen(kernel, extra, float(SIGMAS[row]))
        values, basis, _ = eigen
        tau2, weight = TAUS[:, None] ** 2, weights[row][:, None]
        spectrum = 1.0 / (tau2 * values + groups * SIGMAS[row] ** 2)
        duals = (tau2 * spectrum * (basis.T @ residual)) @ basis.T  # [τ, n]
        dual += (weight * duals).sum(axis=0)
        square += duals.T @ (weight * duals)
        inverse += (basis * (weight * tau2**2 * spectrum).sum(axis=0)) @ basis.T
        hat += kernel @ (basis * (weight * tau2 * spectrum).sum(axis=0)) @ basis.T
    reduction = inverse - square + np.outer(dual, dual)
    variance = float(weights.sum(axis=0) @ TAUS**2)
    return _Average(dual, reduction, hat, variance, math.sqrt(weights.sum(axis=1) @ SIGMAS**2))


def non_negative(
    mean: NDArray[np.float64], factor: NDArray[np.float64], programs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The likeliest vector m with `programs`·m ≥ 0: mean + F x with the smallest x for which G x ≥ h, G = programs·F,
    h = −programs·mean (least distance programming, Lawson & Hanson, Solving Least Squares Problems, ch. 23.4)."""
    bound = -(programs @ mean)
    if (bound <= 0).all():
        return mean
    constraints = programs @ factor
    # A hair inside the bound, for rounding: times are relative to the measured ones here.
    system = np.vstack([constraints.T, bound + 1e-9])
    target = np.append(np.zeros(len(mean)), 1.0)
    weights, distance = nnls(system, target)
    residual = system @ weights - target
    if distance < 1e-9 or residual[-1] >= 0:
        raise InputError("no machine vector gives the programs non-negative times; check that traces are of these runs")
    return mean - factor @ (residual[:-1] / residual[-1])


def fit_segments(model: Model, observed: Observations, prior: NDArray[np.float64] | None) -> Posterior:
    """`fit` to labels: each program's segments are summed into a few groups; without a prior, the table's mean."""
    vectors, cycles, programs = [], [], []
    for program in np.unique(observed.program):
        rows = np.flatnonzero(observed.program == program)
        for group in np.array_split(rows, min(_GROUPS, len(rows))):
            if (time := observed.cycles[group].sum()) > 0:
                vectors.append(observed.vectors[group].sum(axis=0))
                cycles.append(time)
                programs.append(program)
    summed = Observations(np.array(vectors), np.array(cycles), np.array(programs))
    return fit(summed, partial(mean_prior, model) if prior is None else prior, leave_out=True)


def mean_prior(model: Model, observed: Observations) -> NDArray[np.float64]:
    """[d] the mean direction of the table's machines at the scale of the times (the median ratio of the programs)."""
    table = model.table()
    pace = table @ (observed.vectors / observed.cycles[:, None]).mean(axis=0)
    usable = pace > 0
    if not usable.any():
        raise InputError("the table's machines predict no positive times for these programs; check the traces")
    direction = (table[usable] / pace[usable, None]).mean(axis=0)
    ratio = observed.vectors @ direction / observed.cycles
    middle = float(np.median(ratio[ratio > 0])) if (ratio > 0).any() else 1.0
    return direction / middle
