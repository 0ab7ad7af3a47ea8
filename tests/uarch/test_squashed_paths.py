"""Paths that gem5's O3 squashes, what it does there and why: known answers."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from programs import Instruction, Program, load

from tracegen.decode import decode
from uarch.configuration import replace_field, replace_fields
from uarch.instructions import CARRY_REGISTER, FLAGS_REGISTER, Flag, Interruption, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation
from uarch.timing.static import MICROCODE_FLAGS, SOURCES, SOURCES_AT, static_rows

BASE = load_machine("base")
TRAP_LATENCY = 13  # gem5's trapLatency
ADD = Instruction(Operation.INT_ALU, (1,), (1,))


def x86(*texts: str):
    code = np.zeros((len(texts), 16), np.uint8)
    for row, text in enumerate(texts):
        raw = bytes.fromhex(text)
        code[row, : len(raw)] = list(raw)
    return decode(np.arange(len(texts), dtype=np.uint64) * 16, code, "x86-64")


def missing_loads(tested: bool, rounds: int = 400, also: tuple[int, ...] = ()) -> Program:
    """Rounds of a load that misses and a branch on what it brings, taken at random past an addition; where the ways
    have met again, the next round's load, whose address depends on nothing of this round (`tested`: on the load; what
    computes it writes `also` before).
    """
    program = Program(
        [
            load(1, 2),
            Instruction(Operation.BRANCH, (1,), flags=Flag.BRANCH | Flag.CONDITIONAL),
            ADD,
            Instruction(Operation.INT_ALU, (1, 2) if tested else (2,), (*also, 2)),
            Instruction(Operation.BRANCH, flags=Flag.BRANCH),
        ]
    )
    generator = np.random.default_rng(1)
    for number in range(rounds):
        program.execute(0, (0x10000000 + number * 8192, 8, 0))
        program.execute(1)
        if generator.integers(2):
            program.execute(2)
        program.execute(3)
        program.execute(4)
    return program


def cycles(program: Program, machine=BASE, parts: int = 1) -> int:
    simulation = Simulation(machine, program.static())
    bounds = np.linspace(0, len(program.ids), parts + 1).astype(int)
    return sum(int(simulation.run(program.chunk(begin, end)).sum(dtype=np.int64)) for begin, end in pairwise(bounds))


def test_the_next_miss_begins_on_the_wrong_path():
    """Half of the branches are mispredicted. Where the next address does not hang on the load, the wrong path asks for
    the next line while the branch still waits for this one.
    """
    machine = replace_field(BASE, "l2.prefetcher", "none")
    assert cycles(missing_loads(tested=False), machine) < 0.75 * cycles(missing_loads(tested=True), machine)


def test_misses_begin_on_any_of_the_wrong_paths_before_them():
    """They begin as far ahead as the reorder buffer reaches, also where shorter paths followed: a wide core waits for
    one miss in ten or more.
    """
    more = {"pipeline.rob_entries": 512, "pipeline.load_queue_entries": 256, "pipeline.issue_queue_entries": 512}
    more |= {"pipeline.int_registers": 600, "l1d.mshrs": 64, "l2.mshrs": 64, "l3.mshrs": 64}
    wide = replace_fields(BASE, {**more, "l1d.prefetcher": "none", "l2.prefetcher": "none"})
    assert cycles(missing_loads(False), wide) < 0.1 * cycles(missing_loads(True), wide)


def test_any_result_of_an_instruction_is_computed_on_the_wrong_path():
    assert cycles(missing_loads(True, also=(5, 6, 7))) == pytest.approx(cycles(missing_loads(True)), rel=0.02)


def test_parts_of_a_trace_give_the_same_cycles():
    program = missing_loads(tested=False)
    assert cycles(program) == cycles(program, parts=7)


def traps(count: int, interruption: Interruption) -> tuple[Program, np.ndarray]:
    store = Instruction(Operation.NONE, (3, 2), (), Flag.STORE, address_sources=1)
    program = Program([store])
    program.instructions = [store] * count
    for number in range(count):
        program.execute(number, (0x10000000, 8, 1))
    return program, np.full(count, interruption, np.uint8)


@pytest.mark.parametrize("core", ["base", "cortex-a53"])
def test_a_trap_waits_for_the_stores_and_fetches_again(core):
    machine = load_machine(core)
    count = 200
    program, kinds = traps(count, Interruption.TRAP)
    static = program.static()
    without = Simulation(machine, static).run(program.chunk())
    static = dataclasses.replace(static, interruption=kinds)
    latency = Simulation(machine, static).run(program.chunk())
    least = TRAP_LATENCY + machine.pipeline.frontend_delay if machine.core == "out-of-order" else 5
    assert np.all(latency[count // 2 :] >= least)
    assert latency.sum() > without.sum()


def test_non_temporal_stores_trap_and_byte_shifts_branch():
    #  movntps [rdi], xmm1; movnti [rdi], eax; movaps [rdi], xmm1; psrldq xmm1, 4; psrldq xmm1, 12
    program = x86("0f2b0f", "0fc307", "0f290f", "660f73d904", "660f73d90c")
    expected = [Interruption.TRAP, Interruption.TRAP, Interruption.NONE, Interruption.BRANCH, Interruption.NONE]
    assert program.interruption is not None and program.interruption.tolist() == expected
    assert program.micro_operations.tolist()[:4] == [3, 1, 2, 8]  # the trapping one is not among them


@pytest.mark.parametrize("text", ["f7f9", "0fbcd1", "0fbdd1"], ids=["idiv ecx", "bsf edx, ecx", "bsr edx, ecx"])
def test_conditions_wait_for_the_last_divide_or_scan(text):
    """gem5's conditional micro-operations read all flags, those that its microcode of a divide sets among them."""
    #  jne +0; cmove eax, ebx; add eax, ebx; adc eax, ebx
    program = x86(text, "7500", "0f44c3", "01d8", "11d8")
    rows = static_rows(BASE, program)
    reads = (rows[:, SOURCES_AT : SOURCES_AT + SOURCES] == MICROCODE_FLAGS).any(axis=1)
    assert reads.tolist() == [text == "f7f9", True, True, False, False]
    assert MICROCODE_FLAGS in rows[0]


