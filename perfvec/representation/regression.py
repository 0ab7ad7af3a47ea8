"""The regression estimator: what all units' signatures say of the units that were not drawn
(docs/explanation/representation.md).

Units of one stratum still differ, and half of the difference follows from their signatures, which are known of all
units. With slopes B, the same for all strata, a drawn unit's vector y with the signature x is replaced by
y − (x − X̄_h)·B, X̄_h the mean signature of all units of its stratum: the stratified estimator of such values is the
combined regression estimator (Cochran, Sampling Techniques, 1977, §7.10; Särndal, Swensson & Wretman, Model Assisted
Survey Sampling, 1992, §6.4), whose variance is that of the residuals. B is fitted to the sample itself, so that the
total's bias is of the order of 1/n, where its standard error is of the order of 1/√n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_RIDGE = 0.01  # of the signatures' variance within strata: columns that hardly vary there get no slope
_UNITS_A_SLOPE = 10  # of fewer units, slopes are not fitted
_LEVERAGE = 0.9  # at most


class Regression:
    """Signatures [N, p] of all units, and the strata `label` [N] of `size` [H] that they lie in."""

    def __init__(self, signatures: NDArray[np.float32], label: NDArray[np.int32], size: NDArray[np.int64]) -> None:
        self._size = size
        sums = np.stack([np.bincount(label, column, len(size)) for column in signatures.T], axis=1)
        self._mean = sums / np.maximum(size, 1)[:, None]
        self._signatures, self._label = signatures, label

    def centred(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """[n, p] how these units differ from the mean of their strata."""
        return np.asarray(self._signatures[units] - self._mean[self._label[units]])

    def of_intervals(self, interval: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """[I, p] sums of `centred` over the units of each interval, of which `shares` [I, H] lie in each stratum."""
        columns = self._signatures.T
        sums = np.stack([np.bincount(interval, column, len(shares)) for column in columns], axis=1)
        return np.asarray(sums - shares @ self._mean)

    def adjusted(
        self, units: Sequence[NDArray[np.int64]], drawn: Sequence[NDArray[np.float64]]
    ) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """`drawn[h]` [n_h, d], the vectors of `units[h]`, without what their signatures say of them; the slopes [p, d].

        Least squares with a ridge, of deviations from the stratum's mean, which weigh as in the total's variance; a
        column that does not vary has no slope, and where there are few units there are none. A unit's deviation then is
        the one that it has from slopes fitted without it: e/(1 − its leverage).
        """
        columns = self._mean.shape[1]
        slopes = np.zeros((columns, drawn[0].shape[1]))
        count = np.array([len(numbers) for numbers in units])
        some = np.flatnonzero((count > 1) & (count < self._size)).tolist()
        if count[some].sum() - len(some) < _UNITS_A_SLOPE * columns:
            return list(drawn), slopes
        weight = np.repeat(self._size[some] / np.sqrt(count[some] * (count[some] - 1.0)), count[some])[:, None]
        mean = [self._signatures[units[h]].mean(axis=0, dtype=np.float64) for h in some]
        x = weight * np.concatenate([self._signatures[units[h]] - mean[k] for k, h in enumerate(some)])
        y = weight * np.concatenate([drawn[h] - drawn[h].mean(axis=0) for h in some])
        scale = np.sqrt((x**2).sum(axis=0))
        varies = scale > 1e-9 * scale.max(initial=0.0)
        x = x[:, varies] / scale[varies]
        inverse = np.linalg.inv(x.T @ x + _RIDGE * np.eye(x.shape[1]))
        slopes[varies] = inverse @ (x.T @ y) / scale[varies, None]
        leverage = np.minimum(np.einsum("ni,ij,nj->n", x, inverse, x), _LEVERAGE)
        out, begin = list(drawn), 0
        for h in some:
            end = begin + count[h]
            residual = drawn[h] - self.centred(units[h]) @ slopes
            level = residual.mean(axis=0)
            without = (residual - level) / (1 - leverage[begin:end])[:, None]
            out[h] = level + without - without.mean(axis=0)
            begin = end
        return out, slopes
