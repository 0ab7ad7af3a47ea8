"""A pruned dataset: what is in it, how it lies among all programs, and what a model loses by it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from perfvec.tensor.configuration import Entry
from perfvec.tensor.contract import Budget
from perfvec.tensor.pruning import Choice, coverage, judge, kept, prune
from support.errors import InputError
from tests.digests import dataset_digest
from tests.perfvec.tensor.conftest import made_up
from tests.perfvec.tensor.test_evaluate import run, written
from tracegen.tensor.dataset import Dataset


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    torch.set_num_threads(1)
    return written(made_up(devices=2), tmp_path_factory.mktemp("prune") / "two.tensor.h5")


def test_the_part_holds_what_was_selected_and_no_slow_schedule(two, tmp_path):
    choice = Choice("flops", 0.5, 3.0)
    found = prune(two, tmp_path / "part.tensor.h5", choice)
    with Dataset(two) as data, Dataset(tmp_path / "part.tensor.h5") as part:
        assert part.digest == dataset_digest(part.path)
        keep = kept(data, choice)
        assert part.schedule_count == keep.sum() == int(found.points["kept"].sum())
        assert part.tasks["key"].tolist() == ["t0", "t1", "t2"]  # FLOPs are not known: the first
        whole = data.table()
        assert part.record_count == np.isin(whole["schedule"], np.flatnonzero(keep)).sum()
        best = part.table().groupby(["task", "device"])["seconds"].transform("min")
        assert (part.table()["seconds"] <= 3.0 * best * (1 + 1e-9)).all()
        index = np.flatnonzero(keep)[5]
        assert np.array_equal(part.features("statements", [5]).values, data.features("statements", [index]).values)
    assert found.sizes["records"].tolist()[0] == 480
    assert found.sizes["megabytes"].iloc[1] < found.sizes["megabytes"].iloc[0]


def test_coverage_counts_cells_that_keep_a_program():
    points = np.array([[0.0, 0.0], [0.01, 0.0], [10.0, 10.0], [0.0, 10.0]])
    assert coverage(points, np.array([True, False, True, False])) == pytest.approx(2 / 3)
    assert coverage(points, np.ones(4, bool)) == 1.0


def test_components_are_those_of_the_covariance(two, tmp_path):
    found = prune(two, tmp_path / "part.tensor.h5", Choice("all", slow=0))
    with Dataset(two) as data:
        values = np.array([data.features("statements", [index]).values.mean(0) for index in range(data.schedule_count)])
    values = (values - values.mean(0)) / values.std(0)
    variance = np.sort(np.linalg.eigvalsh(values.T @ values))[::-1]
    assert found.explained == pytest.approx(tuple(variance[:2] / variance.sum()), rel=1e-4)
    assert found.points["pc1"].var(ddof=0) * len(values) == pytest.approx(variance[0], rel=1e-4)
    assert found.coverage == 1.0


def test_both_are_judged_on_tasks_that_neither_has(two):
    rows = judge(two, Choice("random", 0.5, 0.0), Entry("mean", "mean"), Budget(epochs=1), 2)
    assert rows["data"].tolist() == ["all", "kept"] * 2
    assert (rows["train_records"][rows["data"] == "kept"].to_numpy() <= 0.5 * 480).all()
    assert (rows["pairwise"] == 0.5).all()


@pytest.mark.slow
def test_the_command_writes_and_says_what_it_kept(two, tmp_path, capsys):
    words = ["tensor", "select", str(two), "-o", str(tmp_path / "p.tensor.h5"), "--points", str(tmp_path / "p.csv")]
    words += ["--judge", "lightgbm", "--seeds", "1", "--epochs", "2", "--json"]
    run(words)
    document = json.loads(capsys.readouterr().out)
    assert [row["data"] for row in document["sizes"]] == ["all", "kept"]
    assert len(document["judged"]) == 2
    assert 0 < document["coverage"] <= 1
    assert set(pd.read_csv(tmp_path / "p.csv").columns) == {"pc1", "pc2", "kept"}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice("moon"), "selection 'moon': expected all or one of"),
        (Choice(share=0.0), "share 0.0: expected above 0"),
        (Choice(devices=("x",)), "no device 'x'; there are: d0, d1"),
        (Choice(slow=0.5), "a factor of at least 1"),
    ],
)
def test_what_selects_nothing_is_one_line(two, tmp_path, choice, message):
    with pytest.raises(InputError, match=message):
        prune(two, tmp_path / "p.tensor.h5", choice)
    assert not (tmp_path / "p.tensor.h5").exists()
