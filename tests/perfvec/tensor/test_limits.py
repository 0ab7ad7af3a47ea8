"""Limits that measurements set, of records whose noise and devices are known."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest

from analysis.cli import main as cli
from perfvec.tensor.limits import limits, other_devices, twins
from perfvec.tensor.records import FeatureGroup
from tests.perfvec.tensor.conftest import made_up
from tests.perfvec.tensor.test_evaluate import written
from tests.perfvec.tensor.test_measured import DATA
from tracegen.tensor.dataset import Rows


def test_twins_are_as_far_apart_as_they_were_measured():
    records = made_up(tasks=2, candidates=3)
    rows = records.groups["statements"].rows
    assert len(twins(records)) == 0
    again = np.array([0, 0, 1, 5])  # the first candidate measured twice, as 1 and as e
    doubled = replace(
        records,
        candidate=again,
        task=records.task[again],
        device=records.device[again],
        seconds=np.array([1.0, np.e, 2.0, 3.0]),
    )
    assert twins(doubled) == pytest.approx([1.0])
    assert len(rows) == 6
    assert len(twins(replace(doubled, groups={}))) == 0  # nothing tells programs apart
    empty = FeatureGroup("statements", "s1", Rows(np.empty((0, 3), np.float32), np.zeros(7, np.int64)))
    assert len(twins(replace(doubled, groups={"statements": empty}))) == 0


def test_no_pair_of_equal_records_is_closer_than_twins_that_are_equal(tmp_path):
    records = made_up(tasks=2, candidates=10)
    twice = np.tile(np.arange(len(records)), 2)
    found = limits(written(records.take(twice), tmp_path / "d.tensor.h5"))
    assert found["twins"]["median"] == 0
    assert found["close"] == 0


def test_merge_says_how_many_equal_records_it_left_out(tmp_path, capsys):
    path = written(made_up(devices=2), tmp_path / "d.tensor.h5")
    with contextlib.suppress(SystemExit):
        cli.main(["tensor", "merge", str(path), str(path), "-o", str(tmp_path / "all.tensor.h5")])
    said = capsys.readouterr().err
    assert "equal records, kept once: 480 left out" in said
    assert "480 records of 240 schedules" in said


def test_a_device_that_is_twice_as_fast_is_known_from_the_other():
    records = made_up(devices=2)
    found = other_devices(records, np.random.default_rng(0))
    assert list(found) == ["d0", "d1"]
    assert [ways.pop("schedules") for ways in found.values()] == [240, 240]
    assert max(error for ways in found.values() for error in ways.values()) < 1e-9
    assert other_devices(made_up(devices=1), np.random.default_rng(0)) == {}


def test_limits_of_a_file(tmp_path, capsys):
    path = written(made_up(devices=2), tmp_path / "d.tensor.h5")
    found = limits(path)
    assert found["records"] == 479 and found["twins"] is None and found["pairwise"] is None and found["again"] is None
    try:
        cli.main(["tensor", "limits", str(path), "--json", "--csv", str(tmp_path / "l.csv")])
    except SystemExit as stop:
        assert not stop.code
    assert json.loads(capsys.readouterr().out) == found
    header, *rows = (tmp_path / "l.csv").read_text().splitlines()
    assert header == "device,schedules,smallest,mean,fit"
    assert [row.split(",")[0] for row in rows] == list(found["devices"])


def test_of_measured_programs_neither_noise_nor_the_features_allow_all_pairs():
    found = limits(DATA)
    assert 0.5 < found["again"]["pairwise"] < found["again"]["model"] < 1.0
    assert found["again"]["median"] > 0.05
