"""Splits are disjoint, whole and reproducible; selections cover what they say. On one made-up dataset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from tracegen.tensor import selection, splits
from tracegen.tensor.dataset import Dataset, DatasetWriter, Device, Outcome, Task, merge

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


@settings(max_examples=25)
@given(seed=SEEDS, **FRACTIONS)
def test_within_task_no_schedule_is_on_two_sides(data, seed, validation, test):
    split = splits.within_task(data, validation=validation, test=test, seed=seed)
    check(data, split)
    train, checked, tested = (set(part["schedule"]) for part in tables(data, split))
    assert not train & tested and not train & checked and not checked & tested
    assert set(tables(data, split)[2]["task"]) <= set(tables(data, split)[0]["task"])


@settings(max_examples=25)
@given(seed=SEEDS, **FRACTIONS)
def test_by_task_no_task_is_on_two_sides_and_classes_are_on_all(data, seed, validation, test):
    split = splits.by_task(data, validation=validation, test=test, seed=seed)
    check(data, split)
    train, checked, tested = (set(part["task"]) for part in tables(data, split))
    assert not train & tested and not train & checked and not checked & tested
    if test > 0.1:
        operators = data.tasks["operator"]
        assert {"dense", "conv", "elementwise"} <= set(operators[list(tested)])


@settings(max_examples=10)
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


@settings(max_examples=10)
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
        (
            lambda data: splits.by_target(data, held_out="tpu"),
            "by_target: no device of the kind 'tpu'; there are: cpu, gpu",
        ),
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
    """39 tasks are alike in FLOPs, shape and time: together their mean place, 20; one is not, and has place 40."""
    drawn = [set(selection.joint_probability(data, 1, seed=seed).tolist()) for seed in range(120)]
    share = np.mean([39 in tasks for tasks in drawn])
    assert 0.5 < share < 0.8  # 40 of 60
    assert np.mean([39 in selection.random_tasks(data, 1, seed=seed) for seed in range(120)]) < 0.1


@settings(max_examples=20)
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


def test_joint_probability_puts_flops_first(data):
    """Tasks of many FLOPs, of 39 alike otherwise, are drawn oftener; the one of the most nearly always."""
    drawn = [selection.joint_probability(data, 8, seed=seed) for seed in range(60)]
    flops = data.tasks["flops"].to_numpy()
    common = np.flatnonzero(flops < flops.max())
    chance = np.mean([flops[selection.random_tasks(data, 8, seed=seed)].mean() for seed in range(60)])
    assert np.mean([flops[tasks].mean() for tasks in drawn]) > chance
    counts = np.bincount(np.concatenate(drawn), minlength=40)
    high, low = (common[flops[common] == value] for value in (flops[common].max(), flops[common].min()))
    assert counts[high].mean() > 1.3 * counts[low].mean()
    assert counts[39] > 30


def test_flops_first_takes_the_largest(data):
    chosen = selection.flops_first(data, 14)
    flops = data.tasks["flops"].to_numpy()
    assert 39 in chosen
    assert flops[chosen].min() >= np.sort(flops)[-14]


@pytest.fixture
def timed(tmp_path):
    """Two tasks of four schedules; a second, slower device on which all is the other way round."""
    path = tmp_path / "t.tensor.h5"
    seconds = {"old": [1.0, 3.0, 20.0, 9.0, 1.0, 2.0, 11.0, 5.0], "new": [5000.0, 100.0, 100.0, 100.0] * 2}
    with DatasetWriter(path, provenance={}, features={"statements": "1"}) as writer:
        devices = {name: writer.device(Device(name, {"kind": "cpu"})) for name in seconds}
        for task in range(2):
            at = writer.task(Task(str(task), f"t{task}", "dense", [[4, 4]], 100.0))
            for k in range(4):
                rows = {"statements": np.full((1, 3), task)}
                schedule = writer.schedule(at, [task, k], kind="ansor", origin="x", features=rows)
                for name, times in seconds.items():
                    writer.record(schedule, devices[name], times[4 * task + k])
    with Dataset(path) as dataset:
        yield dataset


def test_slow_schedules_are_those_of_the_devices_that_are_read(timed):
    old = selection.fast_schedules(timed, 10.0, devices=["old"])
    assert old.tolist() == [True, True, False, True, True, True, False, True]
    new = selection.fast_schedules(timed, 10.0, devices=["new"])
    assert new.tolist() == [False, True, True, True] * 2
    # Beside the best on each device, in the mean of two: 25.5, 2, 10.5, 5 and 25.5, 1.5, 6, 3.
    assert selection.fast_schedules(timed, 10.0).tolist() == [False, True, False, True, False, True, True, True]
    assert not selection.fast_schedules(timed, 10.0, devices=["none"]).any()
    with pytest.raises(InputError, match="a factor of at least 1"):
        selection.fast_schedules(timed, 0.5)


def test_a_selection_reads_no_time_of_a_device_that_is_not_named(data, tmp_path):
    """The same dataset with other latencies on the held-out device selects the same tasks."""
    path = tmp_path / "other.tensor.h5"
    frame, names = data.table(failed=True), data.devices["name"].tolist()
    numbers = np.random.default_rng(1)
    with DatasetWriter(path, provenance={}, features={"statements": "1"}) as writer:
        devices = [writer.device(Device(**row)) for row in data.devices.to_dict("records")]
        tasks = [writer.task(Task(**row)) for row in data.tasks.to_dict("records")]
        for index, task in enumerate(data.task_of):
            rows = data.features("statements", [index]).values
            steps = data.steps([index])[0]
            writer.schedule(tasks[task], steps, kind="ansor", origin="x", features={"statements": rows})
        for row in frame.itertuples():
            seconds = 10.0 ** numbers.uniform(-6, 1) if names[row.device] == "gpu0" else row.seconds
            writer.record(row.schedule, devices[row.device], seconds, outcome=Outcome(row.error))
    source = ["cpu0", "cpu1"]
    with Dataset(path) as other:
        for select in (selection.joint_probability, selection.cdmpp_tasks, selection.kmeans_tasks):
            for seed in range(5):
                first = select(data, 6, seed=seed, devices=source)
                assert first.tolist() == select(other, 6, seed=seed, devices=source).tolist()
        first, second = (
            [selection.joint_probability(dataset, 6, seed=seed, devices=["gpu0"]).tolist() for seed in range(5)]
            for dataset in (data, other)
        )
        assert first != second  # the times that were changed do count where they are read


def test_cdmpp_takes_from_the_largest_cluster_the_task_of_the_smallest_mean_distance(data):
    """Brute force: the clusters by a loop over their members, the distances by a loop over each task's programs."""
    task = data.task_of.astype(int)
    points = np.where(task < 20, 0.0, 100.0)[:, None] + (task % 20)[:, None] * 0.3
    chosen = selection.cdmpp_tasks(data, 2, features=points, seed=3)
    low, high = ([t for t in range(40) if (t < 20) == side] for side in (True, False))
    expected = []
    for side in (low, high):
        members = np.concatenate([points[task == t, 0] for t in side])
        centre = members.mean()
        distances = {t: np.mean([abs(p - centre) for p in points[task == t, 0]]) for t in side}
        expected.append(min(distances, key=lambda t: distances[t]))
    assert chosen.tolist() == sorted(expected)


