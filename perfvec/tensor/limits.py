"""Limits set by a dataset's measurements: bounds that no cost model of its features passes, read from the records
alone.

- **Twins**: schedules of one task that no feature group tells apart. Whatever a model says, it says of both; how far
  their latencies lie apart is noise of measuring and what the features leave out.
- **Pairwise**: the accuracy with which the latencies order themselves when every one is disturbed by a twin's distance
  drawn at random; and of all pairs, the share that lies closer than twins do in the median.
- **Again**: the same where the collection measured some records a second time, by noise that is normal with the median
  difference of those; `model` with one measurement's share of it (1/√2), what is left to a model that knows the truth.
- **Other devices**: for each device, how near its latencies are to what the *measured* latencies of the same schedules
  on the other devices say: their smallest, their geometric mean, or a linear fit of logarithms on a tenth of the tasks.
  A model that is transferred to the device knows less than those latencies.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.metrics import groups_of, mape, pairwise_accuracy
from perfvec.tensor.records import Records, read_records
from tracegen.tensor.dataset import Dataset, Rows, history

Floats = NDArray[np.float64]
_SHARE = 0.1  # of the tasks, for the linear fit
_MEDIAN_OF_NORMAL = 0.6745  # of |x|, x normal with deviation 1


def limits(dataset: str | os.PathLike[str], seed: int = 0) -> dict[str, Any]:
    """{"records", "spread": within-task deviation of log latency, "twins": {pairs, median, p90} or None, "pairwise",
    "close": share of pairs, "again": {median, pairwise, model} or None, "devices": {name: {schedules, smallest, mean,
    fit}}}.

    Raises InputError without a latency.
    """
    records = read_records(dataset).measured()
    random = np.random.default_rng(seed)
    logs = np.log(records.seconds)
    groups = [rows for rows in groups_of(records.group) if len(rows) > 2]
    with Dataset(dataset) as data:
        again = [source["again"] for _, source in history(data.provenance) if isinstance(source.get("again"), dict)]
    found: dict[str, Any] = {
        "records": len(records),
        "spread": float(np.median([logs[rows].std() for rows in groups])) if groups else None,
        "twins": None,
        "pairwise": None,
        "close": None,
        "again": None,
        "devices": other_devices(records, random),
    }
    if again:  # of merged datasets: the mean of their medians by their numbers of pairs
        difference = float(np.average([part["median"] for part in again], weights=[part["pairs"] for part in again]))
        sigma = difference / _MEDIAN_OF_NORMAL
        found["again"] = {"median": difference} | {
            name: _disturbed(records, random.normal(0.0, sigma * share, len(logs)))
            for name, share in (("pairwise", 1.0), ("model", math.sqrt(0.5)))
        }
    apart = twins(records)
    if len(apart):
        # A twin's distance is of two measurements: what it says of is one measurement against another.
        noise = random.choice(np.concatenate([apart, -apart]), len(logs))
        median = float(np.median(apart))
        all_pairs, close = _pairs(logs, groups, median)
        found |= {
            "twins": {"pairs": len(apart), "median": median, "p90": float(np.percentile(apart, 90))},
            "pairwise": _disturbed(records, noise),
            "close": close / max(all_pairs, 1),
        }
    return found


def _disturbed(records: Records, noise: Floats) -> float:
    """Pairwise accuracy of the log latencies with this noise [n] added."""
    return pairwise_accuracy(-(np.log(records.seconds) + noise), records.seconds, records.group)


def twins(records: Records) -> Floats:
    """Absolute differences of log latency between a schedule and the first of the same rows, per task and device."""
    visible = _visible(records)
    if not visible:
        return np.empty(0)
    digest = {
        int(candidate): b"".join(hashlib.sha256(_bytes(group.rows, int(candidate))).digest() for group in visible)
        for candidate in np.unique(records.candidate)
        if all(group.rows.length[candidate] for group in visible)
    }
    first: dict[tuple[int, bytes], float] = {}
    differences = []
    for group, candidate, seconds in zip(records.group, records.candidate, records.seconds, strict=True):
        if int(candidate) not in digest:
            continue
        key = int(group), digest[int(candidate)]
        if key in first:
            differences.append(abs(float(np.log(seconds / first[key]))))
        else:
            first[key] = float(seconds)
    return np.array(differences)


def other_devices(records: Records, random: np.random.Generator) -> dict[str, dict[str, float]]:
    """{device: {"schedules": those that ran on all devices, way: MAPE of what the other devices' latencies of these
    say}}; a factor per device is fitted on a share of the tasks, and the other tasks are judged. A linear fit has more
    schedules than unknowns, or is left out.
    """
    table: dict[int, dict[int, float]] = defaultdict(dict)
    task_of: dict[int, int] = {}
    for candidate, device, task, seconds in zip(
        records.candidate, records.device, records.task, records.seconds, strict=True
    ):
        table[int(candidate)][int(device)] = float(np.log(seconds))
        task_of[int(candidate)] = int(task)
    devices = np.unique(records.device)
    whole = [candidate for candidate, row in table.items() if len(row) == len(devices)]
    tasks = np.array([task_of[candidate] for candidate in whole])
    there = np.unique(tasks)
    if len(devices) < 2 or len(there) < 2:
        return {}
    logs = np.array([[table[candidate][int(device)] for device in devices] for candidate in whole])
    fits = np.isin(tasks, random.permutation(there)[: max(round(_SHARE * len(there)), 1)])
    found: dict[str, dict[str, float]] = {}
    for column, device in enumerate(devices):
        own, others = logs[:, column], np.delete(logs, column, 1)
        inputs = np.concatenate([np.ones((len(own), 1)), others], 1)
        guesses = {"smallest": others.min(1), "mean": others.mean(1)}
        if fits.sum() > inputs.shape[1]:
            guesses["fit"] = inputs @ np.linalg.lstsq(inputs[fits], own[fits], rcond=None)[0]
        found[records.devices[device].name] = {"schedules": len(whole)} | {
            way: mape(np.exp((guess - np.median((guess - own)[fits]))[~fits]), np.exp(own[~fits]))
            for way, guess in guesses.items()
        }
    return found


def _bytes(rows: Rows, candidate: int) -> bytes:
    """All that a model reads of a candidate: its rows and, where they have them, their positions."""
    begin, end = rows.offset[candidate : candidate + 2]
    return rows[candidate].tobytes() + (b"" if rows.position is None else rows.position[begin:end].tobytes())


def _visible(records: Records) -> list[Any]:
    """The groups that see the program; primitives see how it came about, which differs between equal programs."""
    return [group for kind, group in sorted(records.groups.items()) if kind != "primitives"]


def _pairs(logs: Floats, groups: list[NDArray[np.int64]], width: float) -> tuple[int, int]:
    """(all pairs of the groups, those closer than `width`; none is closer than 0)."""
    total, close = 0, 0
    for rows in groups:
        ascending = np.sort(logs[rows])
        total += len(rows) * (len(rows) - 1) // 2
        behind = np.searchsorted(ascending, ascending + width) - np.arange(len(rows)) - 1
        close += int(np.maximum(behind, 0).sum())  # below 0 among equal latencies, where the width is 0
    return total, close
