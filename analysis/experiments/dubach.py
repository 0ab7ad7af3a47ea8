"""Prediction from other programs and a few responses.

Dubach, Jones, O'Boyle: Microarchitectural Design Space Exploration Using an Architecture-Centric Approach (MICRO 2007).

Some programs are simulated beforehand and each gets a neural network. A new program is simulated on a few designs, its
responses; a linear regression over the networks' predictions on them gives the weights by which the networks predict
the new program everywhere (no intercept: a time is a mixture of times).
"""

from __future__ import annotations

import numpy as np

from analysis.experiments.ipek import network
from analysis.experiments.study import MethodTimes, Study

TRAINING = 9  # simulations of each program simulated beforehand
RESPONSES = 4  # of each other; of 17 programs with 3 beforehand 83 of 612: PerfVec's comparison has 84 of 600 hours


def answer(study: Study, seed: int, training: int = TRAINING, responses: int = RESPONSES) -> MethodTimes:
    """The `trained` programs' networks from `training` random designs each, the others from `responses`."""
    generator = np.random.default_rng([seed, 2])
    x = study.coordinates
    simulated = np.zeros(study.cycles.shape, bool)
    networks = []
    for program in study.trained:
        chosen = generator.choice(len(x), training, replace=False)
        simulated[program, chosen] = True
        networks.append(network(x[chosen], study.cycles[program, chosen], x, seed))
    basis = np.array(networks).T  # [D, trained]
    basis /= basis.mean(axis=0)
    time = np.empty_like(study.cycles)
    for program, cycles in enumerate(study.cycles):
        if program in study.trained:
            time[program] = networks[study.trained.index(program)]
            continue
        chosen = generator.choice(len(x), responses, replace=False)
        simulated[program, chosen] = True
        weights = np.linalg.lstsq(basis[chosen], cycles[chosen], rcond=1e-3)[0]
        time[program] = np.maximum(basis @ weights, 0.1 * cycles[chosen].min())
    return MethodTimes(time, simulated).with_simulated(study)
