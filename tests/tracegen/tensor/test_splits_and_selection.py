"""Splits are disjoint, whole and reproducible; selections cover what they say. On one made-up dataset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from tracegen.tensor import selection, splits
from tracegen.tensor.dataset import Dataset, DatasetWriter, Device, Outcome, Task

NETWORKS = ({"a": 1}, {"a": 2, "b": 1}, {"b": 1}, {}, {"c": 4})
DEVICES = (("cpu0", "cpu"), ("cpu1", "cpu"), ("gpu0", "gpu"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """40 tasks in five groups of networks, 1 to 12 schedules each, most on three devices; some fail."""
    path = tmp_path_factory.mktemp("splits") / "d.tensor.h5"
    numbers = np.random.default_rng(8)
    with DatasetWriter(path, provenance={}, features={"statements": "1"}) as writer:
        devices = [writer.device(Device(name, {"kind": kind})) for name, kind in DEVICES]
        for number in range(40):
            rare = number == 39  # far from all others in every quantity
            size = 4096 if rare else 16 + number % 3
            operator = ("dense", "conv", "elementwise")[number % 3] if number else "pooling"
            task = writer.task(
                Task(str(number), f"t{number}", operator, [[size, size]], 2.0 * size**3, NETWORKS[number % 5])
            )
            for k in range(1 + number % 12):
                rows = numbers.normal(5 * (number % 4), 0.1, (2, 6))
                schedule = writer.schedule(task, [number, k], kind="ansor", origin="x", features={"statements": rows})
                for device in devices:
                    failed = numbers.random() < 0.1
                    writer.record(
                        schedule,
                        device,
                        (10.0 if rare else 1e-3) * (1 + numbers.random()),
                        outcome=Outcome.TIMEOUT if failed else Outcome.OK,
                    )
    with Dataset(path) as dataset:
        yield dataset


def tables(data, split):
    frame = data.table(failed=True)
    return [frame.loc[part] for part in (split.train, split.validation, split.test)]


def check(data, split, *, whole=True):
    """No record is in two parts, none failed; all successful ones are in one where the split is `whole`."""
    together = np.concatenate([split.train, split.validation, split.test])
    assert len(np.unique(together)) == len(together)
    frame = data.table(failed=True)
    successful = frame.index[frame["error"] == Outcome.OK]
    assert set(together) <= set(successful)
    if whole:
        assert len(together) == len(successful)
    assert len(split.train) and len(split.test)


FRACTIONS = {"validation": st.sampled_from([0.0, 0.1, 0.3]), "test": st.sampled_from([0.05, 0.2, 0.5])}
SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, **FRACTIONS)
def test_within_task_no_schedule_is_on_two_sides(data, seed, validation, test):
    split = splits.within_task(data, validation=validation, test=test, seed=seed)
    check(data, split)
    train, checked, tested = (set(part["schedule"]) for part in tables(data, split))
    assert not train & tested and not train & checked and not checked & tested
    assert set(tables(data, split)[2]["task"]) <= set(tables(data, split)[0]["task"])


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, **FRACTIONS)
def test_by_task_no_task_is_on_two_sides_and_classes_are_on_all(data, seed, validation, test):
    split = splits.by_task(data, validation=validation, test=test, seed=seed)
    check(data, split)
    train, checked, tested = (set(part["task"]) for part in tables(data, split))
    assert not train & tested and not train & checked and not checked & tested
    if test > 0.1:
        operators = data.tasks["operator"]
        assert {"dense", "conv", "elementwise"} <= set(operators[list(tested)])


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, held_out=st.sampled_from([["cpu0"], ["gpu0"], ["cpu0", "cpu1"]]))
def test_cross_device_holds_devices_out(data, seed, held_out):
    split = splits.cross_device(data, held_out=held_out, seed=seed)
    check(data, split)
    names = data.devices["name"]
    train, checked, tested = (part["device"].map(names) for part in tables(data, split))
    assert set(tested) == set(held_out) and not set(train) & set(held_out) and not set(checked) & set(held_out)
    assert not set(tables(data, split)[0]["task"]) & set(tables(data, split)[1]["task"])


def test_by_target_holds_a_kind_of_device_out(data):
    split = splits.by_target(data, held_out="gpu")
    check(data, split)
    assert set(tables(data, split)[2]["device"]) == {2}


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_cross_model_holds_networks_out_and_shared_tasks_are_in_no_part(data, seed):
    split = splits.cross_model(data, held_out=["b"], seed=seed)
    check(data, split, whole=False)
    train, checked, tested = ([NETWORKS[task % 5] for task in part["task"].unique()] for part in tables(data, split))
    assert all(weights == {"b": 1} for weights in tested)
    assert not any("b" in weights for weights in train + checked)
    assert {} in train


def test_the_same_seed_gives_the_same_split_and_another_one_another(data):
    first, again, other = (splits.by_task(data, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.test, again.test)
    assert set(first.test) != set(other.test)


@pytest.mark.parametrize(
    ("act", "match"),
    [
        (lambda data: splits.by_target(data, held_out="tpu"), "no device is a tpu; there are: cpu, gpu"),
        (lambda data: splits.cross_device(data, held_out=["cpu9"]), "no device 'cpu9'"),
        (lambda data: splits.cross_device(data, held_out=["cpu0", "cpu1", "gpu0"]), "no record is left to train on"),
        (lambda data: splits.cross_model(data, held_out=["z"]), "no task of a network 'z'; there are: a, b, c"),
        (lambda data: splits.by_task(data, test=1.5), "must be fractions"),
        (lambda data: selection.random_tasks(data, 0), "0 tasks are asked for; there are 40"),
        (lambda data: selection.kmeans_tasks(data, 41), "41 tasks are asked for"),
        (lambda data: selection.kmeans_tasks(data, 2, features=np.zeros((3, 2))), r"\[40, d\] is expected"),
    ],
)
def test_what_cannot_be_divided_is_one_line(data, act, match):
    with pytest.raises(InputError, match=match):
        act(data)


def test_kmeans_takes_one_task_of_each_cluster(data):
    """The features lie around four points, by the task's number modulo 4."""
    chosen = selection.kmeans_tasks(data, 4)
    assert sorted(task % 4 for task in chosen) == [0, 1, 2, 3]
    np.testing.assert_array_equal(chosen, selection.kmeans_tasks(data, 4))


