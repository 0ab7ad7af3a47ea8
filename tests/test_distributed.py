"""The commands on a Dask cluster, a worker of which is killed: the same files as on this machine alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.budget import within
from analysis.cli import main as cli
from analysis.programs.elsewhere import elsewhere
from analysis.programs.simulable import SimulableTrace
from analysis.programs.span import Span
from perfvec.representation import distributed
from perfvec.representation import represent as representing
from perfvec.representation.distributed import represent_on_cluster
from perfvec.representation.represent import represent, represent_file
from perfvec.representation.vector import load_vector
from support.errors import InputError
from support.executor import connect
from tests.cluster import one_killed, workers
from tracegen import label as labelling
from tracegen.features.file import FeaturesFile
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.label import label
from tracegen.qemu import Execution, trace
from tracegen.suite import run
from uarch.machine_files import load_machine

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address():
    with workers(2) as address:
        yield address


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_labels(data, address, tmp_path, monkeypatch):
    monkeypatch.setattr(labelling, "BLOCK", 2)
    folder = tmp_path / "labels"
    with (
        connect(address, None) as cluster,
        one_killed(address, lambda: list(folder.glob(".*.parts/.*.part"))) as killed,
    ):
        outputs = label(sorted(data.traces.iterdir()), data.machines, folder, cluster=cluster, progress=False)
    assert killed
    assert names(folder) == [path.name for path in outputs] == ["matmul.latency.h5", "qsort.latency.h5"]
    for path in outputs:
        with LatencyFile(path) as found, LatencyFile(data.latencies / path.name) as local:
            assert found.machines == local.machines and found.trace_digest == local.trace_digest
            assert np.array_equal(found.read(0, len(found)), local.read(0, len(local)))
            assert np.array_equal(found.counters()[0], local.counters()[0])
            assert found.counters()[1] == local.counters()[1] and found.attribute("warmup", -1) == 0


def test_a_part_that_is_there_is_not_made_again(data, address, tmp_path, monkeypatch):
    monkeypatch.setattr(labelling, "BLOCK", 2)
    calls = []

    class Refusing:
        def map(self, function, items, needs=lambda item: ()):
            calls.append(len(items))
            for number, item in enumerate(items[:2]):
                yield number, function(item)
            raise InputError("enough")

    class Counting:
        def map(self, function, items, needs=lambda item: ()):
            calls.append(len(items))
            for number, item in enumerate(items):
                yield number, function(item)

    path = data.traces / "qsort.trace.h5"
    with pytest.raises(InputError, match="enough"):
        label([path], data.machines, tmp_path, cluster=Refusing(), progress=False)
    label([path], data.machines, tmp_path, cluster=Counting(), progress=False)
    assert calls == [3, 1]
    with LatencyFile(tmp_path / "qsort.latency.h5") as found, LatencyFile(data.latencies / "qsort.latency.h5") as local:
        assert np.array_equal(found.read(0, len(found)), local.read(0, len(local)))


def test_a_worker_of_another_release_labels_nothing(data, tmp_path):
    class Older:
        def map(self, function, items, needs=lambda item: ()):
            for number, item in enumerate(items):
                yield number, function(replace(item, simulator="embedded 1"))  # as an older caller asks for

    with pytest.raises(InputError, match=r"a worker has embedded \d+, the caller embedded 1; install the same release"):
        label([data.traces / "qsort.trace.h5"], data.machines, tmp_path, cluster=Older(), progress=False)
    assert not list(tmp_path.rglob("*.h5"))


def test_traces_of_workloads(address, tmp_path):
    here, there = tmp_path / "a", tmp_path / "b"
    chosen = ["k_queens", "k_life"]
    run(chosen, here, 300_000, progress=False)
    with connect(address, None) as cluster, one_killed(address, lambda: list(there.glob(".*.work/*"))) as killed:
        traced = run(chosen, there, 300_000, cluster=cluster, progress=False)
    assert killed
    assert traced.failures == {} and traced.instructions == dict.fromkeys(chosen, 300_000)
    assert names(there) == names(here)
    for name in chosen:
        with Trace(here / f"{name}.trace.h5") as local, Trace(there / f"{name}.trace.h5") as found:
            assert np.array_equal(found.address, local.address)
            assert all(
                np.array_equal(a.static_id, b.static_id) for a, b in zip(found.chunks(), local.chunks(), strict=True)
            )


def test_features_of_several_traces(data, address, tmp_path, capsys):
    traces = sorted(str(path) for path in data.traces.iterdir())
    command(["features", *traces, "-o", str(tmp_path / "here")])
    with one_killed(address, lambda: list((tmp_path / "there").glob(".*.part"))) as killed:
        command(["features", *traces, "-o", str(tmp_path / "there"), "--scheduler", address])
    assert killed
    assert names(tmp_path / "there") == names(tmp_path / "here") == ["matmul.features.h5", "qsort.features.h5"]
    for name in names(tmp_path / "here"):
        local, found = FeaturesFile(tmp_path / "here" / name), FeaturesFile(tmp_path / "there" / name)
        for one, other in zip(local.read(0, len(local)), found.read(0, len(found)), strict=True):
            assert np.array_equal(one, other)


def test_vectors_in_tasks(data, address, tmp_path, monkeypatch):
    for module in (representing, distributed):
        monkeypatch.setattr(module, "INTERVAL", 8192)
    monkeypatch.setattr(distributed, "CHUNKS_PER_TASK", 2)
    traces = sorted(data.traces.iterdir())
    outputs = [tmp_path / f"{path.name}.vector.npz" for path in traces]
    with (
        connect(address, None) as cluster,
        one_killed(address, lambda: list(tmp_path.glob(".*.features.h5"))) as killed,
    ):
        vectors = represent_on_cluster(
            data.model_file, traces, outputs, cluster, max_instructions=50_000, progress=False
        )
    assert killed
    assert names(tmp_path) == [output.name for output in outputs]
    for path, output, vector in zip(traces, outputs, vectors, strict=True):
        local = represent(data.model, path, max_instructions=50_000, progress=False)
        assert np.array_equal(vector.vector, local.vector)
        assert np.array_equal(vector.interval_vectors, local.interval_vectors)
        assert vector.interval_instructions.tolist() == local.interval_instructions.tolist() == [8192] * 6 + [848]
        assert np.array_equal(load_vector(output).vector, local.vector)


def test_a_stopped_run_in_tasks_continues_here_and_there(data, tmp_path, monkeypatch):
    monkeypatch.setattr("perfvec.representation.kept_intervals.EVERY_S", 0.0)
    for module in (representing, distributed):
        monkeypatch.setattr(module, "INTERVAL", 8192)
    monkeypatch.setattr(distributed, "CHUNKS_PER_TASK", 2)
    made = []

    class Stopping:
        """Gives the third task before the second, and not the rest."""

        def map(self, function, items, needs=lambda item: ()):
            order = range(len(items)) if len(items) < 3 else (0, 2, 1)
            for number in order:
                made.append(items[number])
                yield number, function(items[number])
            if len(items) > 3:
                raise InputError("stopped")

    trace, output = data.traces / "qsort.trace.h5", tmp_path / "v.vector.npz"
    local = represent(data.model, trace, progress=False)
    with pytest.raises(InputError, match="stopped"):
        represent_on_cluster(data.model_file, [trace], [output], Stopping(), progress=False)
    assert names(tmp_path) == [".v.vector.npz.checkpoint", ".v.vector.npz.features.h5"]
    made.clear()
    found = represent_on_cluster(data.model_file, [trace], [output], Stopping(), progress=False)[0]
    assert [task.begin for task in made] == [6 * 8192] and np.array_equal(found.vector, local.vector)
    assert names(tmp_path) == ["v.vector.npz"]


@pytest.mark.parametrize("kind", ["trace", "live-points", "own live-points"])
def test_a_sweep(data, address, tmp_path, monkeypatch, kind):
    path = tmp_path / "qsort.trace.h5"
    path.write_bytes((data.traces / "qsort.trace.h5").read_bytes())
    words = ["--vary", "l2.size_kib=256,512,1024", "--vary", "pipeline.rob_entries=96:192:24", "--base", "base"]
    words += ["--budget", "1000"]
    if kind == "live-points":
        command(["live-points", str(path), "--no-vector", "--units", "64", "-o", str(tmp_path / "q.livepoints.h5")])
        path = tmp_path / "q.livepoints.h5"
    elif kind == "own live-points":
        monkeypatch.setattr(within, "LEAST_SAMPLED", 1000)
        monkeypatch.setattr(within, "RATE", 1e-3)
    command(["sweep", str(path), *words, "--csv", str(tmp_path / "here.csv")])
    command(["sweep", str(path), *words, "--scheduler", address, "--csv", str(tmp_path / "there.csv")])
    here, there = ((tmp_path / name).read_text() for name in ("here.csv", "there.csv"))
    assert here == there and here.count(",simulated,") == 15


def test_a_worker_that_sees_another_program_simulates_nothing(data, tmp_path):
    path = tmp_path / "qsort.trace.h5"
    path.write_bytes((data.traces / "qsort.trace.h5").read_bytes())

    class Here:
        workers = 2

        def map(self, function, items, needs=lambda item: ()):
            yield from ((number, function(item)) for number, item in enumerate(items))

    far = elsewhere(SimulableTrace(path), Here())
    machines = [load_machine("base"), load_machine("zen4"), load_machine("cortex-a53")]
    assert np.array_equal(far.simulate(machines).cycles, SimulableTrace(path).simulate(machines).cycles)
    assert len(far.simulate([]).cycles) == 0
    far = elsewhere(SimulableTrace(path, Span(count=1000)), Here())
    path.write_bytes((data.traces / "matmul.trace.h5").read_bytes())
    with pytest.raises(InputError, match=r"qsort\.trace\.h5: a worker sees another program there"):
        far.simulate(machines)


def test_another_model_on_a_worker_is_named(data):
    with pytest.raises(InputError, match="another model on a worker"):
        distributed.same_model(data.model_file, "0" * 64)


def test_the_command_represents_several_traces(data, address, tmp_path, capsys):
    traces = sorted(str(path) for path in data.traces.iterdir())
    words = ["--model", str(data.model_file), "-o", str(tmp_path / "v"), "--max-instructions", "20000"]
    command(["represent", *traces, *words, "--scheduler", address])
    assert "qsort, 20,000 instructions" in capsys.readouterr().err
    represent_file(data.model, traces[1], tmp_path / "q.vector.npz", max_instructions=20_000)
    assert np.array_equal(
        load_vector(tmp_path / "v" / "qsort.vector.npz").vector, load_vector(tmp_path / "q.vector.npz").vector
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["represent", "TRACE", "-o", "v", "--sample", "auto", "--scheduler", "tcp://h:1"], "for exact vectors"),
        (["represent", "TRACE", "TRACE", "-o", "v"], "two traces are called 'qsort'"),
        (["features", "-o", "f", "--scheduler", "tcp://h:1", "--", "true"], "a program runs on this machine"),
        (["label", "TRACE", "-o", "l", "--presets", "--simulator", "gem5", "--cluster", "c"], "cannot read"),
    ],
)
def test_what_does_not_go_together_is_one_line(data, tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    trace = str(data.traces / "qsort.trace.h5")
    with pytest.raises(SystemExit) as left:
        cli.main([trace if word == "TRACE" else word for word in words])
    assert left.value.code == 2 and says in capsys.readouterr().err


def command(words: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == 0


def test_a_trace_that_ends_too_early_is_told_and_left_out(data, tmp_path, capsys):
    short, long = tmp_path / "short.trace.h5", data.traces / "qsort.trace.h5"
    command = [str(data.traces.parent / "qsort"), "3000"]
    trace(Execution(command, stdout=2, max_instructions=5000), short, progress=False)
    capsys.readouterr()
    (output,) = label([short, long], data.machines[:1], tmp_path, start=5000, count=500, workers=1, progress=False)
    assert output.name == "qsort-5000.latency.h5"
    assert capsys.readouterr().err == f"{short}: ends before instruction 5000; left out\n"


def test_what_cannot_be_labelled_leaves_no_folder(data, tmp_path):
    (tmp_path / "broken.trace.h5").write_text("nothing")
    whole = data.traces / "qsort.trace.h5"
    for traces, start, told in (([whole, tmp_path / "broken.trace.h5"], 0, "broken"), ([whole], 1 << 40, "nothing to")):
        with pytest.raises(InputError, match=told):
            label(traces, data.machines[:1], tmp_path / "labels", start=start, progress=False)
        assert not (tmp_path / "labels").exists()
