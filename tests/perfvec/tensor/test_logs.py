"""A sequence model over the schedule primitives of a real log, from the log to a prediction."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.cli import main as cli
from perfvec.tensor.contract import Budget
from perfvec.tensor.metrics import pairwise_accuracy
from perfvec.tensor.model_file import save_model
from perfvec.tensor.models import make
from perfvec.tensor.predict import predict
from perfvec.tensor.records import read_records
from support.errors import InputError
from tracegen.tensor.read import read

LOG = Path(__file__).parents[2] / "tracegen" / "tensor" / "data" / "ansor-logs" / "resnet-50-NHWC-B1-llvm.json"


@pytest.mark.slow
def test_a_log_trains_a_model_of_primitives_that_predicts_a_log(tmp_path, capsys):
    read([LOG], tmp_path / "log.tensor.h5", progress=False)
    records = read_records(tmp_path / "log.tensor.h5").measured()
    training = {"batch": 32, "learning_rate": 5e-3}
    model = make("lstm", {"features": "primitives", "width": 32, "training": training})
    model.fit(records, budget=Budget(epochs=150))
    group = records.group * 0  # the log has one schedule of most tasks: order over all of it
    assert pairwise_accuracy(model.score_records(records), records.seconds, group) > 0.7
    save_model(model, tmp_path / "m.safetensors")
    cli.app(["tensor", "predict", str(tmp_path / "m.safetensors"), str(LOG), "--json"], standalone_mode=False)
    predictions = json.loads(capsys.readouterr().out)["predictions"]
    assert len(predictions) >= len(records)
    assert all(row["predicted_s"] > 0 for row in predictions)


def test_a_log_without_the_features_of_the_model_is_named_as_the_user_did():
    with pytest.raises(InputError) as error:
        predict("shipped", LOG, zero_shot=True)
    assert str(error.value).startswith(f"{LOG}: has no features 'ast' (there: primitives)")


@pytest.mark.slow
def test_the_attention_tuner_trains_on_a_log_of_primitives_alone(tmp_path):
    """TenSet's records are such: they have neither statements nor trees."""
    read([LOG], tmp_path / "log.tensor.h5", progress=False)
    records = read_records(tmp_path / "log.tensor.h5").measured()
    assert list(records.groups) == ["primitives"]
    model = make("attention-tuner", {"width": 32, "training": {"batch": 32, "learning_rate": 5e-3}})
    model.fit(records, budget=Budget(epochs=60))
    assert pairwise_accuracy(model.score_records(records), records.seconds, records.group * 0) > 0.7
    assert np.isfinite(model.record_latencies(records)).all()
