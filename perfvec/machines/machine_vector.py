"""A machine as a vector that was fitted to measured times, with its uncertainty, and its file."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tracegen.files import atomic_path
from uarch.configuration import Machine, load_machine
from uarch.errors import InputError
from uarch.text import parse_json

if TYPE_CHECKING:
    from perfvec.model import Model

FORMAT = "perfvec-machine/1"
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
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(
                file, allow_pickle=False, format=np.asarray(FORMAT), name=np.asarray(self.name),
                frequency_ghz=np.asarray(self.frequency_ghz), model=np.asarray(self.model), vector=self.vector,
                factor=self.factor, noise=np.asarray(self.noise),
                provenance=np.asarray(json.dumps(self.provenance, allow_nan=False)),
            )  # fmt: skip


def load_machine_vector(path: str | os.PathLike[str], model: Model | None = None) -> MachineVector:
    """Read a machine vector; InputError where it is absent, damaged, foreign, or belongs to another model."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a machine vector (*{SUFFIX})")
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["format"]) != FORMAT:
                raise InputError(f"{path}: holds {str(file['format'])[:60]!r}; this release reads {FORMAT!r}")
            machine = MachineVector(
                name=str(file["name"]), frequency_ghz=float(file["frequency_ghz"]), model=str(file["model"]),
                vector=file["vector"].astype(np.float64), factor=file["factor"].astype(np.float64),
                noise=float(file["noise"]), provenance=parse_json(str(file["provenance"])),
            )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: truncated or foreign; expected a machine vector (*{SUFFIX})") from error
    width = len(machine.vector) if machine.vector.ndim == 1 else 0
    finite = np.isfinite(machine.vector).all() and np.isfinite(machine.factor).all() and np.isfinite(machine.noise)
    if not width or machine.factor.shape != (width, width) or not finite or not 0 < machine.frequency_ghz < np.inf:
        raise InputError(f"{path}: not a usable machine vector (shapes, frequency, or non-finite numbers)")
    if model is not None and machine.model != model.digest:
        raise InputError(
            f"{path}: fitted with the model {machine.model[:12]}…, not with {model.digest[:12]}…; fit the machine again"
        )
    return machine


def load_predictable(names: Sequence[str], model: Model) -> list[Machine | MachineVector]:
    """Presets, machine files and machine vectors (`*.npz`), by their names."""
    return [load_machine_vector(name, model) if name.endswith(".npz") else load_machine(name) for name in names]
