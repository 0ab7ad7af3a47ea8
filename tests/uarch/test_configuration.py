import copy
import gzip
import itertools
import json
import os
import time
import tracemalloc
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from support.text import show
from support.yaml_files import read_yaml, require_unique_keys
from tests.command import perfvec
from tests.errors import message
from uarch.configuration import (
    OPTIONAL,
    configuration_key,
    field_names,
    flatten,
    get_field,
    machine_from_dict,
    parse_value,
    replace_field,
)
from uarch.machine_files import load_machine, load_machines, native_names, preset_names
from uarch.space import sample

CONFIGURATIONS = Path(__file__).parent / "data" / "gem5-machines.json.gz"
BASE = load_machine("base")


def test_a_misspelt_field_is_told_before_a_missing_one():
    with pytest.raises(InputError, match=r"unknown field pipeline.fetch_widht = 8 \(did you mean fetch_width\?\)"):
        machine_from_dict({"core": "out-of-order", "pipeline": {"fetch_widht": 8}})
    with pytest.raises(InputError, match=r"unknown field pipeline.fetch_widht = 8 \(did you mean fetch_width\?\)"):
        machine_from_dict({"pipeline": {"fetch_widht": 8}})


def test_every_gem5_configuration_round_trips(tmp_path):
    path = tmp_path / "uarch.json"
    path.write_bytes(gzip.decompress(CONFIGURATIONS.read_bytes()))
    listed = json.loads(path.read_text())
    assert len(listed) == 77
    for values in listed:
        assert json.dumps(machine_from_dict(values).to_dict()) == json.dumps(values)
    assert [m.name for m in load_machines(path)] == [values["name"] for values in listed]
    assert load_machine(f"{path}:u007").name == "u007"


def test_a_machine_is_the_same_with_and_without_a_decimal_point():
    plain = load_machine("zen5-native").to_dict()
    whole = plain | {"frequency_ghz": 4, "memory": plain["memory"] | {"latency_ns": 130, "bandwidth_gbs": 45}}
    point = plain | {"frequency_ghz": 4.0, "memory": plain["memory"] | {"latency_ns": 130.0, "bandwidth_gbs": 45.0}}
    assert configuration_key(machine_from_dict(whole)) == configuration_key(machine_from_dict(point))
    assert configuration_key(BASE.with_(frequency_ghz=3, name="base")) == configuration_key(BASE)


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
        ("pipeline.load_queue_entries", 500, ["500", "pipeline.rob_entries = 192"]),
        ("pipeline.store_queue_entries", 500, ["500", "pipeline.rob_entries = 192"]),
        ("functional_units.load_ports", 0, ["load_ports"]),
        ("frequency_ghz", float("nan"), ["frequency_ghz", "nan"]),
        ("frequency_ghz", float("inf"), ["frequency_ghz", "inf"]),
        ("branch_predictor.kind", "tagge", ["tagge", "did you mean tage"]),
        ("branch_predictor.kind", "none", ["out-of-order"]),
        ("branch_predictor.entries", 1000, ["1000", "power of two"]),
        ("branch_predictor.entries", 8, ["8", "at least 16"]),
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


def test_a_cache_has_no_more_ways_than_lines():
    small = replace_field(BASE, "l1d.size_kib", 1)
    assert replace_field(small, "l1d.associativity", 16).l1d.associativity == 16
    assert "number of 64-byte lines" in message(lambda: replace_field(small, "l1d.associativity", 32))


def test_missing_and_unknown_fields():
    values = copy.deepcopy(BASE.to_dict())
    del values["l1d"]["mshrs"]
    assert "l1d.mshrs is missing" in message(lambda: machine_from_dict(values))
    values = BASE.to_dict() | {"l4": None}
    assert "unknown field l4" in message(lambda: machine_from_dict(values))
    assert "mapping" in message(lambda: machine_from_dict([]))  # type: ignore[arg-type]


def test_unreadable_files(tmp_path):
    assert "neither a preset" in message(lambda: load_machine("zen"))
    told = message(lambda: load_machine("nothing like any"))
    assert all(name in told for name in (*preset_names(), *native_names()))
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


