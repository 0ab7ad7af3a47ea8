"""Measured candidates in memory: what the cost models learn from and are judged on.

A dataset (`tracegen.tensor.dataset`) has features per schedule and latencies per record; `Records` is a selection of
its records, which share the features. Candidates without a measurement have NaN seconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from support.errors import InputError
from tracegen.tensor import loop_nest
from tracegen.tensor.dataset import GROUPS, OPERATORS, Dataset, Device, Outcome, Rows


@dataclass(frozen=True)
class FeatureGroup:
    """One kind of features of all candidates: `statements`, `ast` or `primitives`, and the version that made them."""

    kind: str
    version: str
    rows: Rows

    @property
    def width(self) -> int:
        return int(self.rows.values.shape[1])


@dataclass(frozen=True)
class Task:
    """`weight`: how often the networks run it, together; 1 where no network is known. `key`: the dataset's."""

    name: str
    operator: str
    networks: Mapping[str, float] = field(default_factory=dict)
    key: str = ""

    @property
    def weight(self) -> float:
        return float(sum(self.networks.values())) or 1.0


@dataclass(frozen=True)
class Records:
    """n records: `candidate[i]` (a row of every feature group) took `seconds[i]` on `devices[device[i]]`."""

    groups: Mapping[str, FeatureGroup]
    candidate: NDArray[np.int64]  # [n]
    task: NDArray[np.int64]  # [n], into `tasks`
    device: NDArray[np.int64]  # [n], into `devices`
    seconds: NDArray[np.float64]  # [n]
    tasks: tuple[Task, ...]
    devices: tuple[Device, ...]
    digest: str = ""
    source: str = "the records"
    available: tuple[str, ...] = ()  # the dataset's feature groups, of which `groups` may be some

    def __len__(self) -> int:
        return len(self.candidate)

    @property
    def group(self) -> NDArray[np.int64]:
        """[n] a number per task and device: what ranking compares within."""
        return self.task * len(self.devices) + self.device

    @property
    def weights(self) -> dict[int, float]:
        """{group: weight of its task}."""
        return {int(group): self.tasks[group // len(self.devices)].weight for group in np.unique(self.group)}

    def take(self, indices: ArrayLike) -> Records:
        """The records at these positions (or of this mask), in their order."""
        chosen = np.asarray(indices)
        return replace(
            self,
            candidate=self.candidate[chosen],
            task=self.task[chosen],
            device=self.device[chosen],
            seconds=self.seconds[chosen],
        )

    def measured(self) -> Records:
        """Return the records that ran. Raises InputError where none did."""
        ran = np.isfinite(self.seconds) & (self.seconds > 0)
        if not len(self):
            raise InputError(f"{self.source}: no records to learn from or compare; collect or read some first")
        if not ran.any():
            raise InputError(f"{self.source}: all {len(self):,} records failed (no latency); nothing to learn from")
        return self if ran.all() else self.take(ran)

    def features(self, kind: str) -> FeatureGroup:
        if kind not in self.groups and base_kind(kind) in self.groups:
            operators = np.zeros(len(self.groups[base_kind(kind)].rows), np.int64)
            operators[self.candidate] = np.array([operator_index(task.operator) for task in self.tasks])[self.task]
            return derived(kind, self.groups[base_kind(kind)], operators)
        if kind not in self.groups:
            there = ", ".join(self.available or self.groups) or "none"
            raise InputError(f"{self.source}: has no features {kind!r} (there: {there}); collect or read it with them")
        return self.groups[kind]


DERIVED = {"statements+operator": "statements", "ast-published": "ast"}
KINDS = (*GROUPS, *DERIVED)  # of features that a model may read


def base_kind(kind: str) -> str:
    """The feature group of a dataset that a kind of features is made of; itself where it is one."""
    return DERIVED.get(kind, kind)


def operator_index(operator: str) -> int:
    """The place of an operator class among the ten."""
    return OPERATORS.index(operator if operator in OPERATORS else "other")


def derived(kind: str, base: FeatureGroup, operators: NDArray[np.int64]) -> FeatureGroup:
    """`kind` of a base group; `operators` [candidates] are the operator classes of their tasks.

    `statements+operator`: each row with the class one-hot behind it (ATFormer). `ast-published`: without the columns of
    loop nests, which CDMPP does not have.
    """
    rows = base.rows
    if kind == "statements+operator":
        hot = np.eye(len(OPERATORS), dtype=np.float32)[np.repeat(operators, rows.length)]
        values, version = np.concatenate([rows.values, hot], axis=1), f"{base.version}+operator-1"
    elif kind == "ast-published":
        values, version = rows.values[:, : -len(loop_nest.COLUMNS)], f"{base.version}-published"
    else:
        return base
    return FeatureGroup(kind, version, replace(rows, values=values))


def feature_group(dataset: Dataset, kind: str) -> FeatureGroup:
    """A kind of features of all schedules of a dataset, those of `DERIVED` included. Raises InputError without it."""
    base = base_kind(kind)
    found = FeatureGroup(base, dataset.groups.get(base, ""), dataset.features(base))
    if base == kind:
        return found
    classes = np.array([operator_index(name) for name in dataset.tasks["operator"]], np.int64)
    return derived(kind, found, classes[dataset.task_of.astype(np.int64)])


def read_records(path: str | os.PathLike[str], kinds: Sequence[str] | None = None) -> Records:
    """All records of a dataset with these feature groups, with all that it has by default; failed ones have NaN.

    Records of schedules that have no rows of such a group, as those of a log beside collected ones, are left out, which
    a line on stderr tells (a schedule without primitives is one without a step). Raises InputError where none is left.
    """
    with Dataset(path) as dataset:
        table = dataset.table(failed=True)
        groups = {
            kind: feature_group(dataset, kind)
            for kind in (dataset.groups if kinds is None else kinds)
            if base_kind(kind) in dataset.groups
        }
        seconds = table["seconds"].to_numpy(np.float64).copy()
        seconds[(table["error"].to_numpy() != Outcome.OK) | ~(seconds > 0)] = np.nan
        asked = [] if kinds is None else [one for kind, one in groups.items() if base_kind(kind) != "primitives"]
        there = np.ones(len(table), bool)
        for group in asked:
            there &= group.rows.length[table["schedule"].to_numpy(np.int64)] > 0
        if not there.all():
            what = " and ".join(group.kind for group in asked)
            if not there.any():
                raise InputError(f"{path}: no schedule has rows of {what}; collect it, or read it with --features")
            left = int((~there).sum())
            print(f"perfvec: {path}: {left:,} records without rows of {what} are left out", file=sys.stderr)
            table, seconds = table[there], seconds[there]
        return Records(
            groups=groups,
            candidate=table["schedule"].to_numpy(np.int64),
            task=table["task"].to_numpy(np.int64),
            device=table["device"].to_numpy(np.int64),
            seconds=seconds,
            tasks=tuple(
                Task(row["name"], row["operator"], _weights(row["networks"]), row["key"])
                for row in dataset.tasks.to_dict("records")
            ),
            devices=tuple(Device(row["name"], row["parameters"]) for row in dataset.devices.to_dict("records")),
            digest=dataset.digest,
            source=str(path),
            available=tuple(dataset.groups),
        )


def measurements(group: FeatureGroup, seconds: ArrayLike, device: Device, *, task: Task | None = None) -> Records:
    """Return a search's measurements as records: candidate i of `group` took `seconds[i]` on `device` (NaN: failed),
    all of one task.
    """
    times = np.asarray(seconds, np.float64)
    zeros = np.zeros(len(times), np.int64)
    return Records(
        groups={group.kind: group},
        candidate=np.arange(len(times)),
        task=zeros,
        device=zeros,
        seconds=times,
        tasks=(task or Task("task", "other"),),
        devices=(device,),
        source="the measurements",
    )


def _weights(networks: Any) -> dict[str, float]:
    return {str(name): float(weight) for name, weight in dict(networks or {}).items()}
