"""A machine as a vector that was fitted to measured times, with its uncertainty, and its file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from support.arrays import load_arrays, save_arrays
from support.errors import InputError
from support.text import parse_json
from uarch.configuration import Machine

if TYPE_CHECKING:
    from perfvec.model import Model

FORMAT = "perfvec-machine/2"  # 1: no digest
_KINDS = {
    "name": "U0",
    "frequency_ghz": "f0",
    "model": "U0",
    "vector": "f1",
    "factor": "f2",
    "noise": "f0",
    "provenance": "U0",
}
SUFFIX = ".machine.npz"


@dataclass(frozen=True)
class MachineVector:
    """A machine known by its vector (core cycles per unit of representation) rather than by its configuration.

    The vector is distributed as N(`vector`, `factor` · `factor`ᵀ); a program's time has besides the relative deviation
    `noise`, by which the foundation model misses programs even where the machine's vector is right.
    """

    name: str
    frequency_ghz: float
    model: str  # digest of the model whose representations it belongs to
    vector: NDArray[np.float64]  # [d]
    factor: NDArray[np.float64]  # [d, d]
    noise: float
    provenance: dict[str, Any] = field(default_factory=dict)

    def cycles(self, programs: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n] predicted cycles of the program vectors [n, d]."""
        return programs @ self.vector

    def deviation(self, programs: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n] standard deviations of those cycles: of the machine's vector, and of the model's own misses."""
        return np.hypot(np.linalg.norm(programs @ self.factor, axis=1), self.noise * self.cycles(programs))

    def interval(self, programs: NDArray[np.float64], level: float = 0.95) -> NDArray[np.float64]:
        """[n, 2] cycles between which a time lies with a probability of `level`; never below 0."""
        middle, width = self.cycles(programs), float(ndtri((1 + level) / 2)) * self.deviation(programs)
        return np.maximum(np.stack([middle - width, middle + width], axis=1), 0.0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `*.machine.npz`, atomically."""
        values = {name: getattr(self, name) for name in _KINDS}
        values |= {name: float(values[name]) for name in ("frequency_ghz", "noise")}
        save_arrays(path, FORMAT, values | {"provenance": json.dumps(self.provenance, allow_nan=False)})


def vectors_of(model: Model, machines: Sequence[Machine | MachineVector]) -> tuple[NDArray[np.float64], list[str]]:
    """[K, d] vectors of configured and fitted machines, and where each is from: `fitted`, or as
    `Model.machine_vectors` says.
    """
    configured = [machine for machine in machines if not isinstance(machine, MachineVector)]
    known = zip(*model.machine_vectors(configured), strict=True)
    found = [(m.vector, "fitted") if isinstance(m, MachineVector) else next(known) for m in machines]
    return np.stack([vector for vector, _ in found]), [way for _, way in found]


def load_machine_vector(path: str | os.PathLike[str], model: Model | None = None) -> MachineVector:
    """Read a machine vector; InputError where it is absent, damaged, foreign, or belongs to another model."""
    values = load_arrays(path, FORMAT, _KINDS, what=f"a machine vector (*{SUFFIX})")
    try:
        provenance = parse_json(str(values["provenance"]))
    except ValueError as error:
        raise InputError(f"{path}: its provenance is no JSON; fit the machine again") from error
    machine = MachineVector(
        name=str(values["name"]),
        frequency_ghz=float(values["frequency_ghz"]),
        model=str(values["model"]),
        vector=values["vector"].astype(np.float64),
        factor=values["factor"].astype(np.float64),
        noise=float(values["noise"]),
        provenance=provenance,
    )
    width, finite = len(machine.vector), np.isfinite(machine.vector).all() and np.isfinite(machine.factor).all()
    numbers = 0 < machine.frequency_ghz < np.inf and 0 <= machine.noise < np.inf
    if not width or machine.factor.shape != (width, width) or not finite or not numbers or type(provenance) is not dict:
        raise InputError(f"{path}: not a usable machine vector (shapes, frequency, noise, or non-finite numbers)")
    if model is not None and machine.model != model.digest:
        raise InputError(
            f"{path}: fitted with the model {machine.model[:12]}…, not with {model.digest[:12]}…; fit the machine again"
        )
    return machine
