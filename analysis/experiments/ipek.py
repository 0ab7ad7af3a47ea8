"""Neural networks for each program: Ïpek, McKee, de Supinski, Schulz, Caruana: Efficiently Exploring Architectural
Design Spaces via Predictive Modeling (ASPLOS 2006).

Some designs of each program are simulated at random; an ensemble of small networks, each trained without a fold of
them (cross validation), predicts the others by its average. One hidden layer of sigmoid units, inputs and the target
scaled to their ranges, as in the paper. Not as there: with nine simulations a fold is one of them and can stop no
training early, so that networks are trained by L-BFGS with a weight decay instead of by momentum and early stopping.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from analysis.experiments.study import MethodTimes, Study
from support.errors import InputError

SIMULATIONS = 9  # of 36: the share of the exhaustive hours that PerfVec's comparison gives it, 150 of 600
_HIDDEN = 16
_DECAY = 1e-2


def answer(study: Study, seed: int, simulations: int = SIMULATIONS) -> MethodTimes:
    """Each program by itself, from `simulations` random designs."""
    generator = np.random.default_rng([seed, 1])
    x = study.coordinates
    time = np.empty_like(study.cycles)
    simulated = np.zeros(time.shape, bool)
    for program, cycles in enumerate(study.cycles):
        chosen = generator.choice(len(x), simulations, replace=False)
        simulated[program, chosen] = True
        time[program] = ensemble(x[chosen], cycles[chosen], x, seed)
    return MethodTimes(time, simulated).with_simulated(study)


def ensemble(
    x: NDArray[np.float64], cycles: NDArray[np.float64], at: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """[len(at)] average of networks trained on all but one of the samples [n, 2]; InputError for fewer than three."""
    if len(x) < 3:
        raise InputError(f"{len(x)} simulations cannot be divided for cross validation; at least 3")
    return np.mean([network(np.delete(x, out, 0), np.delete(cycles, out), at, seed) for out in range(len(x))], axis=0)


def network(
    x: NDArray[np.float64], cycles: NDArray[np.float64], at: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Cycles at `at` by one network trained on the samples."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    low, span = cycles.min(), max(float(np.ptp(cycles)), 1e-6 * float(cycles.max()))
    model = MLPRegressor(
        hidden_layer_sizes=(_HIDDEN,),
        activation="logistic",
        solver="lbfgs",
        alpha=_DECAY,
        max_iter=200,
        tol=1e-4,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 200 steps are enough for a handful of samples
        model.fit(x, (cycles - low) / span)
    found: NDArray[np.float64] = np.maximum(low + span * model.predict(at), 0.1 * low)
    return found
