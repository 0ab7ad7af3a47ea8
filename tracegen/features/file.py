"""The features file: a trace's features under one schema, so that training reads them without the trace.

Datasets: `static/features` f32 [S, static width], `dynamic/static_id` u32 [N], `dynamic/stored` [N, columns]; the
attributes name the schema and the trace's digest.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tracegen.decode import decode
from tracegen.features import get_schema
from tracegen.features.schema import Schema
from tracegen.files import atomic_path, open_h5, read_dataset, read_slice
from tracegen.trace import Trace
from uarch.errors import InputError

FORMAT = "perfvec-features"
VERSION = 1
_BLOCK = 1 << 16


def extract(trace: Trace, schema: Schema, output: str | os.PathLike[str], *, progress: bool = True) -> Path:
    """Write the features of a whole trace; streams, ≥ 5 million instructions a second on one core."""
    instructions = decode(trace.address, trace.code, trace.isa)
    extractor = schema.extractor(instructions)
    columns = len(schema.columns)
    with atomic_path(output) as temporary, h5py.File(temporary, "w", libver="latest") as file:
        file.attrs.update(
            {
                "format": FORMAT, "version": VERSION, "schema": schema.identity, "trace": trace.name,
                "trace_digest": trace.digest, "isa": trace.isa, "program": trace.program,
            }
        )  # fmt: skip
        file.create_dataset("static/features", data=schema.static(instructions), compression="gzip", shuffle=True)
        block = min(_BLOCK, len(trace))
        ids = file.create_dataset(
            "dynamic/static_id", shape=(len(trace),), dtype="<u4", chunks=(block,), compression="lzf", shuffle=True
        )
        stored = file.create_dataset(
            "dynamic/stored", shape=(len(trace), columns), dtype=schema.dtype, chunks=(block, columns),
            compression="lzf", shuffle=True,
        )  # fmt: skip
        with tqdm(
            total=len(trace), unit="instr", unit_scale=True, desc="features", disable=None if progress else True
        ) as bar:
            for chunk in trace.chunks():
                end = chunk.start + len(chunk)
                ids[chunk.start : end] = chunk.static_id
                stored[chunk.start : end] = extractor.extract(chunk)
                bar.update(len(chunk))
    return Path(output)


class FeaturesFile:
    """A features file, open for reading. Attributes: `schema`, `trace`, `trace_digest`, `static` [S, width]."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with open_h5(self.path, FORMAT, VERSION) as file:
            self.schema = get_schema(str(file.attrs["schema"]))
            self.trace = str(file.attrs["trace"])
            self.trace_digest = str(file.attrs["trace_digest"])
            self.static: NDArray[np.float32] = read_slice(read_dataset(file, "static/features", "<f4", 2), slice(None))
            self._length = len(read_dataset(file, "dynamic/static_id", "<u4"))
            if read_dataset(file, "dynamic/stored", self.schema.dtype, 2).shape != (
                self._length,
                len(self.schema.columns),
            ):
                raise InputError(f"{self.path}: dynamic/stored does not fit the schema {self.schema.identity}")

    def __len__(self) -> int:
        return self._length

    def read(self, begin: int, end: int) -> tuple[NDArray[np.uint32], NDArray]:
        """`static_id` [k] and stored numbers [k, columns] of instructions begin … end."""
        with open_h5(self.path, FORMAT, VERSION) as file:
            part = slice(begin, end)
            return read_slice(file["dynamic/static_id"], part), read_slice(file["dynamic/stored"], part)
