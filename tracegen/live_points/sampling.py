"""The sample of a run: units drawn within strata, their weights, and the error of the sum.

Units are stratified by their signatures (k-means), and as many are drawn of each stratum as its size and the spread of
a simple machine's cycles in it ask for (Neyman, JRSS 1934). The sample's weights are then calibrated, so that the sums
of signatures over the run come out right (generalised regression estimator: Särndal, Swensson & Wretman, *Model
Assisted Survey Sampling*, 1992, §6.4): what depends linearly on the signatures has no error, and the variance is that
of the residuals within strata. A few units with by far the most accesses are all taken, a stratum without an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tracegen.statistics.kmeans import kmeans

STRATA = 96  # at most
UNITS_A_STRATUM = 40  # at least, on average
_LEAST = 3  # units drawn of each stratum
_SPREAD = 0.05  # of a stratum's mean cycles, at least, whatever a simple machine says
_CALIBRATED = 20  # columns of signatures that weights are calibrated by: all but those of code
_RIDGE = 1e-3
_LEAST_LEFT = 0.1  # of a unit's residual, however far its signature is from the others'
_SHRINKAGE = 2.0  # degrees of freedom that the strata's common relative variance counts as


@dataclass(frozen=True)
class Sample:
    """n units that stand for a run of `population` units of the same length."""

    weight: NDArray[np.float64]  # [n] calibrated; the sum over units of weight · cycles is the run's
    stratum: NDArray[np.int32]  # [n]
    size: NDArray[np.float64]  # [H] units of each stratum in the run
    signature: NDArray[np.float32]  # [n, p] what weights are calibrated by, a constant first

    @classmethod
    def of_all(cls, units: int) -> Sample:
        """Every unit of a run, each for itself."""
        return cls(np.ones(units), np.zeros(units, np.int32), np.array([float(units)]), np.ones((units, 1), np.float32))

    def totals(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """[K] the run's totals of `values` [K, n]."""
        return values @ self.weight

    def half_width(self, values: NDArray[np.float64], confidence: float = 0.95) -> NDArray[np.float64]:
        """[K] half of the totals' confidence intervals; 0 where every unit of the run is in the sample.

        A stratum's few residuals may happen to be alike: its variance is drawn towards the common relative one.
        """
        grown, count = self._residuals(values)
        mean, own = np.empty((len(values), len(count))), np.empty((len(values), len(count)))
        for h in range(len(count)):
            here = self.stratum == h
            mean[:, h] = values[:, here].mean(axis=1)
            own[:, h] = grown[:, here].var(axis=1, ddof=1) if count[h] > 1 else 0.0
        drawn = np.where(count < self.size, self.size, 0.0)  # a stratum that is all taken tells nothing of the others
        common = (own * drawn).sum(axis=1) / np.maximum((mean**2 * drawn).sum(axis=1), 1e-300)
        freedom = count - 1
        spread = (freedom * own + _SHRINKAGE * common[:, None] * mean**2) / (freedom + _SHRINKAGE)
        variance = (self.size**2 * np.maximum(1 - count / self.size, 0) / count * spread).sum(axis=1)
        degrees = max(len(self.weight) - len(count) - self.signature.shape[1], 8)
        return np.asarray(stdtrit(degrees, 0.5 + confidence / 2) * np.sqrt(variance))

    def deviations(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """[K, n] linear in `values`: the sum of their squares is the total's variance, and that of the squares of two
        rows' difference the variance of the totals' difference (each stratum's own, without `half_width`'s shrinkage).
        """
        grown, count = self._residuals(values)
        mean = np.stack([np.bincount(self.stratum, row, len(count)) for row in grown]) / np.maximum(count, 1)
        left = np.maximum(1 - count / self.size, 0)
        each = self.size * np.sqrt(left / np.maximum(count * (count - 1), 1)) * (count > 1)
        return np.asarray((grown - mean[:, self.stratum]) * each[self.stratum])

    def _residuals(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[K, n] what signatures do not tell of `values`, by the calibrated weights, and [H] units of each stratum.

        Each unit's is against the slopes without it (jackknife; MacKinnon & White, J. Econometrics 1985): one like no
        other has no residual from slopes that go through it.
        """
        count = np.bincount(self.stratum, minlength=len(self.size)).astype(np.float64)
        inner = self.size[self.stratum] / count[self.stratum]  # before calibration
        x = self.signature.astype(np.float64)
        gram = x.T @ (x * inner[:, None]) + _penalty(x, inner)
        slopes = np.linalg.solve(gram, x.T @ (values * inner).T)
        leverage = inner * np.einsum("np,pn->n", x, np.linalg.solve(gram, x.T))
        scale = self.weight / inner / np.maximum(1 - leverage, _LEAST_LEFT)
        return np.asarray((values - (x @ slopes).T) * scale), count


@dataclass(frozen=True)
class Drawn:
    """`unit` [n]: the numbers of the units drawn, ascending; `sample` is in the same order."""

    unit: NDArray[np.uint64]
    sample: Sample


def draw(
    numbers: NDArray[np.uint64],
    signatures: NDArray[np.float32],
    held: NDArray[np.uint64],
    population: int,
    units: int,
    seed: int,
    take_all: NDArray[np.uint64] | None = None,
) -> Drawn:
    """Draw about so many `units` of those `held`, a simple random part of the units `numbers` [m] with `signatures`
    [m, p], of a run of `population` units; those in `take_all`, which are held too, are drawn whatever they are.
    """
    if units >= population:
        return Drawn(np.sort(numbers), Sample.of_all(len(numbers)))
    if take_all is not None and len(take_all):
        others, held = ~np.isin(numbers, take_all), held[~np.isin(held, take_all)]
        count = len(take_all)
        return _with(draw(numbers[others], signatures[others], held, population - count, units - count, seed), take_all)
    order = np.argsort(numbers)
    numbers, raw = numbers[order], signatures[order].astype(np.float64)
    scale = population / len(numbers)
    place = np.searchsorted(numbers, np.sort(held))
    spread = raw.std(axis=0)
    standard = (raw - raw.mean(axis=0)) / np.where(spread > 0, spread, 1)
    label = _strata(standard, place, seed)
    size = np.bincount(label)
    cycles = raw[:, 0]
    mean = np.bincount(label, cycles) / size
    deviation = np.sqrt(np.maximum(np.bincount(label, cycles**2) / size - mean**2, 0))
    share = size * np.maximum(deviation, _SPREAD * mean)
    there = np.bincount(label[place], minlength=len(size))
    count = np.minimum(there, np.maximum(_LEAST, np.round(units * share / share.sum())).astype(np.int64))
    random = np.random.default_rng([seed, 1])
    chosen = np.sort(
        np.concatenate(
            [random.choice(place[label[place] == h], count[h], replace=False) for h in range(len(size)) if count[h]]
        )
    )
    stratum = label[chosen].astype(np.int32)
    inner = (size / count)[stratum] * scale
    x = np.concatenate([np.ones((len(numbers), 1)), standard[:, :_CALIBRATED]], axis=1)
    drawn = x[chosen]
    missing = scale * x.sum(axis=0) - inner @ drawn
    gram = drawn.T @ (drawn * inner[:, None]) + _penalty(drawn, inner)
    weight = np.asarray(inner * (1 + drawn @ np.linalg.solve(gram, missing)), np.float64)
    sizes = np.asarray(size * scale, np.float64)
    return Drawn(numbers[chosen], Sample(weight, stratum, sizes, drawn.astype(np.float32)))


def _with(drawn: Drawn, taken: NDArray[np.uint64]) -> Drawn:
    """`drawn`, and the units `taken`, each of which stands for itself alone."""
    sample, count = drawn.sample, len(taken)
    unit = np.concatenate([drawn.unit, taken])
    order = np.argsort(unit)
    return Drawn(
        unit[order],
        Sample(
            np.concatenate([sample.weight, np.ones(count)])[order],
            np.concatenate([sample.stratum, np.full(count, len(sample.size), np.int32)])[order],
            np.append(sample.size, float(count)),
            np.concatenate([sample.signature, np.zeros((count, sample.signature.shape[1]), np.float32)])[order],
        ),
    )


def _penalty(x: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a small ridge on all columns but the constant: few units may say little about rare ones."""
    ridge = _RIDGE * weight.sum() * np.eye(x.shape[1])
    ridge[0, 0] = 0
    return ridge


def _strata(standard: NDArray[np.float64], held: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """[m] the stratum of each unit: its cluster, or the nearest one where fewer than _LEAST of its units are held."""
    most = max(1, min(STRATA, len(standard) // UNITS_A_STRATUM, len(held) // (2 * _LEAST)))
    label = kmeans(standard.astype(np.float32), most, seed=seed, starts=1).label
    size = np.bincount(label, minlength=most)
    sums = np.stack([np.bincount(label, column, most) for column in standard.T], axis=1)
    centre = sums / np.maximum(size, 1)[:, None]
    enough = np.bincount(label[held], minlength=most) >= _LEAST
    if not enough.any():
        return np.zeros(len(label), np.int64)
    kept = np.flatnonzero(enough)
    nearest = np.argmin(((centre[:, None] - centre[kept][None]) ** 2).sum(axis=2), axis=1)
    return np.asarray(nearest[label], np.int64)
