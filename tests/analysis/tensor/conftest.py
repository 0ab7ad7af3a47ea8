"""A network of two kernels, and cost models that are trained on a few made-up latencies of its schedules."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture(scope="session")
def graph(tvm):
    """The product of 8 × 16 and 16 × 8, and its product with its own softmax, rectified (in the same kernel)."""
    import torch
    from tvm.relax.frontend.torch import from_exported_program

    from analysis.tensor.graph import module_graph
    from tracegen.tensor.installation import require_tvm

    require_tvm()

    class Two(torch.nn.Module):
        def forward(self, x, y):
            product = torch.matmul(x, y)
            return torch.relu(torch.matmul(product, torch.softmax(product, -1)))

    with torch.no_grad():
        exported = torch.export.export(Two(), (torch.zeros(8, 16), torch.zeros(16, 8)))
        return module_graph(from_exported_program(exported), "two")


@pytest.fixture(scope="session")
def scheduled(graph):
    """{task: schedules}: eight random ones of each."""
    from tvm.s_tir import Schedule, Trace

    from tracegen.tensor.candidates import REPLAY_TRACE, sample

    found = {}
    for key, task in graph.tasks.items():
        found[key] = []
        for candidate in sample(task, 8, REPLAY_TRACE, 1):
            schedule = Schedule(task.module())
            Trace.apply_json_to_schedule(json.loads(candidate.trace), schedule)
            found[key].append(schedule)
    return found


@pytest.fixture
def trained(scheduled):
    """A function (model, parameters) → a model that learned 1, 2, … µs of the schedules of each task, in order."""
    from analysis.tensor.features import features
    from perfvec.tensor.contract import Budget
    from perfvec.tensor.models import make
    from perfvec.tensor.records import Records, Task
    from tracegen.tensor.dataset import Device
    from uarch.devices import load_device

    def train(name, epochs=10, **parameters):
        model = make(name, parameters)
        every = [schedule for schedules in scheduled.values() for schedule in schedules]
        task = np.repeat(np.arange(len(scheduled)), [len(schedules) for schedules in scheduled.values()])
        records = Records(
            groups={model.kind: features(model.kind, every)},
            candidate=np.arange(len(every)),
            task=task,
            device=np.zeros(len(every), np.int64),
            seconds=np.concatenate([1e-6 * (1.0 + np.arange(len(schedules))) for schedules in scheduled.values()]),
            tasks=tuple(Task(key, "other") for key in scheduled),
            devices=(Device("x86-64-v3", load_device("x86-64-v3").to_dict()),),
        )
        model.fit(records, budget=Budget(epochs))
        return model

    return train
