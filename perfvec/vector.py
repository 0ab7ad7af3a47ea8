"""The program vector: the sum of the representations of a program's executed instructions, and its file."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracegen.files import atomic_path
from uarch.errors import InputError

FORMAT = "perfvec-vector/1"


@dataclass(frozen=True)
class ProgramVector:
    """A program (or the traced part of it) as a vector; interval vectors add up to `vector`."""

    program: str
    isa: str
    model: str  # digest of the model that made it; vectors of different models cannot be compared
    trace_digest: str
    instructions: int
    vector: NDArray[np.float64]  # [d]
    interval_instructions: NDArray[np.int64]  # [I]
    interval_vectors: NDArray[np.float64]  # [I, d]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `*.vector.npz`, atomically."""
        values = {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, format=np.asarray(FORMAT), **values)


def load_vector(path: str | os.PathLike[str]) -> ProgramVector:
    """Read a program vector; InputError where the file is absent, damaged or foreign."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a program vector (*.vector.npz)")
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["format"]) != FORMAT:
                raise InputError(f"{path}: holds {str(file['format'])!r}; this release reads {FORMAT!r}")
            values = {field.name: file[field.name] for field in fields(ProgramVector)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: truncated or foreign; expected a program vector (*.vector.npz)") from error
    vector = ProgramVector(
        program=str(values["program"]),
        isa=str(values["isa"]),
        model=str(values["model"]),
        trace_digest=str(values["trace_digest"]),
        instructions=int(values["instructions"]),
        vector=values["vector"],
        interval_instructions=values["interval_instructions"],
        interval_vectors=values["interval_vectors"],
    )
    if vector.vector.ndim != 1 or vector.instructions < 1 or not np.isfinite(vector.vector).all():
        raise InputError(f"{path}: not a usable program vector (empty, or with non-finite numbers)")
    return vector
