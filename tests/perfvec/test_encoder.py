"""The machine encoder: it learns a known law, loads older states, and tells machines beyond its training."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from perfvec.machines.encoder import HINGES, MachineEncoder, field_names, input_scale
from perfvec.machines.features import REUSED_KIB, features, features_of_machines
from perfvec.model import load_model
from perfvec.training.encoder_training import learn
from uarch.configuration import machine_from_dict, replace_field, replace_fields
from uarch.machine_files import load_machine, preset_names
from uarch.space import load_space, ranges, sample

RANGES = [load_machine(name) for name in preset_names()]


@pytest.fixture(scope="module")
def law():
    """Machines whose time a window is a known function of core and frequency, half of them unseen by the encoder."""
    machines = sample(120, seed=4)
    rng = np.random.default_rng(0)
    width = 8
    parts = rng.random((2, width)) + 0.2
    slow = np.array([4.0 if machine.core == "in-order" else 1.0 for machine in machines])
    memory = np.array([machine.frequency_ghz for machine in machines])
    truth = slow[:, None] * parts[0] + memory[:, None] * parts[1]
    windows = rng.random((12, width)) * 1e5
    window, row = (grid.ravel() for grid in np.meshgrid(np.arange(12), np.arange(80)))
    features = np.concatenate([features_of_machines([machine]) for machine in machines])
    cycles = (windows[window] * truth[row]).sum(axis=1)
    encoder = learn(features[:80], windows, window, row, cycles, truth[:40], seed=0, steps=600, progress=False)
    return encoder, features, windows, truth


@pytest.mark.slow
def test_machines_that_taught_nothing_are_predicted(law):
    encoder, features, windows, truth = law
    error = np.abs(encoder.encode(features[80:]) @ windows.T / (truth[80:] @ windows.T) - 1)
    unlearnt = np.abs(truth[:40].mean(axis=0) @ windows.T / (truth[80:] @ windows.T) - 1)
    assert error.mean() < 0.1
    assert error.mean() < 0.3 * unlearnt.mean()


@pytest.mark.slow
def test_the_state_alone_makes_the_encoder_again(law):
    encoder, features, _, _ = law
    again = MachineEncoder(8)
    again.load_state_dict(encoder.state_dict())
    assert np.array_equal(again.encode(features), encoder.encode(features))
    assert np.array_equal(again.encode(features), again.encode(features))  # no dropout outside training


@pytest.fixture
def costly():
    """An encoder of random weights, with costs, and 20 machines' features."""
    torch.manual_seed(3)
    features = features_of_machines(sample(20, seed=2))
    encoder = MachineEncoder(8, features=features.shape[1], coordinates=3, costs=2, hidden=8, hinges=HINGES)
    encoder.mean.copy_(torch.from_numpy(features.mean(axis=0)))
    encoder.scale.copy_(torch.from_numpy(input_scale(features)))
    for value in (*encoder.parameters(), encoder.basis, encoder.basis_mean, encoder.cost_basis):
        value.data.normal_(std=0.2)
    return encoder, features


def test_a_vector_is_a_direction_at_a_pace_and_costs(costly):
    encoder, features = costly
    weights = {name: value.double().numpy() for name, value in encoder.state_dict().items()}
    x = np.clip((features - weights["mean"]) * weights["scale"], -4, 4)
    x = np.concatenate([x, *(np.maximum(x - hinge, 0) for hinge in HINGES)], axis=1)
    hidden = x
    for layer in ("0", "2"):
        hidden = hidden @ weights[f"correction.{layer}.weight"].T + weights[f"correction.{layer}.bias"]
        hidden = hidden / (1 + np.exp(-hidden))
    output = x @ weights["linear.weight"].T + weights["linear.bias"]
    output += hidden @ weights["correction.4.weight"].T + weights["correction.4.bias"]
    expected = np.exp(output[:, :1]) * (weights["basis_mean"] + output[:, 1:4] @ weights["basis"])
    expected += np.exp(output[:, 4:]) @ weights["cost_basis"]
    np.testing.assert_allclose(encoder.encode(features), expected, rtol=1e-3, atol=1e-4)


def test_costs_are_in_the_state_and_in_cycles(costly):
    encoder, features = costly
    again = MachineEncoder(8)
    again.load_state_dict(encoder.state_dict())
    assert np.array_equal(again.encode(features), encoder.encode(features))
    programs = np.random.default_rng(1).random((3, 8))
    np.testing.assert_allclose(
        encoder.cycles(features, programs), encoder.encode(features) @ programs.T, rtol=1e-3, atol=1e-3
    )


def test_an_encoder_without_costs_has_the_state_of_an_older_release():
    assert "cost_basis" not in MachineEncoder(8, features=3, coordinates=2).state_dict()


