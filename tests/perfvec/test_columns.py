"""Features and cycles of many machines at once are those of each machine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.designs.design import grid_design
from analysis.questions.predict import notes, predict
from perfvec.machines.columns import cycles_of_columns, outside_of_columns, partly_unseen
from perfvec.machines.encoder import MachineEncoder
from perfvec.machines.features import features_of_columns, features_of_machines, varying_features
from tests.analysis.vectors import program, shipped
from uarch.columns import of_machines
from uarch.configuration import flatten, replace_field, replace_fields
from uarch.machine_files import load_machine, preset_names
from uarch.space import sample


def test_features_of_the_presets():
    machines = [load_machine(name) for name in preset_names()]
    assert np.array_equal(
        features_of_columns(of_machines(machines)),
        np.concatenate([features_of_machines([machine]) for machine in machines]),
    )


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), space=st.sampled_from(["default", "caches", "embedded"]))
def test_features_of_random_machines(seed, space):
    machines = sample(12, seed, space)
    expected = np.concatenate([features_of_machines([machine]) for machine in machines])
    assert np.allclose(features_of_columns(of_machines(machines)), expected, rtol=1e-6, atol=1e-6)


def test_the_first_features_alone():
    columns = of_machines(sample(3, 1))
    assert np.array_equal(features_of_columns(columns, 5), features_of_columns(columns)[:, :5])


def test_cycles_are_the_products_of_vectors(monkeypatch):
    monkeypatch.setattr("perfvec.machines.columns.TOGETHER", 7)  # several times, the last one of fewer
    machines = sample(20, 2)
    encoder = shipped().encoder
    programs = np.stack([program(seed=seed).vector for seed in range(3)])
    expected = encoder.encode(np.concatenate([features_of_machines([machine]) for machine in machines])) @ programs.T
    assert np.allclose(cycles_of_columns(encoder, of_machines(machines), programs), expected, rtol=1e-3)


GRID = {"l2.size_kib": [256, 1024], "pipeline.rob_entries": [64, 192, 320], "branch_predictor.kind": ["local", "tage"]}


def test_cycles_of_a_grid_are_those_of_its_machines():
    columns = grid_design(load_machine("zen2"), GRID).columns
    varying = varying_features(columns)
    assert 0 < varying.sum() < 0.5 * len(varying)
    assert varying_features(columns, 5).tolist() == varying[:5].tolist()
    same_as_of_each(columns)


@pytest.mark.parametrize("model", ["simple", "HBM_1000_4H_1x64"])
def test_cycles_of_a_space_are_those_of_its_machines(model):
    machines = sample(40, 2)
    first = next(machine for machine in machines if flatten(machine.to_dict())["memory.model"] == model)
    same_as_of_each(of_machines([first, *machines]))  # what varies is seen, whichever machine is the first


def same_as_of_each(columns):
    varying, found = varying_features(columns), features_of_columns(columns)
    assert (found[:, ~varying] == found[0, ~varying]).all()
    encoder, programs = shipped().encoder, program(seed=3).vector[None]
    machines = [columns.machine(row, f"m{row}") for row in range(columns.count)]
    expected = encoder.encode(features_of_machines(machines)) @ programs.T
    assert np.allclose(cycles_of_columns(encoder, columns, programs), expected, rtol=1e-3)


def test_what_lies_outside_is_what_machines_say():
    encoder = MachineEncoder(4)
    known = [load_machine("base"), replace_field(load_machine("base"), "l1d.size_kib", 64)]
    encoder.remember(known)
    assert outside_of_columns(encoder, of_machines(known)) == []
    far = replace_field(replace_field(load_machine("base"), "l1d.size_kib", 128), "branch_predictor.kind", "local")
    assert set(outside_of_columns(encoder, of_machines([*known, far]))) == set(encoder.outside(far))


@pytest.mark.parametrize("name", ["cortex-a53", "zen4"])
def test_outside_of_one_machine(name):
    encoder = MachineEncoder(4)
    encoder.remember([load_machine("base")])
    machine = load_machine(name)
    assert set(outside_of_columns(encoder, of_machines([machine]))) == set(encoder.outside(machine))


def test_fields_without_an_input_lie_outside(capsys):
    encoder = MachineEncoder(4)
    base = load_machine("base")
    encoder.remember([base])
    tlb = {"entries": 64, "l2_entries": 1024, "l2_latency": 7, "walk_latency": 30}
    other = replace_fields(base, {"name": "other", "l2.replacement": "srrip", "tlb": tlb})
    assert encoder.outside(base) == []
    assert encoder.outside(other) == ["l2.replacement (no input)", "tlb (no input)"]
    assert outside_of_columns(encoder, of_machines([base, other])) == encoder.outside(other)
    encoder.vectors([base, other, replace_fields(other, {"name": "third"})])
    told = capsys.readouterr().err
    assert told.startswith("perfvec: other and 1 more machine: beyond what the encoder was trained on: l2.replacement")


def test_where_the_model_has_no_input_of_a_field_there_is_no_interval():
    model, seen, unseen = shipped(), load_machine("base"), load_machine("zen4-native")
    assert partly_unseen(of_machines([seen, unseen, seen])).tolist() == [False, True, False]
    own = replace(replace_field(seen, "l2.latency", 11), name="own")
    frame = predict(model, [program()], [own, unseen])
    assert frame["source"].tolist() == ["zero-shot", "zero-shot"]
    assert frame["low"].notna().tolist() == [True, False]
    assert [note for note in notes(model, frame) if "zen4-native" in note and "own" not in note]


def test_fitted_and_zero_shot_machines_are_not_for_comparison():
    model, fitted = shipped(), load_machine("base")
    own = replace(replace_field(fitted, "l2.latency", 11), name="own")
    told = [
        len([note for note in notes(model, frame) if "compare" in note])
        for frame in (
            predict(model, [program()], [fitted, load_machine("zen2")]),
            predict(model, [program()], [own]),
            predict(model, [program()], [own, fitted]),
        )
    ]
    assert told == [0, 0, 1]
