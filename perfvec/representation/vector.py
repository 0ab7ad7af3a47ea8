"""The program vector: the sum of the representations of a program's executed instructions, and its file."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from support.arrays import load_arrays, read_arrays, save_arrays, write_arrays
from support.errors import InputError
from support.kinds import require_output

FORMAT = "perfvec-vector/3"  # 1 and 2: no digest
CONFIDENCE = 0.95
_PLAIN = {
    "program": "U0",
    "isa": "U0",
    "model": "U0",
    "trace_digest": "U0",
    "instructions": "i0",
    "vector": "f1",
    "interval_instructions": "i1",
    "interval_vectors": "f2",
}
_WHAT = "a program vector (*.vector.npz)"
_SAMPLING = {
    "unit": "i0",
    "units": "i0",
    "units_represented": "i0",
    "factors": "f2",
    "factor_stratum": "i1",
    "freedom": "f1",
}
_OPTIONAL = {f"sampling_{name}": kind for name, kind in _SAMPLING.items()}


@dataclass(frozen=True)
class Sampling:
    """Sampling error of a vector.

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
        save_arrays(path, FORMAT, self._arrays())

    def to_bytes(self) -> bytes:
        """Return what `save` writes, for a file that holds a vector among other things."""
        content = io.BytesIO()
        write_arrays(content, self.program, FORMAT, self._arrays())
        return content.getvalue()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        values = {name: np.asarray(getattr(self, name)) for name in _PLAIN}
        if self.sampling is not None:
            values |= {f"sampling_{name}": np.asarray(getattr(self.sampling, name)) for name in _SAMPLING}
        return values


def vector_files(traces: Sequence[Path], output: Path) -> list[Path]:
    """Return the files for the vectors of these traces: `output`, or `NAME.vector.npz` in it where it is a folder or
    must be one.

    Makes the folder. Raises InputError where two traces have one name, or where nothing can be written there.
    """
    if len(traces) == 1 and not output.is_dir():
        require_output(output, FORMAT)
        return [output]
    output.mkdir(parents=True, exist_ok=True)
    names = [path.name.removesuffix(".h5").removesuffix(".trace") for path in traces]
    if len(set(names)) != len(names):
        raise InputError(f"two traces are called {max(names, key=names.count)!r}; represent them into two folders")
    files = [output / f"{name}.vector.npz" for name in names]
    for file in files:
        require_output(file, FORMAT)
    return files


def load_vector(path: str | os.PathLike[str]) -> ProgramVector:
    """Read a program vector; InputError where the file is absent, damaged or foreign."""
    return _vector_of(load_arrays(path, FORMAT, _PLAIN, _OPTIONAL, what=_WHAT), path)


def vector_of_bytes(content: bytes, path: str | os.PathLike[str]) -> ProgramVector:
    """The vector of `ProgramVector.to_bytes`; InputError, naming `path`, where it is damaged or foreign."""
    return _vector_of(read_arrays(io.BytesIO(content), path, FORMAT, _PLAIN, _OPTIONAL, what=_WHAT), path)


def _vector_of(values: dict[str, NDArray[Any]], path: str | os.PathLike[str]) -> ProgramVector:
    plain: dict[str, Any] = {name: values[name] for name in _PLAIN}
    plain |= {name: plain[name].item() for name, kind in _PLAIN.items() if kind[1] == "0"}
    vector = ProgramVector(**plain, sampling=_sampling(values) if "sampling_unit" in values else None)
    if not _usable(vector):
        raise InputError(f"{path}: not a usable program vector (empty, or with non-finite or mismatched numbers)")
    return vector


def _sampling(values: dict[str, NDArray[Any]]) -> Sampling:
    found: dict[str, Any] = {name: values[f"sampling_{name}"] for name in _SAMPLING}
    return Sampling(**found | {name: found[name].item() for name, kind in _SAMPLING.items() if kind[1] == "0"})


def _usable(vector: ProgramVector) -> bool:
    width, counts = len(vector.vector), vector.interval_instructions
    return (
        vector.instructions >= 1
        and width >= 1
        and vector.interval_vectors.shape == (len(counts), width)
        and bool((counts >= 0).all())
        and bool(np.isfinite(vector.vector).all() and np.isfinite(vector.interval_vectors).all())
        and (vector.sampling is None or _fits(vector.sampling, width))
    )


def _fits(sampling: Sampling, width: int) -> bool:
    rows = sampling.factor_stratum
    return (
        1 <= sampling.units_represented <= sampling.units
        and sampling.unit >= 1
        and sampling.factors.shape == (len(rows), width)
        and bool(np.isfinite(sampling.factors).all())
        and bool((rows >= 0).all() and (rows < len(sampling.freedom)).all() and (sampling.freedom >= 1).all())
    )
