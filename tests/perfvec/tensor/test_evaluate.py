"""The protocol: rows, means, resumption, what cannot be split; and the commands from dataset to prediction."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from analysis.cli import main as cli
from perfvec.tensor import evaluate as evaluation
from perfvec.tensor.configuration import Entry, choose, read_entries
from perfvec.tensor.contract import Budget
from perfvec.tensor.evaluate import Protocol, evaluate, summary
from perfvec.tensor.model_file import load_model, save_model
from perfvec.tensor.records import read_records
from perfvec.tensor.train import train
from support.errors import InputError
from tests.perfvec.tensor.conftest import made_up
from tracegen.tensor.dataset import Dataset, DatasetWriter, Device, Outcome, Task, merge

ENTRIES = [Entry("trees", "lightgbm", {"leaves": 15}), Entry("mean", "mean")]
QUICK = Protocol(seeds=2, budget=Budget(epochs=4), fine_tuning=Budget(epochs=3), selections=("kmeans", "random"))


def written(records, path):
    """The records as a file, the last of them failed."""
    rows = records.features("statements").rows
    with DatasetWriter(path, provenance={"made": "up"}, features={"statements": "s1"}) as writer:
        devices = [writer.device(device) for device in records.devices]
        for index in range(len(rows)):
            task = records.tasks[records.task[index]]
            at = writer.task(Task(task.name, task.name, task.operator, networks=task.networks))
            writer.schedule(at, [index], kind="metaschedule", origin="test", features={"statements": rows[index]})
        for index in range(len(records) - 1):
            writer.record(
                int(records.candidate[index]), devices[records.device[index]], records.seconds[index], repeats=1
            )
        writer.record(int(records.candidate[-1]), devices[-1], outcome=Outcome.TIMEOUT)
    return path


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A dataset of 6 tasks on two devices, one twice as fast."""
    torch.set_num_threads(1)
    return written(made_up(devices=2), tmp_path_factory.mktemp("tensor") / "two.tensor.h5")


def test_a_row_for_every_split_model_and_seed(two):
    rows = evaluate(
        two, ENTRIES, replace(QUICK, splits=("within_task", "by_task", "by_target", "cross_model"), kind="gpu")
    )
    assert len(rows) == 4 * 2 * 2
    table = summary(rows)
    assert len(table) == 4 * 2
    first = table[table["split"] == "within_task"].iloc[0]
    values = rows[(rows["split"] == "within_task") & (rows["model"] == first["model"])]["pairwise"]
    assert first["model"] == "trees"
    assert first["pairwise"] == pytest.approx(values.mean())
    assert first["pairwise_spread"] == pytest.approx(values.std(ddof=0))
    assert (table["train_s"] >= 0).all()


@pytest.mark.slow
def test_cross_device_is_zero_shot_and_then_fine_tuned_on_a_share(two):
    rows = evaluate(two, ENTRIES, replace(QUICK, splits=("cross_device",), seeds=1, share=0.34))
    trees = rows[rows["model"] == "trees"].set_index("variant")
    assert list(trees.index) == ["zero-shot", "kmeans 34%", "random 34%"]
    assert trees.loc["zero-shot", "test_records"] == 239
    tuned = trees.loc["random 34%", "train_records"] - 240  # the records of two tasks
    assert tuned in (79, 80)
    assert trees.loc["random 34%", "test_records"] == 239 - tuned
    assert trees.loc["random 34%", "mape"] < trees.loc["zero-shot", "mape"]  # the device is twice as fast


def test_a_candidate_is_on_one_side_of_within_task_on_all_devices(two):
    records = read_records(two)
    with Dataset(two) as data:
        plan = evaluation.plan_of(data, records, "within_task", QUICK, 0)
    assert not set(records.candidate[plan.train]) & set(records.candidate[plan.test])
    assert len(plan.train) + len(plan.test) == 479


def test_finished_rows_are_kept_and_not_computed_again(two, tmp_path, monkeypatch):
    work = tmp_path / "work.jsonl"
    protocol = replace(QUICK, splits=("within_task",))
    first = evaluate(two, ENTRIES[:1], protocol, work)
    assert len(work.read_text().splitlines()) == 2
    monkeypatch.setattr(evaluation, "judge", lambda *_: pytest.fail("trained again"))
    again = evaluate(two, ENTRIES[:1], protocol, work)
    pd.testing.assert_frame_equal(again, first)
    with pytest.raises(pytest.fail.Exception):
        evaluate(two, ENTRIES[:1], replace(protocol, budget=Budget(epochs=5)), work)


