"""Typed engines and the bound of memory in a replay, on a graph written by hand. No TVM."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from analysis.tensor.graph import Call, Graph
from analysis.tensor.replay import Kernel, assemble, engine_of, memory_bound, parse_engines, parse_streams
from analysis.tensor.tune import largest
from support.errors import InputError
from tracegen.tensor.dataset import Device
from tracegen.tensor.tasks import Task

DEVICE = Device("cpu", {"l3_kib": 1024})


def task(key, flops, *shapes):
    return Task(key, key, tuple(("float32", shape) for shape in shapes), flops, "", {"n": 1})


def test_what_only_moves_data_is_copied():
    assert engine_of(task("concatenate", 0.0, (4, 4))) == "copy"
    assert engine_of(task("matmul", 128.0, (4, 4))) == "compute"
    assert engine_of(task("unknown", float("nan"), (4, 4))) == "compute"


def test_copies_run_beside_computations():
    """matmul a (4 s) and b (3 s), the copy c (2 s) of a's result: beside b on an engine of its own."""
    tasks = {key: task(key, flops, (2, 2)) for key, flops in (("a", 1.0), ("b", 1.0), ("c", 0.0))}
    calls = (Call("a", "a", ()), Call("c", "c", (0,)), Call("view", None, (1,)), Call("b", "b", (0,)))
    graph = Graph("n", SimpleNamespace(), calls, tasks)
    kernels = [Kernel(each, None, "database") for each in tasks.values()]
    seconds = {"a": 4.0, "b": 3.0, "c": 2.0}
    engines = [{"compute": 1, "copy": 1}]
    found = assemble(graph, kernels, seconds, (1,), {key: 10 * each for key, each in seconds.items()}, engines=engines)
    assert found.streams["predicted_s"].tolist() == [9.0]
    assert found.engines.to_dict("records") == [{"engines": "compute=1,copy=1", "predicted_s": 7.0, "measured_s": 70.0}]
    assert found.to_json()["engines"][0]["predicted_s"] == 7.0
    assert str(found.result()).splitlines()[-2:] == [
        "compute=1,copy=1            7          70",
        "critical path 7000.000 ms",
    ]
    assert set(found.kernels["engine"]) == {"compute", "copy"}


def test_engines_as_they_are_written():
    assert parse_engines("compute=2,copy=1") == {"compute": 2, "copy": 1}
    for text in ("compute=2", "compute=0,copy=1", "compute=2,gpu=1", "compute=1,copy=x", "copy=1,copy=2"):
        with pytest.raises(InputError, match=f"--engines {text}"):
            parse_engines(text)


def test_streams_as_they_are_written():
    assert parse_streams("1, 4") == [1, 4]
    for text in ("0", "1,0", "1,x", ""):
        with pytest.raises(InputError, match=f"--streams {text}: expected numbers of at least 1"):
            parse_streams(text)


def test_a_kernel_larger_than_the_cache_takes_what_memory_takes():
    large, small = task("dense", 1.0, (1, 25088), (25088, 4096), (1, 4096)), task("small", 1.0, (256, 256))
    size = 4 * (25088 + 25088 * 4096 + 4096)
    assert memory_bound(large, DEVICE, 10.0) == pytest.approx(size / 1e10)
    assert memory_bound(small, DEVICE, 10.0) == 0.0


def test_the_tasks_of_most_flops_are_searched():
    """FLOPs of an inference: of a task that is called often, and of one that counts none."""
    made = {key: task(key, flops, (2, 2)) for key, flops in (("a", 5.0), ("b", 2.0), ("c", float("nan")), ("d", 7.0))}
    made["b"] = replace(made["b"], networks={"n": 10})
    graph = Graph("n", SimpleNamespace(), (), made)
    assert list(largest(graph, 2).tasks) == ["b", "d"]
    assert list(largest(graph, 9).tasks) == list(made)
