"""Warm state that takes no time: what branches teach, and what touched lines put where."""

import numpy as np
import pytest
from programs import Instruction, Program

from uarch.configuration import replace_field, replace_fields
from uarch.instructions import LAST, Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulation import Misses, Simulation

BASE, IN_ORDER = load_machine("base"), load_machine("cortex-a53")
NOTHING = np.zeros(0, np.uint64)
LINES = 0x10000000 // 64 + np.arange(1 << 16, dtype=np.uint64)  # four megabytes
DATA, CODE = LINES << np.uint64(4), np.array([0x400000 // 64], np.uint64) << np.uint64(4) | np.uint64(2)


def alternating(turns):
    """A branch that is taken every third time, over the instruction behind it."""
    branch = Instruction(Operation.BRANCH, flags=Flag.BRANCH | Flag.CONDITIONAL)
    jump = Instruction(Operation.BRANCH, flags=Flag.BRANCH)
    program = Program([branch, Instruction(), Instruction(), jump])
    for turn in range(turns):
        for number in (0, 2, 3) if turn % 3 == 0 else (0, 1, 2, 3):
            program.execute(number)
    return program


def mispredictions(ideal=(), learnt=0):
    program = alternating(600)
    whole = program.chunk()
    half = len(whole) // 2
    simulation = Simulation(BASE, program.static(), ideal)
    if learnt:
        first = whole.part(0, half)
        branches = (program.static().flags[first.static_id] & Flag.BRANCH) != 0
        simulation.learn(first.static_id[branches], first.next_static_id[branches])
        simulation.reset_counters()
    simulation.run(whole.part(half, len(whole)))
    return simulation.statistics["mispredictions"]


def test_branches_that_are_learnt_are_predicted():
    assert mispredictions() > 2
    assert mispredictions(learnt=True) <= 1


def test_an_ideal_branch_unit_learns_nothing():
    assert mispredictions(("branches",), learnt=True) == mispredictions(("branches",)) == 0


@pytest.mark.parametrize("branch", [7, LAST])
def test_a_branch_beyond_the_program_is_refused(branch):
    simulation = Simulation(BASE, alternating(1).static())
    with pytest.raises(ValueError, match="beyond the program"):
        simulation.learn(np.array([branch], np.uint32), np.array([0], np.uint32))
    with pytest.raises(ValueError, match="differ in length"):
        simulation.learn(np.array([0], np.uint32), np.array([0, 1], np.uint32))


def code_misses(machine, touches, ideal=(), *, taken_path_only=False, line=0):
    """Misses of L1I and of L2 by one instruction on this line of code, after the touches."""
    program = Program([Instruction(length=4)] * 128)
    program.execute(16 * line)
    simulation = Simulation(machine, program.static(), ideal, taken_path_only=taken_path_only)
    simulation.touch(touches)
    simulation.reset_counters()
    simulation.run(program.chunk())
    return simulation.statistics["l1i_misses"], simulation.statistics["l2_misses"]


def test_ideal_data_leaves_the_caches_to_code():
    touches = np.concatenate([CODE, DATA[:1024] | np.uint64(2), DATA])  # more code than L1I has
    assert code_misses(BASE, touches) == (1, 1)
    assert code_misses(BASE, touches, ("data",)) == (1, 0)
    assert code_misses(BASE, touches, ("data", "instructions")) == (0, 0)


@pytest.mark.parametrize(
    ("machine", "first_level", "all_levels"),
    [
        (IN_ORDER, 2, (2, 3)),
        (replace_fields(IN_ORDER, {"branch_predictor.kind": "none", "pipeline.width": 1}), 2, (2, 2)),
        (replace_field(IN_ORDER, "branch_predictor.kind", "none"), 2, (3, 3)),
        (replace_fields(IN_ORDER, {"branch_predictor.kind": "none", "pipeline.width": 4}), 2, (4, 4)),
        (BASE, 0, (2, 2)),
    ],
    ids=["in order", "without a predictor, narrow", "without a predictor", "without a predictor, wide", "out of order"],
)
def test_code_beyond_a_touched_line_is_fetched_unless_only_the_path_taken_is(machine, first_level, all_levels):
    machine = replace_field(machine, "l2.prefetcher", "none")
    for touches, last in zip((CODE, CODE | np.uint64(1)), all_levels, strict=True):  # predicted, mispredicted
        for line in range(1, 7):
            assert code_misses(machine, touches, line=line) == (line > first_level, line > last)
            assert code_misses(machine, touches, taken_path_only=True, line=line) == (1, 1)


def late_loads(machine, learnt=(), ideal=()):
    """L1D misses of a load that walks on through lines, after it has learnt of misses `learnt` lines before."""
    program = Program([Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD), *[Instruction()] * 200])
    for turn in range(6):
        program.execute(0, (0x10000000 + turn * 64, 8, 0))
        for number in range(1, 201):
            program.execute(number)
    simulation = Simulation(machine, program.static(), ideal)
    if learnt:
        addresses = 0x10000000 - 64 * np.array(learnt, np.uint64)
        count = len(learnt)
        ids, place = np.zeros((2, count), np.uint32)
        simulation.touch(NOTHING, Misses(ids, addresses, np.zeros(count, np.bool_), place))
    simulation.run(program.chunk())
    return simulation.statistics["l1d_misses"]


def test_a_prefetcher_by_instruction_learns_of_misses():
    assert late_loads(BASE, (4, 3, 2, 1)) < late_loads(BASE)
    for prefetcher in ("none", "tagged"):
        machine = replace_field(BASE, "l1d.prefetcher", prefetcher)
        assert late_loads(machine, (4, 3, 2, 1)) == late_loads(machine)


def test_ideal_data_teach_nothing():
    assert late_loads(BASE, (4, 3, 2, 1), ("data",)) == late_loads(BASE, (), ("data",)) == 0


@pytest.mark.parametrize(("ids", "addresses", "match"), [([0], [0, 1], "differ in length"), ([9], [0], "beyond")])
def test_misses_that_do_not_fit_are_refused(ids, addresses, match):
    simulation = Simulation(BASE, alternating(1).static())
    far, place = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.uint32)
    with pytest.raises(ValueError, match=match):
        simulation.touch(NOTHING, Misses(np.array(ids, np.uint32), np.array(addresses, np.uint64), far, place))


