"""Several datasets become one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tracegen.tensor.dataset.format import RECORDS, Device, Outcome, Task
from tracegen.tensor.dataset.reader import Dataset
from tracegen.tensor.dataset.writer import DatasetWriter
from uarch.errors import InputError

_PIECE = 1 << 15  # schedules or records at a time


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
        columns = (frame[name].tolist() for name in RECORDS)
        for schedule, device, seconds, spread, repeats, error in zip(*columns, strict=True):
            writer.record(
                int(schedules[schedule]), devices[device], seconds, spread=spread, repeats=repeats,
                outcome=Outcome(error),
            )  # fmt: skip
