"""The auto-tuner: finds a better network than a poor one, goes on where it was, writes what `evaluate` reads."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from analysis.cli import main as cli
from perfvec.tensor import autotune as tuning
from perfvec.tensor.autotune import SPACES, Range, autotune, merged
from perfvec.tensor.configuration import Entry, Tuning, read_entries
from perfvec.tensor.contract import Budget
from perfvec.tensor.evaluate import Protocol, evaluate
from perfvec.tensor.loop import Training
from perfvec.tensor.models import make
from perfvec.tensor.models.cdmpp import CDMPPParameters
from perfvec.tensor.records import read_records
from support.errors import InputError
from tests.perfvec.tensor.conftest import made_up
from tests.perfvec.tensor.test_evaluate import written

pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    torch.set_num_threads(1)
    return written(made_up(tasks=12, candidates=30), tmp_path_factory.mktemp("tune") / "d.tensor.h5")


def test_drawn_values_stand_at_their_dotted_names():
    fixed = {"width": 64, "training": {"batch": 32}}
    drawn = {"layers": 3, "training.learning_rate": 0.5, "training.losses.cmd": 0.25}
    assert merged(fixed, drawn, CDMPPParameters()) == {
        "width": 64,
        "layers": 3,
        "training": {"batch": 32, "learning_rate": 0.5, "losses": {"mse": 1.0, "mape": 0.3, "cmd": 0.25}},
    }
    assert fixed == {"width": 64, "training": {"batch": 32}}
    assert Training().learning_rate == 1e-3


@pytest.mark.parametrize("name", SPACES)
def test_every_space_names_parameters_of_its_model(name):
    """The smallest and the largest of all choices make a model."""
    for end in (0, -1):
        drawn = {}
        for key, choices in SPACES[name].items():
            value = choices[end] if isinstance(choices, tuple) else (choices.low, choices.high)[end]
            drawn[key] = int(value) if isinstance(choices, Range) and choices.whole else value
        make(name, merged({}, drawn, make(name).parameters))


@pytest.mark.slow
def test_a_tuned_model_is_better_and_a_configuration(data, tmp_path):
    entry = Entry("poor", "lightgbm", {"leaves": 2, "learning_rate": 0.001})
    found = autotune(data, tmp_path / "c.yaml", entry, trials=6, budget=Budget(epochs=3), work=tmp_path / "w.log")
    assert found.shortfall < found.before
    (tuned,) = read_entries(tmp_path / "c.yaml")
    assert (tuned.name, tuned.model, tuned.parameters) == ("poor-tuned", "lightgbm", found.parameters)


def test_a_tuning_goes_on_where_it_was(data, tmp_path, monkeypatch):
    entry = Entry("trees", "lightgbm")
    first = autotune(data, tmp_path / "c.yaml", entry, trials=3, budget=Budget(epochs=1), work=tmp_path / "w.log")
    count = []
    monkeypatch.setattr(tuning, "make", lambda *a, **k: count.append(1) or make(*a, **k))
    again = autotune(data, tmp_path / "c.yaml", entry, trials=5, budget=Budget(epochs=1), work=tmp_path / "w.log")
    assert len(count) == 1 + 2  # what the entry is, and two more trials
    assert (again.before, again.trials) == (first.before, 5)
    assert again.shortfall <= first.shortfall


def test_the_command(data, tmp_path, capsys):
    words = ["tensor", "autotune", str(data), "-o", str(tmp_path / "c.yaml"), "--model", "lightgbm"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*words, "--trials", "2", "--epochs", "1", "--json"])
    assert not stop.value.code
    assert json.loads(capsys.readouterr().out)["trials"] == 2


def test_an_evaluation_on_tasks_of_the_tuning_warns(data, tmp_path, capsys):
    autotune(data, tmp_path / "c.yaml", Entry("trees", "lightgbm"), trials=1, budget=Budget(epochs=1))
    (entry,) = read_entries(tmp_path / "c.yaml")
    assert entry.tuned == Tuning(read_records(data).digest, "by_task", 0, 0.1)
    told = "trees-tuned was tuned on tasks that are tested here: "
    fair = Protocol(splits=("by_task",), seeds=1, budget=Budget(epochs=1))
    for protocol, others in (
        (fair, ""),
        (replace(fair, splits=("within_task", "by_task"), seeds=2), "within_task 0, within_task 1, by_task 1\n"),
        (replace(fair, test=0.2), "by_task 0\n"),
    ):
        evaluate(data, [entry], protocol)
        printed = capsys.readouterr().err
        assert told + others in printed if others else told not in printed


def test_a_model_without_a_space_is_one_line(data, tmp_path):
    with pytest.raises(InputError, match="no space of hyper-parameters for 'mean'; there are those of cdmpp"):
        autotune(data, tmp_path / "c.yaml", Entry("mean", "mean"), trials=1, budget=Budget(epochs=1))


def test_another_entry_or_budget_in_the_same_file_is_another_tuning(data, tmp_path, monkeypatch):
    count = []
    monkeypatch.setattr(tuning, "make", lambda *a, **k: count.append(1) or make(*a, **k))
    for entry, epochs in (
        (Entry("a", "lightgbm"), 1),
        (Entry("b", "lightgbm", {"leaves": 4}), 1),
        (Entry("a", "lightgbm"), 2),
    ):
        count.clear()
        autotune(data, tmp_path / "c.yaml", entry, trials=2, budget=Budget(epochs=epochs), work=tmp_path / "w.log")
        assert len(count) == 3  # what the entry is, and two trials


@pytest.mark.parametrize("content", [b"\xff\xfe\x00\n", b"hello\n", b'{"a": 1}\n', b"[]\n"])
def test_a_foreign_work_file_is_one_line(data, tmp_path, content):
    (tmp_path / "w.log").write_bytes(content)
    with pytest.raises(InputError, match="is no journal of Optuna"):
        autotune(data, tmp_path / "c.yaml", Entry("a", "lightgbm"), trials=2, budget=Budget(), work=tmp_path / "w.log")


def test_a_space_of_which_no_draw_can_be_built_ends(data, tmp_path):
    """No width of the space is a multiple of three heads."""
    entry = Entry("three", "atformer", {"width": 48, "heads": 3, "feed": 16, "layers": 1})
    with pytest.raises(InputError, match="20 draws in a row cannot be built, the last: "):
        autotune(data, tmp_path / "best.yaml", entry, trials=2, budget=Budget(epochs=1), seed=0)
