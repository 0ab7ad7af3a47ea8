"""Store sets by hand: who joins whom, and what a core with them does to a load behind a store."""

import numpy as np
import pytest
from programs import Instruction, Program

from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing._core import parts
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES

LOAD, STORE, OTHER = 0x1000, 0x2004, 0x3008


def test_a_load_that_went_ahead_waits_from_then_on():
    sets = parts.StoreSets()
    sets.note_issue(STORE, 0x100, 8, 50)
    assert sets.waits_for(LOAD) == 0
    assert sets.violated(LOAD, 0x100, 8, 50) == 0  # in the same cycle it reads what the store leaves
    assert sets.violated(LOAD, 0x100, 8, 20) == 51
    sets.note_issue(STORE, 0x200, 8, 90)
    assert sets.waits_for(LOAD) == 91 and sets.waits_for(STORE) == 91
    assert sets.waits_for(OTHER) == 0
    assert sets.violations == 1


def test_blocks_of_sixteen_bytes_conflict():
    sets = parts.StoreSets()
    sets.note_issue(STORE, 0x108, 8, 50)
    assert sets.violated(LOAD, 0x100, 4, 20) == 51  # another word of the block
    assert sets.violated(OTHER, 0x110, 8, 20) == 0
    assert sets.violated(OTHER, 0x108 + 16 * parts.StoreSets.BLOCKS, 8, 20) == 0  # the same row, another block


@pytest.mark.parametrize(
    ("address", "size", "conflicts"),
    [(0x100, 8, False), (0x104, 8, True), (0x10C, 1, True), (0x110, 8, False), (0xF8, 32, True)],
)
def test_exact_ones_compare_bytes(address, size, conflicts):
    sets = parts.StoreSets(exact=True)
    sets.note_issue(STORE, 0x108, 8, 50)
    assert (sets.violated(LOAD, address, size, 20) == 51) == conflicts


def test_an_exact_store_beyond_its_block_is_found_there():
    sets = parts.StoreSets(exact=True)
    sets.note_issue(STORE, 0x10C, 8, 50)
    assert sets.violated(OTHER, 0x114, 4, 20) == 0
    assert sets.violated(LOAD, 0x112, 2, 20) == 51


def test_of_two_sets_the_smaller_number_stays():
    sets = parts.StoreSets()
    stores, loads = (0x2004, 0x2008), (0x1010, 0x1014)
    for store, load, address in zip(stores, loads, (0x100, 0x200), strict=True):
        sets.note_issue(store, address, 8, 50)
        assert sets.violated(load, address, 8, 20) == 51
    first, second = (sets.set_of(load) for load in loads)
    assert first != second
    sets.note_issue(stores[1], 0x300, 8, 70)
    assert sets.violated(loads[0], 0x300, 8, 20) == 71
    assert sets.set_of(loads[0]) == sets.set_of(stores[1]) == min(first, second)


def test_sets_are_forgotten_after_a_while():
    sets = parts.StoreSets()
    sets.note_issue(STORE, 0x100, 8, 50)
    assert sets.violated(LOAD, 0x100, 8, 20) == 51
    for _ in range(parts.StoreSets.CLEAR_AFTER):
        sets.violated(OTHER, 0x900, 8, 0)
    assert sets.waits_for(LOAD) == 0


def product_and_load() -> Program:
    """A product, stored, and a load of it, which knows its address long before."""
    program = Program(
        [
            Instruction(Operation.INT_MUL, (1,), (1,)),
            Instruction(Operation.NONE, (2, 1), (), Flag.STORE, 1),
            Instruction(Operation.NONE, (2,), (3,), Flag.LOAD, 1),
        ]
    )
    for _ in range(8):
        program.execute(0)
    program.execute(1, (0x10000, 8, 1))
    program.execute(2, (0x10000, 8, 0))
    for _ in range(8):
        program.execute(0)
    return program


def know(simulation, load, store, times, same_bytes=0):
    simulation.begin_unit(*(np.array(column, np.uint32).reshape(-1) for column in (load, store, times, same_bytes)))


