"""Quantiles of held-out errors that hold for a program that nobody has seen (conformal prediction).

Scores of one program are alike, so the unit that is exchangeable with a new one is the program, not the pair of a
program and a machine: every program counts as one, its scores share that weight, and one more stands for the new
program at infinity (Lee, Barber & Willett, arXiv 2306.06342; Dunn, Wasserman & Ramdas, JASA 2023). With one score a
program this is split conformal prediction (Vovk, Gammerman & Shafer, 2005; Papadopoulos et al., ECML 2002; Lei et al.,
JASA 2018).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def hierarchical_quantiles(scores: ArrayLike, groups: ArrayLike, levels: ArrayLike) -> NDArray[np.float64]:
    """[L] the smallest score q such that those ≤ q weigh at least `levels` [L]; infinite where all weigh less.

    Each of the N_k scores of group k (of K) weighs 1 / ((K + 1) N_k). If the groups are exchangeable with a new one,
    a score drawn from that is ≤ q with at least the level's probability (Lee et al.). Raises ValueError
    where there is no score.
    """
    scores, groups, levels = np.asarray(scores, float), np.asarray(groups), np.asarray(levels, float)
    if not scores.size:
        raise ValueError("a quantile of no scores")
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(1.0 / ((len(sizes) + 1) * sizes[group[order]]))
    place = np.searchsorted(reached, levels * (1 - 1e-12))
    return np.append(scores[order], np.inf)[place]