def test_cdmpp_gives_a_task_that_two_clusters_share_to_the_larger(data):
    """Programs around 0 and two at 60: in the mean 23 is the nearest to both, then 11 and 35 are."""
    points = np.zeros((data.schedule_count, 1))
    points[data.task_of == 11, 0] = [-8, 8] * 6
    points[data.task_of == 23, 0] = [0] * 11 + [60]
    points[data.task_of == 35, 0] = [-11] * 7 + [11] * 4 + [60]
    assert selection.cdmpp_tasks(data, 2, features=points, among=[11, 23, 35]).tolist() == [23, 35]


def test_cdmpp_fills_up_where_a_cluster_has_no_task_left(data):
    for count in (1, 7, 40):
        chosen = selection.cdmpp_tasks(data, count)
        assert len(chosen) == len(set(chosen.tolist())) == count


def test_cdmpps_sampling_is_not_that_over_tasks_means(data):
    """A task whose programs lie far apart has its mean near a centre that none of them is near."""
    task = data.task_of.astype(int)
    points = np.where(task == 35, np.where(np.arange(len(task)) % 2, 100.0, -100.0), task * 0.1 - 2.0)[:, None]
    means = np.array([points[task == t].mean() if (task == t).any() else 0.0 for t in range(40)])[:, None]
    assert (task == 35).sum() % 2 == 0 and 35 not in selection.cdmpp_tasks(data, 1, features=points)
    assert abs(means[35, 0]) < 1e-9


def test_simulated_devices_are_a_kind_of_their_own(tmp_path):
    with DatasetWriter(tmp_path / "s.tensor.h5", provenance={}, features={}) as writer:
        devices = [writer.device(Device("cpu0", {"kind": "cpu"}))]
        devices.append(writer.device(Device("sim:a", {"kind": "cpu", "simulator": "embedded 7"})))
        for number in range(4):
            task = writer.task(Task(str(number), str(number)))
            for device in devices:
                writer.record(writer.schedule(task, [number], kind="ansor", origin="x"), device, 1.0)
    with Dataset(tmp_path / "s.tensor.h5") as data:
        split = splits.by_target(data, held_out="simulated")
        assert set(data.table(failed=True).loc[split.test, "device"]) == {1}
        assert set(data.table(failed=True).loc[split.train, "device"]) == {0}
        with pytest.raises(InputError, match="by_target: no device of the kind 'gpu'; there are: cpu, simulated"):
            splits.by_target(data, held_out="gpu")
    merge([tmp_path / "s.tensor.h5"], tmp_path / "one.tensor.h5", devices=["sim:a"])
    two = pytest.raises(InputError, match="by_target needs devices of two kinds; there are only: simulated")
    with Dataset(tmp_path / "one.tensor.h5") as data, two:
        splits.by_target(data, held_out="simulated")


def test_tasks_are_chosen_among_those_given(data):
    among = np.arange(3, 40, 4)
    for select in (
        selection.random_tasks,
        selection.flops_first,
        selection.joint_probability,
        selection.cdmpp_tasks,
        selection.kmeans_tasks,
    ):
        chosen = select(data, 5, among=among)
        assert 1 <= len(chosen) <= 5 and np.isin(chosen, among).all(), select.__name__
        with pytest.raises(InputError, match="11 tasks are asked for; there are 10"):
            select(data, 11, among=among)
