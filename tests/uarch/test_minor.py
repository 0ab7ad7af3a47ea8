"""The in-order core: cycle counts worked out by hand from the source of gem5's Minor (src/cpu/minor)."""

import pytest
from programs import Instruction, Program, load, simulate, store

from uarch.configuration import Machine, replace_field
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine

MINOR = load_machine("cortex-a53")  # two instructions a cycle, one access among them; code comes after a cycle
ADD = Instruction(Operation.INT_ALU, (), (1,))
JUMP = Instruction(Operation.BRANCH, flags=Flag.BRANCH)


def cycles_a_round(machine: Machine, program: Program, rounds: int) -> float:
    """Return the cycles of the second half of equal rounds."""
    latency, _ = simulate(machine, program.static(), [program.chunk()])
    return latency[len(latency) // 2 :].sum() / (rounds // 2)


def looped(body: list[Instruction], rounds: int = 400, address: int = 0x10000000) -> Program:
    """`body` and a jump back; every access is to the same 8 bytes."""
    program = Program([*body, JUMP])
    for _ in range(rounds):
        for number, instruction in enumerate(body):
            touched = instruction.flags & (Flag.LOAD | Flag.STORE)
            program.execute(number, *([(address, 8, int(bool(touched & Flag.STORE)))] if touched else []))
        program.execute(len(body))
    return program


# Fetch2 meets the jump of a loop of n in cycle b + (n - 1) // 2 and tells Fetch1, which can ask for a line again when
# no other is under way. Asked for in b is the next line, which is there in b + 2: a jump in b or b + 1 waits for it and
# goes on with a line asked for in b + 2, used in b + 4. Later, that has come; the buffer is emptied in the jump's
# cycle, so one more line is asked for in it, which is two cycles under way: the target's is used four cycles later.
@pytest.mark.parametrize(("body", "cycles"), [(1, 4), (3, 4), (5, 6), (12, 10)])
def test_a_predicted_jump_asks_for_its_line_again(body, cycles):
    assert cycles_a_round(MINOR, looped([ADD] * body), 400) == pytest.approx(cycles, abs=0.05)


def test_a_line_under_way_holds_up_a_predicted_jump():
    # Lines take a cycle longer: three cycles under way, so six after the jump.
    slower = replace_field(MINOR, "l1i.latency", 2)
    assert cycles_a_round(slower, looped([ADD] * 12), 400) == pytest.approx(12, abs=0.05)


def test_the_loops_that_gem5_ran():
    """Two loops of the tests' programs (tests/tracegen/data/gem5/*/minor): 6 cycles a round in gem5."""
    chain = [
        Instruction(Operation.INT_ALU, (1,), (2,)),
        Instruction(Operation.INT_ALU, (0, 2), (2,)),
        Instruction(Operation.INT_ALU, (0, 2), (0,)),
        Instruction(Operation.INT_ALU, (1,), (1,)),
    ]
    for body in (chain, [*chain, Instruction(Operation.INT_ALU, (1,), (3,))]):
        assert cycles_a_round(MINOR, looped(body), 400) == pytest.approx(6, abs=0.05)


def test_what_fetch_cannot_tell_is_found_at_commitment():
    """Two jumps to each other share the only BTB entry: every one is mispredicted, but for the last, which goes
    nowhere. A jump is committed nine cycles after its line was asked for, and a predicted one costs four.
    """
    program = Program([JUMP, ADD, JUMP])
    for _ in range(200):
        program.execute(0)
        program.execute(2)
    machine = replace_field(MINOR, "branch_predictor.btb_entries", 1)
    _, counters = simulate(machine, program.static(), [program.chunk()])
    assert counters["mispredictions"] == 399
    assert cycles_a_round(machine, program, 200) >= 2 * 9


def cycles_each(machine: Machine, instruction: Instruction) -> float:
    """Return the cycles of further copies in a loop of many."""
    few, many = (cycles_a_round(machine, looped([instruction] * copies, 200), 200) for copies in (30, 90))
    return (many - few) / 60


# While the oldest operation is a load that waits for its answer nothing else is sent (Execute::getCommittingThread), so
# each goes in the cycle in which the one before is committed. The core stops ticking two cycles after the last activity
# (Pipeline::evaluate, delays of one cycle), so an answer that comes then is seen a cycle late (Ticked::start).
@pytest.mark.parametrize(("latency", "cycles"), [(1, 1), (3, 4), (5, 6)])
def test_loads_go_one_at_a_time(latency, cycles):
    machine = replace_field(replace_field(MINOR, "l1d.latency", latency), "pipeline.frontend_delay", 1)
    assert cycles_each(machine, load(1, 2)) == pytest.approx(cycles, abs=0.1)


def test_stores_are_committed_in_the_cycle_in_which_they_are_sent():
    assert cycles_each(MINOR, store(1, 2)) == pytest.approx(1, abs=0.1)


def test_what_decode_has_got_beyond_a_taken_branch_is_decoded_first():
    """A jump without a predictor goes elsewhere when it is committed; instructions of many micro-operations behind it,
    none of which is ever executed, then hold up decode.
    """
    machine = replace_field(MINOR, "branch_predictor.kind", "none")
    cycles = []
    for operations in (1, 8):
        program = Program([ADD, JUMP, *[Instruction(Operation.INT_ALU, (), (1,), micro_operations=operations)] * 12])
        for _ in range(200):
            program.execute(0)
            program.execute(1)
        program.isa = "x86-64"
        cycles.append(cycles_a_round(machine, program, 200))
    assert cycles[1] > cycles[0] + 2


def test_a_prefetch_is_answered_at_once():
    """Loads into a register wait for memory, loads into none do not; they walk through 64 MiB."""
    cycles = []
    for destinations in ((1,), ()):
        program = Program([Instruction(Operation.NONE, (2,), destinations, Flag.LOAD, address_sources=1), JUMP])
        for k in range(400):
            program.execute(0, (0x10000000 + k * 0x28000, 8, 0))
            program.execute(1)
        machine = replace_field(replace_field(MINOR, "l1d.prefetcher", "none"), "l2.prefetcher", "none")
        cycles.append(cycles_a_round(machine, program, 400))
    assert cycles[1] < 0.7 * cycles[0]
