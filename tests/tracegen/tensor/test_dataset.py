"""The dataset file: what is written is read; a schedule is stored once; damage and nonsense are one line."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from support.errors import InputError
from tests.digests import dataset_digest
from tracegen.tensor.dataset import (
    Dataset,
    DatasetWriter,
    Device,
    Outcome,
    Task,
    columns,
    history,
    latency,
    merge,
    summary,
)

FEATURES = {"statements": "s1", "ast": "a1"}


def write(path, *, tasks=("a", "b"), device="cpu", seconds=1e-3, features=True, parameters=None):
    """Two schedules a task, each with as many rows of features as its index, on one device."""
    with DatasetWriter(path, provenance={"by": "test"}, features=FEATURES if features else None) as writer:
        on = writer.device(Device(device, parameters or {"cores": 2}))
        for name in tasks:
            task = writer.task(Task(name, f"task {name}", "dense", [[1, 2]], 8.0, {"net": 3}))
            for k in range(2):
                rows = writer.schedules
                values = np.full((rows, 3), rows, np.float32)
                given = {"statements": values, "ast": (values[:, :2], np.arange(rows))} if features else None
                schedule = writer.schedule(task, [["SP", name, k]], kind="ansor", origin="log", features=given)
                writer.record(schedule, on, seconds * (1 + schedule), spread=0.5, repeats=4)
        writer.record(schedule, on, outcome=Outcome.TIMEOUT)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("dataset") / "d.tensor.h5")


def test_what_is_written_is_read(file):
    with Dataset(file) as data:
        assert data.provenance == {"by": "test"}
        assert data.groups == FEATURES
        assert data.tasks.iloc[1].to_dict() == {
            "key": "b",
            "name": "task b",
            "operator": "dense",
            "shape": [[1, 2]],
            "flops": 8.0,
            "networks": {"net": 3},
        }
        assert data.devices.iloc[0].to_dict() == {"name": "cpu", "parameters": {"cores": 2}}
        assert data.schedules()["task"].tolist() == [0, 0, 1, 1]
        assert set(data.schedules()["origin"]) == {"log"}
        assert [json.loads(steps) for steps in data.steps([3, 0])] == [[["SP", "b", 1]], [["SP", "a", 0]]]
        table = data.table()
        assert table["seconds"].tolist() == pytest.approx([0.001, 0.002, 0.003, 0.004])
        assert table["task"].tolist() == [0, 0, 1, 1]
        failed = data.table(failed=True).iloc[-1]
        assert failed["error"] == Outcome.TIMEOUT and math.isnan(failed["seconds"])
        assert data.digest == dataset_digest(data.path)


def test_a_group_of_which_no_schedule_has_rows_is_there_and_empty(tmp_path):
    with DatasetWriter(tmp_path / "d.tensor.h5", provenance={}, features=FEATURES) as writer:
        writer.schedule(writer.task(Task("a", "a")), [["SP"]], kind="ansor", origin="log")
    with Dataset(tmp_path / "d.tensor.h5") as data:
        assert data.groups == FEATURES
        assert data.features("statements").length.tolist() == data.features("ast").length.tolist() == [0]
        assert data.digest == dataset_digest(data.path)


def test_ragged_rows_come_in_the_order_asked_for(file):
    with Dataset(file) as data:
        rows = data.features("statements", [3, 0, 1, 3])
        assert rows.length.tolist() == [3, 0, 1, 3]
        assert rows[3].tolist() == [[3.0] * 3] * 3
        ast = data.features("ast")
        assert ast.position.tolist() == [0, 0, 1, 0, 1, 2]
        assert ast.values.shape == (6, 2)
        with pytest.raises(InputError, match="has no features 'primitives' \\(there: statements, ast\\)"):
            data.features("primitives")
        with pytest.raises(InputError, match="9 was asked for"):
            data.steps([9])


def test_the_same_schedule_is_stored_once(tmp_path):
    with DatasetWriter(tmp_path / "d.tensor.h5", provenance={}) as writer:
        first, second = writer.task(Task("a", "a")), writer.task(Task("b", "b"))
        steps = [["CI", 1]]
        assert writer.find(first, steps) is None
        one = writer.schedule(first, steps, kind="ansor", origin="log")
        assert writer.schedule(first, json.dumps(steps, separators=(",", ":")), kind="ansor", origin="log") == one
        assert writer.find(first, steps) == one
        assert writer.schedule(second, steps, kind="ansor", origin="log") != one


def test_more_rows_than_a_block(tmp_path, monkeypatch):
    """Chunks that are flushed while writing and read in runs give the same as one chunk."""
    monkeypatch.setattr(columns, "BUFFER", 1 << 12)
    monkeypatch.setattr(columns, "CHUNK_ROWS", 64)
    numbers = np.random.default_rng(4)
    lengths = numbers.integers(0, 9, 500)
    values = [numbers.normal(size=(n, 7)).astype(np.float32) for n in lengths]
    with DatasetWriter(tmp_path / "d.tensor.h5", provenance={}, features={"statements": "1"}) as writer:
        task = writer.task(Task("a", "a"))
        for k, rows in enumerate(values):
            writer.schedule(task, [k] * k, kind="ansor", origin="x", features={"statements": rows})
    with Dataset(tmp_path / "d.tensor.h5") as data:
        wanted = numbers.integers(0, 500, 300)
        rows = data.features("statements", wanted)
        for at, index in enumerate(wanted):
            np.testing.assert_array_equal(rows[at], values[index])
        assert [json.loads(text) for text in data.steps(wanted)] == [[k] * k for k in wanted]
        assert data.digest == dataset_digest(data.path)


def test_merge_joins_tasks_devices_and_schedules(tmp_path):
    write(tmp_path / "1.tensor.h5")
    write(tmp_path / "2.tensor.h5", tasks=("b", "c"), device="gpu", seconds=1e-5)
    merge([tmp_path / "1.tensor.h5", tmp_path / "2.tensor.h5"], tmp_path / "all.tensor.h5")
    with Dataset(tmp_path / "all.tensor.h5") as data:
        assert data.tasks["key"].tolist() == ["a", "b", "c"]
        assert data.devices["name"].tolist() == ["cpu", "gpu"]
        assert data.schedule_count == 6
        both = data.table()[lambda frame: frame["task"] == 1].groupby("schedule")["device"].apply(set)
        assert both.tolist() == [{0, 1}, {0, 1}]
        assert data.features("statements").length.tolist() == [0, 1, 2, 3, 2, 3]
        assert summary(data)[0]["failures"] == {"timeout": 2}
        assert [part["file"] for part in data.provenance["merged"]] == ["1.tensor.h5", "2.tensor.h5"]


def test_merge_refuses_one_name_for_two_devices(tmp_path):
    write(tmp_path / "1.tensor.h5")
    write(tmp_path / "2.tensor.h5", parameters={"cores": 64})
    with pytest.raises(InputError, match="'cpu' comes with two different sets"):
        merge([tmp_path / "1.tensor.h5", tmp_path / "2.tensor.h5"], tmp_path / "all.tensor.h5")
    assert not (tmp_path / "all.tensor.h5").exists()


def test_what_cannot_be_is_refused_and_leaves_no_file(tmp_path):
    def attempt(act, match):
        with (
            pytest.raises(InputError, match=match),
            DatasetWriter(tmp_path / "d.tensor.h5", provenance={}, features={"statements": "1"}) as writer,
        ):
            writer.task(Task("a", "a"))
            writer.device(Device("cpu"))
            writer.schedule(0, [1], kind="ansor", origin="x", features={"statements": np.zeros((1, 3))})
            act(writer)
        assert list(tmp_path.iterdir()) == []

    attempt(lambda writer: writer.record(0, 0, -1.0), "a latency of -1.0 s")
    attempt(lambda writer: writer.record(0, 0, math.inf), "a latency of inf s")
    attempt(lambda writer: writer.record(7, 0, 1.0), "schedule 7 on device 0")
    attempt(lambda writer: writer.schedule(3, [], kind="ansor", origin="x"), "no task 3")
    attempt(lambda writer: writer.schedule(0, [], kind="halide", origin="x"), "unknown kind of schedule 'halide'")
    for values, match in ((np.zeros((1, 4)), r"\[rows, 3\] expected"), (np.full((1, 3), np.nan), "not all finite")):
        attempt(
            lambda writer, values=values: writer.schedule(
                0, [], kind="ansor", origin="x", features={"statements": values}
            ),
            match,
        )
    with pytest.raises(InputError, match="unknown operator class 'magic'"):
        Task("a", "a", "magic")


def test_damage_is_told_in_one_line(file, tmp_path):
    """Changed or missing bytes are refused by the seal, whatever they are."""
    content, numbers = file.read_bytes(), random.Random(3)
    broken = tmp_path / "b.tensor.h5"
    for _ in range(200):
        data = bytearray(content)
        at = numbers.randrange(len(data))
        if numbers.random() < 0.3:
            data = data[:at]
        else:
            data[at] ^= 1 << numbers.randrange(8)
        broken.write_bytes(data)
        with pytest.raises(InputError) as error:
            Dataset(broken)
        assert str(broken) in str(error.value) and "\n" not in str(error.value)


def test_latency_is_the_median_and_the_quartiles_distance():
    assert latency([1.0, 2.0, 3.0, 4.0, 10.0]) == (3.0, pytest.approx(2 / 3), 5)
    assert latency([7.0]) == (7.0, 0.0, 1)
    times = np.random.default_rng(1).random(10) + 1
    low, middle, high = np.percentile(times, (25, 50, 75))
    assert latency(times) == (pytest.approx(middle), pytest.approx((high - low) / middle), 10)


def test_some_devices_are_taken_out_of_a_merged_file_as_they_were(tmp_path):
    one, two, both = (tmp_path / f"{name}.tensor.h5" for name in ("1", "2", "all"))
    write(one)
    write(two, tasks=("b", "c"), device="sim:x", seconds=1e-5)
    merge([one, two], both)
    merge([both], tmp_path / "cpu.tensor.h5", devices=["cpu"])
    merge([both], tmp_path / "sim.tensor.h5", devices=["sim:*"])
    with Dataset(one) as first, Dataset(tmp_path / "cpu.tensor.h5") as cpu:
        assert cpu.digest == first.digest
    with Dataset(two) as second, Dataset(tmp_path / "sim.tensor.h5") as simulated:
        assert simulated.devices["name"].tolist() == ["sim:x"]
        assert simulated.tasks["key"].tolist() == ["b", "c"]
        assert simulated.steps() == second.steps()
        assert simulated.records().equals(second.records())
        assert simulated.digest == dataset_digest(simulated.path)
    with pytest.raises(InputError, match="no device is called 'gpu'; there are cpu, sim:x"):
        merge([both], tmp_path / "gpu.tensor.h5", devices=["gpu"])


def test_an_equal_record_is_kept_once_and_another_measurement_stays(tmp_path):
    one, two, both = (tmp_path / f"{name}.tensor.h5" for name in ("1", "2", "all"))
    write(one)
    write(two, seconds=2e-3)
    with Dataset(one) as first:
        records = first.record_count
    assert merge([one, one], both).left_out == records
    with Dataset(one) as first, Dataset(both) as data:
        assert data.records().equals(first.records())
    done = merge([one, two, one], both)
    with Dataset(one) as first, Dataset(both) as data:
        failed = int((first.records()["error"] != Outcome.OK).sum())
        assert (done.left_out, data.record_count) == (records + failed, 2 * records - failed)


def test_what_a_merged_file_was_made_of(tmp_path):
    parts = [write(tmp_path / f"{name}.tensor.h5", device=name) for name in "abc"]
    merge(parts[:2], tmp_path / "ab.tensor.h5")
    merge([tmp_path / "ab.tensor.h5", parts[2]], tmp_path / "abc.tensor.h5")
    with Dataset(tmp_path / "abc.tensor.h5") as data:
        sources = list(history(data.provenance))
    merge([tmp_path / "ab.tensor.h5", tmp_path / "abc.tensor.h5"], tmp_path / "again.tensor.h5")
    with Dataset(tmp_path / "again.tensor.h5") as data:
        assert [file for file, _ in history(data.provenance)] == [f"{name}.tensor.h5" for name in "abc"]  # once each
    assert sources == [(f"{name}.tensor.h5", {"by": "test"}) for name in "abc"]
    assert list(history({"by": "test"})) == [("", {"by": "test"})]
