"""Splits of records into those to learn from and those to judge by: five ways to divide a dataset's records.

| split | test records are of | asks |
|---|---|---|
| `within_task` | every task, schedules drawn at random | does it rank new schedules of tasks that it knows? |
| `by_task` | tasks drawn at random (stratified by operator class) | new tasks on known devices? |
| `by_target` | the same tasks and schedules on one kind of device (CPU or GPU) | the other kind of device? |
| `cross_model` | the tasks of held-out networks that no other network has | new networks? (CDMPP) |
| `cross_device` | held-out devices | new devices? (CDMPP; Verma et al.) |

The first two, and the test-split comparison, are TenSet's and Verma et al.'s. Each gives a `Split`: disjoint indices of
successful records, ascending, a function of its arguments and seed alone. Wherever tasks are divided, no task is on two
sides; wherever schedules are, all records of one are on one side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.tensor.dataset import Dataset, Outcome

SPLITS = ("within_task", "by_task", "by_target", "cross_model", "cross_device")


@dataclass(frozen=True)
class Split:
    """Indices of records (of `Dataset.records()`)."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def _records(dataset: Dataset) -> pd.DataFrame:
    """Successful records with their tasks; the index is the record's."""
    frame = dataset.table(failed=True)
    frame = frame[frame["error"] == Outcome.OK]
    if frame.empty:
        raise InputError(f"{dataset.path}: has no successful record to divide")
    return frame


def _fractions(validation: float, test: float) -> None:
    if not (0 <= validation < 1 and 0 < test < 1 and validation + test < 1):
        raise InputError(f"validation {validation} and test {test} must be fractions that leave something to train on")


def _divide(
    groups: NDArray[np.int64], validation: float, test: float, random: np.random.Generator
) -> tuple[set[int], set[int]]:
    """(validation, test) groups: shares of the distinct ones, at least one where it is not 0 and there are three."""
    distinct = random.permutation(np.unique(groups))
    count = len(distinct)
    tested = min(max(round(test * count), 1), count - 1) if count > 1 else 0
    checked = min(max(round(validation * count), 1), count - tested - 1) if validation and count > 2 else 0
    return set(distinct[tested : tested + checked].tolist()), set(distinct[:tested].tolist())


def _split(frame: pd.DataFrame, groups: pd.Series, validation: set[int], test: set[int]) -> Split:
    checked, tested = groups.isin(validation).to_numpy(), groups.isin(test).to_numpy()
    index = frame.index.to_numpy(np.int64)
    return Split(index[~checked & ~tested], index[checked], index[tested])


def _whole(dataset: Dataset, split: Split) -> Split:
    if not len(split.train) or not len(split.test):
        raise InputError(f"{dataset.path}: too few tasks or schedules to divide (two at least)")
    return split


def within_task(dataset: Dataset, *, validation: float = 0.1, test: float = 0.1, seed: int = 0) -> Split:
    """Shares of every task's schedules; a task of one schedule is trained on."""
    _fractions(validation, test)
    frame, random = _records(dataset), np.random.default_rng(seed)
    checked: set[int] = set()
    tested: set[int] = set()
    for _, schedules in frame.groupby("task")["schedule"]:
        more_checked, more_tested = _divide(schedules.to_numpy(np.int64), validation, test, random)
        checked |= more_checked
        tested |= more_tested
    return _whole(dataset, _split(frame, frame["schedule"], checked, tested))