def test_two_runs_keep_their_rows_in_one_file(two, tmp_path, monkeypatch):
    work = tmp_path / "work.jsonl"
    protocol = replace(QUICK, splits=("within_task",), seeds=1)
    judge = evaluation.judge

    def beside(*arguments):
        monkeypatch.setattr(evaluation, "judge", judge)
        evaluate(two, ENTRIES[1:2], protocol, work)  # another run, which began after this one
        return judge(*arguments)

    monkeypatch.setattr(evaluation, "judge", beside)
    evaluate(two, ENTRIES[:1], protocol, work)
    assert len(work.read_text().splitlines()) == 2


def test_a_share_is_of_the_tasks_that_ran_on_the_held_out_device(records, tmp_path):
    second = made_up(devices=2)
    kept = second.take(np.flatnonzero((second.device == 0) | (second.task < 4)))
    path = written(kept, tmp_path / "d.tensor.h5")
    protocol = replace(
        QUICK, splits=("cross_device",), device="d1", share=0.5, selections=("random", "flops", "kmeans", "verma")
    )
    some = read_records(path)
    with Dataset(path) as data:
        plan = evaluation.plan_of(data, some, "cross_device", protocol, 0)
    test = some.take(plan.test)
    assert len(plan.selected) == 4
    for name, (few, judged) in plan.selected.items():
        assert len(np.unique(test.task[few])) == 2, name  # half of four
        assert len(judged) and not np.isin(test.task[judged], test.task[few]).any(), name
    (few, judged) = plan.selected["verma"]
    assert len(few) + len(judged) < len(test)  # slow schedules of its tasks are in neither


def test_a_model_that_is_named_twice_is_judged_once():
    assert choose(ENTRIES, [ENTRIES[0].name] * 2) == [ENTRIES[0]]


def test_one_record_trains_no_model(tmp_path):
    path = written(made_up(tasks=1, candidates=2), tmp_path / "one.tensor.h5")  # the second failed
    with pytest.raises(InputError, match="one measured record"):
        train(path, tmp_path / "m.safetensors", Entry("net", "mlp"), budget=Budget(epochs=1))
    assert not (tmp_path / "m.safetensors").exists()


def test_a_foreign_work_file_is_refused(two, tmp_path):
    (tmp_path / "w").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        evaluate(two, ENTRIES, QUICK, tmp_path / "w")
    (tmp_path / "w").write_text("hello\n")
    with pytest.raises(InputError, match="line 1 is not a finished row"):
        evaluate(two, ENTRIES, QUICK, tmp_path / "w")


def test_what_cannot_be_split_is_said_before_training(records, tmp_path):
    path = written(records, tmp_path / "one.tensor.h5")
    with pytest.raises(InputError, match="holding out a device needs two"):
        evaluate(path, ENTRIES, replace(QUICK, splits=("cross_device",)))
    with pytest.raises(InputError, match="expected some of within_task"):
        evaluate(path, ENTRIES, replace(QUICK, splits=("by_moon",)))
    with pytest.raises(InputError, match="has no features 'primitives'"):
        evaluate(path, [Entry("p", "mlp", {"features": "primitives"})], QUICK)


