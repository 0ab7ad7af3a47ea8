"""Stalls and wrong paths by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
from programs import Instruction, Program

from uarch.configuration import Machine, replace_field
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing import _core
from uarch.timing._core import parts
from uarch.timing.simulation import Simulation

BEGIN = 1000
UNKNOWN = parts.WrongPath.UNKNOWN


def front_end(width=4, delay=3):
    return parts.FrontEnd(width, width, delay)


def group(front, fetched, renamed, operations=4):
    """Cycle in which a group fetched in one cycle is decoded."""
    return front.decode(fetched, fetched, operations, renamed)[1]


def test_without_stalls_decode_follows_fetch():
    front = front_end()
    assert [group(front, cycle, 0) for cycle in range(5)] == [3, 4, 5, 6, 7]


def test_a_stall_stops_decode_and_fetch_and_leaves_a_bubble():
    front = front_end()
    decoded = [group(front, 0, 0)]
    front.stall(4)  # the first group cannot be renamed; say that it is in cycle 10 and the next one in 11
    decoded.append(group(front, 1, 10))  # decoded before the stall is known
    # Decode goes on in cycle 12; what was sent until cycle 5 is at hand, the rest is sent from cycle 16 on.
    decoded += [group(front, cycle, 11) for cycle in range(2, 8)]
    assert decoded == [3, 4, 12, 13, 14, 15, 19, 20]


def test_a_short_squash_stalls_nothing():
    front = front_end()
    front.squashed(100, 1)
    assert [group(front, cycle, 0) for cycle in (103, 104, 106, 107)] == [106, 107, 109, 110]


def test_a_long_squash_stalls_the_front_end():
    # gem5's O3 with frontend_delay 4: a branch completes in cycle 31, 35 micro-operations behind it are squashed in
    # five cycles; those fetched in 35 and 36 are decoded in 40 and 41, the next ones in 46.
    front = front_end(width=5, delay=4)
    front.squashed(31, 5)
    assert [group(front, cycle, 0, 5) for cycle in (35, 36, 37, 38)] == [40, 41, 46, 47]


@dataclass
class Straight:
    """A machine whose instruction cache holds the whole program, whose first instruction is a conditional branch."""

    machine: Machine
    program: Program

    def __post_init__(self) -> None:
        static = self.program.static()
        self.pc = static.address.astype(int).tolist()
        self.core: _core.Simulation = Simulation(self.machine, static)._core
        self.path = parts.WrongPath(self.core)
        for line in range(self.pc[0] >> 6, (self.pc[-1] >> 6) + 1):
            parts.hierarchy_of(self.core).access_code(line, 0, 0, timed=False)

    def fetch_wrongly(self, taken, *, until, by, most=1000):
        return self.path.walk(
            parts.branch_unit_of(self.core),
            parts.hierarchy_of(self.core),
            branch=0,
            taken=taken,
            line=self.pc[0] >> 6,
            width=4,
            begin=BEGIN,
            until=until,
            by=by,
            most=most,
        )


CONDITIONAL = Instruction(Operation.BRANCH, (), (), Flag.BRANCH | Flag.CONDITIONAL)


@pytest.fixture
def straight():
    """Sixty-four instructions of four bytes, the first one a branch, in four lines that the cache holds."""
    return Straight(load_machine("base"), Program([CONDITIONAL, *[Instruction(Operation.INT_ALU, (), ())] * 63]))


def test_the_wrong_path_is_fetched_until_the_branch_is_resolved(straight):
    count, line = straight.fetch_wrongly(False, until=BEGIN + 3, by=BEGIN + 100)
    assert count == 3 * 4  # three cycles of four, from the line at hand
    assert line == straight.pc[0] >> 6


def test_only_what_comes_in_time_is_counted(straight):
    assert straight.fetch_wrongly(False, until=BEGIN + 3, by=BEGIN + 1)[0] == 2 * 4


def test_there_is_room_for_so_many(straight):
    assert straight.fetch_wrongly(False, until=2 * BEGIN, by=2 * BEGIN, most=7)[0] == 7


def test_a_branch_that_was_never_taken_leads_nowhere(straight):
    assert straight.fetch_wrongly(True, until=BEGIN + 90, by=BEGIN + 90)[0] == 0


def test_another_line_takes_its_time(straight):
    straight.path.note_branch(0, 48, True)
    latency = straight.machine.l1i.latency
    begin = BEGIN + max(latency, 1)
    count, line = straight.fetch_wrongly(True, until=begin + 2, by=begin + 2)
    assert (count, line) == (2 * 4, straight.pc[48] >> 6)
    assert straight.fetch_wrongly(True, until=begin, by=begin) == (0, UNKNOWN)


def test_the_perceptron_remembers_jumps_of_the_wrong_path():
    jump = Instruction(Operation.BRANCH, (), (), Flag.BRANCH)
    changed = {}
    for kind in ("perceptron", "ltage"):
        machine = replace_field(load_machine("base"), "branch_predictor.kind", kind)
        plain, strayed = (Straight(machine, Program([CONDITIONAL, jump])) for _ in range(2))
        outcomes = []
        for one in (plain, strayed):
            random, unit = np.random.default_rng(3), parts.branch_unit_of(one.core)
            for _ in range(400):
                if one is strayed:
                    one.fetch_wrongly(False, until=BEGIN + 9, by=BEGIN + 9)
                target = 0x5000 if random.random() < 0.5 else 0x4004
                outcomes.append(unit.fetch(0x4000, 0x4004, target, int(Flag.BRANCH | Flag.CONDITIONAL)))
        changed[kind] = outcomes[:400] != outcomes[400:]
    assert changed == {"perceptron": True, "ltage": False}
