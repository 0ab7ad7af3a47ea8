"""The history of a search: which task is next, the network's latency over trials, resuming, comparing."""

from __future__ import annotations

import math

import pytest

from analysis.tensor import compare
from analysis.tensor.history import History, Round, alone, begin, read
from analysis.tensor.tune import next_task
from support.errors import InputError

TASKS = [{"key": "a", "name": "dense", "weight": 2}, {"key": "b", "name": "add", "weight": 1}]
HEADER = {"network": "n", "model": "xgb", "device": "x86-64-v3", "seed": 0, "tasks": TASKS}
WEIGHTS = {"a": 2, "b": 1}


def done(task: str, best: float | None, trials: int = 4, seconds: float = 3.0) -> Round:
    return Round(task, trials, 0, best, seconds / 3, seconds / 3, seconds / 3)


def history(folder, *rounds: Round, **header) -> History:
    found = begin(folder, {**HEADER, **header})
    for one in rounds:
        found.add(one)
    return found


def test_every_task_has_its_first_round(tmp_path):
    found = history(tmp_path / "s")
    assert next_task(found, WEIGHTS, set()) == "a"
    found.add(done("a", 1.0))
    assert next_task(found, WEIGHTS, set()) == "b"


def test_then_the_largest_gradient(tmp_path):
    # a: 2 calls × 0.8 × 1 s / 1 round = 1.6; b: 1 × 0.8 × 3 / 1 = 2.4
    found = history(tmp_path / "s", done("a", 1.0), done("b", 3.0))
    assert next_task(found, WEIGHTS, set()) == "b"
    # b: 0.2 × no progress + 0.8 × 3 / 2 = 1.2 < 1.6
    found.add(done("b", 3.0))
    assert next_task(found, WEIGHTS, set()) == "a"
    assert next_task(found, WEIGHTS, {"a"}) == "b"
    assert next_task(found, WEIGHTS, {"a", "b"}) is None


def test_the_latency_is_known_when_every_task_ran(tmp_path):
    curve = history(tmp_path / "s", done("a", 2.0), done("b", None), done("b", 3.0), done("a", 1.0)).curve()
    assert curve["trials"].tolist() == [4, 8, 12, 16]
    assert [math.isnan(value) for value in curve["latency_s"]] == [True, True, False, False]
    assert curve["latency_s"].tolist()[2:] == [7.0, 5.0]


def test_the_answer_of_a_search(tmp_path):
    found = history(tmp_path / "s", done("a", 2.0), done("b", None, trials=2))
    assert found.result().json["latency_s"] is None
    assert str(found.result()).endswith(
        f"latency unknown, some task never ran; 6 trials, 6 s; database: {tmp_path / 's'}"
    )
    found.add(done("b", 3.0))
    assert "estimated latency 7000.000 ms" in str(found.result())
    assert found.result().table["best_s"].tolist() == [2.0, 3.0]


def test_a_torn_last_line_is_dropped_and_the_search_goes_on(tmp_path):
    history(tmp_path / "s", done("a", 2.0))
    with (tmp_path / "s" / "history.jsonl").open("a") as stream:
        stream.write('{"task": "b", "tri')
    torn = (tmp_path / "s" / "history.jsonl").read_bytes()
    assert read(tmp_path / "s").best() == {"a": 2.0}
    assert (tmp_path / "s" / "history.jsonl").read_bytes() == torn  # a reader leaves a running search's file alone
    history(tmp_path / "s", done("b", 1.0))
    assert read(tmp_path / "s").best() == {"a": 2.0, "b": 1.0}


def test_a_folder_has_one_search_at_a_time(tmp_path):
    with (
        alone(tmp_path / "s"),
        pytest.raises(InputError, match="another search is at work here"),
        alone(tmp_path / "s"),
    ):
        pass
    with alone(tmp_path / "s"):
        pass


def test_another_search_in_the_folder_is_refused(tmp_path):
    history(tmp_path / "s")
    with pytest.raises(InputError, match="holds a search with model xgb"):
        begin(tmp_path / "s", {**HEADER, "model": "random"})


def test_a_folder_without_a_search_is_told(tmp_path):
    with pytest.raises(InputError, match="no search is there"):
        read(tmp_path)


def test_comparison_tells_when_the_references_latency_was_reached(tmp_path):
    slow = history(tmp_path / "xgb", done("a", 4.0), done("b", 2.0), done("a", 3.0))  # 8 s in the end
    fast = history(tmp_path / "ours", done("a", 3.0), done("b", 1.0), done("a", 2.0), model="m")  # 7 s after 8 trials
    bad = history(tmp_path / "random", done("a", 9.0), done("b", 2.0), model="random")
    frame = compare.compare([slow.folder, fast.folder, bad.folder])
    assert frame["latency_s"].tolist() == [8.0, 5.0, 20.0]
    assert frame["trials_to_reference"].tolist()[:2] == [12, 8]
    assert frame["s_to_reference"].tolist()[:2] == [9.0, 6.0]
    assert math.isnan(frame["trials_to_reference"][2])


def test_searches_of_different_networks_are_not_compared(tmp_path):
    history(tmp_path / "x", done("a", 1.0))
    history(tmp_path / "y", done("a", 1.0), network="m")
    with pytest.raises(InputError, match="like with like"):
        compare.compare([tmp_path / "x", tmp_path / "y"])