def test_the_shipped_model_still_encodes():
    model = load_model()
    vectors = model.encoder.vectors(RANGES)
    table = model.machine_vectors(RANGES)[0]
    assert np.isfinite(vectors).all()
    cosine = (vectors * table).sum(axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(table, axis=1)
    assert np.median(cosine) > 0.7


def test_a_machine_beyond_the_training_is_told(capsys):
    encoder = MachineEncoder(4, features=features_of_machines(RANGES[:1]).shape[1])
    known = [replace_field(load_machine("base"), "l2.size_kib", size) for size in (512, 1024)]
    encoder.remember(known)
    encoder.vectors(known)
    assert capsys.readouterr().err == ""
    large = replace(replace_field(known[0], "l2.size_kib", 4096), name="large")
    odd = replace(replace_field(large, "branch_predictor.kind", "perceptron"), name="odd")
    encoder.vectors([known[0], large, odd])
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "large and 1 more machine" in told
    assert "l2.size_kib = 4096 (512 to 1024)" in told
    assert "branch_predictor.kind = perceptron (never)" in told
    encoder.vectors([odd])
    assert capsys.readouterr().err == ""  # each value is named once
    encoder.vectors([replace_field(odd, "l2.size_kib", 8192)])
    told = capsys.readouterr().err
    assert "l2.size_kib = 8192" in told and "perceptron" not in told


def test_a_field_that_the_core_lacks_is_no_extreme():
    encoder = MachineEncoder(4)
    encoder.remember([load_machine("base"), load_machine("cortex-a53")])
    assert encoder.outside(load_machine("base")) == []
    assert encoder.outside(load_machine("cortex-a53")) == []
    outside = encoder.outside(replace_field(load_machine("cortex-a53"), "pipeline.width", 4))
    assert outside == ["pipeline.width = 4 (2 to 2)"]


@pytest.mark.slow
def test_an_encoder_of_sampled_machines_knows_whatever_is_sampled():
    """The draw that taught it ends before the space does: 6 of 100 others were told to lie beyond it."""
    encoder = MachineEncoder(4)
    encoder.remember(sample(160, seed=2))
    others = sample(1000, seed=5)
    assert {field for machine in others for field in encoder.outside(machine)} == set()
    low, high = ranges(load_space("default"))["pipeline.rob_entries"]
    index = field_names().index("pipeline.rob_entries")
    assert (encoder.low[index], encoder.high[index]) == (low, high)


def test_a_range_that_is_not_covered_stays_what_was_seen():
    machines = [replace_field(load_machine("base"), "pipeline.rob_entries", size) for size in (100, 300)]
    encoder = MachineEncoder(4)
    encoder.remember(machines)
    index = field_names().index("pipeline.rob_entries")
    assert (encoder.low[index], encoder.high[index]) == (100, 300)


@pytest.mark.slow
@pytest.mark.parametrize("space", ["default", "core"])
def test_what_is_sampled_lies_within_what_the_shipped_encoder_was_taught(space):
    encoder = load_model().encoder
    assert {field for machine in sample(1500, seed=3, space=space) for field in encoder.outside(machine)} == set()


def test_streams_are_the_feature_of_tagged_prefetching(capsys):
    zen4, base = load_machine("zen4-native"), load_machine("base")
    assert zen4.l2.prefetcher == "stream"
    tagged, none = replace_field(zen4, "l2.prefetcher", "tagged"), replace_field(base, "l2.prefetcher", "none")
    assert np.array_equal(*features_of_machines([zen4, tagged]))
    assert not np.array_equal(*features_of_machines([base, none]))
    load_model().encoder.vectors([replace_field(base, "l2.prefetcher", "stream")])
    assert capsys.readouterr().err == ""


def _feature(machine, name):
    """A quantity as the encoder reads it, by its formula."""
    wanted = ("else", ("log2", ("+", 1.0, name)), 0.0)
    return float(2.0 ** features_of_machines([machine])[0][features().index(wanted)] - 1.0)


def test_memory_is_known_by_its_rows():
    ddr4, ddr5 = (
        replace_field(load_machine("base"), "memory.model", f"DDR{one}") for one in ("4_2400_8x8", "5_6400_4x8")
    )
    assert _feature(ddr4, "row hit ns") == pytest.approx(14.16 + 3.332, rel=1e-5)  # open: the column alone
    assert _feature(ddr4, "row conflict ns") == pytest.approx(3 * 14.16 + 3.332, rel=1e-5)
    assert _feature(ddr5, "row hit ns") == _feature(ddr5, "row conflict ns")  # closed: a row is opened each time
    assert _feature(ddr5, "row hit ns") == pytest.approx(2 * 14.375 + 2.496, rel=1e-5)
    assert _feature(ddr4, "open rows KiB") == pytest.approx(2 * 16 * 8, rel=1e-5)
    assert _feature(ddr5, "open rows KiB") == 0
    simple = replace_field(ddr4, "memory", {"model": "simple", "latency_ns": 70, "bandwidth_gbs": 12.8})
    assert _feature(simple, "row hit ns") == _feature(simple, "row conflict ns") == pytest.approx(70, rel=1e-5)


def test_a_line_of_two_bursts_takes_the_bus_twice():
    slow = replace_field(load_machine("base"), "memory.model", "HBM_1000_4H_1x64")
    machine = replace_field(slow, "frequency_ghz", 3)
    assert _feature(machine, "latency ns") == pytest.approx(15 + 15 + 2 * 4, rel=1e-5)
    assert _feature(machine, "bandwidth") == pytest.approx(64 / 8, rel=1e-5)
    assert _feature(machine, "a line") == pytest.approx(8 * 3, rel=1e-5)


def test_twice_the_load_ports_raise_what_reads_them():
    few, many = features_of_machines(
        [replace_field(load_machine("base"), "functional_units.load_ports", n) for n in (2, 4)]
    )
    changed = (many - few)[many != few]  # log2 (1 + ports), and log2 of ports over the narrowest width
    assert sorted(changed.tolist()) == pytest.approx([np.log2(5 / 3), 1], rel=1e-5)


def test_a_division_is_known_by_its_step():
    base = load_machine("base")
    step = ("else", "functional_units.div_step_latency", "functional_units.div_latency")
    assert _feature(base, step) == pytest.approx(2, rel=1e-5)
    values = base.to_dict()
    units = {name: value for name, value in values["functional_units"].items() if name != "div_step_latency"}
    without = machine_from_dict(values | {"functional_units": units})
    assert _feature(without, step) == pytest.approx(18, rel=1e-5)


EXTENDED = """
import uarch.constraints as constraints

source = open(constraints.__file__, encoding="utf-8").read()
for last in ('"perceptron")', "ITTAGE)", "STREAM)", '"random")'):
    assert source.count(last) == 1
    source = source.replace(last, last[:-1] + ', "mine")')
exec(compile(source, constraints.__file__, "exec"), constraints.__dict__)

from perfvec.model import load_model
from uarch.configuration import replace_fields
from uarch.machine_files import load_machine

encoder = load_model().encoder
zen4 = load_machine("zen4")
mine = replace_fields(zen4, {"branch_predictor.kind": "mine", "l1d.prefetcher": "mine", "l2.replacement": "mine"})
print(repr(encoder.vectors([replace_fields(zen4, {"l2.size_kib": 512})]).sum()))
print(encoder.outside(mine))
"""


def test_a_new_name_leaves_all_others_where_they_are(capsys):
    """The name is added as uarch/timing/README.md says: at the end of its tuple."""
    found = subprocess.run([sys.executable, "-c", EXTENDED], capture_output=True, text=True, check=True, timeout=120)
    encoder = load_model().encoder
    assert encoder is not None
    known = encoder.vectors([replace_field(load_machine("zen4"), "l2.size_kib", 512)]).sum()
    number, told = found.stdout.splitlines()
    assert number == repr(known) and not found.stderr
    assert told == str(
        ["branch_predictor.kind = mine (never)", "l1d.prefetcher = mine (never)", "l2.replacement (no input)"]
    )


@pytest.mark.parametrize("first", ["l1d", "l1i"])
def test_an_access_takes_as_long_as_the_level_that_holds_its_line(first):
    with_l3 = replace_fields(
        load_machine("base"),
        {
            "frequency_ghz": 2.0,
            f"{first}.size_kib": 32,
            f"{first}.latency": 4,
            "l2.size_kib": 512,
            "l2.latency": 10,
            "l3.size_kib": 8192,
            "l3.latency": 30,
            "memory": {"model": "simple", "latency_ns": 60, "bandwidth_gbs": 12.8},
        },
    )
    without = replace(with_l3, l3=None)
    wanted = {24: 4, 40: 14, 384: 14, 768: 44, 6144: 44, 12288: 164, 24576: 164}
    assert _reuses(first, with_l3, wanted) == pytest.approx(wanted, rel=1e-5)
    wanted = {24: 4, 40: 14, 384: 14, 768: 134, 24576: 134}
    assert _reuses(first, without, wanted) == pytest.approx(wanted, rel=1e-5)


def _reuses(first, machine, distances):
    """Latencies of accesses that are so many KiB apart, by the places of these features."""
    later = features_of_machines([machine])[0][-2 * len(REUSED_KIB) :]
    of_first = later[: len(REUSED_KIB)] if first == "l1d" else later[len(REUSED_KIB) :]
    return {kib: float(2.0 ** of_first[REUSED_KIB.index(kib)] - 1.0) for kib in distances}
