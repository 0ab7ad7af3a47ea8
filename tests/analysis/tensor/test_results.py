"""Results of the tensor commands as sections of a page: their numbers by hand, and drawn in a browser."""

from __future__ import annotations

import json

import numpy as np
import pytest

from analysis.results.page import write_page
from analysis.tensor import results
from support.errors import InputError
from tests.analysis.tensor.test_history import done, history
from tests.command import succeeding

PREDICTED = [  # best first; two tasks have one name
    ("t", "d", 3.0, 1e-3, 1e-3),
    ("t", "d", 2.0, 2e-3, 4e-3),
    ("t", "d", 1.0, 3e-3, 2e-3),
    ("t", "d", 9.0, 1e-3, 3e-3),
    ("t", "d", 8.0, 2e-3, 1e-3),
    ("u", "d", 1.0, 1e-3, None),
]
NAMES = ("task", "device", "score", "predicted_s", "measured_s")
PREDICTIONS = {"predictions": [dict(zip(NAMES, row, strict=True)) for row in PREDICTED]}
REPLAY = {
    "kernels": [
        {"name": "dense", "key": "a", "calls": 2, "schedule": "database", "predicted_s": 1e-3, "measured_s": 2e-3},
        {"name": "dense", "key": "b", "calls": 1, "schedule": "default", "predicted_s": 4e-3, "measured_s": None},
    ],
    "streams": [{"streams": 1, "predicted_s": 6e-3}, {"streams": 2, "predicted_s": 5e-3}],
    "critical_path_s": 5e-3,
    "network_s": 8e-3,
}
MACHINES = {
    "kernels": [
        {"name": "dense", "calls": 2, "uarch": uarch, "seconds": seconds}
        for uarch, seconds in (("zen4", 1e-3), ("base", 3e-3))
    ],
    "network": [{"uarch": uarch, "streams": 1, "seconds": 2e-3, "critical_path_s": 1e-3} for uarch in ("zen4", "base")],
}
EVALUATION = {
    "summary": [
        {
            "split": split,
            "variant": "-",
            "model": model,
            "pairwise": 0.7,
            "pairwise_interval": 0.1,
            "top1": 1,
            "mape": None,
        }
        for split in ("within_task", "by_task")
        for model in ("mlp", "mean")
    ],
    "rows": [],
}


def written(folder, **documents):
    paths = []
    for name, document in documents.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(document))
    return paths


def test_each_tasks_candidates_are_ranked_by_themselves(tmp_path):
    (section,) = results.sections(written(tmp_path, p=PREDICTIONS))
    table = section.table
    assert table["candidates"].tolist() == [3, 2]
    assert table["pairwise"].tolist() == [pytest.approx(2 / 3), 0.0]
    assert table["top1"].tolist() == [1.0, pytest.approx(1 / 3)]
    assert table["chosen_s"].tolist() == [1e-3, 3e-3]
    assert "5 measured candidates of 2 tasks" in section.text
    # by their sizes (3 · 2/3 + 2 · 0) / 5; chosen 1 + 3 ms where 1 + 1 would do
    assert "pairwise accuracy 0.400" in section.text
    assert "take 2.00 times" in section.text