def data_misses(touches):
    """Misses of L1D and L2 by one load of LINES[0], after the touches."""
    program = Program([Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)])
    program.execute(0, (int(LINES[0]) * 64, 8, 0))
    machine = BASE
    for level in ("l1d", "l2"):
        machine = replace_field(machine, f"{level}.prefetcher", "none")
    simulation = Simulation(machine, program.static(), ("instructions",))
    simulation.touch(touches)
    simulation.reset_counters()
    simulation.run(program.chunk())
    return simulation.statistics["l1d_misses"], simulation.statistics["l2_misses"]


def test_a_touch_is_seen_by_the_levels_that_it_names():
    line, others = DATA[:1], DATA[1:]
    near, below = np.uint64(4), np.uint64(8)
    first_level, second_level = others[:1024], others[: 2 * 8192]  # more lines than each has
    assert data_misses(line) == data_misses(line | near) == (0, 0)
    assert data_misses(line | below) == (1, 0)
    assert data_misses(np.concatenate([line | near, first_level])) == (1, 1)
    assert data_misses(np.concatenate([line, first_level])) == (1, 0)
    assert data_misses(np.concatenate([line, second_level])) == (1, 1)
    # In constant use: the first level has it until the end, and the second no longer.
    assert data_misses(np.concatenate([line | below, second_level, line | near])) == (0, 0)
    assert data_misses(np.concatenate([line | below, second_level, line | near, first_level | near])) == (1, 1)


def test_dirty_lines_that_only_a_first_level_saw_are_written_back():
    touches = np.concatenate([DATA[:1] | np.uint64(8), DATA[:1] | np.uint64(4 | 1), DATA[1:4096] | np.uint64(4)])
    program = Program([Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)])
    for line in LINES[4096 : 4096 + 2 * 8192]:
        program.execute(0, (int(line) * 64, 8, 0))
    machine = replace_field(replace_field(BASE, "l1d.prefetcher", "none"), "l2.prefetcher", "none")
    simulation = Simulation(machine, program.static())
    simulation.touch(touches)
    simulation.reset_counters()
    simulation.run(program.chunk())
    assert simulation.statistics["l1d_write_backs"] == 0
    assert simulation.statistics["l2_write_backs"] == 1


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["clean", "dirty", "code"])
def test_a_first_level_hands_down_what_it_drops(kind):
    """A line in constant use for long is old in the second level; code, and what is dirty, gets there again."""
    near, below = np.uint64(4), np.uint64(8)
    line = (CODE if kind == 2 else DATA[:1]) & ~np.uint64(15) | np.uint64(kind)
    others = DATA | np.uint64(kind & 2)
    before, after = others[1 : 1 + 6144], others[7000 : 7000 + 6144]  # together more lines than the second level has
    touches = np.concatenate([line & ~np.uint64(1) | below, before, line | near, after])
    machine = replace_field(BASE, "l2.prefetcher", "none")
    assert (code_misses(machine, touches) if kind == 2 else data_misses(touches)) == (1, kind == 0)


def test_misses_come_where_they_were_among_touches():
    """Lines that prefetchers bring for misses long ago do not last in a first level."""
    program = Program([Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)])
    program.execute(0, (int(LINES[5]) * 64, 8, 0))
    addresses, count = LINES[:5] * np.uint64(64), 5
    machine = replace_field(BASE, "l2.prefetcher", "none")
    found = []
    for place in (0, 1024):
        simulation = Simulation(machine, program.static())
        misses = Misses(
            np.zeros(count, np.uint32), addresses, np.zeros(count, np.bool_), np.full(count, place, np.uint32)
        )
        simulation.touch(DATA[1000 : 1000 + 1024], misses)
        simulation.reset_counters()
        simulation.run(program.chunk())
        found.append(simulation.statistics["l1d_misses"])
    assert found == [1, 0]


