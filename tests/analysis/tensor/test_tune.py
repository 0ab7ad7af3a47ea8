"""A search of a two-kernel network: measured for real, in a database that TVM compiles without this toolkit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from analysis.tensor.history import read
from analysis.tensor.tune import Plan, open_database, tune, tune_graph
from perfvec.tensor.model_file import save_model
from support.errors import InputError

SMALL = {"round": 3, "population": 8, "generations": 1, "budget_s": 0.01}


@pytest.fixture(scope="module")
def search(graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    plan = Plan("two", "random", trials=9, **SMALL)
    return plan, folder, tune_graph(plan, graph, folder, progress=False)


@pytest.mark.slow
def test_every_trial_is_a_record_of_the_database(search):
    _, folder, found = search
    assert 3 <= found.trials <= 9
    assert len(open_database(folder).get_all_tuning_records()) == found.trials
    assert 0 < found.curve()["latency_s"].iloc[-1] < 1e-3


@pytest.mark.slow
def test_the_best_only_gets_better(search):
    latency = search[2].curve()["latency_s"].dropna().to_numpy()
    assert (np.diff(latency) <= 0).all()


def test_stock_tvm_compiles_the_database_and_the_result_is_right(search, graph):
    import tvm
    from tvm import relax
    from tvm.s_tir.meta_schedule.database import JSONDatabase
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax

    database = JSONDatabase(work_dir=str(search[1]), allow_missing=False)
    machine = relax.VirtualMachine(compile_relax(database, graph.module, tvm.target.Target("llvm"), None), tvm.cpu())
    random = np.random.default_rng(0)
    x, y = random.random((8, 16), np.float32), random.random((16, 8), np.float32) - 0.5
    product = x @ y
    softmax = np.exp(product - product.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    (found,) = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y))
    np.testing.assert_allclose(found.numpy(), np.maximum(product @ softmax, 0), rtol=1e-4, atol=1e-6)


def test_stock_tvm_finds_a_schedule_of_every_kernel(search, graph):
    import tvm
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.database import JSONDatabase, PyDatabase
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax

    database = JSONDatabase(work_dir=str(search[1]), allow_missing=False)
    found = {}

    @derived_object
    class Watched(PyDatabase):
        def query_tuning_record(self, mod, target, workload_name=None):
            record = database.query_tuning_record(mod, target, workload_name)
            found[str(workload_name)] = record is not None
            return record

    compile_relax(Watched(), graph.module, tvm.target.Target("llvm"), None)
    assert found == {call.name: True for call in graph.calls}


def test_what_the_search_has_no_schedule_of_is_measured_as_it_is(tvm, tmp_path):
    import torch
    from tvm.relax.frontend.torch import from_exported_program

    from analysis.tensor.graph import module_graph

    with torch.no_grad():  # VGG's last pooling, from one pixel to seven by seven
        exported = torch.export.export(torch.nn.AdaptiveAvgPool2d(7), (torch.zeros(1, 4, 1, 1),))
        pooling = module_graph(from_exported_program(exported), "pooling")
    plan = Plan("pooling", "random", device="x86-64-v3@here", trials=6, **SMALL)
    found = tune_graph(plan, pooling, tmp_path / "search", progress=False)
    assert [(one.trials, one.failed, one.exhausted) for one in found.rounds] == [(1, 0, True)]
    assert 0 < found.curve()["latency_s"].iloc[-1] < 1e-3
    (record,) = open_database(tmp_path / "search").get_all_tuning_records()
    assert not list(record.trace.insts)
    again = tune_graph(plan, pooling, tmp_path / "search", progress=False)
    assert again.trials == 1


def test_a_second_call_goes_on(search, graph):
    _, folder, first = search
    trials = first.trials
    again = tune_graph(Plan("two", "random", trials=trials + 3, **SMALL), graph, folder, progress=False)
    assert [one.task for one in again.rounds[: len(first.rounds)]] == [one.task for one in first.rounds]
    records = open_database(folder).get_all_tuning_records()
    assert trials <= again.trials == len(records)
    traces = [json.dumps(record.as_json()[0]) for record in records]
    assert len(set(traces)) == len(traces)  # nothing is measured twice


@pytest.mark.slow
def test_a_trained_model_searches(graph, trained, tmp_path):
    save_model(trained("xgboost"), tmp_path / "m.safetensors")
    plan = Plan("two", str(tmp_path / "m.safetensors"), trials=6, update_epochs=2, **SMALL)
    found = tune_graph(plan, graph, tmp_path / "search", progress=False)
    assert found.trials >= 3
    assert read(tmp_path / "search").header["model_digest"] == plan.identity()["model_digest"] != ""


def test_the_shipped_model_searches(graph, tmp_path):
    found = tune_graph(Plan("two", "shipped", trials=3, update_epochs=0, **SMALL), graph, tmp_path, progress=False)
    assert found.trials == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"network": "resnet19"}, "no network 'resnet19'"),
        ({"device": "z80"}, "no device 'z80'"),
        ({"model": "none.safetensors"}, "none.safetensors: no such file"),
    ],
)
def test_wrong_names_are_one_line(wrong, message, tmp_path):
    with pytest.raises(InputError, match=message):
        tune(Plan(**{"network": "bert_tiny", **wrong}), tmp_path / "search")
    assert not (tmp_path / "search").exists()


def test_an_empty_database_is_told(tmp_path):
    for name in ("database_workload.json", "database_tuning_record.json"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="the database is empty"):
        open_database(tmp_path)
    with pytest.raises(InputError, match="no database of MetaSchedule"):
        open_database(tmp_path / "none")
