"""Machines whose fields vary each by itself."""

from dataclasses import replace

import numpy as np
import pytest

from support.errors import InputError
from uarch.configuration import flatten, machine_from_dict
from uarch.factorial import factorial_pairs
from uarch.machine_files import load_machine, preset_names
from uarch.space import sample

PRESETS = [load_machine(name) for name in preset_names()]


def test_of_each_two_the_second_has_one_more_field_drawn():
    machines = factorial_pairs(PRESETS, 24, 3)
    assert len(machines) == 24 and machines == factorial_pairs(PRESETS, 24, 3) != factorial_pairs(PRESETS, 24, 4)
    for first, second in zip(machines[::2], machines[1::2], strict=True):
        one, other = flatten(first.to_dict()), flatten(second.to_dict())
        changed = [field for field in other if field != "name" and one.get(field) != other[field]]
        assert changed == [second.name.removeprefix(f"{first.name}-")]
        assert machine_from_dict(second.to_dict()) == second


def test_no_machine_is_there_twice():
    """A share near 0 leaves a start as it is; of few starts one comes again."""
    machines = factorial_pairs(PRESETS[:1], 300, 2)
    assert len({replace(machine, name="") for machine in machines}) == 300


def test_fields_go_together_less_than_in_the_design_space():
    """A grid has a scheduler of 16 entries beside a reorder buffer of 256, and issues two where it renames four."""

    def sizes(machines):
        flat = [flatten(machine.to_dict()) for machine in machines if machine.core == "out-of-order"]
        names = ("rename_width", "issue_width", "rob_entries", "issue_queue_entries")
        return np.array([[one[f"pipeline.{name}"] for name in names] for one in flat], float)

    drawn = sizes(factorial_pairs(PRESETS, 600, 5)[::2])
    rename, issue, rob, queue = drawn.T
    assert ((queue <= 16) & (rob >= 256)).any() and ((issue == 2) & (rename >= 4)).any()
    together = np.corrcoef(np.log(drawn), rowvar=False)[2, 3]
    assert together < np.corrcoef(np.log(sizes(sample(300, 5))), rowvar=False)[2, 3] - 0.2


def test_steps_of_divisions_are_those_of_the_machines():
    """No machine of the design space tells them."""
    field = "functional_units.div_step_latency"
    own = [flatten(machine.to_dict()).get(field) for machine in PRESETS]
    drawn = {flatten(machine.to_dict()).get(field) for machine in factorial_pairs(PRESETS, 200, 1)}
    assert set(range(1, max(filter(None, own)) + 1)) <= drawn


def test_nothing_to_start_from():
    with pytest.raises(InputError, match="needs machines"):
        factorial_pairs([], 2)
