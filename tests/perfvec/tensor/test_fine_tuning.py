"""Fine-tuning goes as far as records that were left out say, and no farther."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfvec.tensor import fine_tuning
from perfvec.tensor.contract import Budget
from perfvec.tensor.fine_tuning import Step, fine_tune, first_records, task_folds
from perfvec.tensor.model_file import load_model, save_model
from perfvec.tensor.models import make
from tests.perfvec.tensor.conftest import made_up
from tracegen.tensor.dataset import Device

TREES = {"leaves": 15}


@pytest.fixture(scope="module")
def model():
    trees = make("lightgbm", TREES)
    trees.fit(made_up(tasks=12), budget=Budget(epochs=10))
    return trees


def on_a_new_device(seconds, seed=1):
    """Records of other tasks on a device that takes `seconds(records)` for each."""
    records = made_up(tasks=6, candidates=20, seed=seed)
    return replace(records, devices=(Device("new", {"kind": "cpu", "clock_ghz": 1.0}),), seconds=seconds(records))


def test_records_that_are_noise_teach_nothing(model):
    random = np.random.default_rng(0)
    copy = model.copy()
    new = on_a_new_device(lambda r: model.to_seconds(model.score_records(r)) * np.exp(random.normal(0, 0.5, len(r))))
    few = new.take(np.arange(0, len(new), 4))
    done = fine_tune(copy, few, budget=Budget(epochs=20))
    assert done.step == Step(0, False)
    assert sorted({step.passes for step in done.errors}) == [0, 2, 10, 20]
    assert done.errors[Step(20, False)] > done.errors[Step(0, False)]
    assert [device.name for device in copy.devices] == ["d0", "new"]
    assert np.array_equal(copy.score_records(new), model.score_records(new, zero_shot=True))


def test_a_device_three_times_as_slow_has_a_factor(model, tmp_path):
    copy = model.copy()
    new = on_a_new_device(lambda records: 3 * model.to_seconds(model.score_records(records)))
    chosen = np.isin(new.task, [0, 2, 3])
    done = fine_tune(copy, new.take(chosen), budget=Budget(epochs=20))
    assert done.step == Step(0, True)
    assert copy.factors == {"new": pytest.approx(3)}
    after = new.take(~chosen)
    assert copy.record_latencies(after) == pytest.approx(after.seconds)
    save_model(copy, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    rows = new.features("statements").rows
    assert np.array_equal(again.seconds(rows, "new"), copy.seconds(rows, "new"))
    assert again.seconds(rows, "new") == pytest.approx(3 * again.seconds(rows, "d0"))


def test_an_update_learns_latencies_divided_by_the_factor(model):
    new = on_a_new_device(lambda records: 3 * model.to_seconds(model.score_records(records)))
    copy = model.copy()
    copy.factors["new"] = 3.0
    copy.update(new, budget=Budget(epochs=3))
    assert copy.record_latencies(new) == pytest.approx(new.seconds, rel=1e-3)  # nothing was left to learn


def test_what_the_model_did_not_know_is_learned(model):
    copy = model.copy()

    def seconds(records):  # a feature that cost nothing before
        rows = records.features("statements").rows
        return records.seconds * 4.0 ** rows.values[rows.offset[:-1], 5]

    new = on_a_new_device(seconds)
    chosen = np.isin(new.task, [0, 2, 3, 5])
    done = fine_tune(copy, new.take(chosen), budget=Budget(epochs=20))
    assert done.step.passes > 0
    assert done.errors[done.step] < 0.8 * done.errors[Step(0, False)]


def test_three_records_are_too_few(model):
    copy = model.copy()
    new = on_a_new_device(lambda records: 3 * records.seconds)
    done = fine_tune(copy, new.take(np.arange(3)), budget=Budget(epochs=4))
    assert (done.step, done.errors) == (Step(0, False), {})
    assert copy.devices[-1].name == "new"


def test_a_model_that_only_ranks_is_judged_by_its_order():
    ranks = make("lightgbm", {**TREES, "rows": "packed"})
    ranks.fit(made_up(tasks=8), budget=Budget(epochs=5))
    done = fine_tune(ranks, on_a_new_device(lambda records: 3 * records.seconds), budget=Budget(epochs=4))
    assert all(0 <= error < 0.5 for error in done.errors.values())
    assert not any(step.factor for step in done.errors)


def test_an_untrained_model_is_trained():
    trees = make("lightgbm", TREES)
    done = fine_tune(trees, made_up(tasks=3), budget=Budget(epochs=2))
    assert (done.step, done.errors) == (Step(2, False), {})
    assert np.isfinite(trees.score_records(made_up(tasks=3))).all()


@pytest.mark.parametrize(("takes", "most"), [(None, 10.01), (2.0, 12.0)])
def test_the_seconds_are_of_all_parts_together(model, monkeypatch, takes, most):
    """Each training takes what it was given, or more; steps that no time is left for are not judged."""
    now, given = [0.0], []

    def update(self, records, *, budget, seed, source):
        if budget.epochs:
            given.append(budget.seconds)
            now[0] += takes or budget.seconds

    monkeypatch.setattr(fine_tuning.time, "process_time", lambda: now[0])
    monkeypatch.setattr(type(model), "update", update)
    done = fine_tune(
        model.copy(), on_a_new_device(lambda records: 3 * records.seconds), budget=Budget(epochs=8, seconds=10)
    )
    assert now[0] <= most
    assert sum(given) <= 10.01
    # of 1, 4 and 8 passes, each with and without a factor: parts of 10 s by their passes over two thirds, or all
    assert given[0] == pytest.approx(10 * 2 / 3 / (3 * 26 * 2 / 3 + 8))
    assert len(done.errors) == (8 if takes is None else 4)


def test_the_first_step_within_a_standard_error_of_the_best():
    best = np.array([0.2, 0.3, 0.1, 0.2])
    none, four = Step(0, False), Step(4, False)
    # mean of the differences 0.05, standard error 0.0577 / 2 = 0.0289
    assert first_records({none: best + np.array([0.0, 0.1, 0.0, 0.1]), four: best}) == four
    # mean 0.025, standard error 0.15 / 2 = 0.075
    assert first_records({none: best + np.array([-0.1, 0.1, -0.1, 0.2]), four: best}) == none
    assert first_records({none: np.array([0.5]), Step(2, False): np.array([0.4]), four: np.array([0.4])}) == Step(
        2, False
    )
    assert first_records({none: np.array([np.nan, 0.3]), four: np.array([np.nan, 0.2])}) == four
    assert first_records({none: best, Step(0, True): best, four: best}) == none


def test_a_task_is_left_out_whole():
    task = np.repeat(np.arange(7), 5)
    fold = task_folds(task, seed=3)
    assert all(len(set(fold[task == at])) == 1 for at in range(7))
    assert set(fold) == {0, 1, 2}
