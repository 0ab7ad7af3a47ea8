"""A trained model as MetaSchedule's cost model, called through TVM as the search calls it."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.tensor.features import features
from perfvec.tensor.contract import Budget
from support.errors import InputError
from tracegen.tensor.dataset import Device
from uarch.devices import load_device

DEVICE = Device("x86-64-v3", load_device("x86-64-v3").to_dict())


@pytest.fixture
def context(graph):
    """(TuneContext, task key) of the first task."""
    from tvm.s_tir.meta_schedule import TuneContext

    key = next(iter(graph.tasks))
    return TuneContext(graph.tasks[key].module(), target=_target(), num_threads=1), key


def _target():
    from tvm.target import Target

    return Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})


def candidates(schedules):
    from tvm.s_tir.meta_schedule import MeasureCandidate

    return [MeasureCandidate(schedule, []) for schedule in schedules]


def search_model(model, epochs=3, device=DEVICE):
    from analysis.tensor.cost_model import SearchModel

    return SearchModel(model, device, Budget(epochs))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("xgboost", "statements"), ("mlp", "ast"), ("xgboost", "primitives")])
def test_predictions_through_tvm_are_the_models_own(name, kind, trained, scheduled, context):
    model = trained(name, features=kind)
    tvm_context, key = context
    found = search_model(model).predict(tvm_context, candidates(scheduled[key]))
    rows = features(kind, scheduled[key]).rows
    assert len(rows) == len(scheduled[key]) and rows.length.min() > 0
    np.testing.assert_allclose(found, 1 / model.seconds(rows, DEVICE))


def test_slow_candidates_are_told_apart_too(trained, scheduled, context):
    """The search takes scores below 0 for 0; those of a task slower than what the model knows would all be."""
    tvm_context, key = context
    model = trained("xgboost")
    plain = search_model(model).predict(tvm_context, candidates(scheduled[key]))
    model.factors[DEVICE.name] = 1e6
    assert (plain > 0).all()
    np.testing.assert_allclose(search_model(model).predict(tvm_context, candidates(scheduled[key])), 1e-6 * plain)


def test_scores_without_latencies_keep_their_order(trained, scheduled, context):
    tvm_context, key = context
    model = trained("xgboost", rows="packed")
    rows = features(model.kind, scheduled[key]).rows
    found = search_model(model).predict(tvm_context, candidates(scheduled[key]))
    assert (found > 0).all()
    np.testing.assert_array_equal(
        np.argsort(found, kind="stable"), np.argsort(model.score(rows, DEVICE), kind="stable")
    )


def test_the_trained_model_ranks_before_anything_is_measured(trained, scheduled, context):
    tvm_context, key = context
    found = search_model(trained("xgboost", epochs=40)).predict(tvm_context, candidates(scheduled[key]))
    assert np.corrcoef(np.argsort(np.argsort(found)), -np.arange(len(found)))[0, 1] > 0.5  # taught: the first is best


def test_updates_change_what_it_predicts_and_failed_candidates_teach_nothing(trained, scheduled, context):
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    tvm_context, key = context
    model = search_model(trained("xgboost"), epochs=20)
    batch = candidates(scheduled[key])
    before = model.predict(tvm_context, batch)
    model.update(tvm_context, batch, [RunnerResult(None, "it crashed") for _ in batch])
    np.testing.assert_array_equal(model.predict(tvm_context, batch), before)
    slowest_first = [RunnerResult([1e-6 * (len(batch) - index)], None) for index in range(len(batch))]
    model.update(tvm_context, batch, slowest_first)
    after = model.predict(tvm_context, batch)
    assert after[-1] - after[0] > before[-1] - before[0]


def test_save_and_load_give_the_same_predictions(trained, scheduled, context, tmp_path):
    tvm_context, key = context
    first = search_model(trained("xgboost"))
    first.save(str(tmp_path / "m.safetensors"))
    second = search_model(trained("mean"))
    second.load(str(tmp_path / "m.safetensors"))
    batch = candidates(scheduled[key])
    np.testing.assert_array_equal(first.predict(tvm_context, batch), second.predict(tvm_context, batch))


def test_a_model_of_other_features_is_refused(trained):
    model = trained("xgboost")
    model.feature_version = "statements-0"
    with pytest.raises(InputError, match="version 'statements-0'"):
        model.check(features(model.kind, []))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["atformer", "atformer-m", "cdmpp", "attention-tuner"])
def test_the_papers_networks_rank_in_the_search_and_learn_from_it(name, trained, scheduled, graph, context):
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    from perfvec.tensor.records import base_kind, derived, operator_index
    from tracegen.tensor.statements import operator_class

    tvm_context, key = context
    small = {"width": 16, "heads": 2}
    sizes = {"atformer": {"feed": 32}, "cdmpp": {"feed": 32, "layers": 1, "hidden": 16}, "attention-tuner": {}}
    model = trained(name, epochs=2, **small, **sizes.get(name, sizes["atformer"]))
    search, batch = search_model(model, epochs=2), candidates(scheduled[key])
    before = search.predict(tvm_context, batch)
    assert (before > 0).all() and len(before) == len(batch)
    kind = operator_index(operator_class(graph.tasks[key].module()))
    group = derived(model.kind, features(base_kind(model.kind), scheduled[key]), np.full(len(batch), kind))
    score = model.score(group.rows, DEVICE)
    assert (np.argsort(before, kind="stable") == np.argsort(score, kind="stable")).all()
    search.update(tvm_context, batch, [RunnerResult([1e-6 * (index + 1)], None) for index in range(len(batch))])
    assert not np.array_equal(search.predict(tvm_context, batch), before)
