"""Statistical sampling and AdaBoost: Li, Yao, Liu, Wang, Sun: Efficient Design Space Exploration via Statistical
Sampling and AdaBoost Learning (DAC 2016).

Each program by itself. The first designs are those of an orthogonal array, here the two-level array of two factors at
the outer sizes and one in the middle; then active learning: boosted networks (AdaBoost.R2, Drucker, ICML 1997) are
trained, and of the designs not simulated the one about which their members disagree most is simulated next. Feature
selection, which the paper has too, has nothing to select between two sizes.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from analysis.experiments.study import MethodTimes, Study

SIMULATIONS = 10  # of 36: PerfVec's comparison gives it 170 of 600 hours
_MEMBERS = 8
_HIDDEN = 8


def answer(study: Study, seed: int, simulations: int = SIMULATIONS) -> MethodTimes:
    """Each program by itself, from `simulations` designs that sampling and active learning choose."""
    x = study.coordinates
    time = np.empty_like(study.cycles)
    simulated = np.zeros(time.shape, bool)
    for program, cycles in enumerate(study.cycles):
        chosen = orthogonal(x)[:simulations]
        while True:
            members = _members(x[chosen], cycles[chosen], x, seed)
            if len(chosen) == simulations:
                break
            disagreement = members.std(axis=0)
            disagreement[chosen] = -1.0
            chosen.append(int(disagreement.argmax()))
        simulated[program, chosen] = True
        time[program] = np.median(members, axis=0)
    return MethodTimes(time, simulated).with_simulated(study)


def orthogonal(x: NDArray[np.float64]) -> list[int]:
    """The designs nearest to the four corners and to the middle of the coordinates [D, 2]."""
    places = np.array([(-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (0.0, 0.0)])
    return list(dict.fromkeys(int(np.linalg.norm(x - place, axis=1).argmin()) for place in places))


def _members(
    x: NDArray[np.float64], cycles: NDArray[np.float64], at: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """[members, len(at)] cycles by each of the boosted networks, of which the prediction is the median."""
    from sklearn.ensemble import AdaBoostRegressor
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    low, span = cycles.min(), max(float(np.ptp(cycles)), 1e-6 * float(cycles.max()))
    weak = MLPRegressor(
        hidden_layer_sizes=(_HIDDEN,), activation="logistic", solver="lbfgs", alpha=1e-2, max_iter=200, tol=1e-4
    )
    boosted = AdaBoostRegressor(weak, n_estimators=_MEMBERS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        boosted.fit(x, (cycles - low) / span)
    found = np.array([member.predict(at) for member in boosted.estimators_])
    return np.maximum(low + span * found, 0.1 * low)
