"""PerfVec's own way (arXiv 2310.16792): the machine's vector as a function of the sizes, the foundation model frozen.

Zero-shot it is the encoder's, m₀(s). Fitted, m(s) = m₀(s) + Σ_j φ_j(s)·w_j with φ the monomials of the sizes' logs up
to the second degree; w is a Bayesian linear regression (`perfvec.machines.posterior`) on intervals of a few programs
simulated on a few designs. PerfVec trains a network of two layers for the same; a regression that is linear in w has
one solution and finds its own strength. A program that was not simulated needs its representation and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.designs.sweep import encoder_of
from analysis.experiments.simulations import Intervals
from analysis.experiments.study import MethodTimes, Study, spread
from perfvec.machines.posterior import Observations, fit
from perfvec.model import Model

_SMALL = 0.03
DESIGNS = 4  # of each of three programs: PerfVec's own simulations took 11 of 600 hours


def zero_shot(model: Model, study: Study, intervals: Sequence[Intervals]) -> MethodTimes:
    """The encoder's vectors; nothing is simulated."""
    vectors = encoder_of(model).vectors(study.designs)
    return MethodTimes(_times(intervals, vectors), np.zeros(study.cycles.shape, bool))


def fitted(model: Model, study: Study, intervals: Sequence[Intervals], designs: int = DESIGNS) -> MethodTimes:
    """Fitted to the `trained` programs' intervals on `designs` designs that are spread over the space.

    Simulated times do not replace predicted ones: a prediction may be off by a factor that all designs share.
    """
    chosen = spread(study.coordinates, designs)
    simulated = np.zeros(study.cycles.shape, bool)
    simulated[np.ix_(study.trained, chosen)] = True
    basis = monomials(study.coordinates)  # [D, J]
    encoded = encoder_of(model).vectors(study.designs)  # [D, d]
    rows, known, cycles, groups = [], [], [], []
    for number, program in enumerate(study.trained):
        own = intervals[program]
        for place, design in enumerate(chosen):
            rows.append(np.einsum("j,wd->wjd", basis[design], own.vectors).reshape(len(own.vectors), -1))
            known.append(own.vectors @ encoded[design])
            cycles.append(own.cycles_represented[design])
            groups.append(np.full(len(own.vectors), number * len(chosen) + place))
    design_rows, times = np.concatenate(rows), np.concatenate(known)
    # The encoder's times are one more column, so small that its coefficient stays what the prior says.
    scale = _SMALL * float(np.linalg.norm(design_rows, axis=1).mean() / np.abs(times).mean())
    observed = Observations(
        np.column_stack([design_rows, scale * times]), np.concatenate(cycles), np.concatenate(groups)
    )
    prior = np.append(np.zeros(design_rows.shape[1]), 1.0 / scale)
    found = fit(observed, prior).mean
    vectors = scale * found[-1] * encoded + basis @ found[:-1].reshape(basis.shape[1], -1)
    return MethodTimes(_times(intervals, vectors), simulated)


def monomials(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, 6] 1, a, b, a², ab, b² of [n, 2]."""
    a, b = x.T
    return np.stack([np.ones(len(x)), a, b, a * a, a * b, b * b], axis=1)


def _times(intervals: Sequence[Intervals], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """[P, D]; a time that comes out negative counts as none that is wanted."""
    time: NDArray[np.float64] = np.stack([program.vector for program in intervals]) @ vectors.T
    return np.where(time > 0, time, np.inf)
