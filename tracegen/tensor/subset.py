"""Subset of tasks and schedules for a device where all take too long: of all sizes and all times of a search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from tracegen.tensor.journal import Journal
from tracegen.tensor.tasks import Task

_T = TypeVar("_T")


def subset(
    journal: Journal,
    tasks: Sequence[Task],
    *,
    tasks_wanted: int | None,
    schedules_wanted: int | None,
    devices: Sequence[str],
    max_flops: float,
) -> dict[str, list[int]]:
    """{task: its schedules} to time on the simulated `devices`, the same for the same journal.

    `schedules_wanted` of each task are those that ran wherever they were measured; None: all, whatever became of them.
    Tasks of more FLOPs than `max_flops` are left out where only some are wanted: most of their programs would be
    refused as too long. What was simulated before stays chosen, so that an interrupted collection goes on.
    """
    done = {number for number, device in journal.records if device in devices}
    failed: set[int] = set()
    if schedules_wanted is not None:
        failed = {n for (n, device), record in journal.records.items() if record.error and device not in devices}
    return chosen(
        {task.key: [n for n in journal.of_task[task.key] if n not in failed] for task in tasks},
        {task.key: task.flops for task in tasks},
        tasks_wanted=tasks_wanted,
        schedules_wanted=schedules_wanted,
        max_flops=max_flops,
        done=done,
    )


def chosen(
    schedules: Mapping[str, Sequence[int]],
    flops: Mapping[str, float],
    *,
    tasks_wanted: int | None,
    schedules_wanted: int | None,
    max_flops: float,
    done: Collection[int] = (),
) -> dict[str, list[int]]:
    """{task: some of its schedules}; None wanted: all. Where some tasks are, those of at most `max_flops` FLOPs.

    Tasks with a schedule that is `done` come first, then those with enough schedules, at even distances by FLOPs;
    of a task, the schedules that are done, then others at even distances in the order in which they were found.
    """
    tasks = [key for key, numbers in schedules.items() if numbers]
    if tasks_wanted is not None:
        done = set(done)
        begun = [key for key in tasks if not done.isdisjoint(schedules[key])]
        others = sorted(
            (key for key in tasks if key not in begun and flops[key] <= max_flops), key=lambda key: (flops[key], key)
        )
        enough = [key for key in others if len(schedules[key]) >= (schedules_wanted or 1)]
        fewer = [key for key in others if key not in enough]
        tasks = begun[:tasks_wanted]
        for group in (enough, fewer):
            tasks += spread(group, tasks_wanted - len(tasks))
    found = {}
    for key in tasks:
        numbers = list(schedules[key])
        if schedules_wanted is not None:
            begun_here = [number for number in numbers if number in done][:schedules_wanted]
            left = [number for number in numbers if number not in done]
            numbers = sorted(begun_here + spread(left, schedules_wanted - len(begun_here)))
        found[key] = numbers
    return found


def spread(items: Sequence[_T], count: int) -> list[_T]:
    """`count` of the items (all where there are fewer), at even distances from the first to the last."""
    if count >= len(items):
        return list(items)
    return [items[(2 * at + 1) * len(items) // (2 * count)] for at in range(count)]
