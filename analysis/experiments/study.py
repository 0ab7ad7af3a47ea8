"""A cache-size study: designs, what simulations say of them, and how good a method's choice of a design is.

PerfVec's study (Li et al., arXiv 2310.16792): L1 data and L2 caches of six sizes each; of the 36 designs the one with
the smallest time · (1000 + 10 · L1 KiB + L2 KiB) is wanted for each program. A method may simulate some designs of some
programs and answers with a time for every design of every program; only their ratios within a program matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine, replace_field

L1_KIB = (4, 8, 16, 32, 64, 128)
L2_KIB = (256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Study:
    """Times of P programs on D designs; `trained` are the programs (numbers) that methods may learn from beforehand."""

    programs: tuple[str, ...]
    designs: tuple[Machine, ...]
    sizes: NDArray[np.float64]  # [D, 2] KiB of L1 and L2
    cycles: NDArray[np.float64]  # [P, D]
    seconds: NDArray[np.float64]  # [P, D] CPU time of each simulation
    trained: tuple[int, ...]

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """[D, 2] the logarithms of the sizes, from -1 to 1."""
        logs = np.log2(self.sizes)
        low, high = logs.min(axis=0), logs.max(axis=0)
        return 2.0 * (logs - low) / (high - low) - 1.0

    @property
    def cost(self) -> NDArray[np.float64]:
        """[D] what the objective multiplies the time with."""
        return 1000.0 + 10.0 * self.sizes[:, 0] + self.sizes[:, 1]


@dataclass(frozen=True)
class MethodTimes:
    """A method's times for every design, [P, D] to any scale of a program, and which simulations it looked at."""

    time: NDArray[np.float64]
    simulated: NDArray[np.bool_]

    def with_simulated(self, study: Study) -> MethodTimes:
        """Return these with the simulated time wherever a design was simulated."""
        return MethodTimes(np.where(self.simulated, study.cycles, self.time), self.simulated)


def designs_of(
    base: Machine, l1: Sequence[int] = L1_KIB, l2: Sequence[int] = L2_KIB
) -> tuple[list[Machine], NDArray[np.float64]]:
    """`base` with these L1 data and L2 caches, the L1 varying slowest, and their sizes [D, 2]. Raises InputError for a
    size that the base's associativity does not allow.
    """
    machines, sizes = [], []
    for small in l1:
        for large in l2:
            machine = replace_field(replace_field(base, "l1d.size_kib", small), "l2.size_kib", large)
            machines.append(replace_field(machine, "name", f"{base.name}-{small}K-{large}K"))
            sizes.append((small, large))
    return machines, np.array(sizes, np.float64)


def quality(study: Study, answer: MethodTimes) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Tell for each program how far the chosen design's true objective is above the smallest (a fraction), how many
    designs are truly better, and which was chosen.
    """
    objective = study.cycles * study.cost
    chosen = (answer.time * study.cost).argmin(axis=1)
    value = objective[np.arange(len(objective)), chosen]
    return value / objective.min(axis=1) - 1.0, (objective < value[:, None]).sum(axis=1), chosen


def spread(coordinates: NDArray[np.float64], count: int) -> list[int]:
    """`count` designs far from one another: the one nearest to the smallest caches, then always the one whose nearest
    chosen one is farthest (greedy maximin distance)."""
    chosen = [int((coordinates - coordinates.min(axis=0)).sum(axis=1).argmin())]
    while len(chosen) < count:
        distance = np.linalg.norm(coordinates[:, None] - coordinates[chosen], axis=2).min(axis=1)
        chosen.append(int(distance.argmax()))
    return chosen
