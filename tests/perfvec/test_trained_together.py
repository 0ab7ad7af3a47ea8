"""An encoder that is trained with the foundation model, on windows that are labelled on machines of their own."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from perfvec.machines.encoder import MachineEncoder
from perfvec.machines.features import features_of_machines
from perfvec.model import load_model, save_model
from perfvec.training import sampled_encoder
from perfvec.training import train as training
from perfvec.training.data import prepare, prepare_sampled
from perfvec.training.loss import difference_loss
from perfvec.training.ranks import Ranks
from perfvec.training.recipe import Recipe
from perfvec.training.split import Split
from perfvec.training.train import fit, train
from support.errors import InputError
from tests.latency_files import as_version_1
from tools.label_sampled import label_windows
from tracegen.decode import decode
from tracegen.features import get_schema
from tracegen.formats.latency import LatencyFile, LatencyWriter
from tracegen.formats.trace import Trace
from tracegen.label import label, last_touches
from uarch.configuration import flatten, machine_from_dict
from uarch.space import sample_pairs

RECIPE = Recipe(width=8, layers=1, batch_size=4, sampled_machines=4, instructions=4 * 288 * 12, seed=4)
SCHEMA = get_schema("default")


@pytest.fixture(scope="module")
def sampled(data, tmp_path_factory):
    """Latency files of the data's windows, six machines each."""
    folder = tmp_path_factory.mktemp("sampled")
    label_windows(data.traces, folder, latencies=data.latencies, windows=1, machines=6, count=3000, seed=7, pool=8)
    return folder


@pytest.mark.slow
def test_windows_begin_where_they_are_asked_for(data, tmp_path):
    label_windows(data.traces, tmp_path, latencies=None, windows=1, at=(0, 700), machines=2, count=600, seed=7, pool=8)
    starts: dict[str, list[int]] = {}
    for path in sorted(tmp_path.glob("*.latency.h5")):
        with LatencyFile(path) as file:
            starts.setdefault(file.trace, []).append(file.start)
    assert {tuple(sorted(of)) for of in starts.values()} == {(0, 700)}


@pytest.mark.slow
def test_other_traces_do_not_change_a_windows_machines(data, tmp_path):
    def machines(traces, name):
        folder = tmp_path / name
        label_windows(traces, folder, latencies=None, windows=2, machines=2, count=600, seed=7, pool=8)
        found = {}
        for path in sorted(folder.glob("*.latency.h5")):
            with LatencyFile(path) as file:
                found[path.name] = list(file.machines)
        return found

    last = sorted(data.traces.glob("*.trace.h5"))[-1]
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / last.name).symlink_to(last)
    few, all_of_them = machines(alone, "few"), machines(data.traces, "all")
    assert len(few) == 2 < len(all_of_them)
    assert all(all_of_them[name] == of for name, of in few.items())
    names = [machine.name for of in all_of_them.values() for machine in of]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_of_each_two_machines_the_second_differs_in_one_field():
    machines = sample_pairs(16, 3)
    assert machines == sample_pairs(16, 3)
    for first, second in zip(machines[::2], machines[1::2], strict=True):
        one, other = flatten(first.to_dict()), flatten(second.to_dict())
        assert one.keys() == other.keys()
        assert [field for field in one if field != "name" and one[field] != other[field]] == [
            second.name.removeprefix(f"{first.name}-")
        ]
        assert machine_from_dict(second.to_dict()) == second


def test_difference_loss_by_hand():
    error = torch.tensor([[[0.0, 0.1, 0.3, 0.3]], [[0.2, 0.3, 0.1, 0.3]]])  # means: 0.1, 0.2, 0.2, 0.3
    assert difference_loss(error).item() == pytest.approx(0.1**2)


