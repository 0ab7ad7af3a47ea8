"""Differences between two versions of a program add up, and what is in one only is told."""

import json

import numpy as np
import pytest

from analysis import api
from analysis.parts.costs import predicted
from analysis.questions.difference import PARTITIONS, diff, difference_text, result, to_json
from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import load, save
from tracegen.live_points.record import of_trace


@pytest.mark.parametrize("by", PARTITIONS)
def test_parts_add_up_to_the_difference(by, small_model, wholes, both):
    machines = list(small_model.machines)
    costs = predicted(small_model, machines)
    frame = diff(*both, costs, by)
    old, new = wholes
    difference = small_model.table() @ (new.vector - old.vector)
    scale = np.abs(small_model.table()) @ np.abs(new.vector)
    for machine, expected, bound in zip(machines, difference, scale, strict=True):
        assert frame[f"difference.{machine.name}"].sum() == pytest.approx(expected, abs=1e-5 * bound)
    assert frame["instructions_new"].sum() - frame["instructions_old"].sum() == new.instructions - old.instructions
    text = difference_text(frame, costs, 5)
    assert text.startswith("cycles")
    assert max(map(len, text.splitlines())) <= 80
    document = json.loads(json.dumps(to_json(frame, *both, costs, by), allow_nan=False))
    assert np.sum([g["difference"] for g in document["groups"]], axis=0) == pytest.approx(document["difference"])


def test_what_only_one_has_is_told(small_model, both):
    machines = [small_model.machines[0]]
    frame = diff(*both, predicted(small_model, machines)).set_index("name")
    row = frame.loc["more"]
    assert row["only"] == "new"
    assert row["instructions_old"] == row["old.base"] == 0
    assert frame.loc["divide", "only"] == ""
    assert frame.loc["divide", "instructions_old"] == frame.loc["divide", "instructions_new"]
    assert frame.loc["chase", "instructions_new"] > frame.loc["chase", "instructions_old"]
    gone = diff(both[1], both[0], predicted(small_model, machines)).set_index("name")
    assert all(each["difference.base"].abs().is_monotonic_decreasing for each in (frame, gone))
    assert gone.loc["more", "only"] == "old"
    assert gone.loc["more", "difference.base"] == pytest.approx(-row["difference.base"])


def test_loops_and_lines_match_by_place(small_model, both):
    machines = [small_model.machines[0]]
    for by in ("line", "loop"):
        frame = diff(*both, predicted(small_model, machines), by)
        same = frame[frame["name"].str.contains("parts.c") & frame["name"].str.contains(":")]
        assert (same["only"] == "").sum() > 3
        assert frame["name"].is_unique


def test_a_trace_does_not_differ_from_itself(small_model, both):
    frame = diff(both[0], both[0], predicted(small_model, list(small_model.machines)), "loop")
    assert not frame[[f"difference.{m.name}" for m in small_model.machines]].to_numpy().any()
    assert (frame["only"] == "").all()
    head = result(both[0], both[0], predicted(small_model, list(small_model.machines))).headline()
    assert head.number == "0 %" and head.sentence.endswith("No function changed.")


def test_intervals_do_not_match(small_model, both):
    with pytest.raises(InputError, match="function, line, loop, class"):
        diff(*both, predicted(small_model, list(small_model.machines)), "interval")


@pytest.mark.slow
def test_a_trace_and_live_points_each_tell_their_source(traces, tmp_path):
    save(of_trace(traces[1], units=64, progress=False), tmp_path / "p.livepoints.h5")
    with Trace(traces[0]) as first:
        name = first.name
    mixed = api.diff(traces[0], tmp_path / "p.livepoints.h5", "base", simulate=True)
    assert mixed.json["live_points"] == [False, True]
    said = (
        f"source: simulated, {name} every instruction, {load(tmp_path / 'p.livepoints.h5').name} on live-points; parts"
    )
    assert said in " ".join(str(mixed).split())
    whole = api.diff(traces[0], traces[1], "base", simulate=True)
    assert whole.json["live_points"] == [False, False] and "simulated, every instruction" in str(whole)
