"""Made-up candidates whose latency is a known function of their features, for what needs no real measurement."""

from __future__ import annotations

import numpy as np
import pytest

from perfvec.tensor.records import FeatureGroup, Records, Task
from tracegen.tensor.dataset import Device, Rows

WIDTH = 12


def made_up(tasks: int = 6, candidates: int = 40, devices: int = 1, seed: int = 0) -> Records:
    """Latency = 10 µs · (device's factor) · Σ over statements of 2^(a linear function of the features)."""
    random = np.random.default_rng(seed)
    total = tasks * candidates
    task = np.repeat(np.arange(tasks), candidates)
    length = random.integers(1, 5, tasks)[task]
    offset = np.concatenate([[0], np.cumsum(length)])
    values = random.normal(size=(offset[-1], WIDTH)).astype(np.float32)
    values[:, 0] += np.repeat(random.normal(size=tasks)[task], length)
    cost = np.add.reduceat(2.0 ** (values[:, 0] - 0.7 * values[:, 1] + 0.5 * values[:, 2]), offset[:-1])
    position = np.concatenate([np.arange(count) * 2 + 1 for count in length]).astype(np.int32)
    rows, ast = Rows(values, offset), Rows(values, offset, position)
    known = tuple(
        Device(f"d{index}", {"kind": "gpu" if index else "cpu", "clock_ghz": 2.0**index}) for index in range(devices)
    )
    candidate = np.tile(np.arange(total), devices)
    device = np.repeat(np.arange(devices), total)
    return Records(
        groups={"statements": FeatureGroup("statements", "s1", rows), "ast": FeatureGroup("ast", "a1", ast)},
        candidate=candidate,
        task=task[candidate],
        device=device,
        seconds=1e-5 * cost[candidate] / 2.0**device,
        tasks=tuple(Task(f"t{at}", ("conv", "dense")[at % 2], {f"n{at % 3}": 1.0 + at}) for at in range(tasks)),
        devices=known,
        digest="made-up",
    )


@pytest.fixture(scope="session")
def records() -> Records:
    return made_up()
