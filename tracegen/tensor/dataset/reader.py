"""Reading a dataset: frames of its tables, ragged rows of the schedules that are asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import h5py
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from support.errors import InputError
from support.files import H5Reader, damage_in, read_dataset, read_slice, read_strings, read_text_attribute, read_whole
from tracegen.tensor.dataset.format import FORMAT, GROUPS, LABELS, RECORDS, TASK_TEXTS, VERSION, Outcome, Rows


class Dataset(H5Reader):
    """A dataset, open for reading; a context manager.

    Attributes: `path`; `digest`; `provenance`; `tasks` (frame: key, name, operator, shape, flops, networks, the last
    and `shape` parsed), `devices` (frame: name, parameters, parsed), `groups` {feature group: feature_version}.
    `schedules`, `records` and `table` give frames, `steps` and `features` the rest for schedules by index.

    Raises InputError where the file is missing, damaged, foreign, or not what it says it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, FORMAT, VERSION)
        with self._closed_on_error():
            self._read_head(self._file)

    def _read_head(self, file: h5py.File) -> None:
        self.digest = read_text_attribute(file, "digest")
        self.provenance: dict[str, Any] = self._json(
            "the attribute 'provenance'", [read_text_attribute(file, "provenance")]
        )[0]
        columns: dict[str, Any] = {name: read_strings(file, f"tasks/{name}") for name in TASK_TEXTS}
        for name in ("shape", "networks"):
            columns[name] = self._json(f"tasks/{name}", columns[name])
        columns["flops"] = read_whole(file, "tasks/flops", "<f8")
        if len({len(column) for column in columns.values()}) != 1:
            raise InputError(f"{self.path}: the datasets of tasks/ differ in length; the file is damaged")
        self.tasks = pd.DataFrame(columns)
        names, parameters = read_strings(file, "devices/name"), read_strings(file, "devices/parameters")
        if len(names) != len(parameters):
            raise InputError(f"{self.path}: the datasets of devices/ differ in length; the file is damaged")
        self.devices = pd.DataFrame({"name": names, "parameters": self._json("devices/parameters", parameters)})
        self._task: NDArray[np.uint32] = read_whole(self._file, "schedules/task", "<u4")
        self._below(self._task, len(self.tasks), "schedules/task")
        self._offsets = {"schedules/steps": self._offset("schedules/steps", "text", "u1", 1)}
        self._record_columns = [read_dataset(file, f"records/{name}", dtype) for name, dtype in RECORDS.items()]
        if len({len(column) for column in self._record_columns}) != 1:
            raise InputError(f"{self.path}: the datasets of records/ differ in length; the file is damaged")
        self.groups: dict[str, str] = {}
        with damage_in(self.path, "'features'"):
            for group in GROUPS:
                if f"features/{group}" in file:
                    self.groups[group] = str(file[f"features/{group}"].attrs["feature_version"])
                    self._offsets[f"features/{group}"] = self._offset(f"features/{group}", "values", "<f4", 2)

    def _json(self, name: str, texts: Sequence[str]) -> list[Any]:
        with damage_in(self.path, name):
            return [json.loads(text) for text in texts]

    def _below(self, values: NDArray[Any], limit: int, name: str) -> None:
        if len(values) and int(values.max()) >= limit:
            raise InputError(f"{self.path}: {name} names {int(values.max())} of {limit:,}; the file is damaged")

    def _offset(self, name: str, values: str, dtype: str, dimensions: int) -> NDArray[np.int64]:
        offset = read_whole(self._file, f"{name}/offset", "<u8").astype(np.int64)
        rows = len(read_dataset(self._file, f"{name}/{values}", dtype, dimensions))
        if len(offset) != len(self._task) + 1 or offset[0] != 0 or offset[-1] != rows or (np.diff(offset) < 0).any():
            raise InputError(f"{self.path}: {name}/offset does not divide its {rows:,} rows among the schedules")
        return offset

    @property
    def task_of(self) -> NDArray[np.uint32]:
        """[S] the task of each schedule."""
        return self._task

    def schedules(self) -> pd.DataFrame:
        """A row a schedule: task, kind, origin."""
        frame: dict[str, NDArray[Any]] = {"task": self._task}
        for name, dtype in LABELS.items():
            frame[name] = np.char.decode(read_whole(self._file, f"schedules/{name}", f"|{dtype}"), errors="replace")
        if len({len(column) for column in frame.values()}) != 1:
            raise InputError(f"{self.path}: the datasets of schedules/ differ in length; the file is damaged")
        return pd.DataFrame(frame)

    def records(self, begin: int = 0, end: int | None = None) -> pd.DataFrame:
        """A row a record, in the file's order: schedule, device, seconds, spread, repeats, error."""
        parts = {
            name: read_slice(column, slice(begin, end))
            for name, column in zip(RECORDS, self._record_columns, strict=True)
        }
        self._below(parts["schedule"], len(self._task), "records/schedule")
        self._below(parts["device"], len(self.devices), "records/device")
        self._below(parts["error"], len(Outcome), "records/error")
        return pd.DataFrame(parts)

    def table(self, *, failed: bool = False) -> pd.DataFrame:
        """The records joined with `task`; those that `failed` too only where asked for."""
        frame = self.records()
        frame.insert(0, "task", self._task[frame["schedule"].to_numpy()])
        return frame if failed else frame[frame["error"] == Outcome.OK].reset_index(drop=True)

    @property
    def record_count(self) -> int:
        return len(self._record_columns[0])

    @property
    def schedule_count(self) -> int:
        return len(self._task)

    def steps(self, schedules: ArrayLike | None = None) -> list[str]:
        """JSON texts of the steps of the schedules with these indices, in their order; of all by default."""
        values, offset = self._ragged("schedules/steps", "text", "u1", 1, self._indices(schedules))
        text = values.tobytes()
        return [text[a:b].decode(errors="replace") for a, b in pairwise(offset)]

    def features(self, group: str, schedules: ArrayLike | None = None) -> Rows:
        """The rows of a feature group for the schedules with these indices, in their order; for all by default.

        Memory: what is asked for. Raises InputError where the group was not extracted.
        """
        if group not in self.groups:
            there = ", ".join(self.groups) or "none"
            raise InputError(f"{self.path}: has no features {group!r} (there: {there}); collect or read it with them")
        indices, name = self._indices(schedules), f"features/{group}"
        values, offset = self._ragged(name, "values", "<f4", 2, indices)
        position = self._ragged(name, "position", "<i4", 1, indices)[0] if GROUPS[group] else None
        return Rows(values, offset, position)

    def _indices(self, schedules: ArrayLike | None) -> NDArray[np.int64]:
        if schedules is None:
            return np.arange(len(self._task))
        indices = np.asarray(schedules, np.int64)
        if len(indices) and (indices.min() < 0 or indices.max() >= len(self._task)):
            raise InputError(f"{self.path}: schedules are 0 to {len(self._task) - 1:,}; {indices.max()} was asked for")
        return indices

    def _ragged(
        self, name: str, values: str, dtype: str, dimensions: int, indices: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """(rows of the schedules one after the other, offsets [n + 1])."""
        offset = self._offsets[name]
        dataset = read_dataset(self._file, f"{name}/{values}", dtype, dimensions)
        if len(dataset) != offset[-1]:
            raise InputError(f"{self.path}: {name}/{values} has not the length that its offsets give")
        begin, length = offset[indices], offset[indices + 1] - offset[indices]
        into = np.concatenate([[0], np.cumsum(length)])
        found = np.empty((into[-1], *dataset.shape[1:]), dtype)
        order = np.argsort(begin, kind="stable")
        for run in _runs(begin[order], length[order]):
            members = order[run]
            first, last = begin[members[0]], (begin[members] + length[members]).max()
            chunk = read_slice(dataset, slice(first, last))
            for member in members:
                at = begin[member] - first
                found[into[member] : into[member + 1]] = chunk[at : at + length[member]]
        return found, into


def _runs(begin: NDArray[np.int64], length: NDArray[np.int64]) -> Iterator[slice]:
    """Runs of ascending ranges that lie near each other: each is read at once."""
    gap, most = 1 << 12, 1 << 22
    first = 0
    for index in range(1, len(begin) + 1):
        if (
            index == len(begin)
            or begin[index] > begin[index - 1] + length[index - 1] + gap
            or begin[index] - begin[first] > most
        ):
            yield slice(first, index)
            first = index
