"""What a feature schema is: a static row per instruction, a few stored numbers per execution, and their expansion.

A schema is one file with one class that fills `Schema`; `tracegen.features.SCHEMAS` lists it. Its features depend on
the program alone, never on a microarchitecture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from uarch.instructions import Chunk, StaticInstructions


@dataclass(frozen=True)
class Column:
    """A stored dynamic number and how the model reads it: through `table` [256, width], or times `scale`."""

    name: str
    table: NDArray[np.float32] | None = None
    scale: float = 1.0

    @property
    def width(self) -> int:
        return 1 if self.table is None else self.table.shape[1]


class Extractor(Protocol):
    """The state of one pass over one trace."""

    def extract(self, chunk: Chunk) -> NDArray[np.generic]:
        """[n, columns] stored numbers of the next chunk (chunks must come in order, without gaps)."""
        ...


@dataclass(frozen=True)
class Schema:
    """Base of the schemas; a subclass gives `static` and `extractor`."""

    name: str
    version: int
    dtype: str  # of the stored dynamic numbers
    columns: tuple[Column, ...]
    static_names: tuple[str, ...]

    def static(self, instructions: StaticInstructions) -> NDArray[np.float32]:
        """[S, static_width] features of each static instruction."""
        raise NotImplementedError

    def extractor(self, instructions: StaticInstructions) -> Extractor:
        """A fresh pass over a trace with these static instructions."""
        raise NotImplementedError

    @property
    def identity(self) -> str:
        """Name and version, as stored in features files and models."""
        return f"{self.name}/{self.version}"

    @property
    def static_width(self) -> int:
        return len(self.static_names)

    @cached_property
    def dynamic_width(self) -> int:
        return sum(column.width for column in self.columns)

    @property
    def width(self) -> int:
        """Numbers the model reads per executed instruction."""
        return self.static_width + self.dynamic_width

    def expand(self, static: NDArray[np.float32], static_id: NDArray[np.uint32], dynamic: NDArray) -> NDArray[np.float32]:
        """The model's input [..., width] from `static` [S, static_width], `static_id` [...], `dynamic` [..., columns]."""
        out = np.empty((*static_id.shape, self.width), np.float32)
        out[..., : self.static_width] = static[static_id]
        position = self.static_width
        for index, column in enumerate(self.columns):
            stored = dynamic[..., index]
            if column.table is None:
                out[..., position] = stored * np.float32(column.scale)
            else:
                out[..., position : position + column.width] = column.table[stored]
            position += column.width
        return out