def test_a_name_given_twice_is_an_error(tmp_path):
    text = yaml.safe_dump(BASE.to_dict())
    (tmp_path / "twice.yaml").write_text(text + "frequency_ghz: 2.0\n")
    assert "frequency_ghz is given twice" in message(lambda: load_machine(tmp_path / "twice.yaml"))
    (tmp_path / "twice.json").write_text('{"name": "a", "name": "b"}')
    assert "name is given twice" in message(lambda: load_machine(tmp_path / "twice.json"))
    merged = "a: &a {x: 1}\nb: {<<: *a, x: 2}\n"
    (tmp_path / "deep.yaml").write_text("a: &a {x: 1}\nb: {c: {d: &d {<<: *a, x: 2}}}\ne: {<<: *d}\n")
    assert read_yaml(tmp_path / "deep.yaml", "file")["b"]["c"]["d"] == {"x": 2}
    (tmp_path / "merged.yaml").write_text(merged)
    assert read_yaml(tmp_path / "merged.yaml", "file") == {"a": {"x": 1}, "b": {"x": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "? [1, 2]\n: 3",
        "? {a: 1}\n: 3",
        "a: !!python/object:os.system x",
        "a: 0x" + "f" * 9000,
        "&a [*a]",
        "a: &b {c: *b}",
    ],
)
def test_odd_yaml_is_one_line(tmp_path, text):
    (tmp_path / "odd.yaml").write_text(text)
    message(lambda: load_machine(tmp_path / "odd.yaml"))


def nested(first: str, step: str) -> str:
    """Ten lines, each of nine aliases of the one before it."""
    lines = [f"a: &a {first}"]
    for before, name in itertools.pairwise("abcdefghij"):
        lines.append(f"{name}: &{name} {step.format(','.join([f'*{before}'] * 9))}")
    return "\n".join(lines)


@pytest.mark.parametrize("text", [nested("x", "[{}]"), nested("{x: 1}", "{{<<: [{}]}}")])
def test_aliases_that_stand_for_billions_are_refused(tmp_path, text):
    (tmp_path / "bomb.yaml").write_text(text)
    tracemalloc.start()
    assert "its aliases (*name) stand for more than" in message(lambda: read_yaml(tmp_path / "bomb.yaml", "file"))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_value_is_shortened_before_it_is_shown():
    value: list = ["x"]
    for _ in range(30):
        value = [value] * 9
    assert show(value).startswith("[[[[...], [...]") and len(show(value)) <= 60
    assert "unknown field" in message(lambda: machine_from_dict(BASE.to_dict() | {10**5000: 1}))


def test_many_names_are_read_in_linear_time(tmp_path):
    (tmp_path / "many.json").write_text(json.dumps({f"k{number}": number for number in range(100_000)} | {"a": 1}))
    assert len(read_yaml(tmp_path / "many.json", "file")) == 100_001
    names = [f"k{number}" for number in range(100_000)]
    start = time.process_time()
    require_unique_keys(names)
    with pytest.raises(ValueError, match="k5 is given twice"):
        require_unique_keys([*names, "k5"])
    assert time.process_time() - start < 1  # every pair: minutes


def test_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for name in ("pipe.yaml", "zero.json"):
        assert "a regular file is expected" in message(lambda name=name: load_machine(tmp_path / name))


def test_a_huge_number_is_one_line():
    assert "l1d.size_kib" in message(lambda: replace_field(BASE, "l1d.size_kib", 10**5000))
    assert "frequency_ghz" in message(lambda: replace_field(BASE, "frequency_ghz", 10**400))