def test_conditions_wait_for_a_scan():
    """The scan (15 cycles) of `mov edx, 5; bsf edx, ecx; cmove eax, ebx; mov ecx, eax` is in the chain, though nothing
    reads edx; with an addition instead of the conditional move it is not.
    """
    program = Program([])
    for number in range(400):
        program.execute(number % 4)
    machine = replace_fields(BASE, {"functional_units.int_alu": 16})
    waits, goes_on = (
        Simulation(machine, x86("ba05000000", "0fbcd1", text, "89c1")).run(program.chunk())[200:].sum() / 50
        for text in ("0f44c3", "01d8")
    )
    assert waits == pytest.approx(18, abs=0.5)
    assert goes_on < 12


def test_divides_follow_one_another():
    """Independent divides on two dividers take their steps one after another: the conditional moves in front of the
    second one wait for the flags of the first. One every 7 steps and a cycle or two in gem5's runs of `espeak`.
    """
    machine = replace_field(BASE, "functional_units.int_mul", 2)
    program = Program([Instruction(Operation.INT_DIV, (1,), (2,))] * 12)
    for number in range(600):
        program.execute(number % 12)
    static = program.static()
    static.compute_operations[:] = 7
    latency = Simulation(machine, static).run(program.chunk())
    steps = 7 * machine.functional_units.int_div_latency("x86-64")
    assert steps <= latency[300:].mean() <= steps + 3


def test_shifts_and_comparisons_keep_flags():
    #  shl eax, 3; rol eax, 3; ucomisd xmm0, xmm1; and eax, ebx
    program = x86("c1e003", "c1c003", "660f2ec1", "21d8")
    sources = static_rows(BASE, program)[:, SOURCES_AT : SOURCES_AT + SOURCES]
    assert (sources == FLAGS_REGISTER).any(axis=1).tolist() == [True, False, True, False]
    assert (sources == CARRY_REGISTER).any(axis=1).tolist() == [False, False, True, False]
