"""The latency file: retire latencies of a window of one trace on many machines (docs/reference/file-formats.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.files import (
    H5Reader,
    damage_in,
    read_dataset,
    read_slice,
    read_strings,
    read_text_attribute,
    sealed_h5,
    write_strings,
)
from uarch.configuration import Machine, machine_from_dict

FORMAT = "perfvec-latency"
VERSION = 2
_OLDEST = 1
_CUT = 65535  # cycles: version 1 has this for a longer latency
_TYPE = {1: "<u2", 2: "<u4"}
_BLOCK = 1 << 17


class LatencyWriter:
    """Writes `latency` [U, n] a chunk of instructions at a time; a context manager, the file appears on clean exit.

    `append` takes [U, k] cycles; `counters`, optional, [U, columns] totals.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        machines: Sequence[Machine],
        trace: str,
        trace_digest: str,
        start: int,
        simulator: str,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self._path = Path(path)
        self._machines = list(machines)
        self._attributes = {
            "format": FORMAT,
            "version": VERSION,
            "trace": trace,
            "trace_digest": trace_digest,
            "start": start,
            "simulator": simulator,
            **(attributes or {}),
        }
        self._stack = ExitStack()

    def __enter__(self) -> LatencyWriter:
        self._file = self._stack.enter_context(sealed_h5(self._path))
        for name, value in self._attributes.items():
            self._file.attrs[name] = value
        rows = len(self._machines)
        self._latency = self._file.create_dataset(
            "latency",
            shape=(rows, 0),
            maxshape=(rows, None),
            dtype=_TYPE[VERSION],
            chunks=(1, _BLOCK),
            compression="gzip",
            compression_opts=1,
            shuffle=True,
        )
        texts = [json.dumps(machine.to_dict()) for machine in self._machines]
        write_strings(self._file, "uarch", texts)
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def append(self, latency: NDArray[np.uint16 | np.uint32]) -> None:
        """Add the next instructions of [machines, n] cycles."""
        old = self._latency.shape[1]
        self._latency.resize(old + latency.shape[1], axis=1)
        self._latency[:, old:] = latency

    def counters(self, values: NDArray[np.float64], columns: Sequence[str]) -> None:
        dataset = self._file.create_dataset("counters", data=values.astype("<f8"))
        dataset.attrs["columns"] = list(columns)


def join(parts: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str]) -> None:
    """Write one latency file of several: the same window on the machines of each, in this order.

    Raises InputError where the parts are damaged, or not of one window.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(LatencyFile(path)) for path in parts]
        first = files[0]
        for file in files:
            if file.version != VERSION:  # a latency that it cut would pass for a whole one
                raise InputError(f"{file.path}: is of version {file.version}, which an older release made; remove it")
            if (file.trace_digest, file.start, len(file)) != (first.trace_digest, first.start, len(first)):
                raise InputError(f"{file.path}: labels another window than {first.path}; remove both")
        counters = [file.counters() for file in files]
        writer = stack.enter_context(
            LatencyWriter(
                output,
                machines=[machine for file in files for machine in file.machines],
                trace=first.trace,
                trace_digest=first.trace_digest,
                start=first.start,
                simulator=first.simulator,
                attributes={name: first.attribute(name, 0) for name in ("warmup", "touches")},
            )
        )
        for begin in range(0, len(first), 2 * _BLOCK):
            writer.append(np.concatenate([file.read(begin, begin + 2 * _BLOCK) for file in files]))
        writer.counters(np.concatenate([values for values, _ in counters]), counters[0][1])


class LatencyFile(H5Reader):
    """A latency file, open for reading; a context manager. Raises InputError where it is damaged or foreign.

    Attributes: `trace` (file stem), `trace_digest`, `start`, `simulator`, `path`, `version`. `len()` is the number of
    labelled instructions.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, FORMAT, VERSION, oldest=_OLDEST)
        with self._closed_on_error():
            self._read_head(self._file)

    def _read_head(self, file: h5py.File) -> None:
        self.trace, self.trace_digest, self.simulator = (
            read_text_attribute(file, name) for name in ("trace", "trace_digest", "simulator")
        )
        with damage_in(self.path, "the attribute 'start'"):
            self.start = int(file.attrs["start"])
        if self.start < 0:
            raise InputError(f"{self.path}: start is {self.start}; it cannot be negative")
        self._uarch = read_strings(file, "uarch")
        self.version = int(file.attrs["version"])
        self._latency = read_dataset(file, "latency", _TYPE[self.version], 2)
        if self._latency.shape[0] != len(self._uarch) or self._latency.shape[1] == 0:
            raise InputError(f"{self.path}: latency is {list(self._latency.shape)}; expected [{len(self._uarch)}, ≥ 1]")

    @cached_property
    def machines(self) -> list[Machine]:
        """The U machines. Checking a thousand takes a second: many readers ask for none."""
        with damage_in(self.path, "'uarch'"):
            documents = [json.loads(text) for text in self._uarch]
        try:
            return [machine_from_dict(document) for document in documents]
        except (InputError, TypeError, AttributeError) as error:
            raise InputError(f"{self.path}: 'uarch' holds no machine ({error})") from error

    def __len__(self) -> int:
        return int(self._latency.shape[1])

    @property
    def dtype(self) -> str:
        """The type of a latency in the file."""
        return _TYPE[self.version]

    def cut(self, latency: NDArray[np.uint16 | np.uint32]) -> NDArray[np.bool_]:
        """Mark those of these latencies of the file that may have been longer: version 1 knows none above 65,535."""
        return (latency == _CUT) & (self.version == 1)

    def any_cut(self) -> bool:
        """Return whether `cut` marks a latency of the file."""
        if self.version > 1:
            return False
        parts = range(0, len(self), 4 * _BLOCK)
        return any(bool(self.cut(self.read(begin, begin + 4 * _BLOCK)).any()) for begin in parts)

    def read(self, begin: int, end: int, rows: Sequence[int] | None = None) -> NDArray[np.uint16 | np.uint32]:
        """[U or len(rows), end−begin] latencies of the labelled instructions begin … end (0 is instruction `start`)."""
        if rows is None:
            return read_slice(self._latency, (slice(None), slice(begin, end)))
        return np.stack([read_slice(self._latency, (row, slice(begin, end))) for row in rows])

    def counters(self) -> tuple[NDArray[np.float64], list[str]]:
        """[U, k] what the simulator counted on each machine, and the names of the k columns; none where it did not."""
        if "counters" not in self._file:
            return np.empty((len(self.machines), 0)), []
        dataset = read_dataset(self._file, "counters", "<f8", 2)
        with damage_in(self.path, "'counters'"):
            names = [str(name) for name in dataset.attrs["columns"]]
        if dataset.shape != (len(self.machines), len(names)):
            raise InputError(
                f"{self.path}: counters are {list(dataset.shape)}; expected {[len(self.machines), len(names)]}"
            )
        return read_slice(dataset, slice(None)), names

    def cycles(self) -> NDArray[np.float64]:
        """[U] total cycles of the labelled window on each machine."""
        total = np.zeros(len(self.machines))
        for begin in range(0, len(self), 4 * _BLOCK):
            total += self.read(begin, begin + 4 * _BLOCK).sum(axis=1, dtype=np.float64)
        return total
