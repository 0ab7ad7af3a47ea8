"""The dataset of tensor programs, `*.tensor.h5`: tasks, candidate schedules, their latencies on devices, features.

| dataset | type, shape | meaning |
|---|---|---|
| `tasks/key` | str [T] | stable identity of the workload (structural hash, or a log's workload key) |
| `tasks/name`, `tasks/operator` | str [T] | readable name; operator class, one of `OPERATORS` |
| `tasks/shape` | JSON str [T] | workload shape: argument shapes (and types) |
| `tasks/flops` | f64 [T] | floating-point operations of one execution (NaN where that cannot be told) |
| `tasks/networks` | JSON str [T] | {network: weight} in which the task occurs |
| `devices/name`, `devices/parameters` | str, JSON str [D] | device and its hardware parameters |
| `schedules/task` | u32 [S] | the task of candidate schedule s |
| `schedules/kind`, `schedules/origin` | str [S] | `ansor` or `metaschedule`; replay-trace, evolutionary, log, … |
| `schedules/steps/{offset,text}` | u64 [S+1], u8 [n] | JSON text of the schedule's steps as recorded: the bytes of schedule s are `text[offset[s]:offset[s + 1]]` (HDF5 compresses no texts of variable length; these shrink twentyfold) |
| `records/schedule`, `records/device` | u32, u16 [R] | what was measured, where |
| `records/seconds` | f64 [R] | latency: median of the repeats; NaN where it failed |
| `records/spread` | f32 [R] | (75th − 25th percentile) / median of the repeats |
| `records/repeats`, `records/error` | u16, u8 [R] | number of repeats; an `Outcome` |
| `features/GROUP/{offset,values}` | u64 [S+1], f32 [n, d] | ragged rows per schedule, for the GROUPs of `GROUPS` |
| `features/ast/position` | i32 [n] | pre-order position of a compact AST's leaves |

A feature group that is absent was not extracted; a schedule without rows in a group that is there has none. Each group
has the attributes `feature_version` and `digest`; the file has `provenance` (JSON) and `digest`. Nothing here needs TVM,
and nothing that is read is executed.
"""  # noqa: E501

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tracegen.files import (
    damage_in,
    open_h5,
    read_dataset,
    read_slice,
    read_strings,
    read_text,
    sealed_h5,
    write_strings,
)
from uarch.errors import InputError

FORMAT = "perfvec-tensor"
VERSION = 1
OPERATORS = (
    "dense", "batch_matmul", "conv", "depthwise_conv", "transposed_conv", "pooling", "normalization", "reduction",
    "elementwise", "other",
)  # fmt: skip
KINDS = ("ansor", "metaschedule")
GROUPS = {"statements": False, "ast": True, "primitives": False}  # whether the group's rows have positions
_TASK_TEXTS = ("key", "name", "operator", "shape", "networks")
_RECORDS = {"schedule": "<u4", "device": "<u2", "seconds": "<f8", "spread": "<f4", "repeats": "<u2", "error": "u1"}
_LABELS = {"kind": "S16", "origin": "S32"}  # of a schedule: texts of fixed length, which HDF5 compresses
_CHUNK = 1 << 13  # rows an HDF5 chunk
_TEXT_CHUNK = 1 << 18  # bytes
_BUFFER = 8 << 20  # bytes that wait for a write
_PIECE = 1 << 15  # schedules or records at a time when streaming


class Outcome(IntEnum):
    """What became of a measurement (`records/error`)."""

    OK = 0
    BUILD_FAILED = 1  # the schedule could not be applied or compiled
    RUN_FAILED = 2  # crashed, or the device refused it
    TIMEOUT = 3  # of the build or of the run
    INVALID = 4  # ran, with a wrong result
    UNKNOWN = 5  # failed, the source does not say how


@dataclass(frozen=True)
class Task:
    """One workload to tune: a row of `tasks/`. `shape` is whatever JSON says the argument shapes and types."""

    key: str
    name: str
    operator: str = "other"
    shape: Any = None
    flops: float = math.nan
    networks: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise InputError(
                f"task {self.name}: unknown operator class {self.operator!r}; one of {', '.join(OPERATORS)}"
            )


