"""The work file of a collection: one JSON document a line, appended and flushed, so that a kill loses at most a line.

Lines are {"session": …}, {"network": name, "tasks": [key, …]}, {"task": …}, {"schedule": …}, {"record": …} and
{"device": name, "machine": …, "simulator": …}, the machine of `uarch/` that a simulated device is and what timed it, or
{"device": name, "parameters": …}, the hardware of the computer that a device was measured on.
Whatever is read twice (a second session's tasks) is the same; the last line may be torn and is dropped.
"""

from __future__ import annotations

import fcntl
import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from support.errors import InputError
from support.text import parse_json
from tracegen.tensor.candidates import Candidate
from tracegen.tensor.reference import TOLERANCE
from tracegen.tensor.tasks import Task, merged

BUILD_FAILED, RUN_FAILED, TIMEOUT = "build failed", "run failed", "timeout"
INVALID, TOO_LONG = "invalid", "too long"  # wrong results; more instructions than are simulated


@dataclass(frozen=True)
class Record:
    """Result of schedule number `schedule` on `device`; `error` "" where it ran, `seconds` None where not.

    `again` marks a measurement repeated to see the noise. `deviation` of the results from the task's own; None where
    they were not compared.
    """

    schedule: int
    device: str
    seconds: float | None
    spread: float | None
    repeats: int
    error: str = ""
    message: str = ""
    again: bool = False
    deviation: float | None = None


def compared(
    schedule: int, device: str, seconds: float, spread: float | None, repeats: int, deviation: float | None
) -> Record:
    """The record of a program that ran: a failure where its results are wrong."""
    if deviation is not None and deviation > TOLERANCE:
        message = f"wrong results: they deviate from the unscheduled program's by {deviation:.3g}"
        return Record(schedule, device, None, None, 0, INVALID, message)
    return Record(schedule, device, seconds, spread, repeats, deviation=deviation)


class Journal:
    """A work file, read and then appended to; a context manager that holds it against a second collection."""

    def __init__(self, path: Path, writable: bool = True) -> None:
        self.path = path
        self.sessions: list[dict[str, Any]] = []
        self.networks: dict[str, list[str]] = {}
        self.tasks: dict[str, Task] = {}
        self.schedules: list[tuple[str, Candidate]] = []
        self.of_task: dict[str, list[int]] = defaultdict(list)
        self.records: dict[tuple[int, str], Record] = {}
        self.repeated: list[Record] = []
        self.machines: dict[str, dict[str, Any]] = {}
        self.simulators: dict[str, str] = {}  # not there in journals of before it was kept
        self.computers: dict[str, dict[str, Any]] = {}
        self._file: IO[bytes] | None = None
        if writable:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"{path}: another collection is at work here; wait for it or choose another -o"
                ) from error
        elif not path.exists():
            raise InputError(f"{path}: no such work file; collect first")
        self._read()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def session(self, about: dict[str, Any]) -> None:
        """A collection begins."""
        self._append({"session": about})

    def network(self, name: str, tasks: list[Task]) -> None:
        """All tasks of a network (or group of operators)."""
        for task in tasks:
            self._append({"task": task.as_json()})
        self._append({"network": name, "tasks": [task.key for task in tasks]})

    def machine(self, device: str, machine: dict[str, Any], simulator: str) -> None:
        """The machine that a device is and what times it, at its first use.

        Raises InputError where it was another one before.
        """
        machine = json.loads(json.dumps(machine))
        known = self.machines.get(device)
        if known is None:
            self._append({"device": device, "machine": machine, "simulator": simulator})
        elif known != machine:
            raise InputError(
                f"{self.path}: {device} was another machine when it was first used; rename it or choose -o"
            )
        elif (before := self.simulators.get(device, "another version")) != simulator:
            raise InputError(
                f"{self.path}: {device} was timed by {before} when it was first used, this is {simulator}; choose -o"
            )

    def computer(self, device: str, parameters: dict[str, Any]) -> None:
        """The hardware of this computer as a device, at its first use.

        Raises InputError where it was another computer before: one with other caches or vectors. (Virtual machines
        change their memory, and the clock that they show.)
        """
        known = self.computers.get(device)
        if known is None:
            self._append({"device": device, "parameters": parameters})
            return
        for name in ("vector_bytes", "cache_line_bytes", "l1_kib", "l2_kib", "l3_kib"):
            if known[name] != parameters[name]:
                raise InputError(
                    f"{self.path}: {device} was another computer when it was first used ({name} {known[name]}, here "
                    f"{parameters[name]}); call this one {device.partition('@')[0]}@NAME or choose another -o"
                )

    def schedule(self, task: str, candidate: Candidate) -> int:
        """A new schedule of a task; returns its number."""
        self._append({"schedule": asdict(candidate), "task": task})
        return len(self.schedules) - 1

    def record(self, record: Record) -> None:
        """A measurement or a failure."""
        self._append({"record": asdict(record)})

    def _read(self) -> None:
        end = 0
        with self.path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._take(parse_json(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise InputError(f"{self.path}: line {number} is no line of a work file; it is damaged") from error
                end += len(line)
        if self._file is not None:
            self._file.truncate(end)

    def _append(self, document: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        self._take(document)

    def _take(self, document: dict[str, Any]) -> None:
        if "session" in document:
            self.sessions.append(document["session"])
        elif "network" in document:
            self.networks[document["network"]] = document["tasks"]
        elif "machine" in document:
            self.machines[document["device"]] = document["machine"]
            if "simulator" in document:
                self.simulators[document["device"]] = document["simulator"]
        elif "parameters" in document:
            self.computers[document["device"]] = document["parameters"]
        elif "schedule" in document:
            self.of_task[document["task"]].append(len(self.schedules))
            self.schedules.append((document["task"], Candidate(**document["schedule"])))
        elif "record" in document:
            record = Record(**document["record"])
            if record.again:
                self.repeated.append(record)
            else:
                self.records[record.schedule, record.device] = record
        else:
            task = Task.from_json(document["task"])
            known = self.tasks.get(task.key)
            self.tasks[task.key] = merged([known, task])[0] if known else task
