"""Costs of a program's parts on machines, predicted by a model or simulated.

Either way a part's cycles are a dot product, so that every analysis of parts serves both. Predicted, a part is the sum
of its instructions' representations, and a machine its vector (PerfVec, arXiv 2310.16792, §III). Simulated, a part is
its CPI stacks on all machines side by side, and a machine the vector of ones at its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfvec.machines.machine_vector import MachineVector, vectors_of
from perfvec.representation.sums import Sums
from support.errors import InputError
from uarch.configuration import Machine
from uarch.timing.stack import CAUSES

if TYPE_CHECKING:
    from perfvec.model import Model


@dataclass(frozen=True)
class Costs:
    """K machines and the cycles that each charges for what `Sums.vectors` holds."""

    machines: Sequence[Machine | MachineVector]
    machine_vectors: NDArray[np.float64]  # [K, d]
    source: str  # "predicted" or "simulated"

    @property
    def names(self) -> list[str]:
        return [machine.name for machine in self.machines]

    @property
    def has_stacks(self) -> bool:
        return self.source == "simulated"

    def cycles(self, sums: Sums) -> NDArray[np.float64]:
        """[G, K] cycles of each part on each machine."""
        return sums.vectors @ self.machine_vectors.T

    def stacks(self, sums: Sums) -> NDArray[np.float64]:
        """[G, K, len(CAUSES)] the CPI stacks of simulated parts, in cycles."""
        if not self.has_stacks:
            raise InputError("a prediction has no CPI stack; simulate (--simulate)")
        return sums.vectors.reshape(len(sums.vectors), len(self.machines), len(CAUSES))

    def stack_columns(self, stacks: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Columns `stack.M.C` [G] of a table, from [G, K, len(CAUSES)]: cycles on machine M of each cause C."""
        return {
            f"stack.{name}.{cause}": stacks[:, k, column]
            for k, name in enumerate(self.names)
            for column, cause in enumerate(CAUSES)
            if stacks[:, k, column].any()
        }


def main_causes(stacks: NDArray[np.float64]) -> list[str]:
    """[G] the cause of most of each row's cycles [G, len(CAUSES)] beside retiring; '' where there are none."""
    stalls = np.abs(stacks)
    stalls[:, list(CAUSES).index("retiring")] = 0
    names = list(CAUSES)
    return [names[k] if row[k] > 0 else "" for row, k in zip(stalls, stalls.argmax(axis=1).tolist(), strict=True)]


def predicted(model: Model, machines: Sequence[Machine | MachineVector]) -> Costs:
    """The model's costs on configured and fitted machines.

    Raises InputError where two machines share a name, or none is given.
    """
    require_names([machine.name for machine in machines])
    return Costs(machines, vectors_of(model, machines)[0], "predicted")


def simulated(machines: Sequence[Machine]) -> Costs:
    """The costs of parts that `simulated_parts.collect` found on these machines. Raises InputError as `predicted`."""
    require_names([machine.name for machine in machines])
    return Costs(machines, np.repeat(np.eye(len(machines)), len(CAUSES), axis=1), "simulated")


def require_names(names: Sequence[str]) -> None:
    """Raise InputError where no machine is given or two share a name."""
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"machines must have different names, and be one at least; given: {', '.join(names) or 'none'}"
        )