@dataclass(frozen=True)
class Device:
    """A row of `devices/`: a name, and hardware parameters as `uarch.devices` gives them (unknown ones null)."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Ragged rows: those of the i-th schedule asked for are `values[offset[i]:offset[i + 1]]`."""

    values: NDArray[np.float32]  # [n, d]
    offset: NDArray[np.int64]  # [schedules + 1]
    position: NDArray[np.int32] | None = None  # [n], where the group has positions

    def __len__(self) -> int:
        return len(self.offset) - 1

    def __getitem__(self, index: int) -> NDArray[np.float32]:
        """[rows, d] of the i-th schedule asked for."""
        return self.values[self.offset[index] : self.offset[index + 1]]

    @property
    def length(self) -> NDArray[np.int64]:
        """[schedules] rows of each."""
        return np.diff(self.offset)


def latency(seconds: ArrayLike) -> tuple[float, float, int]:
    """(median, (75th − 25th percentile) / median, count) of repeats [n ≥ 1], as a record holds them."""
    times = sorted(float(value) for value in np.ravel(np.asarray(seconds, np.float64)))
    low, middle, high = (_quantile(times, share) for share in (0.25, 0.5, 0.75))
    return middle, (high - low) / middle, len(times)


def _quantile(ascending: Sequence[float], share: float) -> float:
    """Linear between the neighbours, as NumPy's, at a fiftieth of its time for a handful of numbers."""
    place = share * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])


