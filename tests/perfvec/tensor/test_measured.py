"""Measured programs: 965 schedules on three devices (data/README.md), and the model that ships."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfvec.tensor.contract import Budget
from perfvec.tensor.metrics import mape, pairwise_accuracy
from perfvec.tensor.model_file import describe, load_model
from perfvec.tensor.models import make
from perfvec.tensor.records import read_records
from tracegen.tensor.dataset import Dataset, merge

DATA = Path(__file__).parent / "data" / "x86-64.tensor.h5"
SHIPPED = Path(__file__).parents[3] / "tracegen" / "tensor" / "data" / "x86-64.tensor.h5"


@pytest.fixture(scope="module")
def measured():
    return read_records(DATA).measured()


@pytest.mark.slow
def test_a_model_of_a_thousand_records_beats_the_mean_predictor(measured):
    order = np.random.default_rng(0).permutation(len(measured))
    train, rest = measured.take(order[:1000]), measured.take(order[1000:])
    found = {}
    for name in ("lightgbm", "mean"):
        model = make(name)
        model.fit(train, budget=Budget(epochs=10))
        found[name] = model
    group = rest.group
    accuracy = {
        name: pairwise_accuracy(model.score_records(rest), rest.seconds, group) for name, model in found.items()
    }
    errors = {name: mape(model.to_seconds(model.score_records(rest)), rest.seconds) for name, model in found.items()}
    assert accuracy["lightgbm"] > accuracy["mean"] + 0.1
    assert errors["lightgbm"] < errors["mean"] / 10


@pytest.mark.parametrize("devices", [("x86-64-v?",), ("x86-64-v?", "x86-64-v?@zen5")])
def test_the_shipped_dataset_holds_what_these_records_and_the_shipped_model_are_of(devices, tmp_path):
    """The file says of which dataset it is a part, the model which one trained it: devices of the one that ships."""
    merge([SHIPPED], tmp_path / "part.tensor.h5", devices=devices)
    with Dataset(DATA) as few, Dataset(tmp_path / "part.tensor.h5") as part:
        said = few.provenance["part"] if len(devices) == 1 else describe("shipped")["provenance"]["digest"]
        assert part.digest in said


def test_the_shipped_model_orders_these_records(measured):
    model = load_model("shipped")
    assert pairwise_accuracy(model.score_records(measured), measured.seconds, measured.group) > 0.75
    assert mape(model.to_seconds(model.score_records(measured)), measured.seconds) < 0.5