@pytest.mark.slow
def test_windows_take_their_features_from_the_labels_they_lie_in(data, sampled, tmp_path):
    labels = prepare(data.traces, data.latencies, SCHEMA, tmp_path, progress=False)
    found = prepare_sampled(data.traces, sampled, SCHEMA, tmp_path, labels.shards, progress=False)
    alone = prepare_sampled(data.traces, sampled, SCHEMA, tmp_path / "alone", (), progress=False)
    assert len(found) == len(labels.shards)
    for one, other in zip(found, alone, strict=True):
        assert one.shard.static_id.path != other.shard.static_id.path
        a, b = one.shard, other.shard
        rows_a, rows_b = slice(a.lead, a.lead + len(a)), slice(b.lead, b.lead + len(b))
        assert (a.stored[rows_a] == b.stored[rows_b]).all()
        assert (a.static[a.static_id[rows_a]] == b.static[b.static_id[rows_b]]).all()
        with LatencyFile(a.latency_file) as file:
            assert (file.read(0, len(file)) == a.latency[0 : len(a)].T).all()
        assert one.features.shape[0] == len(one.machines) == 6
    again = prepare_sampled(data.traces, sampled, SCHEMA, tmp_path, (), progress=False)  # in the same folder
    assert [one.shard.mean.tolist() for one in again] == [one.shard.mean.tolist() for one in found]


@pytest.mark.slow
def test_a_window_with_a_latency_that_was_cut_is_left_out(data, sampled, tmp_path):
    first, *others = sorted(sampled.iterdir())
    with LatencyFile(first) as file:
        latency = file.read(0, len(file)).astype(np.uint32)
        latency[3, 70:90] = 1 << 20
        about = {name: getattr(file, name) for name in ("machines", "trace", "trace_digest", "start", "simulator")}
    folder = tmp_path / "cut"
    folder.mkdir()
    with LatencyWriter(folder / first.name, **about) as writer:
        writer.append(latency)
    for path in others:
        (folder / path.name).symlink_to(path)

    def prepared():
        return prepare_sampled(data.traces, folder, SCHEMA, tmp_path / "shards", (), progress=False)

    (whole,) = (one.shard for one in prepared() if one.shard.latency_file == str(folder / first.name))
    assert (whole.latency[0 : len(whole)] == latency.T).all()
    assert whole.mean == pytest.approx(latency.mean(axis=1))
    as_version_1(folder / first.name)
    assert len(prepared()) == len(others) >= 1
    for path in others:
        (folder / path.name).unlink()
    with pytest.raises(InputError, match="a latency was cut in every file"):
        prepared()


def test_labels_that_are_there_twice_are_refused(data, sampled, tmp_path):
    first = min(sampled.iterdir())
    for name in (first.name, f"again-{first.name}"):
        (tmp_path / name).symlink_to(first)
    for prepared in (
        lambda: prepare_sampled(data.traces, tmp_path, SCHEMA, tmp_path / "shards", (), progress=False),
        lambda: prepare(data.traces, tmp_path, SCHEMA, tmp_path / "shards", progress=False),
    ):
        with pytest.raises(InputError, match=r"the same labels as .*; remove one of them"):
            prepared()


def test_sampled_sequences_that_processes_cannot_share_are_refused(data, sampled, tmp_path):
    labels = prepare(data.traces, data.latencies, SCHEMA, tmp_path, progress=False)
    windows = prepare_sampled(data.traces, sampled, SCHEMA, tmp_path, labels.shards, progress=False)
    with pytest.raises(InputError, match="the 2 sequences of a batch that are of sampled machines cannot be shared"):
        fit(Split().divide(labels), SCHEMA, RECIPE, tmp_path / "c.pt", sampled=windows, ranks=Ranks(0, 4))


def test_a_window_before_the_labels_is_none_of_theirs(data, tmp_path):
    labels, folder = tmp_path / "labels", tmp_path / "windows"
    label(sorted(data.traces.iterdir())[:1], data.machines[:1], labels, start=30_000, progress=False)
    label_windows(
        data.traces, folder, latencies=labels, windows=1, at=(0, 40_000), machines=2, count=600, seed=7, pool=8
    )
    (path,) = folder.glob("*.latency.h5")
    with LatencyFile(path) as file:
        assert file.start == 40_000


