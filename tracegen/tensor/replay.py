"""Schedules that a dataset holds, to be measured on other devices.

A dataset has a schedule as its trace, which rebuilds it, and a task as its structural hash and the networks and
operators that it occurs in: from these the task's program is made again, and its hash says whether it is the same. So
a record of a replayed schedule is of the very schedule in the dataset, and `merge` puts it there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.errors import InputError
from tracegen.tensor.candidates import Candidate
from tracegen.tensor.dataset import Dataset, Outcome
from tracegen.tensor.operators import parse_operator
from tracegen.tensor.subset import chosen
from tracegen.tensor.tasks import parse_network

OPERATOR = "operator:"  # what a journal and a dataset put before an operator's name among the networks


@dataclass(frozen=True)
class Replay:
    """Part of a dataset to measure again: {task: its candidates}, and the networks and operators that make those tasks.

    `left_out` says, a line each, what of the dataset cannot be made again, and why.
    """

    file: str
    digest: str
    candidates: Mapping[str, Sequence[Candidate]]
    networks: tuple[str, ...]
    operators: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)  # of the tasks
    left_out: tuple[str, ...] = ()


def read_replay(
    path: str | os.PathLike[str], *, tasks: int | None = None, schedules: int | None = None, max_flops: float = math.inf
) -> Replay:
    """Up to so many tasks and schedules of each (None: all), as `subset.chosen` chooses: the same at every call.

    Only schedules without a failed record are taken, and where only some `tasks` are, those of at most `max_flops`
    FLOPs. Raises InputError where the dataset is none, or nothing of it can be made again: schedules of Ansor, and
    tasks of logs and databases, for which the file names no network or operator.
    """
    with Dataset(path) as data:
        labels, records = data.schedules(), data.records()
        failed = set(records["schedule"][records["error"] != Outcome.OK].tolist())
        sources = [_sources(networks) for networks in data.tasks["networks"]]
        foreign = sum(not found for found in sources)
        ansor = int((labels["kind"] != "metaschedule").sum())
        left_out = []
        if foreign:
            left_out.append(
                f"{foreign} of its {len(sources)} tasks name no network or operator to make them again from"
            )
        if ansor:
            left_out.append(f"{ansor:,} of its {len(labels):,} schedules are no traces of MetaSchedule")
        keys = data.tasks["key"].tolist()
        there: dict[str, list[int]] = {key: [] for key, found in zip(keys, sources, strict=True) if found}
        for index, (task, kind) in enumerate(zip(labels["task"], labels["kind"], strict=True)):
            if sources[task] and kind == "metaschedule" and index not in failed:
                there[keys[task]].append(index)
        taken = chosen(
            there,
            dict(zip(keys, data.tasks["flops"], strict=True)),
            tasks_wanted=tasks,
            schedules_wanted=schedules,
            max_flops=max_flops,
        )
        if not taken:
            raise InputError(f"{path}: no schedule can be replayed{': ' if left_out else ''}{'; '.join(left_out)}")
        numbers = [number for found in taken.values() for number in found]
        trace = dict(zip(numbers, data.steps(numbers), strict=True))
        origin = labels["origin"].tolist()
        needed = _needed({key: found for key, found in zip(keys, sources, strict=True) if key in taken})
        return Replay(
            Path(path).name,
            data.digest,
            {key: [Candidate(trace[n], origin[n]) for n in found] for key, found in taken.items()},
            tuple(name for name in needed if not name.startswith(OPERATOR)),
            tuple(name.removeprefix(OPERATOR) for name in needed if name.startswith(OPERATOR)),
            dict(zip(keys, data.tasks["name"], strict=True)),
            tuple(left_out),
        )


def _sources(networks: Iterable[str]) -> list[str]:
    """Return those of the names that say how to make the task."""
    found = []
    for name in networks:
        try:
            if name.startswith(OPERATOR):
                parse_operator(name.removeprefix(OPERATOR))
            else:
                parse_network(name)
        except InputError:
            continue
        found.append(name)
    return found


def _needed(sources: Mapping[str, Sequence[str]]) -> list[str]:
    """Networks and operators that have all of the tasks: each task's first, unless one that is needed has it."""
    needed: dict[str, None] = {}
    for found in sources.values():
        if needed.keys().isdisjoint(found):
            needed[found[0]] = None
    return list(needed)