@pytest.mark.parametrize(
    ("reads", "waits"), [([], False), ([(2, 1, 1)], True), ([(0, 0, 9), (2, 1, 5)], True), ([(2, 0, 5)], False)]
)
def test_a_load_that_had_read_from_a_store_waits_where_another_is_fetched_again(reads, waits):
    program = product_and_load()
    simulation = Simulation(load_machine("base"), program.static())
    know(simulation, [2], [1], [9], [0])
    know(simulation, *np.array([(*read, 0) for read in reads], np.uint32).reshape(-1, 4).T)  # instead of those before
    stack = new_stack(1)
    simulation.run_with_stacks(program.chunk(), [(stack, np.zeros(len(program.ids), np.uint32))])
    behind = stack[0, list(CAUSES).index("loads behind older stores")]
    fetched_again = behind > 10
    assert fetched_again != waits
    cold = int(simulation.counts[0])
    before = simulation.counts[0]
    simulation.run(program.chunk())
    again = simulation.counts[0] - before
    assert again < cold and simulation.statistics["instructions"] == 2 * len(program.ids)
    unordered = Simulation(load_machine("base"), program.static())
    unordered.run(program.chunk())
    assert (unordered.counts[0] > cold) == waits


@pytest.mark.parametrize("times", [0, 8, 9, 1000])
def test_a_set_takes_one_expected_read_that_went_ahead(times):
    """The load could go ahead of the store in one of nine executions, the last: then eight products come before it."""
    late = product_and_load()
    late.instructions.append(Instruction())
    program = Program(late.instructions)
    for place in range(8):
        for _ in range(32):  # so that no store waits for a port
            program.execute(3)
        program.execute(1, (0x20000 + 64 * place, 8, 1))
        program.execute(2, (0x30000 + 64 * place, 8, 0))
    for _ in range(100):  # until the last of these loads has come from memory
        program.execute(0)
    before = program.chunk()
    program.ids, program.accesses = late.ids, late.accesses
    simulation = Simulation(load_machine("base"), program.static())
    know(simulation, [2], [1], [times], [0])
    simulation.run(before)
    stack = new_stack(1)
    simulation.run_with_stacks(program.chunk(), [(stack, np.zeros(len(program.ids), np.uint32))])
    fetched_again = stack[0, list(CAUSES).index("loads behind older stores")] > 10
    assert fetched_again == (times < 9)


def test_loads_and_stores_that_are_not_there_are_refused():
    simulation = Simulation(load_machine("base"), product_and_load().static())
    for load, store in ((3, 1), (2, 3)):
        with pytest.raises(ValueError, match="beyond the program"):
            know(simulation, load, store, 1)
    with pytest.raises(ValueError, match="differ in length"):
        know(simulation, [2, 2], [1], [1], [1])


def run(address_of_store: int, address_of_load: int, repeats: int = 200) -> tuple[np.ndarray, dict[str, float]]:
    """Two multiplications, the second product stored, and a load that needs nothing of it."""
    program = Program(
        [
            Instruction(Operation.INT_MUL, (1,), (1,)),
            Instruction(Operation.NONE, (2, 1), (), Flag.STORE, 1),
            Instruction(Operation.NONE, (2,), (3,), Flag.LOAD, 1),
        ]
    )
    for _ in range(repeats):
        program.execute(0)
        program.execute(0)
        program.execute(1, (address_of_store, 8, 1))
        program.execute(2, (address_of_load, 8, 0))
    simulation = Simulation(load_machine("base"), program.static())
    return simulation.run(program.chunk()), simulation.counters


def test_a_load_behind_a_store_to_the_same_place_is_forwarded():
    same, counters = run(0x10000, 0x10000)
    apart, others = run(0x10000, 0x20000)
    latency = load_machine("base").functional_units.mul_latency
    # The chain of products alone sets the pace where loads go ahead of the store and where they wait for it.
    assert apart[400:].sum() / 100 == pytest.approx(2 * latency, rel=0.02)
    assert same[400:].sum() / 100 == pytest.approx(2 * latency, rel=0.02)
    assert counters["l1d_accesses"] < 0.6 * others["l1d_accesses"]  # what is forwarded does not ask the cache
