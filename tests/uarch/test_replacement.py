"""Replacement policies against ones written the plain way, and what they are made for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Instruction, Program, load

from support.errors import InputError
from uarch.configuration import machine_from_dict, replace_field, replace_fields
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

BASE = replace_field(load_machine("base"), "l3", None)
FIRST_LINE = 0x10000000 // 64


class PlainTree:
    """A tree of nested halves: the left one has the ways of whole levels first, as in a heap."""

    def __init__(self, ways):
        self.right = {}  # path from the root → where the victim is
        self.paths = {}
        for way in range(ways):
            path, node = "", ways - 1 + way
            while node > 0:
                path = "LR"[node % 2 == 0] + path
                node = (node - 1) // 2
            self.paths[path] = way

    def use(self, way, filled):
        path = next(path for path, one in self.paths.items() if one == way)
        for k, side in enumerate(path):
            self.right[path[:k]] = side == "L"

    def victim(self, held):
        path = ""
        while path not in self.paths:
            path += "R" if self.right.get(path) else "L"
        return self.paths[path]


class PlainIntervals:
    def __init__(self, ways):
        self.intervals = [3] * ways

    def use(self, way, filled):
        self.intervals[way] = 2 if filled else 0

    def victim(self, held):
        while 3 not in self.intervals:
            self.intervals = [interval + 1 for interval in self.intervals]
        return self.intervals.index(3)


class PlainOrder:
    def __init__(self, ways):
        self.order = list(range(ways))

    def use(self, way, filled):
        self.order.remove(way)
        self.order.append(way)

    def victim(self, held):
        return self.order[0]


def misses_of_plain(kind, sets, ways, lines):
    policies = [{"tree-plru": PlainTree, "srrip": PlainIntervals, "lru": PlainOrder}[kind](ways) for _ in range(sets)]
    held = [[None] * ways for _ in range(sets)]
    count = 0
    for line in lines:
        policy, places = policies[line % sets], held[line % sets]
        if filled := line not in places:
            count += 1
            places[policy.victim(places)] = line
        policy.use(places.index(line), filled)
    return count


def misses(kind, size_kib, ways, lines, *, timed=True):
    """Misses in an L1D of a policy; a fence after each load, since loads in flight together would merge."""
    values = {"size_kib": size_kib, "associativity": ways, "latency": 2, "mshrs": 4, "prefetcher": "none"}
    machine = replace_field(BASE, "l1d", values | {"replacement": kind})
    program = Program([load(1, 2), Instruction(Operation.SYSTEM, flags=Flag.SERIALIZING | Flag.BARRIER)])
    for line in lines:
        program.execute(0, (64 * (FIRST_LINE + line), 8, 0))
        program.execute(1)
    simulation = Simulation(machine, program.static())
    (simulation.run if timed else simulation.warm)(program.chunk())
    return simulation.counters["l1d_misses"]


@pytest.mark.parametrize("kind", ["tree-plru", "srrip", "lru"])
@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=300),
    st.sampled_from([(1, 1), (1, 4), (1, 16), (3, 6), (3, 3)]),
    st.booleans(),
)
def test_misses_are_those_of_a_plain_cache(kind, lines, geometry, timed):
    size_kib, ways = geometry
    sets = size_kib * 16 // ways
    assert FIRST_LINE % sets == 0
    assert misses(kind, size_kib, ways, lines, timed=timed) == misses_of_plain(kind, sets, ways, lines)


def test_a_loop_one_line_too_long_defeats_all_but_random_replacement():
    """17 lines, in turn, through one set of 16 ways: each is gone just before it is asked for again (Jaleel et al.,
    section 3). Drawn at random, a line is still there with a chance of (15/16)^k after k others have come.
    """
    loop = [*range(17)] * 40
    for kind in ("lru", "tree-plru", "srrip"):
        assert misses(kind, 1, 16, loop) == len(loop)
    assert misses("random", 1, 16, loop) < 0.3 * len(loop)


def test_a_scan_pushes_out_no_lines_that_were_hit_by_srrip():
    """8 lines used twice, then 8 that are never used again, and the 8 once more: a set of 12 ways keeps them."""
    lines = []
    for k in range(30):
        lines += [*range(8), *range(8), *range(100 + 8 * k, 108 + 8 * k)]
    found = {kind: misses(kind, 3, 48, lines) for kind in ("lru", "srrip")}
    assert found == dict.fromkeys(found, 8 + 240), "48 ways: room for both"
    lines = [line * 4 for line in lines]  # one set of four
    found = {kind: misses(kind, 3, 12, lines) for kind in ("lru", "srrip")}
    assert found["lru"] == 16 * 30
    assert found["srrip"] == 8 + 240


def test_random_replacement_is_the_same_in_every_run():
    lines = [k * k % 97 for k in range(500)]
    first = misses("random", 1, 16, lines)
    assert first == misses("random", 1, 16, lines)
    assert first > 97
    assert misses("random", 1, 16, [*range(16)] * 3) == 16  # ways never filled come first


@pytest.mark.parametrize("level", ["l1i", "l1d", "l2", "l3"])
def test_each_cache_has_a_policy_of_its_own(level):
    machine = replace_field(load_machine("base"), f"{level}.replacement", "srrip")
    assert getattr(machine, level).replacement == "srrip"
    assert machine_from_dict(machine.to_dict()) == machine
    assert replace_field(machine, f"{level}.replacement", "lru") == load_machine("base")
    assert "replacement" not in load_machine("base").to_dict()[level]


def test_policies_that_cannot_be_are_refused():
    with pytest.raises(InputError, match=r"l2\.replacement = 'lrru' must be one of .*lru.*did you mean lru"):
        replace_field(BASE, "l2.replacement", "lrru")
    with pytest.raises(InputError, match=r"the machine has no l3"):
        replace_fields(BASE, {"l3.replacement": "srrip"})