def test_shipped_configurations_are_of_models_that_there_are():
    for name in ("two-cores", "papers"):
        assert {entry.model for entry in read_entries(name)} >= {
            "atformer",
            "cdmpp",
            "attention-tuner",
            "xgboost",
            "tabnet",
        }
    assert choose(read_entries("papers"), ["atformer-3L"])[0].parameters == {"layers": 3}
    with pytest.raises(InputError, match="no model 'x'; there are atformer"):
        choose(read_entries(), ["x"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: 3", "expected a list of entries under 'models'"),
        ("models: [{model: mlp, parameters: {depth: 3}}]", r"models\[0\]: no parameter 'depth'"),
        ("models: [{model: mlp}, {model: mlp}]", "two entries are named 'mlp'"),
        ("models: [{model: mlp, colour: red}]", "no field 'colour'"),
        ("models: [{model: mlp, colour: red, 3: x}]", "no field 3"),
        ("models: [{model: mlp, parameters: 7}]", r"models\[0\]: parameters is a table of parameters, not 7"),
        ("models: [{model: mlp, parameters: [1]}]", r"a table of parameters, not \[1\]"),
        ("models: [{model: mlp, parameters: text}]", "a table of parameters, not 'text'"),
        ("models: [{model: mlp, tuned: {seed: 0}}]", "tuned is {data, split, seed, test}"),
        ("models: [", "not valid yaml"),
    ],
)
def test_wrong_configurations(tmp_path, text, message):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_entries(tmp_path / "c.yaml")


@pytest.mark.slow
def test_from_dataset_to_prediction_by_the_commands(two, tmp_path, capsys):
    model = tmp_path / "m.safetensors"
    run(["tensor", "train", str(two), "-o", str(model), "--model", "lightgbm", "--epochs", "5", "--json"])
    trained = json.loads(capsys.readouterr().out)
    assert (trained["records"], trained["devices"]) == (479, ["d0", "d1"])
    run(["tensor", "predict", str(model), str(two), "--device", "d1", "--top", "2", "--json"])
    predictions = json.loads(capsys.readouterr().out)["predictions"]
    assert len(predictions) == 2 * 6
    first = predictions[0]
    assert set(first) == {"task", "task_id", "schedule", "device", "score", "predicted_s", "measured_s"}
    assert [row["task_id"] for row in predictions] == [task for task in range(6) for _ in range(2)]
    assert first["score"] >= predictions[1]["score"]
    assert first["predicted_s"] == pytest.approx(first["measured_s"], rel=2.0)
    run(["tensor", "train", str(two), "-o", str(model), "--initial", str(model), "--epochs", "1"])
    assert "479 records" in capsys.readouterr().out
    run(
        [
            "tensor",
            "evaluate",
            str(two),
            "--models",
            "lightgbm,mean",
            "--splits",
            "by_task",
            "--seeds",
            "1",
            "--epochs",
            "2",
            "--json",
            "--csv",
            str(tmp_path / "rows.csv"),
        ]
    )
    document = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in document["summary"]] == ["lightgbm", "mean"]
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "{model}", "{data}", "--device", "gpu"], "device 'gpu' did not train the model"),
        (["predict", "{model}", "{other}"], "reads 12 statements features a row; these rows have 3"),
        (["predict", "{data}", "{data}"], "not a safetensors file"),
        (["train", "{other}", "-o", "{model}"], "no records to learn from"),
        (["train", "{data}", "-o", "{model}", "--model", "cdmpp"], "has no features 'ast' (there: statements)"),
        (["evaluate", "{data}", "--models", "gpt"], "no model 'gpt'"),
        (["evaluate", "{data}", "--saved", "{model}", "--work", "rows"], "leave it out with --saved"),
        (["evaluate", "{data}", "--saved", "{model}", "--compute", "warp"], "device 'warp': PyTorch does not have it"),
        (["evaluate", "{data}", "--compute", "mps"], "not have it here; expected cpu, cuda or cuda:N"),
        (["evaluate", "{data}", "--saved", "{model}", "--models", "cdmpp"], "--models is of models that are trained"),
        (["evaluate", "{data}", "--saved", "{model}", "--configuration", "papers"], "leave it out with --saved"),
        (["evaluate", "{data}", "--saved", "{model}", "--epochs", "40"], "--epochs is of models that are trained here"),
        (["evaluate", "{data}", "--saved", "{model}", "--kind", "gpu"], "--kind is of models that are trained here"),
        (
            ["evaluate", "{data}", "--models", "mean", "--splits", "by_target"],
            "by_target: no device of the kind 'simulated'",
        ),
        (["train", "{data}", "-o", "{model}", "--initial", "{model}", "--model", "mean"], "--model is of a new model"),
        (["train", "{data}", "-o", "{model}", "--initial", "{model}", "--patience", "2"], "--patience is of a new"),
    ],
)
def test_wrong_inputs_are_one_line_and_status_2(two, tmp_path, capsys, words, message):
    from perfvec.tensor.models import make

    files = {name: str(tmp_path / f"{name}.tensor.h5") for name in ["other"]}
    with DatasetWriter(files["other"], provenance={}, features={"statements": "s1"}) as writer:
        task = writer.task(Task("k", "k"))
        writer.device(Device("d0"))
        writer.schedule(task, [1], kind="ansor", origin="log", features={"statements": np.zeros((2, 3))})
    model = make("mean")
    model.fit(read_records(two))
    save_model(model, tmp_path / "m.safetensors")
    files.update(data=str(two), model=str(tmp_path / "m.safetensors"))
    with pytest.raises(SystemExit) as stop:
        run(["tensor", *(word.format(**files) for word in words)])
    assert stop.value.code == 2
    printed = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in printed
    assert printed.startswith("perfvec: ")