@pytest.mark.slow
def test_runs_that_share_sampled_windows_make_each_once_at_the_same_time(data, sampled, tmp_path, monkeypatch):
    labels = prepare(data.traces, data.latencies, SCHEMA, tmp_path, progress=False)
    read, copied = LatencyFile.read, []

    def slowly(file, first, last):
        copied.append((file.path, first))
        time.sleep(0.02)
        return read(file, first, last)

    monkeypatch.setattr(LatencyFile, "read", slowly)
    with ThreadPoolExecutor(3) as pool:
        runs = [
            pool.submit(prepare_sampled, data.traces, sampled, SCHEMA, tmp_path, labels.shards, progress=False)
            for _ in range(3)
        ]
        found = [[one.shard.mean.tolist() for one in run.result()] for run in runs]
    assert found[0] == found[1] == found[2]
    assert len(copied) == len(set(copied)) == len(found[0])
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_the_encoder_learns_with_the_model_and_a_run_continues_bit_for_bit(data, sampled, tmp_path, monkeypatch):
    division = Split().divide(prepare(data.traces, data.latencies, SCHEMA, tmp_path / "work", progress=False))
    windows = prepare_sampled(data.traces, sampled, SCHEMA, tmp_path / "work", division.training.shards, progress=False)

    def run(checkpoint, stop=None):
        encoder = sampled_encoder.fresh(division.training.machines, windows, RECIPE)
        if stop is not None:
            monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
            monkeypatch.setattr(training, "save_checkpoint", stopping(stop))
        try:
            foundation = fit(division, SCHEMA, RECIPE, checkpoint, sampled=windows, together=encoder, progress=False)
        finally:
            monkeypatch.undo()
        return foundation.state_dict() | encoder.state_dict()

    def stopping(step):
        save = training.save_checkpoint

        def saving(path, identity, state):
            save(path, identity, state)
            if state.step == step:
                raise KeyboardInterrupt

        return saving

    expected = run(tmp_path / "whole.pt")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut.pt", stop=5)
    again = run(tmp_path / "cut.pt")
    assert expected.keys() == again.keys()
    assert all(torch.equal(expected[name], again[name]) for name in expected)
    fresh = sampled_encoder.fresh(division.training.machines, windows, RECIPE).state_dict()
    assert not torch.equal(fresh["basis"], expected["basis"])


@pytest.mark.slow
def test_a_model_has_that_encoder(data, sampled, tmp_path, monkeypatch):
    monkeypatch.setattr(sampled_encoder, "STEPS", 50)
    monkeypatch.setattr(sampled_encoder, "PAIRS", 20)
    path = tmp_path / "m.safetensors"
    model = train(
        data.traces,
        data.latencies,
        path,
        recipe=RECIPE,
        sampled_latencies=sampled,
        shards=tmp_path / "s",
        progress=False,
    )
    loaded = load_model(path)
    assert loaded.encoder is not None
    with LatencyFile(next(sampled.iterdir())) as file:
        machines = list(file.machines)
    np.testing.assert_allclose(loaded.encoder.vectors(machines), model.encoder.vectors(machines), rtol=1e-6)
    save_model(loaded, tmp_path / "again.safetensors")
    assert load_model(tmp_path / "again.safetensors").digest == loaded.digest
    assert loaded.encoder.outside(machines[0]) == []


@pytest.mark.slow
def test_nothing_held_out_trains(data, sampled, tmp_path):
    names = sorted(prepare(data.traces, data.latencies, SCHEMA, tmp_path / "s", progress=False).programs)
    with pytest.raises(InputError, match="every labelled program is held out"):
        only = tmp_path / "only"
        only.mkdir()
        for path in sampled.iterdir():
            if path.name.startswith(names[0]):
                (only / path.name).symlink_to(path)
        train(
            data.traces,
            data.latencies,
            tmp_path / "m.safetensors",
            recipe=RECIPE,
            split=Split(exclude=(names[0],)),
            sampled_latencies=only,
            shards=tmp_path / "s",
            progress=False,
        )


