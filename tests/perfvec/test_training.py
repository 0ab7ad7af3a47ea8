"""Training: a tiny run learns, repeats itself, resumes bit-exactly, and refuses unusable data."""

import shutil
import subprocess
import time
from dataclasses import replace

import h5py
import pytest
import torch

from perfvec.evaluate import evaluate, summary
from perfvec.model import FoundationModel, load_model
from perfvec.training.data import prepare, work_folder
from perfvec.training.loss import LENGTHS, OUTLIER, averaged_loss, difference_loss
from perfvec.training.recipe import Recipe
from perfvec.training.split import Split
from perfvec.training.train import shape_options, train
from support.errors import InputError
from support.seal import seal
from tests.command import INSTALLED, succeeding


def test_a_tiny_run_learns_its_programs(data):
    pairs = evaluate(data.model, data.traces, data.latencies, progress=False)
    assert len(pairs) == 2 * len(data.machines)
    assert set(pairs["programs"]) == {"seen"}
    assert set(pairs["uarchs"]) == {"seen"}
    assert summary(pairs)["mean"].item() < 0.12


@pytest.mark.slow
def test_the_encoder_learns_machines_that_the_table_lacks(data):
    pairs = evaluate(data.model, data.traces, data.encoder_latencies, progress=False)
    errors = pairs.groupby("uarchs")["error"].mean()
    assert set(errors.index) == {"fitted", "zero-shot"}
    assert errors["fitted"] < 0.12
    assert errors["zero-shot"] < 0.25  # these machines taught the encoder


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_an_interrupted_run_continues(data, tmp_path):
    folders = ["--traces", str(data.traces), "--latencies", str(data.latencies)]
    arguments = ["train", *folders, *"--no-encoder --width 8 --layers 1 --instructions 50000 --seed 9 -o".split()]
    succeeding(*arguments, tmp_path / "whole.safetensors")
    output = tmp_path / "cut.safetensors"
    process = subprocess.Popen([*INSTALLED, *arguments, str(output)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(work_folder(output).glob("*/complete.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not output.exists()
    succeeding(*arguments, output)
    whole, cut = load_model(tmp_path / "whole.safetensors"), load_model(output)
    for name, weights in whole.foundation.state_dict().items():
        assert torch.equal(weights, cut.foundation.state_dict()[name]), name
    assert not work_folder(output).exists()


def test_averaged_loss_by_hand():
    length = LENGTHS[-1][0]
    error = torch.zeros(length, 1, 1)
    error[0] = 3.0
    expected = sum(weight * (3.0 / k) ** 2 / (length // k) for k, weight in LENGTHS)
    assert averaged_loss(error).item() == pytest.approx(expected)
    alternating = torch.tensor([1.0, -1.0]).repeat(length // 2).reshape(-1, 1, 1)
    assert averaged_loss(alternating).item() == pytest.approx(LENGTHS[0][1])  # cancels over every longer length


def test_difference_loss_by_hand():
    error = torch.tensor([[[1.0, 3.0, 0.0, 0.0]], [[3.0, 3.0, 0.0, 6.0]]])  # means 2 and 3, 0 and 3
    assert difference_loss(error).item() == pytest.approx((1.0**2 + 3.0**2) / 2)


def test_an_outlier_counts_linearly():
    errors = [torch.zeros(LENGTHS[-1][0], 1, 1) for _ in range(2)]
    for error, size in zip(errors, (1e6, 2e6), strict=True):
        error[0] = size * OUTLIER
    assert averaged_loss(errors[1]).item() == pytest.approx(2 * averaged_loss(errors[0]).item(), rel=1e-2)


@pytest.mark.slow
def test_training_goes_on_from_a_model(data, tmp_path):
    recipe = Recipe(**{**sizes(data.model), "instructions": 1, "learning_rate": 1e-6, "muon_lr": 1e-6})
    again = train(
        data.traces, data.latencies, tmp_path / "m.safetensors", recipe=recipe, initial=data.model, progress=False
    )
    assert again.recipe["initial"] == data.model.digest
    assert again.programs == data.model.programs
    for name, weights in data.model.foundation.state_dict().items():
        torch.testing.assert_close(again.foundation.state_dict()[name], weights, rtol=1e-3, atol=1e-3)
    with pytest.raises(InputError, match="the initial model's width"):
        train(
            data.traces,
            data.latencies,
            tmp_path / "n.safetensors",
            recipe=Recipe(width=8, layers=1),
            initial=data.model,
            progress=False,
        )


def test_what_goes_on_from_a_model_has_its_shape(data):
    shape = shape_options(data.model, width=None, layers=7, architecture=None)
    assert shape == {**sizes(data.model), "architecture": "lstm", "skip_connection": False, "numbers": {}, "layers": 7}
    assert shape_options(None, width=None, layers=7) == {"layers": 7}
    foundation = FoundationModel(data.model.schema, 1, architecture="convolution", width=8, layers=1, kernel=3)
    convolution = replace(data.model, foundation=foundation)
    assert shape_options(convolution, architecture=None)["numbers"] == {"kernel": 3}
    assert "numbers" not in shape_options(convolution, architecture="lstm")


@pytest.mark.slow
def test_programs_that_trained_the_initial_model_stay_seen(data, tmp_path):
    recipe = Recipe(**{**sizes(data.model), "instructions": 1})
    one = data.model.programs[0].name
    again = train(
        data.traces,
        data.latencies,
        tmp_path / "m.safetensors",
        recipe=recipe,
        initial=data.model,
        split=Split(exclude=(one,)),
        encoder=False,
        progress=False,
    )
    assert set(again.programs) == set(data.model.programs)
    assert again.encoder is None


def sizes(model):
    return {name: model.recipe[name] for name in ("schema", "width", "layers")}


def test_labels_of_an_absent_trace_are_named(data, tmp_path):
    shutil.copy(data.traces / "qsort.trace.h5", tmp_path)
    with pytest.raises(InputError, match="matmul"):
        prepare(tmp_path, data.latencies, data.model.schema, tmp_path / "work", progress=False)


def test_missing_labels_are_named(data, tmp_path):
    for path in (*data.traces.iterdir(), *data.latencies.iterdir()):
        shutil.copy(path, tmp_path)
    with h5py.File(tmp_path / "qsort.latency.h5", "r+") as file:
        file["latency"][1] = 0
    seal(tmp_path / "qsort.latency.h5")
    with pytest.raises(InputError, match="cortex-a53"):
        prepare(tmp_path, tmp_path, data.model.schema, tmp_path / "work", progress=False)


def test_impossible_recipes_are_refused():
    for sequence in (100, 0, -288):
        with pytest.raises(InputError, match="multiple"):
            Recipe(sequence=sequence)
    for warmup in (-1, 129):
        with pytest.raises(InputError, match="warmup must be from 0 to 128"):
            Recipe(warmup=warmup)
    for rate in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="must be above 0"):
            Recipe(learning_rate=rate)


def test_excluding_an_unknown_program_is_an_error(data, tmp_path):
    with pytest.raises(InputError, match="nosuch"):
        train(data.traces, data.latencies, tmp_path / "m.safetensors", split=Split(exclude=("nosuch",)), progress=False)
