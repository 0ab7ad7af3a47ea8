"""The protocol: every model trained on the same records within the same budget, one row a model, split and seed.

Splits (`tracegen.tensor.splits`): `within_task` holds out schedules of every task, `by_task` whole tasks, `by_target` a
kind of device, `cross_model` the networks named, `cross_device` a device, first without any of its records (zero-shot),
then fine-tuned on its records of a share of the tasks, which CDMPP's sampling, KMeans over tasks, joint probability
(Verma et al., without slow schedules) or chance selects (`tracegen.tensor.selection`) without a look at its latencies,
and judged on the other tasks; or on that share of the records of every task
(`records`), and judged on the others. Finished rows are kept in a file, so that a killed evaluation goes on where it
was. A saved model is judged on a device in the same way, without training another.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfvec.tensor import metrics
from perfvec.tensor.configuration import Entry
from perfvec.tensor.contract import Budget, CostModel, torch_device
from perfvec.tensor.fine_tuning import fine_tune
from perfvec.tensor.model_file import describe, load_model
from perfvec.tensor.models import make
from perfvec.tensor.records import Records, read_records
from perfvec.tensor.trained_on import share_trained_on
from support.errors import InputError
from support.files import write_text
from support.text import parse_json, read_text
from tracegen.tensor import selection, splits
from tracegen.tensor.dataset import Dataset

Integers = NDArray[np.int64]
SPLITS = splits.SPLITS
OPTIONS = {  # of the protocol that one split reads
    "cross_device": ("device", "share", "selections"),
    "cross_model": ("networks",),
    "by_target": ("kind",),
}
SELECTIONS: dict[str, Callable[..., Integers]] = {
    "cdmpp": selection.cdmpp_tasks,
    "kmeans": selection.kmeans_tasks,
    "verma": selection.joint_probability,
    "flops": selection.flops_first,
    "random": selection.random_tasks,
}
RECORDS = "records"  # the selection that takes some records of every task
METRICS = ("pairwise", "apart", "top1", "top5", "mape", "bias", "rmse_ms")
ZERO_SHOT = "zero-shot"
APART = 0.1  # `apart` is the pairwise accuracy over pairs whose latencies differ by more than this share


@dataclass(frozen=True)
class Protocol:
    """Protocol of a comparison. `share`: of the tasks, whose records on the held-out device fine-tune, or of the
    device's records.
    """

    splits: tuple[str, ...] = ("within_task", "by_task")
    seeds: int = 3
    test: float = 0.1
    budget: Budget = field(default_factory=Budget)
    fine_tuning: Budget = field(default_factory=lambda: Budget(epochs=20))
    networks: tuple[str, ...] = ()  # held out by cross_model; by default the one with the most tasks of its own
    kind: str = "simulated"  # of device, held out by by_target
    device: str = ""  # held out by cross_device; by default the last that has records
    share: float = 0.1
    selections: tuple[str, ...] = ("cdmpp", "kmeans", "verma", "random")
    train_records: int = 0  # train on at most so many, drawn at random; 0: all
    validation: float = 0.1  # share that says when to stop, where the budget has patience

    def check(self) -> None:
        if not self.splits:
            raise InputError(f"no split: expected some of {', '.join(SPLITS)}")
        for name in self.splits:
            if name not in SPLITS:
                raise InputError(f"split {name!r}: expected some of {', '.join(SPLITS)}")
        for name in self.selections:
            if name not in (*SELECTIONS, RECORDS):
                raise InputError(f"selection {name!r}: expected some of {', '.join((*SELECTIONS, RECORDS))}")


def evaluate(
    dataset: str | os.PathLike[str],
    entries: Sequence[Entry],
    protocol: Protocol,
    work: str | os.PathLike[str] | None = None,
    on: str = "cpu",
) -> pd.DataFrame:
    """A row per split, variant (zero-shot or selection), model and seed: the metrics, records, processor seconds.

    `work`: JSON lines of finished rows; rows there of the same data, model, parameters and protocol are not computed
    again. `on`: the device that networks compute on. Raises InputError for what cannot be split (one device, no
    network), before anything is trained.
    """
    protocol.check()
    torch_device(on)
    kinds = {entry.name: make(entry.model, entry.parameters, where=entry.name).kind for entry in entries}
    records = read_records(dataset, sorted(set(kinds.values())))
    records.measured()
    for kind in kinds.values():
        records.features(kind)
    for entry in entries:
        if seen := _seen(entry, protocol, records.digest):
            print(f"perfvec: {entry.name} was tuned on tasks that are tested here: {seen}", file=sys.stderr)
    finished = _Finished(work)
    rows: list[dict[str, Any]] = []
    seeds = range(protocol.seeds)
    with Dataset(dataset) as data:
        plans = {
            (split, seed): plan_of(data, records, split, protocol, seed) for split in protocol.splits for seed in seeds
        }
    for (split, seed), plan in plans.items():
        for entry in entries:
            key = _key(records, entry, protocol, split, seed)
            done = finished.rows(key)
            if done is None:
                done = list(judge(records, plan, entry, protocol, split, seed, on))
                finished.add(key, done)
            rows += done
            for row in done:
                print(f"{split} {row['variant']} seed {seed}: {entry.name} {row['pairwise']:.4f}", file=sys.stderr)
    return pd.DataFrame(rows)


def _seen(entry: Entry, protocol: Protocol, digest: str) -> str:
    """The splits and seeds whose test tasks an entry's parameters were tuned on; "" where there are none."""
    if entry.tuned is None or entry.tuned.data != digest:
        return ""
    fair = (entry.tuned.split, entry.tuned.seed, entry.tuned.test)
    each = ((split, seed) for split in protocol.splits for seed in range(protocol.seeds))
    return ", ".join(f"{split} {seed}" for split, seed in each if (split, seed, protocol.test) != fair)