def test_kmeans_by_given_features_takes_the_nearest_to_the_centre(data):
    points = np.zeros((40, 1))
    points[:21, 0] = np.arange(21)  # centre 10
    points[21:, 0] = 1000 + np.arange(19)  # centre 1009
    assert selection.kmeans_tasks(data, 2, features=points).tolist() == [10, 30]


def test_joint_probability_keeps_what_is_rare(data):
    """39 tasks are alike in FLOPs, shape and time, one is not: a cell of its own, half of the probability."""
    drawn = [set(selection.joint_probability(data, 1, seed=seed).tolist()) for seed in range(120)]
    share = np.mean([39 in tasks for tasks in drawn])
    assert 0.35 < share < 0.65
    assert np.mean([39 in selection.random_tasks(data, 1, seed=seed) for seed in range(120)]) < 0.1


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, count=st.integers(1, 40))
def test_selections_are_distinct_tasks_in_order(data, seed, count):
    for select in (selection.random_tasks, selection.joint_probability):
        chosen = select(data, count, seed=seed)
        assert len(chosen) == count and (np.diff(chosen) > 0).all() and chosen[0] >= 0 and chosen[-1] < 40


def test_elements_of_a_shape():
    assert selection.element_count([["float32", [2, 3]], ["int32", [4]]]) == 10
    assert selection.element_count([[2, 3], [4]]) == 10
    assert np.isnan(selection.element_count([1, 1000, 1, 1000]))  # extents alone: whose they are is not told
    assert np.isnan(selection.element_count(None))


def test_even_records_take_from_every_task_first():
    task = np.repeat([4, 7, 9], [5, 1, 10])
    for seed in range(20):
        chosen = selection.even_records(task, 5, seed=seed)
        assert chosen.tolist() == sorted(set(chosen.tolist()))
        assert sorted(task[chosen].tolist()) == [4, 4, 7, 9, 9]
        assert len(set(task[selection.even_records(task, 2, seed=seed)])) == 2
    assert selection.even_records(task, 16).tolist() == list(range(16))
    with pytest.raises(InputError, match="17 records are asked for; there are 16"):
        selection.even_records(task, 17)
