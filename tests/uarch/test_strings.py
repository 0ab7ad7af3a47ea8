"""Repeated string instructions, whose rounds pass the out-of-order core one after another."""

import numpy as np
import pytest
from programs import Instruction, Program

from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES

AREA = 0x10000000
STORES = Instruction(Operation.INT_ALU, (1,), (1,), Flag.STRING | Flag.STORE, 1, micro_operations=4)
COPIES = Instruction(Operation.INT_ALU, (1, 2), (1, 2), Flag.STRING | Flag.LOAD | Flag.STORE, 2, micro_operations=4)


def string(program, begin, rounds, copies):
    accesses = [[(AREA + k, 1, 0), (AREA + 4096 + k, 1, 1)][not copies :] for k in range(begin, begin + rounds)]
    program.execute(0, *(access for each in accesses for access in each))


@pytest.mark.parametrize("name", ["base", "zen4", "golden-cove"])
@pytest.mark.parametrize("copies", [False, True])
def test_a_string_takes_as_long_as_its_parts_one_after_another(name, copies):
    """It is not fetched as a whole before its first round executes."""
    machine = load_machine(name)

    def cycles(parts):
        program = Program([COPIES if copies else STORES, Instruction()])
        for _ in range(3):
            for part in range(parts):
                string(program, part * 2048 // parts, 2048 // parts, copies)
        simulation = Simulation(machine, program.static())
        simulation.run(program.chunk(0, parts))
        return int(simulation.run(program.chunk(parts)).sum(dtype=np.int64))

    assert cycles(1) == pytest.approx(cycles(8), rel=0.01)


@pytest.mark.parametrize("copies", [False, True])
def test_a_strings_stack_adds_up_to_its_cycles(copies):
    program = Program([COPIES if copies else STORES, Instruction()])
    for rounds in (3, 15, 16, 17, 500):
        string(program, 0, rounds, copies)
        program.execute(1)
    machine, chunk = load_machine("base"), program.chunk()
    with_stacks, stack = Simulation(machine, program.static()), new_stack(len(chunk))
    latency = with_stacks.run_with_stacks(chunk, [(stack, np.arange(len(chunk), dtype=np.uint32))])
    assert stack.shape == (len(chunk), len(CAUSES))
    assert stack.sum(axis=1).tolist() == latency.tolist() == Simulation(machine, program.static()).run(chunk).tolist()


def test_a_strings_cycles_are_its_own():
    """Instructions behind a long string take a few cycles themselves."""
    program = Program([STORES, Instruction()])
    for _ in range(3):
        string(program, 0, 1000, copies=False)
        for _ in range(20):
            program.execute(1)
    latency = Simulation(load_machine("base"), program.static()).run(program.chunk()).reshape(3, 21)
    assert (latency[1:, 0] > 1000).all() and (latency[1:, 1:].sum(axis=1) < 100).all()
