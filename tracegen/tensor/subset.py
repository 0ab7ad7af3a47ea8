"""Which tasks and schedules simulated machines get where all would take too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tracegen.tensor.journal import Journal
from tracegen.tensor.tasks import Task

_T = TypeVar("_T")


def subset(
    journal: Journal, tasks: Sequence[Task], *, tasks_wanted: int | None, schedules_wanted: int | None,
    devices: Sequence[str], max_flops: float,
) -> dict[str, list[int]]:  # fmt: skip
    """{task: its schedules} to time on the simulated `devices`, the same for the same journal.

    `schedules_wanted` of each task are those that ran wherever they were measured, at even distances in the order in
    which they were found; None: all, whatever became of them. Tasks of more FLOPs than `max_flops` are left out where
    only some are wanted: most of their programs would be refused as too long. Of the others come first those with
    enough schedules, at even distances by FLOPs. What was simulated before stays chosen, so that an interrupted
    collection goes on.
    """
    done = {number for number, device in journal.records if device in devices}
    failed: set[int] = set()
    if schedules_wanted is not None:
        failed = {n for (n, device), record in journal.records.items() if record.error and device not in devices}
    good = {task.key: [n for n in journal.of_task[task.key] if n not in failed] for task in tasks}
    chosen = [task for task in tasks if good[task.key]]
    if tasks_wanted is not None:
        begun = [task for task in chosen if done & set(good[task.key])]
        others = sorted((task for task in chosen if task not in begun and task.flops <= max_flops), key=_flops)
        enough = [task for task in others if len(good[task.key]) >= (schedules_wanted or 1)]
        fewer = [task for task in others if task not in enough]
        chosen = begun[:tasks_wanted]
        for group in (enough, fewer):
            chosen += spread(group, tasks_wanted - len(chosen))
    found = {}
    for task in chosen:
        schedules = good[task.key]
        if schedules_wanted is not None:
            begun_here = [number for number in schedules if number in done][:schedules_wanted]
            left = [number for number in schedules if number not in done]
            schedules = sorted(begun_here + spread(left, schedules_wanted - len(begun_here)))
        found[task.key] = schedules
    return found


def spread(items: Sequence[_T], count: int) -> list[_T]:
    """`count` of the items (all where there are fewer), at even distances from the first to the last."""
    if count >= len(items):
        return list(items)
    return [items[(2 * at + 1) * len(items) // (2 * count)] for at in range(count)]


def _flops(task: Task) -> tuple[float, str]:
    return task.flops, task.key
