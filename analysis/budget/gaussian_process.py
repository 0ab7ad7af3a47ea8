"""Gaussian-process regression over a design's coordinates, for a few hundred points (Rasmussen & Williams 2006).

Covariance: a linear part with a slope for each coordinate, a Matérn-5/2 function of all coordinates with a length scale
for each, and noise. Hyperparameters are the maximum a posteriori under wide log-normal priors, without which fifty
points do not determine the length scales of fifty fields; of wide designs the centres are what other programs' usually
are (empirical Bayes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.budget.coordinates import MODEL, Coordinates
from perfvec.eager import LBFGS
from support.text import parse_json

_USUAL = Path(__file__).parent / "usual_hyperparameters.json"
_JITTER = 1e-8
_LEAST = 0.01  # a standard deviation in the targets' own: points that happen to be equal do not show that all are
_ROUNDS = 60  # of L-BFGS
_BLOCK = 1 << 10  # points of a design at a time: beside 256 simulated ones they stay in the caches of the host


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters for standardised targets."""

    slope: Tensor  # [F] standard deviations
    scale: Tensor  # [F] inverse length scales
    joint: Tensor  # standard deviations
    noise: Tensor


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch with one thread: matrices of a few hundred rows, on which more threads wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def usual_hyperparameters() -> dict[str, tuple[float, float]]:
    """Return by how much the logarithms of slope and inverse length scale of each coordinate of `default`, and of the
    joint part and the noise, are above the general prior on average over 29 programs
    (`benchmarks/analysis/fit_usual.py`).
    """
    return {name: (first, second) for name, (first, second) in parse_json(_USUAL.read_text(encoding="utf-8")).items()}


