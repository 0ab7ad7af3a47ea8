"""The card's tables of networks and of schedule primitives, against what was written."""

from __future__ import annotations

import numpy as np
import pytest

from tracegen.tensor import primitives
from tracegen.tensor.card import card, networks_of, primitives_used
from tracegen.tensor.dataset import Dataset, DatasetWriter, Device, Task


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "d.tensor.h5"
    split, fuse = (primitives.PRIMITIVES.index(name) for name in ("split", "fuse"))
    with DatasetWriter(path, provenance={}, features={"primitives": "1"}) as writer:
        device = writer.device(Device("d0", {"kind": "cpu"}))
        for number, (flops, used) in enumerate([(2e6, [split, split, fuse]), (8e6, [split]), (float("nan"), [])]):
            task = writer.task(Task(str(number), f"t{number}", "dense", flops=flops, networks={"n": number + 1}))
            rows = np.zeros((len(used), primitives.WIDTH), np.float32)
            rows[np.arange(len(used)), used] = 1
            schedule = writer.schedule(task, [number], kind="ansor", origin="x", features={"primitives": rows})
            writer.record(schedule, device, 1e-3)
    with Dataset(path) as dataset:
        yield dataset


def test_networks_by_their_tasks_and_flops(data):
    (row,) = networks_of(data)
    assert (row["network"], row["tasks"], row["calls"]) == ("n", 3, 6)
    assert row["task"] == "2 / 5 / 8"
    assert row["inference"] == "18"  # 1 · 2 + 2 · 8, what is not known left out


def test_primitives_by_the_schedules_that_have_them(data):
    lengths, table = primitives_used(data)
    assert lengths == (0, 1, 3)
    assert table == [["split", "67 %", "1.50"], ["fuse", "33 %", "1.00"]]


def test_the_card_has_both(data):
    text = card(data)
    assert "| n | 3 | 6 | 2 / 5 / 8 | 18 |" in text
    assert "Primitives of a schedule: 0 to 3, median 1." in text
