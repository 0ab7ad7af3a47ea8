"""Device files: every one loads, unknown stays unknown, a machine is a device, mistakes are one line."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from support.errors import InputError
from uarch.devices import DEVICES, NUMBERS, device_names, load_device, machine_device, numbers
from uarch.machine_files import load_machine


@pytest.mark.parametrize("name", device_names())
def test_every_device_loads_names_its_source_and_agrees_with_itself(name):
    device = load_device(name)
    assert device.name == name
    text = (DEVICES / f"{name}.yaml").read_text()
    assert "# Source:" in text
    if device.kind == "gpu":  # lanes × multiprocessors × 2 (multiply-add) × clock
        assert device.peak_gflops == pytest.approx(
            device.cores * device.lanes_per_core * 2 * device.clock_ghz, rel=1e-3
        )
    else:
        assert device.warp_size is None and device.shared_kib_per_block is None


def test_the_host_is_read_and_its_levels_differ_in_vectors_only():
    levels = [load_device(f"x86-64-v{k}") for k in (2, 3, 4)]
    assert [level.vector_bytes for level in levels] == [16, 32, 64]
    assert {level.cores for level in levels} == {os.cpu_count()}
    others = [{k: v for k, v in level.to_dict().items() if k != "vector_bytes"} for level in levels]
    assert others[0] == others[1] == others[2]


def test_numbers_are_logarithms_and_unknown_is_nan():
    values = dict(zip(NUMBERS, numbers(load_device("t4").to_dict()), strict=True))
    assert values["warp_size"] == 5 and values["cores"] == pytest.approx(math.log2(40))
    assert math.isnan(values["l3_kib"])
    assert np.isnan(numbers({"cores": True, "clock_ghz": "fast", "l1_kib": 0})).all()


def test_a_machine_is_a_device():
    machine = load_machine("cortex-a72")
    device = load_device("cortex-a72")
    assert device == machine_device(machine)
    assert (device.cores, device.clock_ghz, device.l1_kib) == (1, machine.frequency_ghz, machine.l1d.size_kib)
    assert device.peak_gflops is None


def test_a_machine_file_and_a_device_file_of_the_user(tmp_path):
    from uarch.machine_files import PRESETS

    (tmp_path / "m.yaml").write_text((PRESETS / "haswell.yaml").read_text())
    assert load_device(tmp_path / "m.yaml").name == "haswell"
    (tmp_path / "d.yaml").write_text("name: board\nkind: cpu\ncores: 4\n")
    assert load_device(tmp_path / "d.yaml").to_dict()["l2_kib"] is None


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("name: a\nkind: tpu\n", "kind"),
        ("name: a\nkind: cpu\ncore: 4\n", "unknown parameter 'core'.*cores"),
        ("name: a\nkind: cpu\ncores: -1\n", "cores is -1"),
        ("name: a\nkind: cpu\ncores: many\n", "cores is 'many'"),
        ("name: a\nkind: cpu\npeak_gflops: host\n", "peak_gflops cannot be read from the host"),
        ("[1]", "not a device"),
    ],
)
def test_mistakes_are_told(tmp_path, text, match):
    path = tmp_path / "d.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        load_device(path)


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(InputError, match=r"unknown device v10.*v100"):
        load_device("v10")
