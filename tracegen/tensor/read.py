"""Readers of other tuners' measurements: Ansor's logs, TenSet's folder, MetaSchedule's databases."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from support.errors import InputError
from tracegen.tensor import ansor, database, primitives
from tracegen.tensor.dataset import DatasetWriter, Device, Outcome, Task, latency
from tracegen.tensor.lines import Problem
from tracegen.tensor.tenset import Source, find
from uarch.devices import device_names, is_host, load_device

_GPUS = ("cuda", "rocm", "opencl", "metal", "vulkan", "nvidia")
_TARGET_KEYS = {  # of a MetaSchedule target, by the names of `uarch.devices`
    "num-cores": "cores",
    "max_threads_per_block": "max_threads_per_block",
    "thread_warp_size": "warp_size",
    "max_num_threads": "max_threads_per_block",
    "registers_per_block": "registers_per_core",
}


@dataclass
class Tally:
    """Count of lines read and not read; `problems` maps a reason to its number of lines, `first` to the first one."""

    output: Path
    files: int = 0
    records: int = 0
    schedules: int = 0
    tasks: int = 0
    pickles: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    first: dict[str, Problem] = field(default_factory=dict)

    def add(self, problem: Problem) -> None:
        self.problems[problem.reason] += 1
        self.first.setdefault(problem.reason, problem)

    def notes(self) -> list[str]:
        """A line for each kind of thing that is not in the dataset as a time."""
        notes = []
        for reason, count in self.problems.most_common():
            notes.append(
                f"{count:,} {'lines' if count > 1 else 'line'} skipped ({reason}); the first: {self.first[reason]}"
            )
        for outcome, count in sorted(self.outcomes.items()):
            if outcome != Outcome.OK:
                notes.append(
                    f"{count:,} measurements failed ({outcome.name.lower().replace('_', ' ')}): kept, without a time"
                )
        if self.pickles:
            notes.append(f"{self.pickles:,} pickles not read: unpickling executes what a file says")
        return notes


def read(
    paths: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    device: str | None = None,
    strict: bool = False,
    features: bool = False,
    progress: bool = True,
) -> Tally:
    """Write the dataset of logs, folders of logs, TenSet's folder and MetaSchedule databases (their folders).

    Lines that are no records are skipped and counted, or refused where `strict`. `device` names the device of all
    records; without it, a folder of `measure_records` or the record's target does. `features`: also the FLOPs, operator
    class, statement features and compact ASTs of a database's candidates, which needs TVM. Memory: one line, and what
    `DatasetWriter` keeps. Raises InputError, also where there is no record at all.
    """
    tally = Tally(Path(output))
    databases: list[Path] = []
    logs: list[Path] = []
    for path in map(Path, paths):
        folder = path.parent if path.name in (database.WORKLOADS, database.RECORDS) else path
        (databases if database.is_database(folder) else logs).append(folder if database.is_database(folder) else path)
    databases = list(dict.fromkeys(databases))
    sources: list[Source] = []
    if logs:
        sources, tally.pickles = find(logs)
    versions = {"primitives": primitives.VERSION}
    if features and databases:
        from tracegen.tensor import compact_ast, statements

        versions |= {"statements": statements.VERSION, "ast": compact_ast.VERSION}
    provenance = {"source": "logs", "files": [str(path) for path in (*logs, *databases)]}
    with DatasetWriter(output, provenance=provenance, features=versions) as writer:
        devices = _Devices(writer, device)
        reader = _Reader(writer, devices, tally, strict)
        everything: list[Source | Path] = [*sources, *databases]
        bar = tqdm(everything, unit="file", desc="read", disable=None if progress else True)
        for source in bar:
            tally.files += 1
            if isinstance(source, Source):
                reader.log(source)
            else:
                reader.database(source, features)
        if tally.records == 0:
            first = next(iter(tally.first.values()), None)
            raise InputError(f"no record was found{f'; {first}' if first else ' in ' + ', '.join(map(str, logs))}")
        tally.schedules, tally.tasks = writer.schedules, writer.tasks
    return tally


class _Devices:
    """Devices by name and by what the log says of their hardware."""

    def __init__(self, writer: DatasetWriter, given: str | None) -> None:
        self._writer, self._given = writer, given
        self._known: dict[tuple[str, str], int] = {}
        self._count: Counter[str] = Counter()

    def index(self, name: str, kind: str, hardware: Mapping[str, int]) -> int:
        name = self._given or name
        identity = (name, json.dumps(dict(hardware), sort_keys=True))
        if identity not in self._known:
            self._count[name] += 1
            number = self._count[name]
            parameters: dict[str, Any] = {"kind": kind}
            if name in device_names() and (self._given or not is_host(name)):
                parameters = load_device(name).to_dict()
            shown = name if number == 1 else f"{name}#{number}"  # the same name for other hardware
            self._known[identity] = self._writer.device(Device(shown, {**parameters, **hardware}))
        return self._known[identity]


class _Reader:
    def __init__(self, writer: DatasetWriter, devices: _Devices, tally: Tally, strict: bool) -> None:
        self._writer, self._devices, self._tally, self._strict = writer, devices, tally, strict
        self._tasks: dict[str, int] = {}

    def _problem(self, problem: Problem) -> None:
        if self._strict:
            raise InputError(str(problem))
        self._tally.add(problem)

    def _record(self, schedule: int, device: int, record: ansor.Record | database.Record) -> None:
        seconds, spread, repeats = latency(record.costs) if record.costs else (float("nan"), 0.0, 0)
        self._writer.record(schedule, device, seconds, spread=spread, repeats=repeats, outcome=record.outcome)
        self._tally.records += 1
        self._tally.outcomes[record.outcome] += 1

    def log(self, source: Source) -> None:
        for _, record in ansor.read_log(source.path):
            if isinstance(record, Problem):
                self._problem(record)
                continue
            key = record.workload_key
            if key not in self._tasks:
                self._tasks[key] = self._writer.task(ansor.task_of(key))
            steps = json.dumps(record.steps, separators=(",", ":"))
            schedule = self._writer.find(self._tasks[key], steps)
            if schedule is None:
                schedule = self._writer.schedule(
                    self._tasks[key],
                    steps,
                    kind="ansor",
                    origin="log",
                    features={"primitives": primitives.encode(record.primitives)},
                )
            name = source.device or ansor.device_name(record.target)
            hardware = dict(record.hardware)
            if "max_shared_memory_per_block" in hardware:
                hardware["shared_kib_per_block"] = hardware.pop("max_shared_memory_per_block") // 1024
            self._record(schedule, self._devices.index(name, _kind(record.target.split()[0]), hardware), record)

    def database(self, folder: Path, features: bool) -> None:
        workloads = database.read_workloads(folder)
        lowering = None
        if features:
            from tracegen.tensor.lowering import Lowering

            lowering = Lowering(workloads)
        for line, record in database.read_records(folder, len(workloads)):
            if isinstance(record, Problem):
                self._problem(record)
                continue
            key = workloads[record.workload].identity
            if key not in self._tasks:
                task = Task(key, f"{key[:8]} {_shown(record.shape)}", "other", record.shape)
                self._tasks[key] = self._writer.task(lowering.task(record.workload, task) if lowering else task)
            steps = json.dumps(record.trace, separators=(",", ":"))
            schedule = self._writer.find(self._tasks[key], steps)
            if schedule is None:
                given: dict[str, Any] = {"primitives": primitives.encode(record.primitives)}
                if lowering:
                    try:
                        given |= lowering.features(record.workload, steps, record.target)
                    except InputError as error:
                        self._problem(Problem(folder / database.RECORDS, line, "features", str(error)))
                        continue
                schedule = self._writer.schedule(
                    self._tasks[key], steps, kind="metaschedule", origin="log", features=given
                )
            kind = str(record.target["kind"])
            name = str(record.target.get("mcpu") or record.target.get("tag") or record.target.get("arch") or kind)
            hardware = {
                known: record.target[key]
                for key, known in _TARGET_KEYS.items()
                if type(record.target.get(key)) is int and record.target[key] > 0
            }
            self._record(schedule, self._devices.index(name, _kind(kind), hardware), record)


def _kind(target: str) -> str:
    return "gpu" if target.startswith(_GPUS) else "cpu"


def _shown(shape: list[Any]) -> str:
    return " ".join("x".join(map(str, extents)) for _, extents in shape)[:80]
