"""Origins of a run's static instructions, kept with live-points: bytes, functions and source lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.files import read_strings, read_whole, write_strings

Symbols = tuple[NDArray[np.uint64], NDArray[np.uint64], Sequence[str]]
Lines = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32], Sequence[str]]
_TABLES = {"symbols": {"address": "<u8", "size": "<u8"}, "lines": {"address": "<u8", "file": "<u4", "line": "<u4"}}
_NAMES = {"symbols": "symbols/name", "lines": "lines/files"}


class _Source(Protocol):
    def symbols(self) -> Symbols: ...
    def lines(self) -> Lines: ...


@dataclass(frozen=True)
class Origins:
    """`code` [S, 16] of the static instructions, and `symbols`, `lines` as those of a trace."""

    code: NDArray[np.uint8]
    symbols: Symbols
    lines: Lines

    @classmethod
    def of(cls, source: _Source, code: NDArray[np.uint8]) -> Origins:
        """Return those of a trace or a program that has run."""
        return cls(code, source.symbols(), source.lines())

    def save(self, file: h5py.File) -> None:
        """Write them into a live-points file."""
        file.create_dataset("static/code", data=self.code, compression="gzip", compression_opts=3, shuffle=True)
        for group, columns in _TABLES.items():
            values = getattr(self, group)
            for name, data in zip(columns, values, strict=False):
                file.create_dataset(f"{group}/{name}", data=data, compression="gzip", shuffle=True)
            write_strings(file, _NAMES[group], values[-1])

    @classmethod
    def load(cls, file: h5py.File, size: int) -> Origins:
        """Read them, of so many static instructions. Raises InputError where they do not fit together."""
        code = read_whole(file, "static/code", "u1", 2)
        if code.shape != (size, 16):
            raise InputError(f"{file.filename}: static/code is not of the static instructions; the file is damaged")
        tables: list[Any] = []
        for group, columns in _TABLES.items():
            arrays = [read_whole(file, f"{group}/{name}", dtype) for name, dtype in columns.items()]
            names = read_strings(file, _NAMES[group])
            address = arrays[0]
            if len({len(array) for array in arrays}) != 1 or np.any(address[1:] < address[:-1]):
                raise InputError(f"{file.filename}: {group} differ in length or are not in order; the file is damaged")
            tables.append((*arrays, names))
        symbols, lines = tables
        if len(symbols[-1]) != len(symbols[0]) or lines[1].max(initial=0) >= max(len(lines[-1]), 1):
            raise InputError(f"{file.filename}: names of symbols or files are missing; the file is damaged")
        return cls(code, symbols, lines)