def evaluate_saved(
    model_file: str | os.PathLike[str], dataset: str | os.PathLike[str], protocol: Protocol, on: str = "cpu"
) -> pd.DataFrame:
    """A saved model on the records of `protocol.device` (of all devices where it names none), rows as `evaluate` gives.

    First as it is (`zero-shot`, or `known` where the device trained it), then fine-tuned as cross_device is. The column
    `trained_on` has the share of the records whose task trained the model there (`share_trained_on`; NaN: unknown).
    Raises InputError for a device that there is not, and for other features than the model's.
    """
    protocol.check()
    model = load_model(model_file)
    model.use(torch_device(on))
    records = read_records(dataset, [model.kind])
    trained = [index for index, device in enumerate(records.devices) if device.name in {d.name for d in model.devices}]
    source = records.take(np.isin(records.device, trained)) if trained else None
    if protocol.device:
        names = [device.name for device in records.devices]
        if protocol.device not in names:
            raise InputError(f"{dataset}: no device {protocol.device!r}; there are: {', '.join(names)}")
        records = records.take(records.device == names.index(protocol.device))
    test = records.measured()
    known = {device.name for device in model.devices}
    variant = "known" if all(test.devices[index].name in known for index in np.unique(test.device)) else ZERO_SHOT
    name = f"{model.NAME} ({Path(model_file).stem})"
    seen = share_trained_on(test, describe(model_file)["provenance"])
    if np.isnan(seen):
        print(f"perfvec: {name} does not say what trained it; it may know what it is judged on", file=sys.stderr)
    elif seen:
        print(f"perfvec: {name} was trained on the tasks of {seen:.0%} of the records", file=sys.stderr)
    rows = []
    with Dataset(dataset) as data:
        for seed in range(protocol.seeds):
            about = {"split": "cross_device", "model": name, "trained_on": seen, "seed": seed}
            rows.append(about | _row(variant, model, test, 0, 0.0, zero_shot=True))
            selected = _selected(data, test, protocol, seed)
            for row in _fine_tuned(model, test, selected, protocol, seed, source):
                rows.append(about | row)
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per split, variant and model, best pairwise accuracy first: mean over the seeds, standard deviation
    (`_spread`), and half of the 95 % interval of the mean (`_interval`). Of a saved model also `trained_on`.
    """
    columns = {**{name: name for name in METRICS}, "train_seconds": "train_s"}
    order = {name: index for index, name in enumerate(dict.fromkeys(zip(rows["split"], rows["variant"], strict=True)))}
    table = []
    for (split, variant, model), part in rows.groupby(["split", "variant", "model"], sort=False):
        row: dict[str, Any] = {"split": split, "variant": variant, "model": model, "seeds": len(part)}
        if "trained_on" in part:
            row["trained_on"] = float(part["trained_on"].iloc[0])
        for name, shown in columns.items():
            values = part[name].astype(float)
            row[shown], row[f"{shown}_spread"] = values.mean(), values.std(ddof=0)
            row[f"{shown}_interval"] = interval(np.asarray(values, np.float64))
        table.append(row)
    frame = pd.DataFrame(table)
    frame["_order"] = [order[key] for key in zip(frame["split"], frame["variant"], strict=True)]
    frame = frame.sort_values(["_order", "pairwise"], ascending=[True, False], kind="stable")
    return frame.drop(columns="_order").reset_index(drop=True)


def interval(values: NDArray[np.float64]) -> float:
    """Half of the 95 % confidence interval of the mean of [n] values (Student's t); NaN of fewer than three, as two
    give one of six times their distance.
    """
    from scipy.stats import t

    if len(values) < 3:
        return float("nan")
    return float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def terminal_table(table: pd.DataFrame) -> pd.DataFrame:
    """The summary as people read it: the mean, ± half of its 95 % interval where there are three seeds or more."""
    result = table[["split", "variant", "model", "seeds"]].copy()
    if "trained_on" in table:
        result["trained_on"] = ["unknown" if np.isnan(share) else f"{share:.0%}" for share in table["trained_on"]]
    for name in (*METRICS, "train_s"):
        digits = 1 if name == "train_s" else 4
        result[name] = [
            "-" if np.isnan(mean) else f"{mean:.{digits}f}" + ("" if np.isnan(half) else f" ±{half:.{digits}f}")
            for mean, half in zip(table[name], table[f"{name}_interval"], strict=True)
        ]
    return result


def measure(model: CostModel, test: Records, *, zero_shot: bool = False) -> dict[str, float]:
    """The metrics of a model on measured records; a fraction, or milliseconds for rmse_ms; NaN where it only ranks."""
    score = model.score_records(test, zero_shot=zero_shot)
    seconds = model.record_latencies(test, zero_shot=zero_shot)
    group = test.group
    ranks_only = bool(np.isnan(seconds).any())
    return {
        "pairwise": metrics.pairwise_accuracy(score, test.seconds, group),
        "apart": metrics.pairwise_accuracy(score, test.seconds, group, apart=APART),
        "top1": metrics.top_k(score, test.seconds, group, 1, test.weights),
        "top5": metrics.top_k(score, test.seconds, group, 5, test.weights),
        "mape": float("nan") if ranks_only else metrics.mape(seconds, test.seconds),
        "bias": float("nan") if ranks_only else metrics.bias(seconds, test.seconds),
        "rmse_ms": float("nan") if ranks_only else 1e3 * metrics.rmse(seconds, test.seconds),
    }


@dataclass(frozen=True)
class _Plan:
    """Positions of records, and of cross_device the positions in the test that fine-tune, by selection."""

    train: Integers
    validation: Integers
    test: Integers
    selected: Mapping[str, tuple[Integers, Integers]] = field(default_factory=dict)


def plan_of(data: Dataset, records: Records, split: str, protocol: Protocol, seed: int) -> _Plan:
    selected: dict[str, tuple[Integers, Integers]] = {}
    share = protocol.validation if protocol.budget.patience else 0.0
    if split == "within_task":
        parts = splits.within_task(data, validation=share, test=protocol.test, seed=seed)
    elif split == "by_task":
        parts = splits.by_task(data, validation=share, test=protocol.test, seed=seed)
    elif split == "by_target":
        parts = splits.by_target(data, held_out=protocol.kind, validation=share, seed=seed)
    elif split == "cross_model":
        parts = splits.cross_model(data, held_out=protocol.networks or _largest(records), validation=share, seed=seed)
    else:
        parts = splits.cross_device(data, held_out=[_held(records, protocol.device)], validation=share, seed=seed)
        selected = _selected(data, records.take(parts.test), protocol, seed)
    train = parts.train
    if 0 < protocol.train_records < len(train):
        train = np.sort(np.random.default_rng(seed).permutation(train)[: protocol.train_records])
    return _Plan(train, parts.validation, parts.test, selected)


def _selected(data: Dataset, test: Records, protocol: Protocol, seed: int) -> dict[str, tuple[Integers, Integers]]:
    """{selection: positions in the test of the records that fine-tune, and of those that judge}; no latency of theirs
    is looked at.
    """
    ran = np.unique(test.task)
    tasks = max(round(len(ran) * protocol.share), 1)
    judged = {test.devices[index].name for index in np.unique(test.device)}
    others = [device.name for device in test.devices if device.name not in judged]
    found = {}
    for name in protocol.selections:
        if name == RECORDS:
            few = selection.even_records(test.task, max(int(len(test) * protocol.share), 1), seed=seed)
            found[name] = few, np.setdiff1d(np.arange(len(test)), few)
        else:
            chosen = np.isin(test.task, SELECTIONS[name](data, tasks, seed=seed, devices=others, among=ran))
            judged_by = np.flatnonzero(~chosen)  # other tasks
            if name == "verma" and others:
                fast = selection.fast_schedules(data, devices=others)[test.candidate]
                chosen &= fast if (chosen & fast).any() else True
            found[name] = np.flatnonzero(chosen), judged_by
    return found


def _row(
    variant: str, model: CostModel, judged: Records, trained: int, seconds: float, *, zero_shot: bool = False
) -> dict[str, Any]:
    return {
        "variant": variant,
        "train_records": trained,
        "test_records": len(judged),
        "train_seconds": seconds,
        **measure(model, judged, zero_shot=zero_shot),
    }


def _fine_tuned(
    model: CostModel,
    test: Records,
    selected: Mapping[str, tuple[Integers, Integers]],
    protocol: Protocol,
    seed: int,
    source: Records | None,
) -> Iterator[dict[str, Any]]:
    """A row for each selection: a copy of the model fine-tuned on its records of the test, and judged on the others."""
    for name, (chosen, judged_by) in selected.items():
        if not len(chosen) or not len(judged_by):
            continue  # none of the selected tasks, or no other one, ran on the device
        tuned = model.copy()
        began = time.process_time()
        few, others = test.take(chosen), test.take(judged_by)
        done = fine_tune(tuned, few, budget=protocol.fine_tuning, seed=seed, source=source)
        spent = time.process_time() - began
        row = _row(f"{name} {protocol.share:.0%}", tuned, others, len(few), spent)
        yield row | {"passes": done.step.passes}


def judge(
    records: Records, plan: _Plan, entry: Entry, protocol: Protocol, split: str, seed: int, on: str
) -> Iterator[dict[str, Any]]:
    train, test = records.take(plan.train), records.take(plan.test)

    def fitted() -> tuple[CostModel, float]:
        model = make(entry.model, entry.parameters, where=entry.name)
        model.use(on)
        began = time.process_time()
        model.fit(
            train,
            budget=protocol.budget,
            seed=seed,
            unlabelled=None if split == "within_task" else test,
            validation=records.take(plan.validation) if len(plan.validation) else None,
        )
        return model, time.process_time() - began

    about = {"split": split, "model": entry.name, "seed": seed}
    model, seconds = fitted()
    if split != "cross_device":
        held = split == "by_target"
        row = _row(ZERO_SHOT if held else "-", model, test, len(train), seconds, zero_shot=held)
        yield about | row | {"curve": model.curve}
        return
    row = _row(ZERO_SHOT, model, test, len(train), seconds, zero_shot=True)
    yield about | row | {"curve": model.curve}
    for row in _fine_tuned(model, test, plan.selected, protocol, seed, train):
        row["train_records"] += len(train)
        row["train_seconds"] += seconds
        yield about | row


def _held(records: Records, name: str) -> str:
    there = np.unique(records.measured().device)
    if len(there) < 2:
        raise InputError(f"{records.source}: one device has records; holding out a device needs two")
    return name or records.devices[there[-1]].name


def _largest(records: Records) -> tuple[str, ...]:
    """The network with the most tasks that ran and that no other network has."""
    own: dict[str, int] = {}
    for task in np.unique(records.measured().task):
        networks = list(records.tasks[task].networks)
        if len(networks) == 1:
            own[networks[0]] = own.get(networks[0], 0) + 1
    if len(own) < 2:
        raise InputError(f"{records.source}: {len(own)} networks have tasks of their own; cross_model needs two")
    return (max(sorted(own), key=lambda name: own[name]),)


def _key(records: Records, entry: Entry, protocol: Protocol, split: str, seed: int) -> str:
    """Return the key of a finished row; `splits` and `seeds` of the protocol only say how many rows there are."""
    values = asdict(replace(protocol, splits=(split,), seeds=0))
    text = json.dumps([records.digest, len(records), asdict(entry), values, split, seed], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class _Finished:
    """JSON lines {key, rows}; rewritten whole and atomically, so that a kill leaves the old or the new."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._rows = self._there()

    def _there(self) -> dict[str, list[dict[str, Any]]]:
        rows: dict[str, list[dict[str, Any]]] = {}
        if self._path is not None and self._path.exists():
            for number, line in enumerate(read_text(self._path, "a file of finished rows").splitlines(), 1):
                try:
                    document = parse_json(line)
                    rows[document["key"]] = list(document["rows"])
                except (ValueError, KeyError, TypeError) as error:
                    raise InputError(
                        f"{self._path}: line {number} is not a finished row; name another file to keep rows in"
                    ) from error
        return rows

    def rows(self, key: str) -> list[dict[str, Any]] | None:
        return self._rows.get(key)

    def add(self, key: str, rows: list[dict[str, Any]]) -> None:
        self._rows = {**self._there(), **self._rows, key: rows}  # another run may have added some
        if self._path is not None:
            lines = (json.dumps({"key": key, "rows": rows}) + "\n" for key, rows in self._rows.items())
            write_text(self._path, "".join(lines))