class _Column:
    """A growing dataset; what is appended waits until a write is worth it."""

    def __init__(self, file: h5py.File, name: str, dtype: str, width: int | None = None, chunk: int = _CHUNK) -> None:
        inner = () if width is None else (width,)
        self.dataset = file.create_dataset(
            name, (0, *inner), dtype, maxshape=(None, *inner), chunks=(max(chunk // (width or 1), 1), *inner),
            compression="gzip", compression_opts=4, shuffle=np.dtype(dtype).kind != "S",
        )  # fmt: skip
        self.length = 0
        self._waiting: list[NDArray[Any]] = []
        self._bytes = 0

    def append(self, data: NDArray[Any]) -> None:
        self._waiting.append(data)
        self._bytes += data.nbytes + 64
        self.length += len(data)
        if self._bytes > _BUFFER:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            old = self.dataset.shape[0]
            self.dataset.resize(self.length, axis=0)
            self.dataset[old:] = np.concatenate(self._waiting)
            self._waiting, self._bytes = [], 0


class _Rows:
    """A column of numbers that come one by one."""

    def __init__(self, file: h5py.File, name: str, dtype: str) -> None:
        self._column, self._dtype = _Column(file, name, dtype), dtype
        self._waiting: list[Any] = []

    def append(self, value: Any) -> None:
        self._waiting.append(value)
        if len(self._waiting) == _CHUNK:
            self.flush()

    def flush(self) -> None:
        self._column.append(np.array(self._waiting, self._dtype))
        self._column.flush()
        self._waiting = []


class _Ragged:
    """Rows of any number per schedule, with their offsets, and positions where the group has them."""

    def __init__(self, file: h5py.File, name: str, values: str, dtype: str, *, position: bool = False) -> None:
        self._file, self._name, self._values, self._dtype = file, name, values, dtype
        self._offset = _Rows(file, f"{name}/offset", "<u8")
        self._offset.append(0)
        self._position = _Column(file, f"{name}/position", "<i4") if position else None
        self._column: _Column | None = None
        self.length = 0

    def append(self, values: NDArray[Any], position: NDArray[np.int32] | None = None) -> None:
        if len(values):
            if self._column is None:
                self._create(values.shape[1] if values.ndim == 2 else None)
            assert self._column is not None
            self._column.append(values)
            if self._position is not None and position is not None:
                self._position.append(position)
            self.length += len(values)
        self._offset.append(self.length)

    @property
    def width(self) -> int | None:
        """Columns; None before the first rows."""
        return None if self._column is None else self._column.dataset.shape[1]

    def _create(self, width: int | None) -> None:
        chunk = _TEXT_CHUNK if width is None else _CHUNK * 8
        self._column = _Column(self._file, f"{self._name}/{self._values}", self._dtype, width, chunk)

    def finish(self, width: int | None) -> None:
        if self._column is None:
            self._create(width)
        for column in (self._column, self._position, self._offset):
            if column is not None:
                column.flush()


class DatasetWriter:
    """Writes a dataset row by row; the file appears, complete and with its digest, on a clean exit of the context.

    `features`: {group: feature_version} of the groups whose rows `schedule` will be given. Tasks and devices, and 16
    bytes a schedule to tell whether it was there before, stay in memory; all else streams.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, provenance: Mapping[str, Any], features: Mapping[str, str] | None = None
    ) -> None:
        self._path = Path(path)
        self._provenance = json.dumps(dict(provenance))
        self._versions = dict(features or {})
        for group in self._versions:
            if group not in GROUPS:
                raise InputError(f"{path}: unknown feature group {group!r}; one of {', '.join(GROUPS)}")
        self._stack = ExitStack()
        self._tasks: list[Task] = []
        self._task_of: dict[str, int] = {}
        self._devices: list[Device] = []
        self._device_of: dict[str, int] = {}
        self._schedule_of: dict[bytes, int] = {}
        self.schedules = 0
        self.records = 0

    def __enter__(self) -> DatasetWriter:
        self._file = file = self._stack.enter_context(sealed_h5(self._path))
        self._task = _Rows(file, "schedules/task", "<u4")
        self._labels = {name: _Rows(file, f"schedules/{name}", dtype) for name, dtype in _LABELS.items()}
        self._steps = _Ragged(file, "schedules/steps", "text", "u1")
        self._records = {name: _Rows(file, f"records/{name}", dtype) for name, dtype in _RECORDS.items()}
        self._features = {
            group: _Ragged(file, f"features/{group}", "values", "<f4", position=GROUPS[group])
            for group in self._versions
        }
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        try:
            if kind is None:
                self._finish()
        except BaseException as failure:
            self._stack.__exit__(type(failure), failure, failure.__traceback__)
            raise
        return self._stack.__exit__(kind, error, trace)

    def task(self, task: Task) -> int:
        """The index of the task with this key: a new one, or the old one, which learns flops and networks."""
        index = self._task_of.setdefault(task.key, len(self._tasks))
        if index == len(self._tasks):
            self._tasks.append(task)
        else:
            old = self._tasks[index]
            flops = task.flops if math.isnan(old.flops) else old.flops
            self._tasks[index] = replace(old, flops=flops, networks={**old.networks, **task.networks})
        return index

    def device(self, device: Device) -> int:
        """The index of the device with this name. Raises InputError where its parameters are not those of before."""
        index = self._device_of.setdefault(device.name, len(self._devices))
        if index == len(self._devices):
            if index > np.iinfo(np.uint16).max:
                raise InputError(f"{self._path}: more than {index:,} devices")
            self._devices.append(device)
        elif dict(self._devices[index].parameters) != dict(device.parameters):
            raise InputError(f"{self._path}: the device {device.name!r} comes with two different sets of parameters")
        return index

    @property
    def tasks(self) -> int:
        """Tasks so far."""
        return len(self._tasks)

    def find(self, task: int, steps: Any) -> int | None:
        """The index of the schedule with these steps of this task, where there is one."""
        return self._schedule_of.get(_identity(task, _text(steps)))

    def schedule(
        self, task: int, steps: Any, *, kind: str, origin: str, features: Mapping[str, Any] | None = None
    ) -> int:
        """The index of a schedule: a new one, or the one with the same steps of the same task.

        `steps`: JSON text, or what becomes it. `features`, of a new one: {group: values [n, d]}, for a group with
        positions {group: (values [n, d], position [n])}. Raises InputError where the values have another width than
        before, are not finite, or their group was not announced.
        """
        text = _text(steps)
        identity = _identity(task, text)
        known = self._schedule_of.get(identity)
        if known is not None:
            return known
        if kind not in KINDS:
            raise InputError(f"{self._path}: unknown kind of schedule {kind!r}; one of {', '.join(KINDS)}")
        if not 0 <= task < len(self._tasks):
            raise InputError(f"{self._path}: there is no task {task}; the tasks are 0 to {len(self._tasks) - 1}")
        given = {name: self._checked(name, values) for name, values in (features or {}).items()}
        index = self._schedule_of[identity] = self.schedules
        self.schedules += 1
        self._task.append(task)
        for name, value in (("kind", kind), ("origin", origin)):
            self._labels[name].append(value.encode()[: np.dtype(_LABELS[name]).itemsize])
        self._steps.append(np.frombuffer(text.encode(), np.uint8))
        for name, ragged in self._features.items():
            ragged.append(*given.get(name, (np.empty((0, 0), np.float32), None)))
        return index

    def _checked(self, name: str, given: Any) -> tuple[NDArray[np.float32], NDArray[np.int32] | None]:
        if name not in self._features:
            raise InputError(f"{self._path}: features {name!r} were not announced when the dataset was begun")
        values, position = given if GROUPS[name] else (given, None)
        values = np.asarray(values, np.float32)
        width = self._features[name].width
        if values.ndim != 2 or (len(values) and width not in (None, values.shape[1])):
            raise InputError(
                f"{self._path}: features {name!r} are {list(values.shape)}; [rows, {width or 'd'}] expected"
            )
        if not np.isfinite(values).all():
            raise InputError(f"{self._path}: features {name!r} of schedule {self.schedules} are not all finite")
        if position is not None:
            position = np.asarray(position, np.int32)
            if position.shape != (len(values),):
                raise InputError(f"{self._path}: {len(values)} rows of {name!r} have {position.shape} positions")
        return values, position

    def record(
        self, schedule: int, device: int, seconds: float = math.nan, *, spread: float = 0.0, repeats: int = 0,
        outcome: Outcome = Outcome.OK,
    ) -> None:  # fmt: skip
        """A measurement; `seconds` is ignored (NaN is stored) where it failed. `latency(times)` gives the numbers."""
        if not 0 <= schedule < self.schedules or not 0 <= device < len(self._devices):
            raise InputError(f"{self._path}: a record of schedule {schedule} on device {device}, which are not there")
        failed = outcome != Outcome.OK
        if not failed and not (math.isfinite(seconds) and seconds > 0):
            raise InputError(f"{self._path}: a latency of {seconds} s; a positive number is expected")
        values = (schedule, device, math.nan if failed else seconds, math.nan if failed else spread,
                  min(repeats, 65535), int(outcome))  # fmt: skip
        for column, value in zip(self._records.values(), values, strict=True):
            column.append(value)
        self.records += 1

    def _finish(self) -> None:
        if not self._tasks:
            raise InputError(f"{self._path}: there is no task, so no dataset was written")
        file = self._file
        texts = {
            "key": [task.key for task in self._tasks],
            "name": [task.name for task in self._tasks],
            "operator": [task.operator for task in self._tasks],
            "shape": [json.dumps(task.shape) for task in self._tasks],
            "networks": [json.dumps(dict(task.networks)) for task in self._tasks],
        }
        for name in _TASK_TEXTS:
            write_strings(file, f"tasks/{name}", texts[name])
        file.create_dataset(
            "tasks/flops", data=np.array([task.flops for task in self._tasks], "<f8"), compression="gzip"
        )
        write_strings(file, "devices/name", [device.name for device in self._devices])
        write_strings(file, "devices/parameters", [json.dumps(dict(device.parameters)) for device in self._devices])
        for column in (self._task, *self._labels.values(), *self._records.values()):
            column.flush()
        self._steps.finish(None)
        for name, ragged in self._features.items():
            ragged.finish(1)  # no schedule has rows: HDF5 has no chunks of width 0
            group = file[f"features/{name}"]
            group.attrs["feature_version"] = self._versions[name]
            group.attrs["digest"] = _digest(file, [f"features/{name}"])
        file.attrs.update({"format": FORMAT, "version": VERSION, "provenance": self._provenance})
        file.attrs["digest"] = _digest(file, ["tasks", "devices", "schedules", "records", "features"])


def _text(steps: Any) -> str:
    return steps if isinstance(steps, str) else json.dumps(steps, separators=(",", ":"))


def _identity(task: int, text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16, salt=task.to_bytes(8, "little")).digest()


def _digest(file: h5py.File, groups: Sequence[str]) -> str:
    """SHA-256 over names, shapes and contents of all datasets in the groups, and the digests of feature groups."""
    hasher = hashlib.sha256()
    names: list[str] = []
    for group in groups:
        if group in file:
            file[group].visititems(
                lambda name, item, top=group: names.append(f"{top}/{name}") if isinstance(item, h5py.Dataset) else None
            )
    for name in sorted(names):
        dataset = file[name]
        hasher.update(f"{name} {list(dataset.shape)}\n".encode())
        if h5py.check_string_dtype(dataset.dtype) is not None and dataset.dtype.kind == "O":
            for text in dataset[:]:
                hasher.update(len(text).to_bytes(8, "little") + text)
            continue
        step = _TEXT_CHUNK * 16 // max(math.prod(dataset.shape[1:]) * dataset.dtype.itemsize, 1)
        for begin in range(0, len(dataset), max(step, 1)):
            hasher.update(np.ascontiguousarray(dataset[begin : begin + step]).data)
    return hasher.hexdigest()


class Dataset:
    """A dataset, open for reading; a context manager.

    Attributes: `path`; `digest`; `provenance`; `tasks` (frame: key, name, operator, shape, flops, networks, the last
    and `shape` parsed), `devices` (frame: name, parameters, parsed), `groups` {feature group: feature_version}.
    `schedules`, `records` and `table` give frames, `steps` and `features` the rest for schedules by index.

    Raises InputError where the file is missing, damaged, foreign, or not what it says it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._stack = ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._file = file = self._stack.enter_context(open_h5(self.path, FORMAT, VERSION))
        self.digest = read_text(file, "digest")
        self.provenance: dict[str, Any] = self._json("the attribute 'provenance'", [read_text(file, "provenance")])[0]
        columns: dict[str, Any] = {name: read_strings(file, f"tasks/{name}") for name in _TASK_TEXTS}
        for name in ("shape", "networks"):
            columns[name] = self._json(f"tasks/{name}", columns[name])
        columns["flops"] = read_slice(read_dataset(file, "tasks/flops", "<f8"), slice(None))
        if len({len(column) for column in columns.values()}) != 1:
            raise InputError(f"{self.path}: the datasets of tasks/ differ in length; the file is damaged")
        self.tasks = pd.DataFrame(columns)
        names, parameters = read_strings(file, "devices/name"), read_strings(file, "devices/parameters")
        if len(names) != len(parameters):
            raise InputError(f"{self.path}: the datasets of devices/ differ in length; the file is damaged")
        self.devices = pd.DataFrame({"name": names, "parameters": self._json("devices/parameters", parameters)})
        self._task: NDArray[np.uint32] = self._column("schedules/task", "<u4")
        self._below(self._task, len(self.tasks), "schedules/task")
        self._offsets = {"schedules/steps": self._offset("schedules/steps", "text", "u1", 1)}
        self._record_columns = [read_dataset(file, f"records/{name}", dtype) for name, dtype in _RECORDS.items()]
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

    def _column(self, name: str, dtype: str) -> NDArray[Any]:
        return read_slice(read_dataset(self._file, name, dtype), slice(None))

    def _below(self, values: NDArray[Any], limit: int, name: str) -> None:
        if len(values) and int(values.max()) >= limit:
            raise InputError(f"{self.path}: {name} names {int(values.max())} of {limit:,}; the file is damaged")

    def _offset(self, name: str, values: str, dtype: str, dimensions: int) -> NDArray[np.int64]:
        offset = self._column(f"{name}/offset", "<u8").astype(np.int64)
        rows = len(read_dataset(self._file, f"{name}/{values}", dtype, dimensions))
        if len(offset) != len(self._task) + 1 or offset[0] != 0 or offset[-1] != rows or (np.diff(offset) < 0).any():
            raise InputError(f"{self.path}: {name}/offset does not divide its {rows:,} rows among the schedules")
        return offset

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def verify(self) -> None:
        """Raise InputError unless the content matches the recorded digest (reads the whole file)."""
        with damage_in(self.path, "the content"):
            found = _digest(self._file, ["tasks", "devices", "schedules", "records", "features"])
        if found != self.digest:
            raise InputError(f"{self.path}: the content does not match its digest; the file is damaged")

    @property
    def task_of(self) -> NDArray[np.uint32]:
        """[S] the task of each schedule."""
        return self._task

    def schedules(self) -> pd.DataFrame:
        """A row a schedule: task, kind, origin."""
        frame: dict[str, NDArray[Any]] = {"task": self._task}
        for name, dtype in _LABELS.items():
            frame[name] = np.char.decode(self._column(f"schedules/{name}", f"|{dtype}"), errors="replace")
        if len({len(column) for column in frame.values()}) != 1:
            raise InputError(f"{self.path}: the datasets of schedules/ differ in length; the file is damaged")
        return pd.DataFrame(frame)

    def records(self, begin: int = 0, end: int | None = None) -> pd.DataFrame:
        """A row a record, in the file's order: schedule, device, seconds, spread, repeats, error."""
        parts = {
            name: read_slice(column, slice(begin, end))
            for name, column in zip(_RECORDS, self._record_columns, strict=True)
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

    def feature_digest(self, group: str) -> str:
        with damage_in(self.path, f"'features/{group}'"):
            return str(self._file[f"features/{group}"].attrs["digest"])

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
            piece = read_slice(dataset, slice(first, last))
            for member in members:
                at = begin[member] - first
                found[into[member] : into[member + 1]] = piece[at : at + length[member]]
        return found, into


def _runs(begin: NDArray[np.int64], length: NDArray[np.int64]) -> Iterator[slice]:
    """Pieces of ascending stretches that lie near each other: each is read at once."""
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


def merge(paths: Iterable[str | os.PathLike[str]], output: str | os.PathLike[str], **provenance: Any) -> Path:
    """One dataset of several, streamed: tasks by key, devices by name, a schedule once; records in the files' order.

    A schedule of several files keeps the features of the first. Raises InputError where a device's parameters or a
    feature group's versions differ.
    """
    files = [Path(path) for path in paths]
    versions: dict[str, str] = {}
    sources = []
    for path in files:
        with Dataset(path) as dataset:
            sources.append({"file": path.name, "digest": dataset.digest, "provenance": dataset.provenance})
            for group, version in dataset.groups.items():
                if versions.setdefault(group, version) != version:
                    raise InputError(f"{path}: features {group!r} are of version {version}, others {versions[group]}")
    with DatasetWriter(output, provenance={**provenance, "merged": sources}, features=versions) as writer:
        for path in files:
            with Dataset(path) as dataset:
                copy(dataset, writer)
    return Path(output)


def copy(dataset: Dataset, writer: DatasetWriter) -> None:
    """Append all of a dataset to what is being written."""
    tasks = [writer.task(Task(**row)) for row in dataset.tasks.to_dict("records")]  # type: ignore[arg-type]
    devices = [writer.device(Device(**row)) for row in dataset.devices.to_dict("records")]  # type: ignore[arg-type]
    schedules = np.empty(dataset.schedule_count, np.int64)
    labels = dataset.schedules()
    for begin in range(0, dataset.schedule_count, _PIECE):
        indices = np.arange(begin, min(begin + _PIECE, dataset.schedule_count))
        steps = dataset.steps(indices)
        rows = {group: dataset.features(group, indices) for group in dataset.groups}
        for at, index in enumerate(indices):
            features = {}
            for group, found in rows.items():
                part = slice(found.offset[at], found.offset[at + 1])
                values = found.values[part]
                features[group] = values if found.position is None else (values, found.position[part])
            schedules[index] = writer.schedule(
                tasks[dataset.task_of[index]], steps[at], kind=labels["kind"][index], origin=labels["origin"][index],
                features=features,
            )  # fmt: skip
    for begin in range(0, dataset.record_count, _PIECE):
        frame = dataset.records(begin, begin + _PIECE)
        columns = (frame[name].tolist() for name in _RECORDS)
        for schedule, device, seconds, spread, repeats, error in zip(*columns, strict=True):
            writer.record(
                int(schedules[schedule]), devices[device], seconds, spread=spread, repeats=repeats,
                outcome=Outcome(error),
            )  # fmt: skip


def summary(dataset: Dataset) -> tuple[dict[str, Any], pd.DataFrame]:
    """(counts and versions as JSON may hold them, a frame with a row a device: records, failures, tasks, latencies)."""
    frame = dataset.table(failed=True)
    rows = []
    for index, name in enumerate(dataset.devices["name"]):
        mine = frame[frame["device"] == index]
        ok = mine[mine["error"] == Outcome.OK]
        quantiles = ok["seconds"].quantile([0, 0.5, 1]).tolist() if len(ok) else [None] * 3
        rows.append(
            {
                "device": name, "tasks": int(mine["task"].nunique()), "records": len(mine),
                "failed": len(mine) - len(ok), "fastest_s": quantiles[0], "median_s": quantiles[1],
                "slowest_s": quantiles[2], "median_spread": float(ok["spread"].median()) if len(ok) else None,
            }
        )  # fmt: skip
    document = {
        "file": str(dataset.path), "digest": dataset.digest, "tasks": len(dataset.tasks),
        "schedules": dataset.schedule_count, "records": dataset.record_count,
        "operators": dataset.tasks["operator"].value_counts().to_dict(),
        "failures": {
            Outcome(int(code)).name.lower(): int(count)
            for code, count in zip(*np.unique(frame["error"], return_counts=True), strict=True)
            if code != Outcome.OK
        },
        "features": dataset.groups, "devices": rows,
    }  # fmt: skip
    return document, pd.DataFrame(rows)
