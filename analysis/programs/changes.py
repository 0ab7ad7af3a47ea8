"""Changes of a program's time from one machine to another, and how sure they are.

On live-points a change is known better than either time: both machines see the same units, so most of what these lack
of the whole run is alike (common random numbers). An estimate therefore has its `deviations` (`Estimates`), and the
logarithm of two times' ratio an interval of their difference, and of the state that a change moves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.programs.simulable import quantile

# In 95 of 100 cases state that was not warm enough moves a change by less, as logarithms: so much in any case, and a
# share of the change, at most so much (docs/explanation/live-points.md).
ALWAYS, SHARE, MOST = 0.003, 0.1, 0.03


def half_widths(
    log: NDArray[np.float64], deviations: NDArray[np.float64], of: NDArray[np.float64], level: float
) -> NDArray[np.float64]:
    """[n] half of the intervals of this level of `log` [n], the logarithms of cycles over those of another machine:
    of machines with `deviations` [n, R] to one with those `of` [R], or [n, R]; 0 where the whole run is simulated.
    """
    if not deviations.shape[1]:
        return np.zeros(len(log))
    apart = np.sqrt(((deviations - of) ** 2).sum(axis=1))
    cold = ALWAYS + np.minimum(SHARE * np.abs(log), MOST)
    return np.asarray(np.hypot(quantile(level) * apart, cold * quantile(level) / quantile(0.95)))
