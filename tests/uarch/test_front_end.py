"""Stalls and wrong paths by hand."""

import dataclasses

import numpy as np
import pytest
from programs import Instruction, Program

from uarch.configuration import load_machine, replace_field
from uarch.instructions import Flag, Operation
from uarch.timing.branches import new_branches
from uarch.timing.caches import access_code, new_caches
from uarch.timing.front_end import decode, new_front_end, squashed, stall
from uarch.timing.static import static_rows
from uarch.timing.tlb import new_tlbs
from uarch.timing.wrong_path import UNKNOWN, new_wrong_path, note_branch, walk

BEGIN = 1000


def front_end(width=4, delay=3):
    pipeline = load_machine("base").pipeline
    return new_front_end(dataclasses.replace(pipeline, fetch_width=width, decode_width=width, frontend_delay=delay))


def group(front, fetched, renamed, operations=4):
    """Cycle in which a group fetched in one cycle is decoded."""
    return decode(front, fetched, fetched, operations, renamed)[1]


def test_without_stalls_decode_follows_fetch():
    front = front_end()
    assert [group(front, cycle, 0) for cycle in range(5)] == [3, 4, 5, 6, 7]


def test_a_stall_stops_decode_and_fetch_and_leaves_a_bubble():
    front = front_end()
    decoded = [group(front, 0, 0)]
    stall(front, 4)  # the first group cannot be renamed; say that it is in cycle 10 and the next one in 11
    decoded.append(group(front, 1, 10))  # decoded before the stall is known
    # Decode goes on in cycle 12; what was sent until cycle 5 is at hand, the rest is sent from cycle 16 on.
    decoded += [group(front, cycle, 11) for cycle in range(2, 8)]
    assert decoded == [3, 4, 12, 13, 14, 15, 19, 20]


def test_a_short_squash_stalls_nothing():
    front = front_end()
    squashed(front, 100, 1)
    assert [group(front, cycle, 0) for cycle in (103, 104, 106, 107)] == [106, 107, 109, 110]


def test_a_long_squash_stalls_the_front_end():
    # gem5's O3 with frontend_delay 4: a branch completes in cycle 31, 35 micro-operations behind it are squashed in
    # five cycles; those fetched in 35 and 36 are decoded in 40 and 41, the next ones in 46.
    front = front_end(width=5, delay=4)
    squashed(front, 31, 5)
    assert [group(front, cycle, 0, 5) for cycle in (35, 36, 37, 38)] == [40, 41, 46, 47]


@pytest.fixture
def straight():
    """Sixty-four instructions of four bytes, the first one a branch, in four lines that the cache holds."""
    program = Program(
        [Instruction(Operation.BRANCH, (), (), Flag.BRANCH | Flag.CONDITIONAL)]
        + [Instruction(Operation.INT_ALU, (), ()) for _ in range(63)]
    ).static()
    machine = load_machine("base")
    caches, memory = new_caches(machine)
    tlbs = new_tlbs()
    pcs = program.address.astype(np.int64)
    for line in range(int(pcs[0]) >> 6, (int(pcs[-1]) >> 6) + 1):
        access_code(caches, memory, tlbs, line, 0, 0, 0)
    return program, machine, caches, memory, tlbs, static_rows(machine, program), pcs


def fetch_wrongly(straight, path, taken, *, until, by, most=1000, branches=None):
    _, machine, caches, memory, tlbs, rows, pcs = straight
    line = int(pcs[0]) >> 6
    branches = branches or new_branches(machine)
    return walk(path, branches, caches, memory, tlbs, rows, pcs, 0, taken, line, 4, BEGIN, by, until, most)


def test_the_wrong_path_is_fetched_until_the_branch_is_resolved(straight):
    count, line = fetch_wrongly(straight, new_wrong_path(64), 0, until=BEGIN + 3, by=BEGIN + 100)
    assert count == 3 * 4  # three cycles of four, from the line at hand
    assert line == int(straight[-1][0]) >> 6


def test_only_what_comes_in_time_is_counted(straight):
    assert fetch_wrongly(straight, new_wrong_path(64), 0, until=BEGIN + 3, by=BEGIN + 1)[0] == 2 * 4


def test_there_is_room_for_so_many(straight):
    assert fetch_wrongly(straight, new_wrong_path(64), 0, until=2 * BEGIN, by=2 * BEGIN, most=7)[0] == 7


def test_a_branch_that_was_never_taken_leads_nowhere(straight):
    assert fetch_wrongly(straight, new_wrong_path(64), 1, until=BEGIN + 90, by=BEGIN + 90)[0] == 0


def test_another_line_takes_its_time(straight):
    path = new_wrong_path(64)
    note_branch(path, 0, 48, 1)
    latency = straight[1].l1i.latency
    begin = BEGIN + max(latency, 1)
    count, line = fetch_wrongly(straight, path, 1, until=begin + 2, by=begin + 2)
    assert (count, line) == (2 * 4, int(straight[-1][48]) >> 6)
    assert fetch_wrongly(straight, path, 1, until=begin, by=begin) == (0, UNKNOWN)


def test_the_perceptron_remembers_jumps_of_the_wrong_path():
    jump = Instruction(Operation.BRANCH, (), (), Flag.BRANCH)
    conditional = Instruction(Operation.BRANCH, (), (), Flag.BRANCH | Flag.CONDITIONAL)
    program = Program([conditional, jump]).static()
    moved = {}
    for kind in ("perceptron", "ltage"):
        machine = replace_field(load_machine("base"), "branch_predictor.kind", kind)
        caches, memory = new_caches(machine)
        rows, pcs = static_rows(machine, program), program.address.astype(np.int64)
        access_code(caches, memory, new_tlbs(), int(pcs[0]) >> 6, 0, 0, 0)
        branches = new_branches(machine)
        before = branches.predictor.history.copy()
        straight = program, machine, caches, memory, new_tlbs(), rows, pcs
        fetch_wrongly(straight, new_wrong_path(2), 0, until=BEGIN + 9, by=BEGIN + 9, branches=branches)
        moved[kind] = bool((branches.predictor.history != before).any())
    assert moved == {"perceptron": True, "ltage": False}
