"""Writing a dataset, row by row."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.files import on_success, sealed_h5, write_strings
from tracegen.tensor.dataset.columns import Numbers, Ragged
from tracegen.tensor.dataset.format import (
    FORMAT,
    GROUPS,
    KINDS,
    LABELS,
    RECORDS,
    TASK_TEXTS,
    VERSION,
    Device,
    Outcome,
    Task,
    digest,
)


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
        self._task = Numbers(file, "schedules/task", "<u4")
        self._labels = {name: Numbers(file, f"schedules/{name}", dtype) for name, dtype in LABELS.items()}
        self._steps = Ragged(file, "schedules/steps", "text", "u1")
        self._records = {name: Numbers(file, f"records/{name}", dtype) for name, dtype in RECORDS.items()}
        self._features = {
            group: Ragged(file, f"features/{group}", "values", "<f4", position=GROUPS[group])
            for group in self._versions
        }
        on_success(self._stack, self._finish)
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

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
            self._labels[name].append(value.encode()[: np.dtype(LABELS[name]).itemsize])
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
        self,
        schedule: int,
        device: int,
        seconds: float = math.nan,
        *,
        spread: float = 0.0,
        repeats: int = 0,
        outcome: Outcome = Outcome.OK,
    ) -> None:
        """A measurement; `seconds` is ignored (NaN is stored) where it failed. `latency(times)` gives the numbers."""
        if not 0 <= schedule < self.schedules or not 0 <= device < len(self._devices):
            raise InputError(f"{self._path}: a record of schedule {schedule} on device {device}, which are not there")
        failed = outcome != Outcome.OK
        if not failed and not (math.isfinite(seconds) and seconds > 0):
            raise InputError(f"{self._path}: a latency of {seconds} s; a positive number is expected")
        values = (
            schedule,
            device,
            math.nan if failed else seconds,
            math.nan if failed else spread,
            min(repeats, 65535),
            int(outcome),
        )
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
        for name in TASK_TEXTS:
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
            group.attrs["digest"] = digest(file, [f"features/{name}"])
        file.attrs.update({"format": FORMAT, "version": VERSION, "provenance": self._provenance})
        file.attrs["digest"] = digest(file, ["tasks", "devices", "schedules", "records", "features"])


def _text(steps: Any) -> str:
    return steps if isinstance(steps, str) else json.dumps(steps, separators=(",", ":"))


def _identity(task: int, text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16, salt=task.to_bytes(8, "little")).digest()
