"""The accuracy protocol: pooled folds, tables, unseen machines known by their configuration, missing labels."""

import copy
import shutil
from dataclasses import replace

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from perfvec.evaluate import by, describe, evaluate, summary, to_json
from perfvec.intervals.held_out import held_out_errors
from perfvec.model import Model
from support.errors import InputError
from support.seal import seal
from tests.latency_files import as_version_1


def fold(model, left_out, digest):
    """The model as if it had not seen one of its programs."""
    programs = tuple(program for program in model.programs if program.name != left_out)
    assert len(programs) == len(model.programs) - 1
    return Model(model.foundation, model.machines, programs, model.encoder, model.recipe, digest)


@pytest.fixture(scope="module")
def pooled(data):
    folds = [fold(data.model, "qsort", "first"), fold(data.model, "matmul", "second")]
    return evaluate(folds, data.traces, data.latencies, progress=False)


@pytest.mark.slow
def test_each_fold_judges_its_own_unseen_programs(pooled, data):
    unseen = pooled[pooled["programs"] == "unseen"]
    assert set(zip(unseen["model"], unseen["program"], strict=True)) == {("first", "qsort"), ("second", "matmul")}
    assert len(unseen) == 2 * len(data.machines)
    assert len(pooled) == 4 * len(data.machines)
    alone = evaluate(data.model, data.traces, data.latencies, progress=False)
    key = ["program", "uarch"]
    again = pooled[pooled["model"] == "first"].sort_values(key)["predicted_cycles"].to_numpy()
    assert np.array_equal(again, alone.sort_values(key)["predicted_cycles"].to_numpy())
    assert describe(pooled) == f"2 programs, {len(data.machines)} machines, 2 models"


def test_models_are_compared_on_the_same_pairs(pooled, data):
    table = by(pooled, "model", {"first": "lstm.safetensors"})
    assert set(table["model"]) == {"lstm.safetensors", "second"}
    for _, row in table.iterrows():
        digest = "first" if row["model"] == "lstm.safetensors" else "second"
        errors = pooled[(pooled["model"] == digest) & (pooled["programs"] == row["programs"])]["error"]
        assert (row["pairs"], row["mean"]) == (len(data.machines), pytest.approx(errors.mean()))


@pytest.mark.slow
def test_a_machine_left_out_of_the_table_is_fitted_from_seen_programs(data):
    """The model has 4 of the 5 labelled machines; the fifth is unseen by its configuration."""
    smaller = copy.deepcopy(data.model.foundation)
    smaller.head.weight = torch.nn.Parameter(smaller.head.weight[:-1].detach().clone())
    model = fold(Model(smaller, data.model.machines[:-1], data.model.programs, data.model.encoder), "qsort", "")
    pairs = evaluate(model, data.traces, data.latencies, progress=False)
    left = data.model.machines[-1].name
    assert set(pairs[pairs["uarch"] == left]["uarchs"]) == {"fitted", "zero-shot"}
    assert set(pairs[pairs["uarch"] != left]["uarchs"]) == {"seen"}
    fitted = pairs[(pairs["uarchs"] == "fitted") & (pairs["programs"] == "seen")]
    assert fitted["program"].tolist() == ["matmul"]
    assert fitted["error"].item() < 0.15


def test_a_bias_above_0_is_a_prediction_that_is_too_slow(pooled):
    bias = pooled["predicted_cycles"] / pooled["simulated_cycles"] - 1
    assert np.allclose(pooled["bias"], bias) and np.allclose(pooled["error"], bias.abs())


def test_tables_by_hand():
    rows = [
        ("a", "x", "seen", "seen", 110.0, 100.0),
        ("a", "y", "seen", "seen", 90.0, 100.0),
        ("b", "x", "unseen", "seen", 150.0, 100.0),
    ]
    columns = ["program", "uarch", "programs", "uarchs", "predicted_cycles", "simulated_cycles"]
    pairs = pd.DataFrame(rows, columns=columns)
    pairs["bias"] = pairs["predicted_cycles"] / pairs["simulated_cycles"] - 1
    pairs["error"] = pairs["bias"].abs()
    table = by(pairs, "program")
    assert table["program"].tolist() == ["a", "b"]
    assert table["mean"].tolist() == pytest.approx([0.1, 0.5])
    assert table["bias"].tolist() == pytest.approx([0.0, 0.5], abs=1e-12)
    seen = summary(pairs).iloc[0]
    assert (seen["pairs"], seen["program_count"], seen["machine_count"]) == (2, 1, 2)
    assert by(pairs, "uarch")["worst"].tolist() == pytest.approx([0.1, 0.1, 0.5])
    with pytest.raises(InputError, match="by program or by uarch"):
        by(pairs, "isa")


def test_a_summary_by_hand():
    """Four errors, 0.1 to 0.3: the 90th percentile is seven tenths of the way from the third to the last."""
    error = [0.1, 0.3, 0.2, 0.2]
    pairs = pd.DataFrame({"program": list("aabb"), "uarch": list("xyxy"), "error": error, "bias": [-0.1, 0.3, 0.2, 0]})
    (row,) = summary(pairs.assign(programs="seen", uarchs="seen")).to_dict(orient="records")
    expected = {"mean": 0.2, "median": 0.2, "p90": 0.27, "worst": 0.3, "bias": 0.1, "worst_program": 0.2}
    assert {key: row[key] for key in expected} == pytest.approx(expected)


def test_the_document_has_the_keys_that_scripts_rely_on(pooled):
    document = to_json(pooled)
    for key in ("programs", "uarchs", "mean", "median", "p90", "worst", "pairs"):
        assert key in document["summary"][0]
    for key in ("program", "uarch", "programs", "uarchs", "predicted_cycles", "simulated_cycles", "error"):
        assert key in document["pairs"][0]


def test_missing_labels_are_named(data, tmp_path):
    for path in data.latencies.iterdir():
        shutil.copy(path, tmp_path)
    with h5py.File(tmp_path / "qsort.latency.h5", "r+") as file:
        file["latency"][1] = 0
    seal(tmp_path / "qsort.latency.h5")
    with pytest.raises(InputError, match="every latency of machine 'cortex-a53' is 0"):
        evaluate(data.model, data.traces, tmp_path, progress=False)


def test_a_latency_that_was_cut_is_told(data, tmp_path, capsys):
    for path in data.latencies.iterdir():
        shutil.copy(path, tmp_path)
    told = f"perfvec: {tmp_path / 'qsort.latency.h5'}: a latency may have been cut at 65,535 cycles"
    with h5py.File(tmp_path / "qsort.latency.h5", "r+") as file:
        file["latency"][1, 10] = 65535
    seal(tmp_path / "qsort.latency.h5")
    evaluate(data.model, data.traces, tmp_path, progress=False)
    assert told not in capsys.readouterr().err
    as_version_1(tmp_path / "qsort.latency.h5")
    evaluate(data.model, data.traces, tmp_path, progress=False)
    assert told in capsys.readouterr().err


def test_machines_that_a_model_cannot_tell_are_named_as_the_reason(data):
    """There are no labels of a program that it has seen, to fit vectors of these machines to."""
    model = replace(data.model, encoder=None, programs=(), program_vectors=None)
    for asked in (
        lambda: evaluate(model, data.traces, data.encoder_latencies, progress=False),
        lambda: held_out_errors([model], data.traces, data.encoder_latencies, progress=False),
    ):
        with pytest.raises(InputError, match=r"no encoder|nor an encoder"):
            asked()
