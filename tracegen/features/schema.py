"""Feature schema: a static row per instruction, a few stored numbers per execution, and their expansion.

A schema is one file with one class that fills `Schema`; `tracegen.features.SCHEMAS` lists it. Its features depend on
the program alone, never on a microarchitecture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from support.ahead import ahead
from support.errors import InputError
from support.jit import cached
from tracegen.live_points.divisions import DivisionSteps
from tracegen.live_points.live_points import Pieces
from uarch.instructions import FLAG_GROUPS, FLAGS_REGISTER, NO_REGISTER, Chunk, StaticInstructions


@dataclass(frozen=True)
class Column:
    """A stored dynamic number and how the model reads it: through `table` [256, width], or times `scale`.

    `where` names a static feature, or a column that has no `where`: the number is 0 wherever that is 0.
    """

    name: str
    table: NDArray[np.float32] | None = None
    scale: float = 1.0
    where: str | None = None

    def hidden(self) -> Column:
        """The same stored number, of which the model reads nothing but zeros."""
        return replace(self, table=None if self.table is None else np.zeros_like(self.table), scale=0.0)

    @property
    def width(self) -> int:
        return 1 if self.table is None else self.table.shape[1]


def flags_as_one(registers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[S, k] registers with the flag groups of an instruction as one FLAGS_REGISTER, where the first of them stood."""
    is_flag = np.isin(registers, FLAG_GROUPS)
    again = is_flag & (np.cumsum(is_flag, axis=1) > 1)
    one = np.where(again, NO_REGISTER, np.where(is_flag, FLAGS_REGISTER, registers)).astype(np.uint8)
    return np.take_along_axis(one, np.argsort(again, axis=1, kind="stable"), axis=1)


class Extractor(Protocol):
    """The state of one pass over one trace; chunks must come in order, without gaps."""

    def extract(self, chunk: Chunk) -> NDArray[np.generic]:
        """[n, columns] stored numbers of the next chunk: `begin` and `finish`."""
        ...

    def begin(self, chunk: Chunk) -> NDArray[np.generic]:
        """One half of the columns, the others 0. The halves share no state but a queue of what `finish` needs of each
        chunk: two threads may work on two chunks, in their order.
        """
        ...

    def finish(self, chunk: Chunk, stored: NDArray[Any]) -> None:
        """Fill in the other half."""
        ...

    def grow(self, instructions: StaticInstructions) -> None:
        """Go on with more static instructions, of which the ones so far are the first, unchanged."""
        ...


def extracted(extractor: Extractor, chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, NDArray[np.generic]]]:
    """Each chunk with its stored numbers; reading and one half of the work are done by another thread, ahead."""
    for chunk, stored in ahead((chunk, extractor.begin(chunk)) for chunk in chunks):
        extractor.finish(chunk, stored)
        yield chunk, stored


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
    def along(self) -> Schema:
        """The schema of the columns that every instruction of a sampled run gets as it goes by: the first ones of this
        schema's. Units that were drawn get the others `afterwards`.
        """
        return self

    def afterwards(
        self, instructions: StaticInstructions, pieces: Pieces, last: Chunk, divisions: DivisionSteps
    ) -> Iterator[tuple[int, NDArray[np.generic]]]:
        """Numbers [P · UNIT + L, k] of the instructions of `pieces`, and of `last`, the run's end, in parts: k columns,
        and the number of the first one. `divisions` are the run's.
        """
        raise NotImplementedError

    def without(self, names: Sequence[str]) -> Schema:
        """This schema with these columns hidden: they are stored as before, and the model reads 0 for each. InputError
        for a column that it does not have.
        """
        known = [column.name for column in self.columns]
        for name in names:
            if name not in known:
                raise InputError(f"schema {self.name} has no column {name!r}; it has {', '.join(known)}")
        if not names:
            return self
        columns = tuple(column.hidden() if column.name in names else column for column in self.columns)
        whole, *before = self.name.split("~")
        return replace(self, name="~".join([whole, *sorted({*before, *names})]), columns=columns)

    @property
    def identity(self) -> str:
        """Name and version, as stored in features files and models."""
        return f"{self.name}/{self.version}"

    @property
    def stored(self) -> str:
        """The identity of what is stored, which is the same whichever columns are hidden."""
        return f"{self.name.partition('~')[0]}/{self.version}"

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

    @cached_property
    def _tables(self) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
        """Tables [columns, 256, widest], their widths (0: scaled, no table), scales."""
        widths = np.array([0 if column.table is None else column.width for column in self.columns])
        tables = np.zeros((len(self.columns), 256, max(widths.max(), 1)), np.float32)
        for index, column in enumerate(self.columns):
            if column.table is not None:
                tables[index, :, : column.width] = column.table
        return tables, widths, np.array([column.scale for column in self.columns], np.float32)

    def expand(
        self, static: NDArray[np.float32], static_id: NDArray[np.uint32], dynamic: NDArray
    ) -> NDArray[np.float32]:
        """Model input [..., width] of `static` [S, static_width], `static_id` [...] and `dynamic` [..., columns]."""
        out = np.empty((static_id.size, self.width), np.float32)
        stored = dynamic.reshape(-1, dynamic.shape[-1])
        _expand(static, static_id.reshape(-1), stored, *self._tables, out)
        return out.reshape(*static_id.shape, self.width)


@cached(nogil=True)
def _expand(
    static: NDArray[np.float32],
    static_id: NDArray[np.uint32],
    stored: NDArray,
    tables: NDArray[np.float32],
    widths: NDArray[np.int64],
    scales: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    for row in range(len(static_id)):
        position = static.shape[1]
        here = static_id[row]
        for index in range(position):
            out[row, index] = static[here, index]
        for column in range(len(widths)):
            value = stored[row, column]
            if widths[column] == 0:
                out[row, position] = value * scales[column]
                position += 1
            else:
                for index in range(widths[column]):
                    out[row, position] = tables[column, value, index]
                    position += 1
