"""Kernels as programs: traced and represented, on machines, alone and as a network."""

from __future__ import annotations

from shutil import copytree

import numpy as np
import pytest

from analysis.questions.predict import predict
from analysis.tensor.programs import INDEX, NETWORK, ask, export, read, replay_machines
from analysis.tensor.replay import DEFAULT, Kernel
from perfvec.model import load_model
from perfvec.representation.vector import load_vector
from support.errors import InputError
from uarch.machine_files import load_machine

MACHINES = ("zen4", "cortex-a53")


@pytest.fixture(scope="module")
def model():
    return load_model()


@pytest.fixture(scope="module")
def kernels(graph, scheduled):
    from tracegen.tensor.simulated import require_simulated

    try:
        require_simulated("x86-64")
    except InputError as error:
        pytest.skip(str(error))
    return [Kernel(task, scheduled[key][0], DEFAULT) for key, task in graph.tasks.items()]


@pytest.fixture(scope="module")
def folder(graph, kernels, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    export(graph, kernels, model, folder, progress=False)
    return folder


@pytest.mark.slow
def test_the_network_is_the_sum_of_its_calls(folder, graph):
    exported = read(folder)
    vectors = [load_vector(folder / exported.vectors[call.task]) for call in graph.calls]
    network = load_vector(folder / NETWORK)
    np.testing.assert_allclose(network.vector, sum(vector.vector for vector in vectors))
    assert network.instructions == sum(vector.instructions for vector in vectors)
    assert network.interval_instructions.tolist() == [vector.instructions for vector in vectors]


@pytest.mark.slow
def test_a_kernel_is_one_call_of_it(folder, graph):
    exported = read(folder)
    product = load_vector(folder / exported.vectors[graph.calls[0].task])
    assert product.program == "matmul"
    assert 8 * 8 * 16 / 4 < product.instructions < 8 * 8 * 16 * 20  # multiplications; a startup would be 50,000 more


def test_one_stream_is_what_predict_says_of_the_network(folder, model):
    machines = [load_machine(name) for name in MACHINES]
    kernels, network = replay_machines(folder, model, machines, (1, 2))
    alone = predict(model, [load_vector(folder / NETWORK)], machines)
    one = network[network["streams"] == 1]
    assert one["uarch"].tolist() == list(MACHINES)
    np.testing.assert_allclose(one["seconds"], alone["seconds"])
    assert (network["seconds"] >= network["critical_path_s"] * (1 - 1e-12)).all()
    np.testing.assert_allclose(kernels.groupby("uarch")["share"].sum(), 1.0)


def test_the_answer_is_of_the_network_that_was_asked_for(folder, model):
    machines = [load_machine(name) for name in MACHINES]
    network = read(folder).network
    found = ask(network, folder, model, machines, (1, 2))
    assert len(found.json["network"]) == 2 * len(MACHINES)
    assert set(found.table["uarch"]) == set(MACHINES)
    with pytest.raises(InputError, match=f"holds the kernels of {network}, not of resnet18"):
        ask("resnet18", folder, model, machines, (1,))


def test_an_export_goes_on_with_the_vectors_that_are_there(folder, graph, kernels, model):
    exported = read(folder)
    names = sorted(exported.vectors.values())
    times = {name: (folder / name).stat().st_mtime_ns for name in names}
    (folder / names[0]).unlink()
    export(graph, kernels, model, folder, progress=False)
    again = {name: (folder / name).stat().st_mtime_ns for name in names}
    assert [name for name in names if times[name] != again[name]] == names[:1]


def test_another_schedule_has_a_vector_of_its_own(folder, graph, kernels, model, scheduled, tmp_path):
    copytree(folder, tmp_path / "k")
    key = next(key for key, found in scheduled.items() if found[0].mod.script() != found[-1].mod.script())
    others = [Kernel(one.task, scheduled[key][-1], DEFAULT) if one.task.key == key else one for one in kernels]
    export(graph, others, model, tmp_path / "k", progress=False)
    before, after = read(folder).vectors, read(tmp_path / "k").vectors
    assert [one for one in before if before[one] != after[one]] == [key]


def test_a_call_that_is_too_long_is_refused(graph, kernels, model, tmp_path):
    with pytest.raises(InputError, match="more than 100 instructions"):
        export(graph, kernels, model, tmp_path, max_instructions=100, progress=False)


def test_a_folder_without_kernels_is_told(tmp_path):
    with pytest.raises(InputError, match="export-kernels"):
        read(tmp_path)
    (tmp_path / INDEX).write_text('{"network": "n"}')
    with pytest.raises(InputError, match="damaged"):
        read(tmp_path)
