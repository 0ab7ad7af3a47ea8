import copy
import json
from pathlib import Path

import pytest
import yaml

from uarch.configuration import (
    field_names,
    get_field,
    load_machine,
    load_machines,
    machine_from_dict,
    parse_value,
    preset_names,
    replace_field,
)
from uarch.errors import InputError
from uarch.space import load_space, sample

CONFIGURATIONS = Path(__file__).parents[3] / "shared" / "gem5-x86" / "uarch.json"
BASE = load_machine("base")


def message(action) -> str:
    with pytest.raises(InputError) as caught:
        action()
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_every_gem5_configuration_round_trips():
    if not CONFIGURATIONS.exists():
        pytest.skip(f"{CONFIGURATIONS} is not there")
    listed = json.loads(CONFIGURATIONS.read_text())
    assert len(listed) == 77
    for values in listed:
        assert json.dumps(machine_from_dict(values).to_dict()) == json.dumps(values)
    assert [m.name for m in load_machines(CONFIGURATIONS)] == [values["name"] for values in listed]
    assert load_machine(f"{CONFIGURATIONS}:u007").name == "u007"


def test_presets_load_and_are_named_as_their_files():
    assert len(preset_names()) >= 12
    assert [load_machine(name).name for name in preset_names()] == preset_names()


def test_yaml_and_json_files_load(tmp_path):
    for suffix, dump in (("json", json.dumps), ("yaml", yaml.safe_dump)):
        path = tmp_path / f"m.{suffix}"
        path.write_text(dump(BASE.to_dict()))
        assert load_machine(path) == BASE


@pytest.mark.parametrize(
    ("field", "value", "parts"),
    [
        ("l1d.associativity", 1024, ["l1d.associativity", "1024", "64"]),
        ("l1d.size_kib", 33, ["l1d.size_kib", "33", "power of two"]),
        ("l1d.size_kib", 0, ["l1d.size_kib", "0", "1"]),
        ("l1d.size_kib", 32.0, ["l1d.size_kib", "whole number"]),
        ("l1d.size_kib", "32", ["'32'"]),
        ("l1d.size_kib", True, ["True"]),
        ("pipeline.fetch_width", 0, ["pipeline.fetch_width", "from 1"]),
        ("pipeline.issue_queue_entries", 500, ["500", "pipeline.rob_entries = 192"]),
        ("functional_units.load_ports", 0, ["load_ports"]),
        ("frequency_ghz", float("nan"), ["frequency_ghz", "nan"]),
        ("frequency_ghz", float("inf"), ["frequency_ghz", "inf"]),
        ("branch_predictor.kind", "tagge", ["tagge", "did you mean tage"]),
        ("branch_predictor.kind", "none", ["out-of-order"]),
        ("branch_predictor.entries", 1000, ["1000", "power of two"]),
        ("branch_predictor.btb_entries", 0, ["at least 1"]),
        ("l2.prefetcher", "strid", ["did you mean stride"]),
        ("memory", "DDR4_2400_8x9", ["did you mean DDR4_2400_8x8"]),
        ("memory.latency_ns", 50, ["memory.model = simple"]),
        ("l1d.sise_kib", 32, ["l1d.sise_kib", "did you mean l1d.size_kib"]),
        ("rob", 32, ["unknown field rob"]),
        ("pipeline.width", 2, ["unknown field pipeline.width"]),
        ("core", "in-order", ["pipeline"]),
    ],
)
def test_impossible_values_are_named_in_one_line(field, value, parts):
    text = message(lambda: replace_field(BASE, field, value))
    assert "base" in text
    for part in parts:
        assert part in text


def test_missing_and_unknown_fields():
    values = copy.deepcopy(BASE.to_dict())
    del values["l1d"]["mshrs"]
    assert "l1d.mshrs is missing" in message(lambda: machine_from_dict(values))
    values = BASE.to_dict() | {"l4": None}
    assert "unknown field l4" in message(lambda: machine_from_dict(values))
    assert "mapping" in message(lambda: machine_from_dict([]))  # type: ignore[arg-type]


def test_unreadable_files(tmp_path):
    assert "neither a preset" in message(lambda: load_machine("zen"))
    assert "did you mean zen2" in message(lambda: load_machine("zen22"))
    assert "cannot read" in message(lambda: load_machine(tmp_path / "no.yaml"))
    (tmp_path / "bad.json").write_text("{")
    assert "not valid json" in message(lambda: load_machine(tmp_path / "bad.json"))
    (tmp_path / "bin.json").write_bytes(b"\xff\xfe\x00")
    message(lambda: load_machine(tmp_path / "bin.json"))


def test_fields_can_be_read_replaced_and_parsed():
    assert "l3.size_kib" in field_names(BASE)
    assert get_field(BASE, "l1d.size_kib") == 32
    assert replace_field(BASE, "l1d.size_kib", 64).l1d.size_kib == 64
    assert replace_field(BASE, "l3", None).l3 is None
    assert "no l3" in message(lambda: replace_field(replace_field(BASE, "l3", None), "l3.size_kib", 1))
    assert replace_field(BASE, "memory", "HBM_1000_4H_1x64").memory.model == "HBM_1000_4H_1x64"
    simple = replace_field(BASE, "memory", {"model": "simple", "latency_ns": 50, "bandwidth_gbs": 25.6})
    assert replace_field(simple, "memory.latency_ns", 60).to_dict()["memory"]["latency_ns"] == 60
    assert replace_field(simple, "memory.model", "DDR4_2400_8x8").to_dict()["memory"] == {"model": "DDR4_2400_8x8"}
    assert parse_value("l1d.size_kib", "64") == 64
    assert parse_value("frequency_ghz", "2.5") == 2.5
    assert parse_value("branch_predictor.kind", "tage") == "tage"
    assert parse_value("l3", "none") is None
    assert "1e3" in message(lambda: parse_value("l1d.size_kib", "1e3"))
    assert "did you mean l1d.size_kib" in message(lambda: parse_value("l1d.size", "1"))


def test_sampled_machines_are_valid_distinct_and_deterministic():
    machines = sample(200, seed=7)
    assert len({m.name for m in machines}) == 200
    assert machines[3].name == "s7-003"
    assert sample(200, seed=7) == machines
    assert sample(20, seed=7) == machines[:20]
    assert sample(20, seed=8) != machines[:20]
    assert len({json.dumps(m.to_dict() | {"name": ""}) for m in machines}) == 200
    assert 0.2 < sum(m.core == "in-order" for m in machines) / 200 < 0.3
    assert {m.branch_predictor.kind for m in machines} >= {"none", "tage", "perceptron", "local"}
    assert all(machine_from_dict(m.to_dict()) == m for m in machines)


def test_space_errors(tmp_path):
    assert "valid: default" in message(lambda: load_space("defualt-space"))
    (tmp_path / "a.yaml").write_text("fields: {l1d.size_kib: {low: 1}}")
    message(lambda: sample(2, space=tmp_path / "a.yaml"))
