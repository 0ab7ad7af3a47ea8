"""Collect measured schedules: sample, build on one core, measure on another, keep everything in a work file.

Three processes: this one decides and writes, a builder samples and compiles, a runner measures; either may crash or
hang, which is a record, and is replaced. Tasks take turns in rounds, so that a collection cut at any time is balanced;
while a round is measured the next is built. `DATA.tensor.h5.work/journal.jsonl` holds all that was done: a second call
continues there, and measures nothing twice.
"""

from __future__ import annotations

import platform
import random
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timezone
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from support.errors import InputError
from tracegen.tensor import work
from tracegen.tensor.build import TARGETS, level_of
from tracegen.tensor.candidates import EVOLUTIONARY, REPLAY_TRACE, Candidate
from tracegen.tensor.installation import FFI_VERSION, TVM_VERSION, require_tvm
from tracegen.tensor.journal import BUILD_FAILED, RUN_FAILED, TIMEOUT, Journal, Record, compared
from tracegen.tensor.layout import Layout
from tracegen.tensor.plan import Plan
from tracegen.tensor.reference import References
from tracegen.tensor.replay import OPERATOR, Replay
from tracegen.tensor.simulation import Simulations
from tracegen.tensor.tasks import Task
from tracegen.tensor.worker import Failure, Worker
from uarch.devices import load_device

_AHEAD = 24  # built and not yet measured, at most
_SAMPLE_LIMIT_S = 300.0
_LIFETIME = 400  # candidates that one runner measures


@dataclass(frozen=True)
class _Job:
    """A schedule to build and to measure on a device."""

    schedule: int
    task: Task
    candidate: Candidate
    device: str
    path: Path
    again: bool = False
    layouts: tuple[Layout, ...] = ()  # once built


@dataclass(frozen=True)
class _Sample:
    """A task's turn: so many more schedules."""

    task: Task
    count: int
    origin: str


def work_file(output: Path) -> Path:
    """Return the file that keeps the collection for the dataset `output`."""
    return output.with_name(output.name + ".work") / "journal.jsonl"


def collect(plan: Plan, output: Path, progress: bool = True) -> Journal:
    """Collect for the dataset `output`, or go on where an earlier call was stopped. Returns the complete journal.

    Ctrl-C and the end of `plan.minutes` end it early, with all that was measured. Raises InputError for wrong names and
    where TVM is missing.
    """
    require_tvm()
    started = time.monotonic()
    with Journal(work_file(output)) as journal:
        for device in plan.measured_on:
            journal.computer(device, load_device(level_of(device)).to_dict())
        journal.session(_session(plan))
        builds = work_file(output).parent / "builds"
        shutil.rmtree(builds, ignore_errors=True)
        builds.mkdir()
        collection = _Collection(plan, journal, builds, started, progress)
        try:
            collection.run()
        finally:
            collection.close()
            shutil.rmtree(builds, ignore_errors=True)
    return journal


