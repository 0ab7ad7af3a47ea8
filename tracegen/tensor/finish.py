"""What was collected becomes a dataset: the journal's tasks, schedules and records, written atomically."""

from __future__ import annotations

from pathlib import Path

from tracegen.tensor import dataset
from tracegen.tensor.collect import work_file
from tracegen.tensor.dataset import DatasetWriter, Device, Outcome
from tracegen.tensor.journal import Journal

_OUTCOMES = {
    "": Outcome.OK, "build failed": Outcome.BUILD_FAILED, "run failed": Outcome.RUN_FAILED,
    "timeout": Outcome.TIMEOUT, "invalid": Outcome.INVALID,
}  # fmt: skip


def finish(output: Path) -> int:
    """Write the dataset `output` from its work file, as far as that has come; returns the number of records."""
    with Journal(work_file(output), writable=False) as journal:
        return write_dataset(journal, output)


def write_dataset(journal: Journal, output: Path) -> int:
    """Write the journal's content as the dataset `output`; returns the number of records."""
    provenance = {"made by": "perfvec tensor collect", "sessions": journal.sessions}
    with DatasetWriter(output, provenance=provenance) as writer:
        schedule_of: dict[int, int] = {}
        for (number, name), record in journal.records.items():
            if number not in schedule_of:
                key, candidate = journal.schedules[number]
                task = journal.tasks[key]
                shape = [[kind, list(extents)] for kind, extents in task.arguments]
                row = writer.task(
                    dataset.Task(task.key, task.name, shape=shape, flops=task.flops, networks=task.networks)
                )
                schedule_of[number] = writer.schedule(
                    row, candidate.trace, kind="metaschedule", origin=candidate.origin
                )
            device = writer.device(Device(name))
            if record.seconds is None:
                writer.record(schedule_of[number], device, outcome=_OUTCOMES[record.error])
            else:
                spread = float("nan") if record.spread is None else record.spread
                writer.record(schedule_of[number], device, record.seconds, spread=spread, repeats=record.repeats)
        return writer.records