class GaussianProcess:
    """A process over `where`, fitted to the targets [k] of its `rows`.

    `start` are hyperparameters to begin from, the `state` of another process; `spread` is the targets' standard
    deviation where more is known of it than these say.
    """

    def __init__(
        self,
        where: Coordinates,
        rows: NDArray[np.int64],
        targets: NDArray[np.float64],
        start: Tensor | None = None,
        spread: float | None = None,
    ) -> None:
        self.where, self.rows, self._targets = where, rows, np.asarray(targets, np.float64)
        self._x = self._points(rows)
        self._middle, self._spread = 0.0, 1.0
        if len(rows):
            self._middle = float(np.mean(targets))
            self._spread = max(float(np.std(targets)), 1e-9) if spread is None else spread
        self._y = torch.as_tensor((self._targets - self._middle) / self._spread)
        self._centre, self._width = self._priors()
        self.state = torch.zeros_like(self._centre) if start is None else start
        with _one_thread():
            if len(rows) > 1:
                self.state = self._fit()
            self.parameters = self._unpack(self._centre + self._width * self.state)
            self._inverse = torch.linalg.inv(self._covariance(self.parameters))
            self._weights = self._inverse @ self._y

    def _points(self, rows: NDArray[np.int64] | slice) -> Tensor:
        return torch.as_tensor(self.where.values[rows].astype(np.float64))

    def _priors(self) -> tuple[Tensor, Tensor]:
        """Centre and width of the log-normal priors: slopes, inverse length scales, the parts."""
        some = 1.0 / math.sqrt(self.where.fields)
        features = len(self.where.steps)
        scale = np.where(self.where.steps, math.log(0.7 * some), math.log(some))
        centre = np.concatenate([np.full(features, math.log(0.3 * some)), scale, [math.log(0.7), math.log(0.03)]])
        if self.where.names:
            usual = usual_hyperparameters()
            known = np.array([usual.get(name, (0.0, 0.0)) for name in (*self.where.names, "the parts")])
            centre += np.concatenate([known[:-1, 0], known[:-1, 1], known[-1]])
            if MODEL in self.where.names:  # whose slope is 1 where it is right
                centre[self.where.names.index(MODEL)] = 0.0
        width = np.concatenate([np.full(2 * features, 1.2), np.ones(2)])
        return torch.as_tensor(centre), torch.as_tensor(width)

    def _fit(self) -> Tensor:
        free = self.state.clone().requires_grad_(True)
        optimiser = LBFGS([free], max_iter=_ROUNDS, line_search_fn="strong_wolfe", tolerance_change=1e-5)

        def loss() -> Tensor:
            optimiser.zero_grad()
            value = self._objective(self._unpack(self._centre + self._width * free)) + 0.5 * (free**2).sum()
            value.backward()
            return value

        try:
            optimiser.step(loss)
        except torch.linalg.LinAlgError:
            return self.state
        return free.detach() if bool(torch.isfinite(free).all()) else self.state

    def _unpack(self, values: Tensor) -> Hyperparameters:
        features = len(self.where.steps)
        joint, noise = values[2 * features :].exp()
        return Hyperparameters(values[:features].exp(), values[features : 2 * features].exp(), joint, noise)

    def _objective(self, p: Hyperparameters) -> Tensor:
        """The negative logarithm of the marginal likelihood (ibid., eq. 5.8), but for a constant."""
        factor = torch.linalg.cholesky(self._covariance(p))
        half = torch.linalg.solve_triangular(factor, self._y[:, None], upper=False)
        return 0.5 * (half**2).sum() + factor.diagonal().log().sum()

    def _covariance(self, p: Hyperparameters) -> Tensor:
        noise = (p.noise**2 + _JITTER) * torch.eye(len(self._x), dtype=torch.float64)
        return self.kernel(self._x, self._x, p) + noise

    def kernel(self, a: Tensor, b: Tensor, p: Hyperparameters) -> Tensor:
        """[len(a), len(b)] without noise."""
        return (a * p.slope**2) @ b.T + 1.0 + p.joint**2 * _matern(_squares(a * p.scale, b * p.scale))

    def _variance(self, points: Tensor, p: Hyperparameters) -> Tensor:
        """[n] the diagonal of their `kernel`."""
        return (points**2 * p.slope**2).sum(1) + 1.0 + p.joint**2

    def left_out(self, folds: int = 8) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[k] residuals (observed less predicted) and standard deviations of points by processes that did not have
        them, one a fold, each with hyperparameters of its own and the spread of all.
        """
        count = len(self.rows)
        residual, deviation = np.empty(count), np.empty(count)
        fold = np.random.default_rng(0).permutation(count) % min(folds, count)
        for number in range(int(fold.max()) + 1):
            out = fold == number
            other = GaussianProcess(self.where, self.rows[~out], self._targets[~out], spread=self._spread)
            mean, deviation[out] = other.predict(self.rows[out])
            residual[out] = self._targets[out] - mean
        return residual, deviation

    def predict(
        self, rows: NDArray[np.int64] | None = None, where: Coordinates | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[m] mean and standard deviation at these rows, by default all, in blocks; of other points with the same
        coordinates, `where`.
        """
        values = (where or self.where).values
        count = len(values) if rows is None else len(rows)
        p, mean, deviation = self.parameters, np.empty(count), np.empty(count)

        def fill(begin: int) -> None:
            some = slice(begin, begin + _BLOCK)
            block = torch.as_tensor(values[some if rows is None else rows[some]].astype(np.float64))
            k = self.kernel(block, self._x, p)
            variance = self._variance(block, p) - ((k @ self._inverse) * k).sum(1)
            mean[some] = self._middle + self._spread * (k @ self._weights).numpy()
            deviation[some] = self._spread * (variance.clamp(min=0) + p.noise**2 + _LEAST**2).sqrt().numpy()

        threads = torch.get_num_threads()
        with _one_thread(), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(fill, range(0, count, _BLOCK)))
        return mean, deviation

    def most_informative(self, rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """`count` of the rows, one after the other, each the one that lowers the rows' mean variance most."""
        p, points = self.parameters, self._points(rows)
        across = self.kernel(points, self._x, p)
        covariance = self.kernel(points, points, p) - across @ self._inverse @ across.T
        chosen: list[int] = []
        for _ in range(min(count, len(rows))):
            variance = covariance.diagonal() + p.noise**2 + _JITTER
            gain = (covariance**2).sum(0) / variance
            gain[chosen] = -1.0
            best = int(gain.argmax())
            chosen.append(best)
            row = covariance[best]
            covariance = covariance - torch.outer(row, row) / variance[best]
        return rows[chosen]


def _squares(a: Tensor, b: Tensor) -> Tensor:
    """[len(a), len(b)] squared distances, above 0 for the square root's derivative."""
    return ((a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T).clamp(min=1e-12)


def _matern(square: Tensor) -> Tensor:
    distance = (5 * square).sqrt()
    return (1 + distance + distance**2 / 3) * torch.exp(-distance)
