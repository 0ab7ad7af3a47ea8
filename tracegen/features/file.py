"""The features file: a trace's features under one schema, so that training reads them without the trace.

Datasets: `static/features` f32 [S, static width], `dynamic/static_id` u32 [N], `dynamic/stored` [N, columns]; the
attributes name the schema and the trace's digest.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tracegen.decode import decode
from tracegen.features import get_schema
from tracegen.features.schema import Schema
from tracegen.files import atomic_path, open_h5, read_dataset, read_slice
from tracegen.qemu.stream import ProgramStream
from tracegen.trace import Trace
from uarch.errors import InputError

FORMAT = "perfvec-features"
VERSION = 1
_BLOCK = 1 << 16


class FeaturesWriter:
    """Writes features as they come; a context manager, the file appears on a clean exit, after `finish`."""

    def __init__(self, output: str | os.PathLike[str], schema: Schema) -> None:
        self._output = output
        self._schema = schema
        self._stack = ExitStack()

    def __enter__(self) -> FeaturesWriter:
        temporary = self._stack.enter_context(atomic_path(self._output))
        self._file = self._stack.enter_context(h5py.File(temporary, "w", libver="latest"))
        columns = len(self._schema.columns)
        self._ids = self._file.create_dataset(
            "dynamic/static_id", shape=(0,), maxshape=(None,), dtype="<u4", chunks=(_BLOCK,), compression="lzf",
            shuffle=True,
        )  # fmt: skip
        self._stored = self._file.create_dataset(
            "dynamic/stored", shape=(0, columns), maxshape=(None, columns), dtype=self._schema.dtype,
            chunks=(_BLOCK, columns), compression="lzf", shuffle=True,
        )  # fmt: skip
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def append(self, static_id: NDArray[np.uint32], stored: NDArray) -> None:
        """The next instructions: `static_id` [n], `stored` [n, columns]."""
        begin = len(self._ids)
        for dataset, data in ((self._ids, static_id), (self._stored, stored)):
            dataset.resize(begin + len(data), axis=0)
            dataset[begin:] = data

    def finish(self, static: NDArray[np.float32], *, trace: str, trace_digest: str, isa: str, program: str) -> None:
        """The static instructions' features [S, static width], and what all was made from."""
        self._file.create_dataset("static/features", data=static, compression="gzip", shuffle=True)
        self._file.attrs.update(
            {
                "format": FORMAT, "version": VERSION, "schema": self._schema.identity, "trace": trace,
                "trace_digest": trace_digest, "isa": isa, "program": program,
            }
        )  # fmt: skip


def extract(trace: Trace, schema: Schema, output: str | os.PathLike[str], *, progress: bool = True) -> Path:
    """Write the features of a whole trace; streams, ≥ 5 million instructions a second on one core."""
    instructions = decode(trace.address, trace.code, trace.isa)
    extractor = schema.extractor(instructions)
    with FeaturesWriter(output, schema) as writer, _bar(progress, len(trace)) as bar:
        for chunk in trace.chunks():
            writer.append(chunk.static_id, extractor.extract(chunk))
            bar.update(len(chunk))
        writer.finish(
            schema.static(instructions), trace=trace.name, trace_digest=trace.digest, isa=trace.isa,
            program=trace.program,
        )  # fmt: skip
    return Path(output)


def extract_stream(
    stream: ProgramStream, schema: Schema, output: str | os.PathLike[str], *, progress: bool = True
) -> int:
    """Write the features of a program while it runs, without a trace; the number of instructions.

    They are those of its trace, in another order of static instructions; `trace_digest` is the stream's. Memory does
    not grow with the length of the run.
    """
    extractor = schema.extractor(stream.instructions)
    total = 0
    with FeaturesWriter(output, schema) as writer, _bar(progress, None) as bar:
        for chunk in stream.chunks():
            extractor.grow(stream.instructions)
            writer.append(chunk.static_id, extractor.extract(chunk))
            total += len(chunk)
            bar.update(len(chunk))
        order = np.argsort(stream.address)  # all are known now: decoded among their neighbours, as of a trace
        static = np.empty((len(order), schema.static_width), np.float32)
        static[order] = schema.static(decode(stream.address[order], stream.code[order], stream.isa))
        writer.finish(static, trace=stream.program, trace_digest=stream.digest, isa=stream.isa, program=stream.program)
    return total


def _bar(progress: bool, total: int | None) -> tqdm:
    return tqdm(total=total, unit="instr", unit_scale=True, desc="features", disable=None if progress else True)


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