def test_tasks_of_one_name_are_told_apart_by_their_ids(tmp_path):
    rows = [row | {"task_id": index // 2, "score": -index} for index, row in enumerate(PREDICTIONS["predictions"][:4])]
    (section,) = results.sections(written(tmp_path, p={"predictions": rows}))
    assert section.table["candidates"].tolist() == [2, 2]


def test_predictions_without_measurements_say_so(tmp_path):
    (section,) = results.sections(written(tmp_path, p={"predictions": [PREDICTIONS["predictions"][-1]]}))
    assert section.figure is None
    assert "None of them" in section.text


def test_one_candidate_a_task_has_no_order(tmp_path):
    rows = [PREDICTIONS["predictions"][0], PREDICTIONS["predictions"][3] | {"task": "v"}]
    (section,) = results.sections(written(tmp_path, p={"predictions": rows}))
    assert "nothing to rank" in section.text
    assert "nan" not in section.text


def test_intervals_and_measurements_are_told_where_there_are_some(tmp_path):
    kernels = [{k: v for k, v in kernel.items() if k != "measured_s"} for kernel in REPLAY["kernels"]]
    replayed = {k: v for k, v in REPLAY.items() if k != "network_s"} | {"kernels": kernels}
    summary = [row | {"pairwise_interval": None} for row in EVALUATION["summary"]]
    paths = written(tmp_path, a=REPLAY, b=replayed, c=MACHINES, d=EVALUATION, e=EVALUATION | {"summary": summary})
    both, predicted, machines, three, one = results.sections(paths)
    assert "measured" in both.source and "measured" not in predicted.source + machines.source
    assert "intervals" in three.text and "interval" not in one.text
    assert "Time of a kernel" in results.headline([both]).sentence  # of several files it names none
    assert "Time of a kernel" not in results.headline([both, one]).sentence


def test_a_replay_shows_kernels_streams_and_the_network(tmp_path):
    (section,) = results.sections(written(tmp_path, net=REPLAY))
    kernels, streams = section.figure.panels
    assert [list(bars.category) for bars in kernels.marks] == [["dense#1", "dense#2"]] * 2
    assert np.asarray(kernels.marks[0].value).tolist() == [2.0, 4.0]
    assert np.asarray(kernels.marks[1].value)[0] == 4.0
    assert streams.marks[-1].y == 8.0
    assert "predicted 6.000 ms (-25.0%)" in section.text


def test_searches_are_compared_within_a_network(tmp_path):
    one = history(tmp_path / "xgb", done("a", 4.0), done("b", 2.0), done("a", 3.0))
    two = history(tmp_path / "ours", done("a", 3.0), done("b", 1.0), model="m")
    other = history(tmp_path / "other", done("a", 1.0), network="m")
    first, second = results.sections([one.folder, other.folder, two.folder])
    assert first.title.startswith("n on x86-64-v3")
    assert second.title.startswith("m on")
    assert first.table["search"].tolist() == ["xgb", "ours"]
    assert first.table["trials_to_reference"].tolist() == [12, 8]
    lines = {line.name: np.asarray(line.y).tolist()[-1] for line in first.figure.panels[0].marks}
    assert lines == {"xgb": 8000.0, "ours": 7000.0}


def test_one_page_of_all_of_them(browser, tmp_path):
    search = history(tmp_path / "s", done("a", 4.0), done("b", 2.0))
    paths = written(tmp_path, p=PREDICTIONS, r=REPLAY, m=MACHINES, e=EVALUATION)
    found = results.sections([*paths, search.folder])
    assert len(found) == 5
    browser.open(write_page(tmp_path / "r.html", "Tensor programs", found))
    places = "[...document.querySelectorAll('[data-figure]')]"
    drawn = browser.js(
        f"return {places}.map(place => place.querySelectorAll('.scatterlayer .trace, .bars .point').length)"
    )
    assert len(drawn) == 5
    assert all(drawn)
    bars = browser.js(f"return {places}[3].data.map(trace => [...trace.x])")
    assert bars == [[0.7, 0.7], [0.7, 0.7]]
    on_machines = browser.js(f"return {places}[2].data.filter(t => t.type === 'bar').map(t => [t.name, t.x[0]])")
    assert on_machines == [["zen4", 2], ["base", 6]]


@pytest.mark.slow
def test_the_command_needs_no_program(tmp_path):
    page = tmp_path / "t.html"
    (path,) = written(tmp_path, e=EVALUATION)
    succeeding("report", "--tensor", path, "-o", page)
    assert "how well models rank" in page.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no result of perfvec tensor"),
        ('{"predictions": 3}', "must be a list of rows"),
        ('{"predictions": [{"task": "t", "device": "d", "score": 1, "predicted_s": 1}]}', "no measured_s"),
        (
            json.dumps({"predictions": [PREDICTIONS["predictions"][0] | {"score": "<b>"}]}),
            "score of predictions must be",
        ),
        (json.dumps({"predictions": [PREDICTIONS["predictions"][0] | {"score": [1]}]}), "score of predictions must be"),
    ],
)
def test_what_is_no_result_is_told(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        results.sections([path])
    with pytest.raises(InputError, match="no such file"):
        results.sections([tmp_path / "none.json"])