def by_task(dataset: Dataset, *, validation: float = 0.1, test: float = 0.1, seed: int = 0) -> Split:
    """Shares of the tasks of every operator class that has enough of them, otherwise of the rest together."""
    _fractions(validation, test)
    frame, random = _records(dataset), np.random.default_rng(seed)
    tasks = np.unique(frame["task"].to_numpy(np.int64))
    operators = dataset.tasks["operator"].to_numpy()[tasks]
    least = int(np.ceil(1 / test))
    rest: list[NDArray[np.int64]] = []
    checked: set[int] = set()
    tested: set[int] = set()
    for operator in sorted(set(operators)):
        mine = tasks[operators == operator]
        if len(mine) < least:
            rest.append(mine)
            continue
        more_checked, more_tested = _divide(mine, validation, test, random)
        checked |= more_checked
        tested |= more_tested
    if rest:
        more_checked, more_tested = _divide(np.concatenate(rest), validation, test, random)
        checked |= more_checked
        tested |= more_tested
    return _whole(dataset, _split(frame, frame["task"], checked, tested))


def by_target(dataset: Dataset, *, held_out: str, validation: float = 0.1, seed: int = 0) -> Split:
    """All records on devices of the kind `held_out` are the test; tasks of the others are divided.

    A device's kind is its parameter (`cpu`, `gpu`), or `simulated` where a simulator timed it.
    """
    kinds = [
        "simulated" if "simulator" in parameters else str(parameters.get("kind"))
        for parameters in dataset.devices["parameters"]
    ]
    there = sorted(set(kinds))
    if len(there) < 2:
        raise InputError(f"{dataset.path}: by_target needs devices of two kinds; there are only: {', '.join(there)}")
    if held_out not in there:
        raise InputError(
            f"{dataset.path}: by_target: no device of the kind {held_out!r}; there are: {', '.join(there)}"
        )
    devices = [name for name, kind in zip(dataset.devices["name"], kinds, strict=True) if kind == held_out]
    return cross_device(dataset, held_out=devices, validation=validation, seed=seed)


def cross_device(dataset: Dataset, *, held_out: Sequence[str], validation: float = 0.1, seed: int = 0) -> Split:
    """All records on the devices `held_out` are the test; tasks are divided for validation on the others."""
    names = dataset.devices["name"].tolist()
    for name in held_out:
        if name not in names:
            raise InputError(f"{dataset.path}: no device {name!r}; there are: {', '.join(names)}")
    frame = _records(dataset)
    tested = frame["device"].isin([names.index(name) for name in held_out]).to_numpy()
    return _rest(dataset, frame, tested, tested, validation, seed)


def cross_model(dataset: Dataset, *, held_out: Sequence[str], validation: float = 0.1, seed: int = 0) -> Split:
    """The test: tasks that occur in the networks `held_out` and in no other; tasks of both are in no part (CDMPP).

    A task without networks (a single operator) is trained on.
    """
    networks = dataset.tasks["networks"].tolist()
    known = sorted({name for weights in networks for name in weights})
    for name in held_out:
        if name not in known:
            raise InputError(f"{dataset.path}: no task of a network {name!r}; there are: {', '.join(known) or 'none'}")
    inside = np.array([any(name in held_out for name in weights) for weights in networks])
    outside = np.array([any(name not in held_out for name in weights) for weights in networks])
    frame = _records(dataset)
    tasks = frame["task"].to_numpy()
    return _rest(dataset, frame, (inside & ~outside)[tasks], inside[tasks], validation, seed)


def _rest(
    dataset: Dataset,
    frame: pd.DataFrame,
    tested: NDArray[np.bool_],
    apart: NDArray[np.bool_],
    validation: float,
    seed: int,
) -> Split:
    """The test that is given, and the records that are not `apart` divided by task for validation."""
    if not 0 <= validation < 1:
        raise InputError(f"validation {validation} must be a fraction that leaves something to train on")
    left = frame[~apart]
    if left.empty or not tested.any():
        side = "train on" if left.empty else "test"
        raise InputError(f"{dataset.path}: with that held out, no record is left to {side}")
    checked: set[int] = set()
    if validation:
        random = np.random.default_rng(seed)
        checked = _divide(left["task"].to_numpy(np.int64), 0, validation, random)[1]
    parts = _split(left, left["task"], checked, set())
    return Split(parts.train, parts.validation, frame.index.to_numpy(np.int64)[tested])