def test_native_presets_differ_in_micro_operations_indirect_predictor_streams_and_what_loops_told():
    always = {"name", "microcode", "branch_predictor.indirect"}
    told = {
        "zen4-native": {
            "pipeline.fetch_width",
            "pipeline.frontend_delay",
            "forward_latency",
            "call_delay",
            "memory_renaming",
            "l1d.fill_cycles",
            "l2.fill_cycles",
            "l1d.set_fill_cycles",
            "store_refetch",
        }
    }
    for name in native_names():
        if name == "zen5-native":  # has no preset of gem5's
            continue
        machine, preset = load_machine(name), load_machine(name.removesuffix("-native"))
        assert machine.name == name and machine.microcode != preset.microcode == "gem5"
        assert machine.branch_predictor.indirect == "ittage"
        own, others = flatten(machine.to_dict()), flatten(preset.to_dict())
        differ = {field for field in own | others if own.get(field) != others.get(field)}
        streams = {field for field, value in others.items() if value == "tagged"}
        assert all(own[field] == "stream" for field in streams)
        assert differ == always | told.get(name, set()) | streams
    with pytest.raises(InputError, match="did you mean zen4-native"):
        load_machine("zen44-native")


def test_zen5_is_there_as_silicon_alone():
    assert "zen5-native" in native_names() and not {"zen5", "zen5-native"} & set(preset_names())
    assert "did you mean zen5-native?" in message(lambda: load_machine("zen5"))
    machine = load_machine("zen5-native")
    assert (machine.name, machine.microcode, machine.branch_predictor.indirect) == ("zen5-native", "zen5", "ittage")
    pipeline = machine.pipeline
    assert pipeline.decode_width == pipeline.rename_width == pipeline.commit_width == 8
    assert machine_from_dict(machine.to_dict()) == machine


MACHINES = [load_machine(name) for name in preset_names()]
ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.sampled_from([3, 48, 100, 1 << 21, 10**400]),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@settings(max_examples=100)
@given(st.data())
def test_a_perturbed_field_loads_or_is_named(data):
    machine = data.draw(st.sampled_from(MACHINES))
    values = machine.to_dict()
    field = data.draw(st.sampled_from([*field_names(machine), "pipeline", "l1i", "l3", "memory"]))
    *sections, last = field.split(".")
    target = values
    for section in sections:
        target = target[section]
    target[last] = data.draw(ODD_VALUES)
    try:
        found = machine_from_dict(values)
    except InputError as error:
        text = str(error)
        assert "\n" not in text
        related = [other for other in field_names(machine) if other in text]
        assert field in text or related, text
        assert len(text) < 600
    else:
        assert machine_from_dict(found.to_dict()) == found


@settings(max_examples=100)
@given(st.data())
def test_a_missing_or_unknown_field_is_named(data):
    values = data.draw(st.sampled_from(MACHINES)).to_dict()
    section = data.draw(st.sampled_from([name for name, value in values.items() if isinstance(value, dict)]))
    prefix, target = data.draw(st.sampled_from([("", values), (f"{section}.", values[section])]))
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from([name for name in target if prefix + name not in OPTIONAL]))
        del target[name]
        assert prefix + name in message(lambda: machine_from_dict(values))
    else:
        name = data.draw(st.text(st.characters(codec="utf-8"), max_size=6).filter(lambda text: text not in target))
        target[name] = 1
        assert "unknown field" in message(lambda: machine_from_dict(values))


@pytest.mark.parametrize(
    "field",
    [
        *(f"functional_units.{name}" for name in BASE.to_dict()["functional_units"]),
        *(f"pipeline.{name}" for name in BASE.to_dict()["pipeline"]),
        *(f"l1d.{name}" for name in ("size_kib", "associativity", "latency", "mshrs")),
        "frequency_ghz",
    ],
)
@pytest.mark.parametrize("value", [0, -1, 1e9, float("nan"), float("inf"), -float("inf"), "4", None, [1]])
def test_every_number_is_bounded_on_both_sides(field, value):
    text = message(lambda: replace_field(BASE, field, value))
    assert field in text
    assert "number from" in text


def test_the_command_names_the_field(tmp_path):
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(BASE.to_dict()).replace("associativity: 8", "associativity: 0"))
    result = perfvec("uarch", "show", tmp_path / "odd.yaml")
    assert result.returncode == 2
    assert "l1i.associativity = 0 must be a whole number from 1 to 64" in result.stderr
    assert result.stderr.count("\n") == 1