def test_a_kind_of_device_that_the_collection_makes_is_held_out():
    assert Protocol().kind == "simulated"


def test_a_saved_model_is_told_from_one_that_was_not_trained_on_what_it_is_judged_on(two, tmp_path, capsys):
    path = tmp_path / "m.safetensors"
    merge([two], tmp_path / "first.tensor.h5", devices=["d0"])
    train(tmp_path / "first.tensor.h5", path, ENTRIES[1], budget=QUICK.budget)
    protocol = replace(QUICK, selections=("random",), seeds=1)

    def judged(device, file=path):
        rows = evaluation.evaluate_saved(file, two, replace(protocol, device=device))
        return rows["trained_on"].unique().tolist(), evaluation.terminal_table(summary(rows))["trained_on"].iloc[0]

    assert judged("d0") == ([1.0], "100%")
    assert "mean (m) was trained on the tasks of 100% of the records" in capsys.readouterr().err
    assert judged("d1") == ([0.0], "0%")
    assert "was trained on" not in capsys.readouterr().err
    assert judged("")[1] == "50%"
    train(two, tmp_path / "tuned.safetensors", ENTRIES[1], budget=QUICK.budget, initial=path)
    assert judged("d1", tmp_path / "tuned.safetensors")[1] == "100%"
    save_model(load_model(path), tmp_path / "silent.safetensors")  # says nothing of what trained it
    train(two, tmp_path / "tuned.safetensors", ENTRIES[1], budget=QUICK.budget, initial=tmp_path / "silent.safetensors")
    for name in ("silent", "tuned"):
        assert judged("d1", tmp_path / f"{name}.safetensors")[1] == "unknown"
        assert "does not say what trained it" in capsys.readouterr().err


def test_an_interval_needs_three_seeds():
    assert np.isnan(evaluation.interval(np.array([0.5, 0.7])))
    # t(0.975, 2) = 4.303, deviation 0.1: 4.303 · 0.1 / sqrt 3
    assert evaluation.interval(np.array([0.5, 0.6, 0.7])) == pytest.approx(0.2484, abs=1e-4)


def test_csv_is_the_table_and_json_has_every_seed(two, tmp_path, capsys):
    words = ["tensor", "evaluate", str(two), "--models", "mean", "--splits", "by_task", "--seeds", "2", "--json"]
    run([*words, "--csv", str(tmp_path / "t.csv")])
    document = json.loads(capsys.readouterr().out)
    table = pd.read_csv(tmp_path / "t.csv")
    assert table["pairwise"].tolist() == [row["pairwise"] for row in document["summary"]] == [0.5]
    assert [row["seed"] for row in document["rows"]] == [0, 1]
    assert document["summary"][0]["pairwise_interval"] is None


def test_a_model_that_diverged_is_not_written(two, tmp_path, monkeypatch):
    monkeypatch.setattr("perfvec.tensor.models.mean.Mean.score_records", lambda *_: np.full(479, np.nan))
    with pytest.raises(InputError, match=r"^mean: the training diverged \(479 of 479 scores are no numbers\)"):
        train(two, tmp_path / "m.safetensors", ENTRIES[1], budget=QUICK.budget)
    assert list(tmp_path.iterdir()) == []


def run(words):
    try:
        cli.main(words)
    except SystemExit as stop:
        if stop.code:
            raise


