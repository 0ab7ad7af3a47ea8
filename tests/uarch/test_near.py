"""Mixtures of machines."""

from dataclasses import replace

import pytest

from support.errors import InputError
from uarch.configuration import flatten, machine_from_dict
from uarch.machine_files import load_machine, preset_names
from uarch.near import near_pairs
from uarch.space import sample

PRESETS = [load_machine(name) for name in preset_names()]


def test_of_each_two_the_second_differs_in_one_field_and_none_is_there_twice():
    machines = near_pairs(PRESETS, 24, 3)
    assert len(machines) == 24 and machines == near_pairs(PRESETS, 24, 3) != near_pairs(PRESETS, 24, 4)
    for first, second in zip(machines[::2], machines[1::2], strict=True):
        one, other = flatten(first.to_dict()), flatten(second.to_dict())
        changed = [field for field in one if field != "name" and one[field] != other.get(field)]
        assert changed == [second.name.removeprefix(f"{first.name}-")]
        assert machine_from_dict(second.to_dict()) == second
    assert len({replace(machine, name="") for machine in machines}) == 24


def test_every_value_is_one_that_a_donor_has():
    donors = [flatten(machine.to_dict()) for machine in (*PRESETS, *sample(64, 5))]
    own = 0
    for machine in near_pairs(PRESETS, 32, 5)[::2]:
        values = flatten(machine.to_dict())
        alike = [donor for donor in donors if donor["core"] == machine.core]
        for field, value in values.items():
            assert field == "name" or value in {donor.get(field) for donor in alike}
        for section in ("memory", "l3"):  # taken whole
            taken = {field: value for field, value in values.items() if field.split(".")[0] == section}
            assert any(taken.items() <= donor.items() for donor in alike)
        own += sum(
            value in {flatten(preset.to_dict()).get(field) for preset in PRESETS} for field, value in values.items()
        )
        own -= 1  # the name
    assert own > 0.5 * sum(len(flatten(machine.to_dict())) for machine in near_pairs(PRESETS, 32, 5)[::2])


def test_nothing_to_mix():
    with pytest.raises(InputError, match="needs machines"):
        near_pairs([], 2)