def test_a_line_that_is_dirty_below_is_so_in_the_first_level_that_takes_it():
    near, below, dirty = np.uint64(4), np.uint64(8), np.uint64(1)
    line, others = DATA[:1], DATA[1:1025]
    stored = np.concatenate([line | dirty, others])  # handed down by the first level, dirty
    for again, times in ((line | below, 0), (np.concatenate([line | below, line | near]), 1)):
        program = Program([Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)])
        for one in LINES[2048 : 2048 + 1024]:
            program.execute(0, (int(one) * 64, 8, 0))
        machine = replace_field(replace_field(BASE, "l1d.prefetcher", "none"), "l2.prefetcher", "none")
        simulation = Simulation(machine, program.static())
        simulation.touch(np.concatenate([stored, again]))
        simulation.reset_counters()
        simulation.run(program.chunk())
        assert simulation.statistics["l1d_write_backs"] == times


@pytest.mark.parametrize("stored", [0, 1])
def test_a_line_is_dirty_in_one_level_alone(stored):
    """The first level takes a dirty line and stays in use of it, while the second one drops what it had of it."""
    near, dirty = np.uint64(4), np.uint64(1)
    line, others = DATA[:1], DATA[1:1025]
    program = Program([Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)])
    for k, one in enumerate(LINES[2048 : 2048 + 2 * 8192]):
        program.execute(0, (int(one) * 64, 8, 0))
        if k % 64 == 0:
            program.execute(0, (int(LINES[0]) * 64, 8, 0))
    machine = replace_field(replace_field(BASE, "l1d.prefetcher", "none"), "l2.prefetcher", "none")
    simulation = Simulation(machine, program.static())
    simulation.touch(np.concatenate([line | dirty, others, line | near | np.uint64(stored)]))
    simulation.reset_counters()
    simulation.run(program.chunk())
    assert simulation.statistics["l1d_write_backs"] == simulation.statistics["l2_write_backs"] == 0


NONE, DECODE, EXECUTE = 0, 1, 2  # redirections


def found_code(machine, branches, outcomes, *, taken_path_only=False):
    """Lines of code that L1I holds after these branches (instruction, the one after it), of lines 0 to 7."""
    instructions = [Instruction(length=4) for _ in range(16 * 8)]
    for branch, _ in branches:
        instructions[branch] = Instruction(Operation.BRANCH, flags=Flag.BRANCH | Flag.CONDITIONAL, length=4)
    ids, following = np.array(branches, np.uint32).T
    found = set()
    for line in range(8):
        program = Program(instructions)
        program.execute(16 * line)
        simulation = Simulation(machine, program.static(), taken_path_only=taken_path_only)
        simulation.touch((CODE[0] + (np.arange(8, dtype=np.uint64) << np.uint64(4))) | np.uint64(8))  # in L2
        simulation.pass_branches(ids.copy(), following.copy(), np.array(outcomes, np.uint8))
        simulation.reset_counters()
        simulation.run(program.chunk())
        if simulation.statistics["l1i_misses"] == 0:
            found.add(line)
    return found


def test_code_between_branches_that_pass_is_fetched():
    over = [(15, 32), (79, 80)]  # line 0, over line 1 to line 2, and on to the end of line 4
    assert found_code(BASE, over, [NONE, NONE]) == {0, 2, 3, 4}
    assert found_code(BASE, [(79, 80), (15, 32)], [NONE, NONE]) == {0, 4}  # not one after another
    assert found_code(load_machine("cortex-a53"), over, [NONE, NONE]) == set()


def test_code_of_wrong_paths_is_fetched():
    over = [(15, 64), (79, 80)]
    right = {0, 4}
    assert found_code(BASE, over, [NONE, NONE]) == right
    beyond = found_code(BASE, over, [EXECUTE, NONE])
    assert {1, 2} <= beyond - right
    assert found_code(BASE, over, [DECODE, NONE]) - right == {1}  # not for long
    assert found_code(BASE, over, [EXECUTE, NONE], taken_path_only=True) == right
    # Where it went last, line 6: now it is not taken.
    assert 6 in found_code(BASE, [(15, 96), (15, 16)], [NONE, EXECUTE])


@pytest.mark.parametrize("branch", [7, LAST])
def test_a_passed_branch_beyond_the_program_is_refused(branch):
    simulation = Simulation(BASE, alternating(1).static())
    one, nothing = np.array([0], np.uint32), np.array([0], np.uint8)
    with pytest.raises(ValueError, match="beyond the program"):
        simulation.pass_branches(np.array([branch], np.uint32), one, nothing)
    with pytest.raises(ValueError, match="differ in length"):
        simulation.pass_branches(one, one, np.zeros(2, np.uint8))
