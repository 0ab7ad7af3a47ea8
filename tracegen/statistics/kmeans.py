"""k-means clustering (Lloyd) from k-means++ starts, and the Bayesian information criterion of a clustering.

Kept for the time of a whole process, which clusters once or a few times: importing scikit-learn's k-means takes 2 s.
Points of 32 and 64 dimensions, into 8 clusters (5 starts) and 48 (2 starts): 300 take 0.02 to 0.03 s by these and 0.02
to 0.04 s by scikit-learn's, 3,000 take 0.06 to 0.26 s and 0.04 to 0.09 s, 20,000, the most that are fitted, 0.4 to
1.9 s and 0.2 to 0.4 s. Its greedy starts give sums of squares that are 7 to 21 % lower for 48 clusters, and within 1 %
for 8 (`benchmarks/libraries.py`, 2026-11-25, processor time, two cores of an AMD EPYC virtual machine).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.jit import cached
from support.processors import processors

_ROUNDS = 100  # SimPoint's default
_FIT = 20_000  # points that the centres are fitted to; all others are assigned to them (SimPoint 3.0 samples too)


@dataclass(frozen=True)
class Clusters:
    """k clusters of n points in d dimensions; none is empty."""

    centre: NDArray[np.float64]  # [k, d]
    label: NDArray[np.int32]  # [n]
    distance: NDArray[np.float64]  # [n] squared distance to the centre

    @property
    def size(self) -> NDArray[np.int64]:
        """[k] points of each cluster."""
        return np.bincount(self.label, minlength=len(self.centre))


@cached(nogil=True)
def _assign(
    points: NDArray[np.float32], centre: NDArray[np.float64], label: NDArray[np.int32], distance: NDArray[np.float64]
) -> int:
    """Give each point its nearest centre (the first of equals); how many changed.

    All centres side by side, dimension by dimension: that vectorises, and sums stay in the order of dimensions.
    """
    changed = 0
    across = np.ascontiguousarray(centre.T)
    squares = np.empty(len(centre))
    for point in range(len(points)):
        squares[:] = 0.0
        for dimension in range(points.shape[1]):
            value = np.float64(points[point, dimension])
            for k in range(len(centre)):
                difference = value - across[dimension, k]
                squares[k] += difference * difference
        best, least = 0, np.inf
        for k in range(len(centre)):
            if squares[k] < least:
                best, least = k, squares[k]
        changed += label[point] != best
        label[point], distance[point] = best, least
    return changed


def _start(points: NDArray[np.float32], k: int, random: np.random.Generator) -> NDArray[np.float64]:
    """k-means++ (Arthur & Vassilvitskii, SODA 2007): each next centre with probability ∝ its squared distance."""
    centre = [points[random.integers(len(points))].astype(np.float64)]
    distance = np.full(len(points), np.inf)
    while len(centre) < k:
        distance = np.minimum(distance, ((points - centre[-1]) ** 2).sum(axis=1))
        total = distance.sum()
        if total <= 0:  # fewer distinct points than centres
            break
        centre.append(points[random.choice(len(points), p=distance / total)].astype(np.float64))
    return np.array(centre)


def _fit(points: NDArray[np.float32], centre: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Centres [k, d] from these, and the sum of squared distances."""
    label, distance = np.full(len(points), -1, np.int32), np.empty(len(points))
    for _ in range(_ROUNDS):
        changed = _assign(points, centre, label, distance)
        size = np.bincount(label, minlength=len(centre))
        sums = np.stack([np.bincount(label, column, len(centre)) for column in points.T], axis=1)
        centre = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centre)
        if changed == 0:
            break
    return centre, float(distance.sum())


def kmeans(points: NDArray[np.float32], k: int, *, seed: int = 0, starts: int = 5) -> Clusters:
    """The best of `starts` clusterings of `points` [n, d] into at most k clusters; the same for the same seed."""
    random = np.random.default_rng([seed, k])
    points = np.ascontiguousarray(points, np.float32)
    fitted = points
    if len(points) > _FIT:
        fitted = points[np.sort(random.choice(len(points), _FIT, replace=False))]
    begun = [_start(fitted, k, random) for _ in range(starts)]
    label, distance = np.full(len(points), -1, np.int32), np.empty(len(points))
    with ThreadPoolExecutor(processors()) as threads:
        centre = min(threads.map(lambda start: _fit(fitted, start), begun), key=lambda found: found[1])[0]
        parts = [slice(begin, begin + _FIT) for begin in range(0, len(points), _FIT)]
        list(threads.map(lambda part: _assign(points[part], centre, label[part], distance[part]), parts))
    used, number = np.unique(label, return_inverse=True)
    return Clusters(centre[used], number.astype(np.int32), distance)


def bic(clusters: Clusters) -> float:
    """Bayesian information criterion of the clustering as spherical Gaussians of one variance; larger is better.

    Pelleg & Moore (X-means, ICML 2000), which SimPoint uses: l − p/2·log n with p = (k − 1) + k·d + 1 parameters and
    l = Σ_i n_i·log(n_i/n) − n·d/2·log(2πσ²) − d·(n − k)/2, σ² = Σ distance² / (d·(n − k)).
    """
    count, (k, dimensions) = len(clusters.label), clusters.centre.shape
    size = clusters.size
    if count <= k:
        return -np.inf
    variance = clusters.distance.sum() / (dimensions * (count - k))
    variance = max(variance, 1e-12)  # of identical points
    likelihood = (
        float((size * np.log(size / count)).sum())
        - count * dimensions / 2 * np.log(2 * np.pi * variance)
        - dimensions * (count - k) / 2
    )
    parameters = (k - 1) + k * dimensions + 1
    return float(likelihood - parameters / 2 * np.log(count))
