"""The graph of a network, and its replay beside the network itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.tensor.replay import (
    DEFAULT,
    Kernel,
    Measuring,
    assemble,
    measure_kernels,
    measure_network,
    predict,
    replay,
    without_database,
)
from perfvec.tensor.model_file import save_model
from support.errors import InputError
from tests.analysis.tensor.test_cost_model import DEVICE


def test_the_graph_has_the_calls_and_what_they_wait_for(graph):
    assert [call.name for call in graph.calls] == ["matmul", "softmax", "fused_matmul1_relu"]
    assert [call.predecessors for call in graph.calls] == [(), (0,), (0, 1)]
    assert len(graph.tasks) == 3 and set(graph.weights.values()) == {1}


def test_a_view_takes_no_time_and_hands_its_input_on():
    import torch
    from tvm.relax.frontend.torch import from_exported_program

    from analysis.tensor.graph import module_graph

    class Viewed(torch.nn.Module):
        def forward(self, x):
            return torch.matmul(torch.matmul(x, x).reshape(4, 16), torch.ones(16, 2))

    exported = torch.export.export(Viewed(), (torch.zeros(8, 8),))
    graph = module_graph(from_exported_program(exported), "viewed")
    kinds = [call.task is None for call in graph.calls]
    assert kinds.count(True) == 1
    view = kinds.index(True)
    last = len(graph.calls) - 1
    assert view in graph.calls[last].predecessors and graph.calls[view].predecessors


def test_predictions_add_up_over_calls_and_streams(graph, scheduled):
    kernels = [Kernel(task, scheduled[key][0], "database") for key, task in graph.tasks.items()]
    seconds = {call.task: float(2 + index) for index, call in enumerate(graph.calls)}
    found = assemble(graph, kernels, seconds, (1, 2), {key: 2 * value for key, value in seconds.items()})
    assert found.streams["predicted_s"].tolist() == [9.0, 9.0]  # each call waits for the one before
    assert found.streams["measured_s"].tolist() == [18.0, 18.0]
    assert found.critical_path_s == 9.0
    assert found.kernels["predicted_s"].tolist() == [4.0, 3.0, 2.0]
    assert found.kernels["error"].tolist() == [-0.5] * 3


def test_kernels_are_in_the_order_of_what_all_their_calls_take(graph, scheduled):
    """Five calls of 1 s come before one of 2 s."""
    names = [call.name for call in graph.calls]
    first = graph.calls[0].task
    often = {
        key: replace(task, networks={graph.network: 5 if key == first else 1}) for key, task in graph.tasks.items()
    }
    kernels = [Kernel(task, scheduled[key][0], "database") for key, task in graph.tasks.items()]
    seconds = {call.task: value for call, value in zip(graph.calls, (1.0, 2.0, 3.0), strict=True)}
    found = assemble(replace(graph, tasks=often), kernels, seconds, (1,))
    assert found.kernels["name"].tolist() == [names[0], names[2], names[1]]
    assert found.kernels["calls"].tolist() == [5, 1, 1]


@pytest.mark.slow
def test_a_network_runs_with_the_schedules_that_it_is_replayed_with(graph, trained, scheduled):
    model = trained("xgboost")
    kernels = without_database(graph, model, DEVICE, "predicted", 4, 0)
    predicted = predict(model, kernels, DEVICE, False)
    assert all(0.5e-6 < value < 10e-6 for value in predicted.values())  # it was taught 1 to 8 µs
    measuring = Measuring(budget_s=0.02, network_s=0.05)
    measured = measure_kernels(kernels, "x86-64-v3@here", measuring)
    network = measure_network(graph, kernels, "x86-64-v3@here", measuring)
    document = assemble(graph, kernels, predicted, (1,), measured, network).to_json()
    assert 0 < document["sum_of_kernels_s"] < 1e-2 and 0 < document["network_s"] < 1e-1
    assert document["error"] == pytest.approx(sum(predicted.values()) / document["network_s"] - 1)


def test_unscheduled_kernels_have_predictions_too(graph, trained):
    model = trained("xgboost")
    kernels = without_database(graph, model, DEVICE, "default", 4, 0)
    assert {kernel.source for kernel in kernels} == {DEFAULT}
    assert all(np.isfinite(value) for value in predict(model, kernels, DEVICE, False).values())


def test_a_model_that_only_ranks_is_refused(trained, tmp_path):
    save_model(trained("xgboost", rows="packed"), tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="only ranks"):
        replay("bert_tiny", tmp_path / "m.safetensors", "x86-64-v3")


@pytest.mark.parametrize(
    ("network", "device", "message"),
    [
        ("resnet19", "x86-64-v3", "no network 'resnet19'"),
        ("bert_tiny", "z80", "unknown device z80"),
        ("bert_tiny", "t4", "did not train this xgboost model"),
    ],
)
def test_wrong_names_are_one_line(network, device, message, trained, tmp_path):
    save_model(trained("xgboost"), tmp_path / "m.safetensors")
    with pytest.raises(InputError, match=message):
        replay(network, tmp_path / "m.safetensors", device)
