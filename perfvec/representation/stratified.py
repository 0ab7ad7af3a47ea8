"""Stratified sampling of vectors: allocation to strata, the estimate of a total, its error
(docs/explanation/representation.md).

A population of N units is divided into strata of N_h; n_h units of each are drawn at random without replacement, and
unit k has the vector r_k. The total is estimated without bias by Σ_h N_h·mean_h (Horvitz–Thompson for equal
probabilities within strata), with the covariance Σ_h N_h²·(1 − n_h/N_h)·S_h/n_h (Cochran, Sampling Techniques, 1977,
§5.4); S_h is the covariance of the stratum's units, estimated from those drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 15  # of the weights of machines
_SHRINKAGE = 2.0  # degrees of freedom that it counts as in the estimate's error
_PRIOR = 8.0  # degrees of freedom that the strata's common variance counts as, when units are allocated


@dataclass(frozen=True)
class Estimate:
    """The total [d] of a population, each stratum's mean [H, d], and the total's error as `vector.Sampling`."""

    total: NDArray[np.float64]
    mean: NDArray[np.float64]
    factors: NDArray[np.float32]  # [K, d]
    factor_stratum: NDArray[np.int32]  # [K]
    freedom: NDArray[np.float64]  # [H]


def estimate(size: NDArray[np.int64], drawn: Sequence[NDArray[np.float64]], common: float = 0.0) -> Estimate:
    """Estimate from `drawn[h]` [n_h, d], the vectors of the units drawn from the `size[h]` of stratum h.

    A stratum needs two units, or all that it has. Where it has more of them than dimensions, a triangular factor of as
    many rows stands for them.

    A stratum's covariance S is taken to be S + 2/(f + 2)·ρ²·r·rᵀ: r its mean, f its degrees of freedom, ρ² the `common`
    relative variance within all strata. A few units that happen to be alike say little about the rare ones that cost
    more.
    """
    mean = np.array([units.mean(axis=0) for units in drawn])
    factors, stratum = [], []
    for h, units in enumerate(drawn):
        count = len(units)
        if count >= size[h]:
            continue
        if count < 2:
            raise ValueError(f"stratum {h}: {count} of {size[h]} units drawn; 2 are needed")
        scale = size[h] * np.sqrt((1 - count / size[h]) / count)
        rows = (units - mean[h]) * (scale / np.sqrt(count - 1))
        if common > 0:
            prior = mean[h] * (scale * np.sqrt(_SHRINKAGE / (count - 1 + _SHRINKAGE) * common))
            rows = np.concatenate([rows, prior[None]])
        if len(rows) > rows.shape[1]:
            rows = np.linalg.qr(rows, mode="r")
        factors.append(rows.astype(np.float32))
        stratum.append(np.full(len(rows), h, np.int32))
    width = mean.shape[1]
    return Estimate(
        total=size @ mean,
        mean=mean,
        factors=np.concatenate(factors) if factors else np.empty((0, width), np.float32),
        factor_stratum=np.concatenate(stratum) if stratum else np.empty(0, np.int32),
        freedom=np.array([max(len(units) - 1.0, 1.0) for units in drawn]),
    )


def variances(size: NDArray[np.int64], drawn: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """[H, M] variances of `drawn[h]` [n_h, M] within strata, drawn towards a common relative one where n_h is small.

    For allocation only: a stratum whose few units happen to be alike is not left alone.
    """
    mean = np.array([units.mean(axis=0) for units in drawn])
    freedom = np.array([len(units) - 1.0 for units in drawn])[:, None]
    own = np.array([units.var(axis=0, ddof=1) if len(units) > 1 else np.zeros(units.shape[1]) for units in drawn])
    relative = relative_variance(size, drawn)
    return (freedom * own + _PRIOR * relative * mean**2) / (freedom + _PRIOR)


def relative_variance(size: NDArray[np.int64], drawn: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """[M] variance within strata over the squared mean, of all strata together; `drawn[h]` [n_h, M]."""
    mean = np.array([units.mean(axis=0) for units in drawn])
    own = np.array([units.var(axis=0, ddof=1) if len(units) > 1 else np.zeros(units.shape[1]) for units in drawn])
    return (size @ own) / np.maximum(size @ mean**2, 1e-300)


def allocate(
    size: NDArray[np.int64],
    variance: NDArray[np.float64],
    wanted: NDArray[np.float64],
    least: NDArray[np.int64],
    most: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """[H] units to draw of each stratum, few, so that machine m's total has at most the variance `wanted[m]`.

    Neyman's allocation n_h ∝ N_h·S_h (JRSS 1934) for many machines at once: S_h² is the mean over machines of their
    `variance` [H, M] over `wanted`, with weights that grow where the allocation falls short (multiplicative weights).
    `least` [H] are drawn in any case, `most` [H] at most, by default all of `size` [H]; where these are not enough,
    `most` of every stratum that varies.
    """
    most = size if most is None else most
    ratio = variance / wanted
    weight = np.full(len(wanted), 1 / len(wanted))
    best: NDArray[np.int64] | None = None
    for _ in range(_ROUNDS):
        share = size * np.sqrt(ratio @ weight)
        count = _smallest(size, ratio, share, least, most)
        if best is None or count.sum() < best.sum():
            best = count
        reached = _reached(size, ratio, count)
        if reached.max() <= 0:
            break
        weight = weight * np.maximum(reached, 1e-9)
        weight /= weight.sum()
    assert best is not None
    return best


def suffices(
    size: NDArray[np.int64], variance: NDArray[np.float64], wanted: NDArray[np.float64], count: NDArray[np.int64]
) -> bool:
    """Return whether `count` [H] units give every machine's total at most the variance that is `wanted`, as of
    `allocate`.
    """
    return bool(_reached(size, variance / wanted, count).max() <= 1)


def _reached(size: NDArray[np.int64], ratio: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
    """[M] variance of the totals over the wanted one."""
    return (size**2 * (1 - count / size) / np.maximum(count, 1)) @ ratio


def _smallest(
    size: NDArray[np.int64],
    ratio: NDArray[np.float64],
    share: NDArray[np.float64],
    least: NDArray[np.int64],
    most: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The smallest multiple of `share`, rounded up into [least, most], that reaches what is wanted of all machines."""

    def counts(scale: float) -> NDArray[np.int64]:
        return np.minimum(most, np.maximum(least, np.ceil(share * scale)).astype(np.int64))

    some = share > 0
    low, high = 0.0, float((size[some] / share[some]).max(initial=0.0))  # all of every stratum that varies
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if _reached(size, ratio, counts(middle)).max() <= 1 else (middle, high)
    return counts(high)