def test_last_touches_are_those_of_a_visit_to_every_line(data):
    stop = 20_000
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        found = last_touches(trace, instructions, stop)
        expected: dict[tuple[int, int], int] = {}  # line and kind, in the order of the last touch: dirty
        for chunk in trace.chunks(stop=stop):
            for k, here in enumerate(chunk.static_id.tolist()):
                first, length = int(instructions.address[here]), int(instructions.length[here])
                touched = [(line, 1, 0) for line in range(first >> 6, ((first + length - 1) >> 6) + 1)]
                for access in range(chunk.access_offset[k], chunk.access_offset[k + 1]):
                    begin, size = int(chunk.address[access]), max(int(chunk.size[access]), 1)
                    store = int(chunk.is_store[access])
                    touched += [(line, 0, store) for line in {begin >> 6, (begin + size - 1) >> 6}]
                for line, code, store in touched:
                    expected[line, code] = store | expected.pop((line, code), 0)
    wanted = np.array([line << 4 | code << 1 | dirty for (line, code), dirty in expected.items()], np.uint64)
    assert sorted(found) == sorted(wanted)
    place = {int(touch): k for k, touch in enumerate(found)}
    order = np.array([place[int(touch)] for touch in wanted])
    assert np.abs(np.argsort(np.argsort(order)) - np.arange(len(order))).max() <= 4  # of one instruction, in any order


@pytest.mark.slow
def test_with_frozen_weights_machines_alone_are_taught(data, sampled, tmp_path, monkeypatch):
    monkeypatch.setattr(sampled_encoder, "STEPS", 20)
    monkeypatch.setattr(sampled_encoder, "PAIRS", 20)
    near = tmp_path / "near"
    label_windows(
        data.traces,
        near,
        latencies=data.latencies,
        windows=1,
        machines=6,
        count=3000,
        seed=7,
        pool=8,
        near_presets=True,
    )

    def run(name, folder, **options):
        return train(
            data.traces,
            data.latencies,
            tmp_path / name,
            sampled_latencies=folder,
            shards=tmp_path / "s",
            progress=False,
            **{"recipe": RECIPE} | options,
        )

    first = run("first.safetensors", sampled)
    again = run("again.safetensors", near, initial=load_model(tmp_path / "first.safetensors"), frozen=True)
    for name, weights in first.foundation.state_dict().items():
        assert torch.equal(weights, again.foundation.state_dict()[name])
    with LatencyFile(next(near.iterdir())) as file:
        machines = list(file.machines)
    assert not np.allclose(first.encoder.vectors(machines), again.encoder.vectors(machines), rtol=1e-3)
    loaded = load_model(tmp_path / "again.safetensors")
    assert loaded.recipe["frozen"] and loaded.recipe["initial"] == load_model(tmp_path / "first.safetensors").digest
    with pytest.raises(InputError, match="give one"):
        run("none.safetensors", near, frozen=True)
    with pytest.raises(InputError, match="has other machines than the labels"):
        run("other.safetensors", near, initial=replace(loaded, machines=loaded.machines[::-1]), frozen=True)
    with pytest.raises(InputError, match="width differs"):
        run("wide.safetensors", near, initial=loaded, frozen=True, recipe=replace(RECIPE, width=16))
    with pytest.raises(InputError, match="leave --no-encoder out"):
        run("without.safetensors", near, initial=loaded, frozen=True, encoder=False)
    assert not [path for name in ("none", "other", "wide", "without") for path in tmp_path.glob(f"{name}*")]


