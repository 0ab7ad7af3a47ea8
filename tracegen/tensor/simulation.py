"""A collection's schedules on simulated machines: each traced once, and timed on all of them in one pass.

Nothing is measured meanwhile, so that the measuring core simulates too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from multiprocessing.connection import wait

from tqdm import tqdm

from support.processors import processors
from tracegen.tensor import work
from tracegen.tensor.journal import RUN_FAILED, TIMEOUT, TOO_LONG, Journal, Record, compared
from tracegen.tensor.plan import Plan
from tracegen.tensor.reference import References
from tracegen.tensor.subset import subset
from tracegen.tensor.tasks import Task
from tracegen.tensor.worker import Failure, Worker
from uarch.configuration import Machine
from uarch.timing.simulation import SIMULATOR

_LIMIT_S = 600.0  # of one program on all machines


@dataclass(frozen=True)
class _Simulation:
    """A schedule to time on machines, by their names as devices."""

    schedule: int
    task: Task
    machines: dict[str, Machine]


@dataclass(frozen=True)
class Simulations:
    """Simulated machines' additions to a journal."""

    plan: Plan
    journal: Journal
    references: References
    deadline: float
    progress: bool

    def run(self, tasks: Sequence[Task], builder: Worker) -> None:
        """Time what the plan asks for and has no record of, tasks in turn, until `deadline` (`time.monotonic`)."""
        jobs = self._jobs(tasks)
        if not jobs:
            return
        records = sum(len(job.machines) for job in jobs)
        workers = [builder]
        if processors() > 1:
            workers.append(Worker(work.build, self.plan.cpu))
        busy: dict[Worker, _Simulation] = {}
        with tqdm(total=records, desc="simulate", unit=" records", disable=None if self.progress else True) as bar:
            try:
                while True:
                    for worker in workers:
                        if worker not in busy and jobs and time.monotonic() <= self.deadline:
                            busy[worker] = jobs.popleft()
                            self._send(worker, busy[worker])
                    if not busy:
                        return
                    wait([worker.connection for worker in busy], min(worker.seconds_left for worker in busy))
                    for worker, job in list(busy.items()):
                        if self._done(worker, job):
                            bar.update(len(job.machines))
                            del busy[worker]
            finally:
                for worker in workers[1:]:
                    worker.close()

    def _jobs(self, tasks: Sequence[Task]) -> deque[_Simulation]:
        plan = self.plan
        if not plan.machines:
            return deque()
        for name, machine in plan.machines.items():
            self.journal.machine(name, machine.to_dict(), SIMULATOR)
        chosen = subset(
            self.journal,
            tasks,
            tasks_wanted=plan.simulated_tasks,
            schedules_wanted=plan.simulated_schedules,
            devices=tuple(plan.machines),
            max_flops=plan.max_instructions / 2,
        )
        turns = zip_longest(*([(key, number) for number in numbers] for key, numbers in chosen.items()))
        jobs = deque[_Simulation]()
        for key, number in (pair for turn in turns for pair in turn if pair is not None):
            missing = {
                name: machine for name, machine in plan.machines.items() if (number, name) not in self.journal.records
            }
            if missing:
                jobs.append(_Simulation(number, self.journal.tasks[key], missing))
        return jobs

    def _send(self, worker: Worker, job: _Simulation) -> None:
        if job.task.key not in self.references:
            self.references.send(job.task, worker)
            while not self.references.made(job.task, worker):
                worker.connection.poll(min(worker.seconds_left, 1.0))
        request = {
            "do": "simulate",
            "task": job.task,
            "trace": self.journal.schedules[job.schedule][1].trace,
            "isa": self.plan.isa,
            "machines": job.machines,
            "max_instructions": self.plan.max_instructions,
            "reference": self.references[job.task.key],
        }
        worker.send(request, _LIMIT_S)

    def _done(self, worker: Worker, job: _Simulation) -> bool:
        """Return whether the worker is done with the job: its records are in the journal."""
        try:
            if (result := worker.reply()) is None:
                return False
        except Failure as failure:
            why = str(failure)
            error = TIMEOUT if failure.error == "timeout" else TOO_LONG if TOO_LONG in why else RUN_FAILED
            for name in job.machines:
                self.journal.record(Record(job.schedule, name, None, None, 0, error, why))
            return True
        seconds, deviation = result
        for name in job.machines:
            self.journal.record(compared(job.schedule, name, seconds[name], None, 1, deviation))
        return True
