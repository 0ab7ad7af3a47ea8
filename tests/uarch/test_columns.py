"""Machines as columns: the same machines as one by one, the same conditions on them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from uarch.columns import Grid, of_machines, possible
from uarch.configuration import RelationError, replace_field
from uarch.formula import is_power_of_two
from uarch.machine_files import load_machine
from uarch.space import parse_constraint, sample
from uarch.space_columns import sample_columns


@pytest.mark.parametrize(("space", "base"), [("default", None), ("embedded", None), ("core", None), ("caches", "zen4")])
def test_a_sample_is_that_of_machines(space, base):
    columns = sample_columns(60, 5, space, base)
    for row, machine in enumerate(sample(60, 5, space, base=base)):
        assert columns.machine(row, machine.name) == machine


def test_machines_come_back_from_columns():
    machines = [load_machine(name) for name in ("base", "cortex-a53", "zen4")]
    columns = of_machines(machines)
    assert [columns.machine(row, machine.name) for row, machine in enumerate(machines)] == machines


@settings(max_examples=15)
@given(
    rob=st.lists(st.integers(16, 300), min_size=1, max_size=4, unique=True),
    queue=st.lists(st.integers(8, 300), min_size=1, max_size=4, unique=True),
    size=st.lists(st.sampled_from([1, 8, 24, 32, 48, 64]), min_size=1, max_size=3, unique=True),
)
def test_the_possible_points_of_a_grid_are_the_machines(rob, queue, size):
    base = load_machine("base")
    grid = Grid(base, {"pipeline.rob_entries": rob, "pipeline.issue_queue_entries": queue, "l1d.size_kib": size})
    options = grid.every()
    columns = grid.columns(options)
    good, _ = possible(columns)
    for row in range(grid.count):
        values = base.to_dict()
        values["pipeline"]["rob_entries"] = rob[options[0][row]]
        values["pipeline"]["issue_queue_entries"] = queue[options[1][row]]
        values["l1d"]["size_kib"] = size[options[2][row]]
        if good[row]:
            assert columns.machine(row, base.name).to_dict() == values
        else:
            with pytest.raises(RelationError):
                columns.machine(row, base.name)


def test_a_constraint_holds_where_a_field_is_absent():
    constraint = parse_constraint("test", "l3.size_kib >= 2 * l2.size_kib")
    machines = sample(40, 3)
    good, _ = possible(of_machines(machines), [constraint])
    expected = [machine.l3 is None or machine.l3.size_kib >= 2 * machine.l2.size_kib for machine in machines]
    assert good.tolist() == expected
    assert set(expected) == {True, False}


def test_l3_and_memory_vary_as_a_whole():
    base = replace_field(load_machine("base"), "memory", {"model": "simple", "latency_ns": 60.0, "bandwidth_gbs": 20.0})
    grid = Grid(base, {"l3": [None], "memory.model": ["DDR3_1600_8x8", "simple"]})
    columns = grid.columns(grid.every())
    first, second = columns.machine(0, "a"), columns.machine(1, "b")
    assert first.l3 is None
    assert first.memory.model == "DDR3_1600_8x8"
    assert second.memory == base.memory


@pytest.mark.parametrize(
    ("grid", "match"),
    [
        ({}, "empty sweep"),
        ({"l1d.size_kib": []}, "empty sweep"),
        ({"l1d.sise_kib": [1]}, "l1d.size_kib"),
        ({"l1d.size_kib": [0]}, "l1d.size_kib = 0"),
        ({"branch_predictor.entries": [1024, 1000]}, "branch_predictor.entries = 1,?000 must be .* a power of two"),
        ({"name": ["x"]}, "name"),
        ({"memory": ["DDR3_1600_8x8"], "memory.model": ["DDR4_2400_8x8"]}, "together"),
    ],
)
def test_a_wrong_grid_is_one_line(grid, match):
    with pytest.raises(InputError, match=match):
        Grid(load_machine("base"), grid)


def test_too_many_points_are_told():
    with pytest.raises(InputError, match="--search"):
        Grid(
            load_machine("base"),
            {"l2.latency": range(1, 400), "l1d.latency": range(1, 400), "l1i.latency": range(1, 400)},
        ).every()


@given(st.integers(-4, 1 << 30))
def test_powers_of_two(value):
    expected = value > 0 and value & (value - 1) == 0
    assert bool(is_power_of_two(value)) == expected
    assert is_power_of_two(np.array([value])).tolist() == [expected]
