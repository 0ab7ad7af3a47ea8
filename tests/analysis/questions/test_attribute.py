"""Shapley values by hand and against their definition; attributions add up."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.budget import budget
from analysis.programs.simulable import Estimates
from analysis.programs.targets import Target, target_of_vector
from analysis.questions.attribute import (
    IDEAL,
    REST,
    answered,
    attribution_text,
    coalitions,
    load_ideal,
    notes,
    shapley,
    to_json,
)
from perfvec.representation.represent import represent
from support.errors import InputError
from uarch.configuration import field_names, get_field
from uarch.machine_files import load_machine, preset_names


@pytest.fixture(scope="module")
def program(small_model, traces):
    return represent(small_model, traces[0], max_instructions=5_000, progress=False)


def test_the_glove_game_by_hand():
    # Players 0 and 1 have a left glove each, player 2 a right one; a pair is worth 1 (Shapley 1953: 1/6, 1/6, 2/3).
    worth = np.array([0, 0, 0, 0, 0, 1, 1, 1], float)
    np.testing.assert_allclose(shapley(worth), [1 / 6, 1 / 6, 2 / 3])


@settings(max_examples=30)
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.floats(-100, 100), min_size=2**n, max_size=2**n)))
def test_shapley_is_the_mean_over_all_orders(worth):
    values = np.array(worth)
    players = len(worth).bit_length() - 1
    expected = np.zeros(players)
    orders = list(itertools.permutations(range(players)))
    for order in orders:
        coalition = 0
        for player in order:
            expected[player] += values[coalition | 1 << player] - values[coalition]
            coalition |= 1 << player
    np.testing.assert_allclose(shapley(values), expected / len(orders), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_its_ideal(name):
    machine = load_machine(name)
    groups = load_ideal(IDEAL, machine)
    machines = coalitions(machine, groups)
    assert len(machines) == 256
    assert machines[0] == machine
    for field, value in {field: value for fields in groups.values() for field, value in fields.items()}.items():
        assert field == "memory" or get_field(machines[-1], field) == value
    assert get_field(machines[-1], "memory") == groups["memory"]["memory"]
    only_first = {f for f in field_names(machine) if get_field(machines[1], f) != get_field(machine, f)}
    assert "name" in only_first  # what is told of it is not told of the machine
    assert only_first - {"name"} <= set(groups["l1i"])
    # Frequency, prefetchers and what has no better or worse stay.
    kept = {field for field in field_names(machine) if field not in set().union(*groups.values())}
    assert kept <= {
        "name",
        "core",
        "frequency_ghz",
        "l3",
        *(f"{c}.prefetcher" for c in ("l1i", "l1d", "l2", "l3")),
        "memory.model",
        "memory.latency_ns",
        "memory.bandwidth_gbs",
        "functional_units.load_ports",
        "functional_units.store_ports",
    }


@pytest.mark.parametrize("index", [0, 1])
def test_groups_add_up_to_the_encoded_cycles(small_model, program, index):
    machine = small_model.machines[index]
    frame = answered(small_model, 2 * [target_of_vector(small_model, program)], machine, 0.0)
    encoded = float(small_model.encoder.vectors([machine])[0] @ program.vector)
    assert frame["cycles"].sum() == pytest.approx(2 * encoded, rel=1e-5)  # an encoder's products are of float32
    assert frame["share"].sum() == pytest.approx(2.0)
    assert frame["predicted"].tolist() == pytest.approx([small_model.table()[index] @ program.vector] * 18)
    assert len(frame) == 2 * 9
    document = json.loads(json.dumps(to_json(frame), allow_nan=False))["attributions"][0]
    total = sum(group["cycles"] for group in document["groups"]) + document["ideal_cycles"]
    assert total == pytest.approx(document["encoded_cycles"])
    assert max(map(len, attribution_text(frame).splitlines())) <= 80


@pytest.mark.parametrize(
    ("source", "whole", "groups"),
    [("zero-shot", "zero-shot", None), ("simulated", "simulated", None)]
    + [(source, "simulated", source) for source in ("corrected", "scaled")],
)
def test_the_table_tells_the_source(small_model, program, source, whole, groups):
    frame = answered(small_model, [target_of_vector(small_model, program)], small_model.machines[0], 0.0)
    text = attribution_text(frame.assign(source=source))
    assert f"whole, {whole} " in text
    assert text.rpartition("source of the groups: ")[2] == (groups or text)


def test_one_group_is_all_the_difference(small_model, program, tmp_path):
    ideal = tmp_path / "i.yaml"
    ideal.write_text(yaml.safe_dump({"l1d": {"l1d.size_kib": 128, "l1d.associativity": 8}}))
    machine = small_model.machines[0]
    frame = answered(small_model, [target_of_vector(small_model, program)], machine, 0.0, ideal).set_index("group")
    ends = small_model.encoder.vectors(coalitions(machine, load_ideal(ideal, machine))) @ program.vector
    row = frame.loc["l1d"]
    for column in ("cycles", "alone", "last"):
        assert row[column] == pytest.approx(ends[0] - ends[1])
    assert frame.loc[REST, "cycles"] == pytest.approx(ends[1])


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({}, "1 to 8 groups"),
        ({str(k): {} for k in range(9)}, "1 to 8 groups"),
        ([1], "1 to 8 groups"),
        ({"a": 3}, "group a = 3 must be a mapping"),
        ({"a": {"in-order": 3, "out-of-order": 3}}, "must be a mapping"),
        ({"a": {"l1d.sise_kib": 3}}, r"unknown field 'l1d.sise_kib' \(did you mean l1d.size_kib\?\)"),
        ({"a": {"core": "in-order"}}, "unknown field 'core'"),
        ({"a": {"l1d.latency": 1}, "b": {"l1d.latency": 2}}, "two groups, a and b"),
        ({"a": {"l1d.latency": -1}}, "l1d.latency = -1 must be"),
        ({"a": {"memory": "DDR9"}}, "DDR9"),
    ],
)
def test_a_wrong_ideal_is_one_line(small_model, program, tmp_path, content, match):
    path = tmp_path / "i.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=match) as told:
        answered(small_model, [target_of_vector(small_model, program)], small_model.machines[0], 0.0, path)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


class Multiplied:
    """A program whose cycles are multiplied by what each group is not."""

    name, isa, instructions, work = "m", "x86-64", 1000, 1000

    def prepare(self):
        pass

    def simulate(self, machines, threads=None):
        cycles = np.array(
            [1e6 * (1 + 1 / machine.l1d.size_kib) * (1 + machine.l2.latency / 10) for machine in machines]
        )
        return Estimates.exact(cycles)


@pytest.mark.slow
def test_coalitions_are_simulated_within_a_budget(small_model, monkeypatch):
    machine = small_model.machines[0]
    target = Target(Multiplied(), lambda: pytest.fail("the model was not needed"))
    whole = answered(small_model, [target], machine, 60.0, progress=False)
    assert set(whole["source"]) == {"simulated"}
    assert whole["cycles"].sum() == pytest.approx(Multiplied().simulate([machine]).cycles[0])
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(40 - self.count, 0))
    some = answered(small_model, [target], machine, 60.0, progress=False)
    assert set(some["source"]) == {"corrected"}
    assert np.abs(some["cycles"] - whole["cycles"]).max() < 0.01 * whole["cycles"].sum()


def test_too_few_coalitions_leave_the_shares_to_the_model(small_model, program, monkeypatch):
    """The whole is that of the machine itself, which was simulated."""
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(9 - self.count, 0))
    machine = small_model.machines[0]
    found = answered(small_model, [Target(Multiplied(), lambda: program)], machine, 60.0, progress=False)
    assert set(found["source"]) == {"scaled"}
    alone = answered(small_model, [target_of_vector(small_model, program)], machine, 0.0)
    assert found["share"].tolist() == pytest.approx(alone["share"].tolist())
    assert found["cycles"].sum() == pytest.approx(Multiplied().simulate([machine]).cycles[0])
    assert found["predicted"].tolist() == pytest.approx(found["encoded"].tolist(), rel=1e-14)  # scaled to it


def told(machine, *, share, half_width=0.0, source="simulated"):
    """The notes on 1,000 cycles, of which `window` has this share."""
    rows = [("window", share), ("l1d", 0.1), (REST, 0.9 - share)]
    frame = pd.DataFrame(rows, columns=["group", "share"]).assign(program="p", uarch=machine.name, source=source)
    return notes(frame.assign(cycles=1e3 * frame["share"], encoded=1e3, predicted=1e3, half_width=half_width), machine)


def test_a_group_that_costs_time_when_ideal_is_noted():
    zen4 = load_machine("zen4")
    (line,) = told(zen4, share=-0.05)
    assert line == (
        "p on zen4: slower with ideal window: gem5's cores take longer to squash what more of is in flight, eight "
        "micro-operations a cycle; zen4-native does not"
    )
    assert told(load_machine("zen4-native"), share=-0.05) == ["p on zen4-native: slower with ideal window"]
    assert told(load_machine("cortex-a55"), share=-0.05) == ["p on cortex-a55: slower with ideal window"]
    assert told(zen4, share=-0.005) == told(zen4, share=-0.05, source="zero-shot") == []


def test_a_sample_is_noted():
    (line,) = told(load_machine("zen4"), share=0.05, half_width=30.0)
    assert line == "p on zen4: its live-points were simulated, ±3.0%"