def test_a_share_of_the_records_of_every_task_fine_tunes(two):
    protocol = replace(QUICK, splits=("cross_device",), seeds=1, share=0.1, selections=("records",))
    rows = evaluate(two, ENTRIES[:1], protocol).set_index("variant")
    assert list(rows.index) == ["zero-shot", "records 10%"]
    assert rows.loc["records 10%", "test_records"] == 239 - 23
    assert rows.loc["records 10%", "train_records"] == 240 + 23
    assert rows.loc["records 10%", "mape"] < rows.loc["zero-shot", "mape"]


@pytest.mark.slow
def test_a_saved_model_is_judged_as_it_is_and_fine_tuned(two, tmp_path, capsys):
    merge([two], tmp_path / "first.tensor.h5", devices=["d0"])
    train(tmp_path / "first.tensor.h5", tmp_path / "m.safetensors", ENTRIES[0], budget=QUICK.budget)
    protocol = replace(QUICK, device="d1", seeds=2, share=0.34, selections=("random", "records"))
    rows = evaluation.evaluate_saved(tmp_path / "m.safetensors", two, protocol)
    assert rows["variant"].tolist() == ["zero-shot", "random 34%", "records 34%"] * 2
    assert set(rows["model"]) == {"lightgbm (m)"}
    one, other = rows[rows["variant"] == "zero-shot"]["mape"]
    assert one == other
    trained = evaluate(two, ENTRIES[:1], replace(protocol, splits=("cross_device",), seeds=1))
    assert trained["mape"].tolist() == pytest.approx(rows["mape"].tolist()[:3])  # the same model, trained here
    known = evaluation.evaluate_saved(tmp_path / "m.safetensors", two, replace(protocol, device="d0", seeds=1))
    assert known["variant"].tolist()[0] == "known"
    command = ["tensor", "evaluate", str(two), "--saved", str(tmp_path / "m.safetensors"), "--device", "d2"]
    with pytest.raises(SystemExit, match="2"):
        cli.main(command)
    assert "no device 'd2'; there are: d0, d1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "D", "--device", "d1"], "--device is of the split cross_device; add it to --splits"),
        (["evaluate", "D", "--splits", ","], "no split"),
        (["train", "D", "-o", "O", "--criterion", "latency"], "--criterion says when to stop; it goes with --patience"),
        (["select", "D", "-o", "O", "--seeds", "5"], "--seeds is of --judge"),
        (["replay", "mlp", "--uarch", "zen4", "--kernels", "O", "--measure"], "--measure is of --model"),
    ],
)
def test_options_that_nothing_would_read_are_refused(two, tmp_path, capsys, words, message):
    given = [str({"D": two, "O": tmp_path / "out"}.get(word, word)) for word in words]
    with pytest.raises(SystemExit) as stop:
        cli.main(["tensor", *given])
    assert stop.value.code == 2 and message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_records_without_rows_of_what_a_model_reads_are_left_out_and_told(tmp_path, capsys):
    records = made_up(tasks=2, candidates=6)
    path = tmp_path / "mixed.tensor.h5"
    rows = records.features("statements").rows
    with DatasetWriter(path, provenance={"made": "up"}, features={"statements": "s1"}) as writer:
        device = writer.device(records.devices[0])
        at = writer.task(Task("t", "t", "other"))
        for index in range(6):
            features = {"statements": rows[index]} if index < 4 else {}
            schedule = writer.schedule(at, [index], kind="metaschedule", origin="test", features=features)
            writer.record(schedule, device, records.seconds[index], repeats=1)
    assert len(read_records(path)) == 6 and capsys.readouterr().err == ""
    assert read_records(path, ["statements"]).candidate.tolist() == [0, 1, 2, 3]
    assert f"{path}: 2 records without rows of statements are left out" in capsys.readouterr().err
    with DatasetWriter(tmp_path / "log.tensor.h5", provenance={}, features={"statements": "s1"}) as writer:
        schedule = writer.schedule(writer.task(Task("t", "t", "other")), [1], kind="metaschedule", origin="test")
        writer.record(schedule, writer.device(records.devices[0]), 1e-3, repeats=1)
    with pytest.raises(InputError, match="no schedule has rows of statements"):
        read_records(tmp_path / "log.tensor.h5", ["statements"])
