"""Several datasets become one, or some devices of them."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.tensor.dataset.format import RECORDS, Device, Outcome, Task
from tracegen.tensor.dataset.reader import Dataset
from tracegen.tensor.dataset.writer import DatasetWriter

_BATCH = 1 << 15  # schedules or records at a time
_RECORD = struct.Struct("<IHdfHB")  # the columns of `RECORDS`


@dataclass(frozen=True)
class Merged:
    """The dataset that was written, and how many records were left out since an equal one was there."""

    path: Path
    left_out: int


def merge(
    paths: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    devices: Sequence[str] = (),
    **provenance: Any,
) -> Merged:
    """One dataset of several, streamed: tasks by key, devices by name, a schedule once; records in the files' order.

    A record that equals an earlier one in schedule, device and all numbers is the same measurement, and left out; 21
    bytes a record stay in memory to tell. Other measurements of a schedule stay.

    `devices`: names, or patterns as of a shell (`sim:*`), of the devices that are kept, with the schedules that have a
    record on one of them and their tasks; all of everything by default. A schedule of several files keeps the features
    of the first. Raises InputError where a device's parameters or a feature group's versions differ, and for a device
    that there is not.
    """
    files = [Path(path) for path in paths]
    kept = _matching(files, devices) if devices else None
    versions: dict[str, str] = {}
    sources = []
    for path in files:
        with Dataset(path) as dataset:
            sources.append({"file": path.name, "digest": dataset.digest, "provenance": dataset.provenance})
            for group, version in dataset.groups.items():
                if versions.setdefault(group, version) != version:
                    raise InputError(f"{path}: features {group!r} are of version {version}, others {versions[group]}")
    with DatasetWriter(output, provenance={**provenance, "merged": sources}, features=versions) as writer:
        seen: set[bytes] = set()
        left_out = 0
        for path in files:
            with Dataset(path) as dataset:
                left_out += copy(dataset, writer, kept, seen=seen)
    return Merged(Path(output), left_out)


def history(provenance: Mapping[str, Any], file: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(file, provenance) of everything that a dataset was merged of, each once; of itself, as the file "", where it was
    not.
    """
    seen: set[str] = set()
    for name, digest, origin in _origins(provenance, file, ""):
        if digest not in seen:
            seen.add(digest)
            yield name, origin


def _origins(provenance: Mapping[str, Any], file: str, digest: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    sources = provenance.get("merged")
    if not sources:
        yield file, digest, provenance
        return
    for source in sources:
        yield from _origins(source["provenance"], source["file"], source["digest"])


def _matching(files: Sequence[Path], patterns: Sequence[str]) -> set[str]:
    """The devices of the files that a pattern names. Raises InputError for one that names none."""
    names: dict[str, None] = {}
    for path in files:
        with Dataset(path) as dataset:
            names |= dict.fromkeys(dataset.devices["name"])
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f"no device is called {pattern!r}; there are {', '.join(names)}")
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def copy(
    dataset: Dataset,
    writer: DatasetWriter,
    devices: Collection[str] | None = None,
    keep: NDArray[np.bool_] | None = None,
    seen: set[bytes] | None = None,
) -> int:
    """Append a dataset to what is being written: all of it, or what has records on these devices, and of that the
    schedules of the mask `keep` [schedules]. Return how many records were left out since `seen`, to which the others
    are added, had an equal one.
    """
    left_out = 0
    there = dataset.devices["name"].tolist()
    wanted = np.array([devices is None or name in devices for name in there], bool)
    chosen = _with_records(dataset, wanted) if devices is not None else np.arange(dataset.schedule_count)
    if keep is not None:
        chosen = chosen[keep[chosen]]
    whole = devices is None and keep is None
    used = np.arange(len(dataset.tasks)) if whole else np.unique(dataset.task_of[chosen])
    table = dataset.tasks.to_dict("records")
    tasks = {int(index): writer.task(Task(**table[index])) for index in used}  # type: ignore[arg-type]
    device_of = [
        writer.device(Device(**row)) if keep else -1  # type: ignore[arg-type]
        for row, keep in zip(dataset.devices.to_dict("records"), wanted, strict=True)
    ]
    schedules = np.full(dataset.schedule_count, -1, np.int64)
    labels = dataset.schedules()
    for begin in range(0, len(chosen), _BATCH):
        indices = chosen[begin : begin + _BATCH]
        steps = dataset.steps(indices)
        rows = {group: dataset.features(group, indices) for group in dataset.groups}
        for at, index in enumerate(indices):
            features = {}
            for group, found in rows.items():
                part = slice(found.offset[at], found.offset[at + 1])
                values = found.values[part]
                features[group] = values if found.position is None else (values, found.position[part])
            schedules[index] = writer.schedule(
                tasks[int(dataset.task_of[index])],
                steps[at],
                kind=labels["kind"][index],
                origin=labels["origin"][index],
                features=features,
            )
    for begin in range(0, dataset.record_count, _BATCH):
        frame = dataset.records(begin, begin + _BATCH)
        columns = (frame[name].tolist() for name in RECORDS)
        for schedule, device, seconds, spread, repeats, error in zip(*columns, strict=True):
            if not wanted[device] or schedules[schedule] < 0:
                continue
            place = int(schedules[schedule]), device_of[device]
            if seen is not None:
                record = _RECORD.pack(*place, seconds, spread, repeats, error)
                if record in seen:
                    left_out += 1
                    continue
                seen.add(record)
            writer.record(*place, seconds, spread=spread, repeats=repeats, outcome=Outcome(error))
    return left_out


def _with_records(dataset: Dataset, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The schedules, ascending, that have a record (failures too) on one of the devices of this mask [devices]."""
    has = np.zeros(dataset.schedule_count, bool)
    for begin in range(0, dataset.record_count, _BATCH):
        frame = dataset.records(begin, begin + _BATCH)
        has[frame["schedule"].to_numpy()[wanted[frame["device"].to_numpy()]]] = True
    return np.flatnonzero(has)
