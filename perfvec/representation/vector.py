"""The program vector: the sum of the representations of a program's executed instructions, and its file."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tracegen.files import atomic_path, require_writable
from uarch.errors import InputError

FORMAT = "perfvec-vector/2"
_WITHOUT_SAMPLING = "perfvec-vector/1"  # read too: a vector of the whole program
CONFIDENCE = 0.95
_SAMPLING = ("unit", "units", "units_represented", "factors", "factor_stratum", "freedom")


@dataclass(frozen=True)
class Sampling:
    """How sure a sampled vector is.

    Its covariance is C = FᵀF for F = `factors`, whose rows belong to independent strata: the prediction on a machine m
    has the variance m·C·m, of which (F m)² summed over a stratum's rows is that stratum's.
    """

    unit: int  # instructions of a sampling unit
    units: int  # of the whole program
    units_represented: int
    factors: NDArray[np.float32]  # [K, d]
    factor_stratum: NDArray[np.int32]  # [K] 0 … strata-1
    freedom: NDArray[np.float64]  # [strata] degrees of freedom of each stratum's variance

    def covariance(self) -> NDArray[np.float64]:
        """[d, d] of the vector's estimate."""
        factors = self.factors.astype(np.float64)
        return factors.T @ factors

    def half_width(self, machines: NDArray[np.float64], confidence: float = CONFIDENCE) -> NDArray[np.float64]:
        """[M] what to add and subtract for the confidence interval of each of `machines` [M, d], in cycles.

        Student's t with the degrees of freedom of Satterthwaite (Biometrics Bulletin 1946; Cochran, Sampling
        Techniques, 1977, eq. 5.16): (Σ v)² / Σ v²/f over the strata's variances v and their degrees of freedom f.
        """
        shares = np.zeros((len(self.freedom), len(machines)))
        np.add.at(shares, self.factor_stratum, (self.factors @ machines.T) ** 2)
        variance = shares.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = variance**2 / (shares**2 / self.freedom[:, None]).sum(axis=0)
        quantile = stdtrit(np.maximum(np.nan_to_num(freedom, nan=1.0), 1.0), (1 + confidence) / 2)
        return np.where(variance > 0, quantile * np.sqrt(variance), 0.0)


@dataclass(frozen=True)
class ProgramVector:
    """A program (or the traced part of it) as a vector; interval vectors add up to `vector`.

    Of a sampled one (`sampling` is not None) both are estimates.
    """

    program: str
    isa: str
    model: str  # digest of the model that made it; vectors of different models cannot be compared
    trace_digest: str
    instructions: int
    vector: NDArray[np.float64]  # [d]
    interval_instructions: NDArray[np.int64]  # [I]
    interval_vectors: NDArray[np.float64]  # [I, d]
    sampling: Sampling | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `*.vector.npz`, atomically."""
        values = {name: np.asarray(getattr(self, name)) for name in _PLAIN}
        if self.sampling is not None:
            values |= {f"sampling_{name}": np.asarray(getattr(self.sampling, name)) for name in _SAMPLING}
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, format=np.asarray(FORMAT), **values)


_PLAIN = (
    "program", "isa", "model", "trace_digest", "instructions", "vector", "interval_instructions", "interval_vectors"
)  # fmt: skip


def vector_files(traces: Sequence[Path], output: Path) -> list[Path]:
    """Where the vectors of these traces go: `output`, or `NAME.vector.npz` in it where it is a folder or must be one.

    Makes the folder. Raises InputError where two traces have one name, or where nothing can be written there.
    """
    if len(traces) == 1 and not output.is_dir():
        require_writable(output)
        return [output]
    output.mkdir(parents=True, exist_ok=True)
    names = [path.name.removesuffix(".h5").removesuffix(".trace") for path in traces]
    if len(set(names)) != len(names):
        raise InputError(f"two traces are called {max(names, key=names.count)!r}; represent them into two folders")
    files = [output / f"{name}.vector.npz" for name in names]
    for file in files:
        require_writable(file)
    return files


def load_vector(path: str | os.PathLike[str]) -> ProgramVector:
    """Read a program vector; InputError where the file is absent, damaged or foreign."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a program vector (*.vector.npz)")
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["format"]) not in (FORMAT, _WITHOUT_SAMPLING):
                raise InputError(f"{path}: holds {str(file['format'])!r}; this release reads {FORMAT!r}")
            values = {name: file[name] for name in _PLAIN}
            sampled = {name: file[f"sampling_{name}"] for name in _SAMPLING if "sampling_unit" in file}
        vector = ProgramVector(
            program=str(values["program"]),
            isa=str(values["isa"]),
            model=str(values["model"]),
            trace_digest=str(values["trace_digest"]),
            instructions=int(values["instructions"]),
            vector=values["vector"],
            interval_instructions=values["interval_instructions"],
            interval_vectors=values["interval_vectors"],
            sampling=_sampling(sampled) if sampled else None,
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: truncated or foreign; expected a program vector (*.vector.npz)") from error
    numbers = [vector.vector] + ([vector.sampling.factors] if vector.sampling else [])
    usable = vector.vector.ndim == 1 and vector.instructions >= 1 and all(np.isfinite(a).all() for a in numbers)
    if not usable or (vector.sampling is not None and not _fits(vector.sampling, len(vector.vector))):
        raise InputError(f"{path}: not a usable program vector (empty, or with non-finite or mismatched numbers)")
    return vector


def _sampling(values: dict[str, NDArray[Any]]) -> Sampling:
    whole = {name: int(values[name]) for name in ("unit", "units", "units_represented")}
    return Sampling(**whole, **{name: values[name] for name in _SAMPLING if name not in whole})  # type: ignore[arg-type]


def _fits(sampling: Sampling, width: int) -> bool:
    rows = sampling.factor_stratum
    return (
        sampling.factors.ndim == 2
        and sampling.factors.shape[1] == width
        and rows.shape == sampling.factors.shape[:1]
        and sampling.freedom.ndim == 1
        and bool((rows >= 0).all() and (rows < len(sampling.freedom)).all() and (sampling.freedom >= 1).all())
    )