class _Collection:
    def __init__(self, plan: Plan, journal: Journal, builds: Path, started: float, progress: bool) -> None:
        self.plan, self.journal, self.builds, self.progress = plan, journal, builds, progress
        self.builder = Worker(work.build, plan.builder_cpu)
        self.runner = Worker(work.run, plan.cpu)
        self.deadline = started + plan.minutes * 60 if plan.minutes is not None else float("inf")
        self.best: dict[tuple[str, str], float] = {}
        self.exhausted: set[str] = set()
        self.references = References(builds)
        self.spent: list[Path] = []
        self.number = 0
        for record in journal.records.values():
            self._note(record)

    def close(self) -> None:
        self.builder.close()
        self.runner.close()

    def run(self) -> None:
        tasks = self._tasks()
        if self.plan.replay is not None:
            tasks = self._replayed(self.plan.replay)
        known = sorted(schedule for task in tasks for schedule in self.journal.of_task[task.key])  # tasks in turn
        wanted = len(tasks) * self.plan.schedules if self.plan.replay is None else len(known)
        total = wanted * len(self.plan.measured_on)
        with tqdm(total=total, desc="measure", unit=" records", disable=None if self.progress else True) as bar:
            chosen = {task.key for task in tasks}
            bar.update(
                sum(
                    self.journal.schedules[schedule][0] in chosen and device in self.plan.measured_on
                    for schedule, device in self.journal.records
                )
            )
            left = [job for schedule in known for job in self._unmeasured(schedule)]
            with suppress(KeyboardInterrupt):  # what was measured is kept
                self._work(left, self._turns(tasks), bar)
                self._work(self._jobs_again(), iter(()), bar)
                bar.refresh()
                simulations = Simulations(self.plan, self.journal, self.references, self.deadline, self.progress)
                simulations.run(tasks, self.builder)

    def _tasks(self) -> list[Task]:
        """The tasks of all networks and operators, in a fixed order."""
        keys: dict[str, None] = {}
        of = self.plan.replay or self.plan
        groups = [(name, {"do": "tasks", "network": name}) for name in of.networks]
        groups += [(f"{OPERATOR}{name}", {"do": "operators", "operator": name}) for name in of.operators]
        for name, request in tqdm(groups, desc="tasks", disable=None if self.progress else True):
            if name not in self.journal.networks:
                try:
                    self.journal.network(name, self.builder.call(request, 1800))
                except Failure as failure:
                    raise InputError(f"{name}: its tasks cannot be extracted ({failure})") from failure
            keys |= dict.fromkeys(self.journal.networks[name])
        if not groups:
            keys = dict.fromkeys(self.journal.tasks)
        if not keys:
            raise InputError("nothing to collect; name networks or operators")
        return [self.journal.tasks[key] for key in keys]

    def _replayed(self, replay: Replay) -> list[Task]:
        """The dataset's tasks that were made again, with its schedules in the journal, tasks in rounds."""
        for line in replay.left_out:
            tqdm.write(f"{replay.file}: {line}; left out", file=sys.stderr)
        found = {key: left for key, left in replay.candidates.items() if key in self.journal.tasks}
        if other := [replay.names[key] for key in replay.candidates if key not in found]:
            shown = ", ".join(other[:3]) + (", …" if len(other) > 3 else "")
            tqdm.write(
                f"{replay.file}: {len(other)} tasks are not what their networks give here ({shown}); left out",
                file=sys.stderr,
            )
        if not found:
            raise InputError(f"{replay.file}: its networks and operators give other tasks here; nothing to replay")
        known = {(key, candidate.trace) for key, candidate in self.journal.schedules}
        for begin in range(0, max(map(len, found.values())), self.plan.round):
            for key, candidates in found.items():
                for candidate in candidates[begin : begin + self.plan.round]:
                    if (key, candidate.trace) not in known:
                        self.journal.schedule(key, candidate)
        return [self.journal.tasks[key] for key in found]

    def _turns(self, tasks: Sequence[Task]) -> Iterator[_Sample]:
        """Tasks that need more schedules, in turn; asked for when there is nothing else to build."""
        if self.plan.replay is not None:
            return
        for size, origin in self._rounds():
            for task in tasks:
                have = len(self.journal.of_task[task.key])
                if have < size and task.key not in self.exhausted:
                    yield _Sample(task, size - have, origin)

    def _rounds(self) -> Iterator[tuple[int, str]]:
        """Schedules that each task has after a round, and where the round's come from."""
        total = self.plan.schedules
        at_random = total - round(total * self.plan.evolutionary)
        yield from ((min(size, at_random), REPLAY_TRACE) for size in steps_of(0, at_random, self.plan.round))
        # A search costs seconds however little is asked of it.
        yield from ((size, EVOLUTIONARY) for size in steps_of(at_random, total, 2 * self.plan.round))

    def _sample_request(self, turn: _Sample) -> dict[str, Any]:
        task = turn.task
        known = [self.journal.schedules[schedule][1].trace for schedule in self.journal.of_task[task.key]]
        request: dict[str, Any] = {
            "do": "sample",
            "task": task,
            "count": turn.count,
            "origin": turn.origin,
            "known": known,
            "seed": random.Random(f"{self.plan.seed} {task.key} {len(known)}").randrange(2**31),
        }
        if turn.origin == EVOLUTIONARY and self.plan.measured_on:
            request["measured"] = self._measured(task)
        return request

    def _measured(self, task: Task) -> list[tuple[str, float]]:
        """Traces and times on the first device."""
        found = []
        for schedule in self.journal.of_task[task.key]:
            record = self.journal.records.get((schedule, self.plan.measured_on[0]))
            if record is not None and record.seconds is not None:
                found.append((self.journal.schedules[schedule][1].trace, record.seconds))
        return found

    def _unmeasured(self, schedule: int) -> Iterator[_Job]:
        for device in self.plan.measured_on:
            if (schedule, device) not in self.journal.records:
                yield self._job(schedule, device)

    def _jobs_again(self) -> Iterator[_Job]:
        """A small random part of the records a second time."""
        good = sorted(
            key
            for key, record in self.journal.records.items()
            if record.spread is not None and key[1] in self.plan.measured_on
        )
        done = {(record.schedule, record.device) for record in self.journal.repeated}
        for schedule, device in random.Random(self.plan.seed).sample(good, round(self.plan.again * len(good))):
            if (schedule, device) not in done:
                yield self._job(schedule, device, again=True)

    def _job(self, schedule: int, device: str, again: bool = False) -> _Job:
        key, candidate = self.journal.schedules[schedule]
        self.number += 1
        path = self.builds / f"{self.number}.so"  # a name of its own: the loader takes equal names for equal libraries
        return _Job(schedule, self.journal.tasks[key], candidate, device, path, again)

    def _work(self, jobs: Iterable[_Job], turns: Iterator[_Sample], bar: tqdm) -> None:
        """Build and measure the jobs and what the turns add, until there are no more or the time is over."""
        pending, built = deque(jobs), deque[_Job]()
        building: _Job | _Sample | Task | None = None
        measuring: _Job | None = None
        more = True
        while True:
            late = time.monotonic() > self.deadline
            if building is None and not late and len(built) < _AHEAD:
                building = pending.popleft() if pending else next(turns, None)
                more = building is not None
                if isinstance(building, _Job) and building.task.key not in self.references:
                    pending.appendleft(building)
                    building = building.task
                    self.references.send(building, self.builder)
                elif isinstance(building, _Job):
                    self.builder.send(self._build_request(building), self.plan.build_limit_s)
                elif isinstance(building, _Sample):
                    self.builder.send(self._sample_request(building), _SAMPLE_LIMIT_S)
            if measuring is None and built and not late:
                measuring = built.popleft()
                if self.runner.served >= _LIFETIME:
                    self._renew_runner()
                self.runner.send(self._measure_request(measuring), self.plan.run_limit_s)
                self.spent.append(measuring.path)
            if building is None and measuring is None and (late or (not more and not built)):
                return
            busy = [worker for worker in (self.builder, self.runner) if worker.busy]
            wait([worker.connection for worker in busy], min(worker.seconds_left for worker in busy))
            if isinstance(building, _Sample):
                if (found := self._sampled(building)) is not None:
                    pending.extend(found)
                    building = None
            elif isinstance(building, Task):
                if self.references.made(building, self.builder):
                    building = None
            elif isinstance(building, _Job):
                job = building
                try:
                    if (layouts := self.builder.reply()) is not None:
                        built.append(replace(building, layouts=layouts))
                        building = None
                except Failure as failure:
                    self._failed(job, BUILD_FAILED, failure, bar)
                    building = None
            if measuring is not None:
                job = measuring
                try:
                    if (result := self.runner.reply()) is not None:
                        self._keep(measuring, compared(measuring.schedule, measuring.device, **asdict(result)), bar)
                        measuring = None
                except Failure as failure:
                    self._failed(job, RUN_FAILED, failure, bar)
                    measuring = None

    def _renew_runner(self) -> None:
        """A fresh runner, without what the old one loaded.

        Only now may those files go: the loader takes a new file with the inode of one that is loaded for that one.
        """
        self.runner.restart()
        for path in self.spent:
            path.unlink(missing_ok=True)
        self.spent.clear()

    def _sampled(self, turn: _Sample) -> list[_Job] | None:
        """The jobs of newly found candidates; None while the builder is at it."""
        try:
            found: list[Candidate] | None = self.builder.reply()
        except Failure as failure:
            tqdm.write(f"{turn.task.name}: no candidates by {turn.origin}: {failure}", file=sys.stderr)
            found = []
        if found is None:
            return None
        if len(found) < turn.count:
            self.exhausted.add(turn.task.key)
        numbers = [self.journal.schedule(turn.task.key, candidate) for candidate in found]
        return [job for number in numbers for job in self._unmeasured(number)]

    def _build_request(self, job: _Job) -> dict[str, Any]:
        return {
            "do": "build",
            "task": job.task,
            "trace": job.candidate.trace,
            "target": TARGETS[level_of(job.device)],
            "path": str(job.path),
        }

    def _measure_request(self, job: _Job) -> dict[str, Any]:
        best = self.best.get((job.task.key, job.device))
        slow = max(0.05, self.plan.slow_factor * best) if best is not None else 1.0
        return {
            "arguments": job.task.arguments,
            "layouts": job.layouts,
            "reference": self.references[job.task.key],
            "path": str(job.path),
            "slow_s": slow,
            "budget_s": self.plan.budget_s,
        }

    def _failed(self, job: _Job, stage: str, failure: Failure, bar: tqdm) -> None:
        error = TIMEOUT if failure.error == "timeout" and stage == RUN_FAILED else stage
        self._keep(job, Record(job.schedule, job.device, None, None, 0, error, str(failure)), bar)

    def _keep(self, job: _Job, record: Record, bar: tqdm) -> None:
        self.journal.record(replace(record, again=job.again))
        if not job.again:
            self._note(record)
            bar.update()

    def _note(self, record: Record) -> None:
        if record.seconds is not None:
            key = self.journal.schedules[record.schedule][0], record.device
            self.best[key] = min(record.seconds, self.best.get(key, record.seconds))


def steps_of(start: int, stop: int, step: int) -> list[int]:
    """Return where rounds of `step` end between `start` and `stop`."""
    return [min(end, stop) for end in range(start + step, stop + step, step)]


def _session(plan: Plan) -> dict[str, Any]:
    """Return what a reader of the dataset must know of this call."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "processor": model,
        "machine": platform.node(),
        "tvm": TVM_VERSION,
        "tvm_ffi": FFI_VERSION,
        "plan": {field.name: getattr(plan, field.name) for field in fields(plan) if field.init},
    } | ({} if plan.replay is None else {"replayed": {"file": plan.replay.file, "digest": plan.replay.digest}})