@pytest.mark.slow
def test_a_model_lists_every_program_that_taught_it(data, sampled, tmp_path, monkeypatch):
    """Also those of sampled windows, and those that taught a frozen model's encoder."""
    monkeypatch.setattr(sampled_encoder, "STEPS", 5)
    monkeypatch.setattr(sampled_encoder, "PAIRS", 20)
    one, other = sorted(program.name for program in data.model.programs)
    recipe = replace(RECIPE, instructions=4 * 288)

    def run(**options):
        output = tmp_path / "m.safetensors"
        train(data.traces, output=output, recipe=recipe, shards=tmp_path / "s", progress=False, **options)
        model = load_model(output)
        return model, sorted(program.name for program in model.programs)

    half, names = run(latencies=data.latencies, split=Split(exclude=(other,)), sampled_latencies=sampled)
    assert names == [one] and half.recipe["held_programs"] == [other]
    whole, names = run(latencies=data.latencies, initial=half, frozen=True, sampled_latencies=sampled)
    assert names == [one, other] and whole.recipe["held_programs"] == []
    labels = tmp_path / "labels"
    labels.mkdir()
    for path in data.latencies.glob("*.latency.h5"):
        with LatencyFile(path) as file:
            if file.trace == one:
                (labels / path.name).symlink_to(path)
    _, names = run(latencies=labels, sampled_latencies=sampled)
    assert names == [one, other]
    held = Split(hold_machines=1)
    alike = tmp_path / "alike"  # the table's machines as sampled ones
    alike.mkdir()
    for path in data.latencies.glob("*.latency.h5"):
        (alike / path.name).symlink_to(path)
    with pytest.raises(InputError, match="a machine that is held out"):
        run(latencies=data.latencies, sampled_latencies=alike, split=held)
    some, names = run(latencies=data.latencies, row_latencies=alike, split=held)  # of which only its rows take theirs
    assert len(some.machines) == len(data.machines) - 1 and names == [one, other]
    alone = tmp_path / "alone"
    label_windows(data.traces, alone, latencies=data.latencies, windows=1, machines=1, count=3000, seed=7, pool=8)
    with pytest.raises(InputError, match="labels one machine"):
        run(latencies=data.latencies, sampled_latencies=alone)
    short = tmp_path / "short"
    label_windows(data.traces, short, latencies=data.latencies, windows=1, machines=2, count=200, seed=7, pool=8)
    with pytest.raises(InputError, match="labels only 200 instructions"):
        run(latencies=data.latencies, sampled_latencies=short)


def test_a_known_encoder_gets_inputs_that_change_nothing_yet(data):
    known = load_model().encoder
    machines = sample_pairs(8, 1)
    features = features_of_machines(machines)
    more = np.concatenate(
        [features[:, : len(known.mean)], np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2)], axis=1
    )
    wide = sampled_encoder.widened(known, more)
    assert len(wide.mean) == len(known.mean) + 2
    np.testing.assert_allclose(wide.encode(more), known.encode(features), rtol=1e-5, atol=1e-6)
    wide.linear.weight.data[:, len(known.mean)] = 1.0
    assert not np.allclose(wide.encode(more), known.encode(features), rtol=1e-2)


def test_a_known_encoder_tells_apart_what_lies_beyond_its_limit():
    """It was trained on divisions of 8 to 30 cycles a step; presets have 1, 2 or 3."""
    known = MachineEncoder(1, features=2, hidden=8, hinges=(0.0,))
    known.basis_mean.fill_(1.0)
    for layer in (known.linear, known.correction[0]):
        torch.nn.init.normal_(layer.weight)
    features = np.array([[0.5, -9.0], [0.5, -6.0], [1.0, 3.0]], np.float32)
    assert np.allclose(known.encode(features[:1]), known.encode(features[1:2]))  # both are cut off at -4
    found = sampled_encoder.reaching(known, features)
    assert found.scale.tolist() == [1.0, pytest.approx(4 / 9)]
    below = features * np.array([[1.0, 0.4]], np.float32)  # within the old limit all is as it was
    np.testing.assert_allclose(found.encode(below), known.encode(below), rtol=1e-5)
    assert not np.allclose(found.encode(features[:1]), found.encode(features[1:2]), rtol=1e-2)
