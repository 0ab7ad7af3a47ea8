"""CPI stacks of loops with known answers: one thing holds each of them up, and its cause gets the cycles."""

from dataclasses import replace

import numpy as np
import pytest
from programs import Instruction, Program, load, repeated, store

from support.errors import InputError
from uarch.configuration import replace_field, replace_fields
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.ideal import IDEAL, idealised
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES, GROUPS, execution_column

CORES = ("base", "cortex-a53")
PAGE = 0x10000000


def shares(program, machine, skip=2000, ideal=()):
    """Share of the cycles of each cause, of what comes after `skip` instructions."""
    if isinstance(machine, str):
        machine = load_machine(machine)
    simulation = Simulation(machine, program.static(), ideal)
    simulation.run(program.chunk(0, skip))
    chunk, stack = program.chunk(skip), new_stack(1)
    cycles = simulation.run_with_stacks(chunk, [(stack, np.zeros(len(chunk), np.uint32))]).sum(dtype=np.int64)
    assert stack.sum() == cycles
    return dict(zip(CAUSES, (stack[0] / cycles).tolist(), strict=True))


def test_nothing_but_retiring_where_nothing_holds_up():
    # Twelve instructions and a jump, which ends a fetch group: thirteen in four cycles of four.
    found = shares(repeated(Instruction(), 20_000), "base")
    assert found["retiring"] == pytest.approx(13 / 16, abs=0.01)
    assert found["fetch bandwidth"] == pytest.approx(3 / 16, abs=0.01)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("operation", "cause"),
    [
        (Operation.INT_MUL, "integer multiplication"),
        (Operation.INT_DIV, "integer division"),
        (Operation.FP_MUL, "floating-point multiplication"),
        (Operation.FP_DIV, "floating-point division"),
        (Operation.FP_ADD, "floating-point addition"),
    ],
)
def test_a_chain_waits_for_its_operations(core, operation, cause):
    machine = replace_field(load_machine(core), "functional_units.div_step_latency", 12)
    found = shares(repeated(Instruction(operation, (1,), (1,)), 10_000), machine)
    stalls = 1 - found["retiring"]
    assert found[cause] > 0.85 * stalls


def chase(lines, step):
    """A load whose address the load before it brought, over so many lines."""
    program = Program([load(1, 1), Instruction(Operation.BRANCH, flags=Flag.BRANCH)])
    for k in range(6000):
        program.execute(0, (PAGE + (k * step % lines) * 64, 8, 0))
        program.execute(1)
    return program


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("lines", "cause"), [(64, "loads from L1D"), (2048, "loads from L2"), (1 << 20, "loads from memory")]
)
def test_a_chase_waits_for_the_level_that_has_its_lines(core, lines, cause):
    machine = replace_field(load_machine(core), "l1d.latency", 6)  # longer than a round of the in-order core's fetch
    for level in ("l1d", "l2"):
        machine = replace_field(machine, f"{level}.prefetcher", "none")
    found = shares(chase(lines, 7919), machine, skip=2 * 2048)
    assert found[cause] > 0.8 * (1 - found["retiring"])


@pytest.mark.parametrize("core", CORES)
def test_a_chase_over_pages_waits_for_their_translation(core):
    """256 lines, all in the L1D, each on a page that no TLB knows.

    A round takes a cycle to send the address, 7 + 40 of translation and 6 of the L1D. A part of a cycle is retiring.
    """
    tlb = {"entries": 16, "l2_entries": 64, "l2_latency": 7, "walk_latency": 40}
    machine = replace_fields(load_machine(core), {"tlb": tlb, "l1d.latency": 6, "l1d.prefetcher": "none"})
    program = Program([load(1, 1), Instruction(Operation.BRANCH, flags=Flag.BRANCH)])
    for k in range(6000):
        page = k * 7919 % 256
        program.execute(0, (PAGE + page * 4096 + page % 64 * 64, 8, 0))
        program.execute(1)
    found = shares(program, machine)
    assert found["data TLB misses"] + found["loads from L1D"] > 0.9 * (1 - found["retiring"])
    assert found["data TLB misses"] / found["loads from L1D"] == pytest.approx(47 / (1 + 6), rel=0.03)


@pytest.mark.parametrize("core", CORES)
def test_code_on_many_pages_waits_for_their_translation(core):
    """64 jumps from page to page, which the L1I holds, and a second TLB, but not the first."""
    tlb = {"entries": 16, "l2_entries": 1024, "l2_latency": 30, "walk_latency": 100}
    machine = replace_fields(load_machine(core), {"tlb": tlb, "l1i.size_kib": 64, "l1i.associativity": 16})
    page = [Instruction(Operation.BRANCH, flags=Flag.BRANCH), *[Instruction(length=15)] * 276]  # and 48 bytes more
    program = Program(page * 64)
    for _ in range(100):
        for number in range(64):
            program.execute(number * len(page))
    found = shares(program, machine)
    assert found["instruction TLB misses"] > 0.5


def test_a_stream_of_stores_waits_for_where_they_go():
    machine = load_machine("base")
    for level in ("l1d", "l2"):
        machine = replace_field(machine, f"{level}.prefetcher", "none")
    program = Program([store(), Instruction(Operation.BRANCH, flags=Flag.BRANCH)])
    for k in range(6000):
        program.execute(0, (PAGE + k * 64 * 5, 8, 1))
        program.execute(1)
    found = shares(program, machine)
    assert found["stores to memory"] > 0.8


def test_loads_in_order_wait_for_the_stores_before_them():
    """They hit, but all places of accesses under way are the stores'."""
    machine = replace_fields(load_machine("cortex-a53"), {"l1d.prefetcher": "none", "l2.prefetcher": "none"})
    program = Program([load(), store(), Instruction(Operation.BRANCH, flags=Flag.BRANCH)])
    for k in range(6000):
        program.execute(0, (PAGE, 8, 0))
        program.execute(1, (PAGE + (1 + k) * 64 * 5, 8, 1))
        program.execute(2)
    found = shares(program, machine)
    assert found["stores to memory"] > 0.8 and found["load queue full"] < 0.01


def test_a_long_string_operation_waits_for_its_branches():
    """gem5's microcode branches back after each round; in order nobody foresees it, however many rounds there are."""
    flags = Flag.STRING | Flag.STORE
    program = Program([Instruction(Operation.INT_ALU, (), (), flags, 1, micro_operations=4), Instruction()])
    for _ in range(20):
        program.execute(0, *[(PAGE + 8 * k, 8, 1) for k in range(400)])
        program.execute(1)
    found = shares(program, "cortex-a53", skip=2)
    assert found["misprediction, found at execution"] > 0.5


@pytest.mark.parametrize("core", CORES)
def test_branches_that_nobody_can_foresee(core):
    program = Program(
        [
            Instruction(Operation.BRANCH, (), (), Flag.BRANCH | Flag.CONDITIONAL),
            Instruction(),
            Instruction(Operation.BRANCH, flags=Flag.BRANCH),
        ]
    )
    for taken in np.random.default_rng(5).integers(0, 2, 6000):
        program.execute(0)
        if not taken:
            program.execute(1)
        program.execute(2)
    found, without = shares(program, core), shares(program, core, ideal=["branches"])
    saved = 1 - found["retiring"] / without["retiring"]  # retiring takes as many cycles in both
    assert saved > 0.3
    assert found["misprediction, found at execution"] == pytest.approx(saved, abs=0.1)
    assert without["misprediction, found at execution"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_code_that_no_cache_holds(core):
    program = Program([Instruction(length=16) for _ in range(40_000)])  # 640 KB in a line
    for _ in range(2):
        for k in range(0, 40_000, 4):
            program.execute(k)
    machine = load_machine(core)
    fetch = sum(shares(program, machine, skip=10_000)[f"fetch from {level}"] for level in ("L2", "L3", "memory"))
    assert fetch > 0.8
    none = shares(program, machine, skip=10_000, ideal=["instructions"])
    assert not any(none[f"fetch from {level}"] for level in ("L2", "L3", "memory"))


def test_one_port_for_many_loads():
    machine = replace_field(load_machine("base"), "functional_units.load_ports", 1)
    program = Program([load(destination, 9) for destination in range(1, 8)])
    for k in range(14_000):
        program.execute(k % 7, (PAGE + 8 * (k % 7), 8, 0))
    found = shares(program, machine)
    assert found["ports"] > 0.8 * (1 - found["retiring"])


def test_system_calls_serialize():
    flags = Flag.SYSCALL | Flag.SERIALIZING
    program = Program([Instruction(), Instruction(Operation.SYSTEM, flags=flags)])
    for _ in range(3000):
        program.execute(0)
        program.execute(1)
    assert shares(program, "base")["serializing instructions"] > 0.8


def test_every_operation_has_a_cause():
    for operation in Operation:
        assert 0 <= execution_column(operation) < len(CAUSES)
    assert list(dict.fromkeys(CAUSES.values())) == list(GROUPS)


def test_what_can_be_ideal():
    machine = load_machine("base")
    ideal = idealised(machine, IDEAL)
    assert ideal.functional_units.div_latency == ideal.functional_units.fp_mul_latency == 1
    assert ideal.functional_units.load_ports >= 8
    assert ideal.pipeline.rob_entries == 8 * machine.pipeline.rob_entries
    assert idealised(machine, []) == machine
    with pytest.raises(InputError, match="'luck' cannot be ideal; choose among branches"):
        idealised(machine, ["luck"])
    with pytest.raises(InputError, match=r"zen4-native: the latencies of .* cannot be ideal"):
        idealised(load_machine("zen4-native"), ["execution"])
    with pytest.raises(InputError, match=r"zen4-native: the ports of .* cannot be ideal"):
        idealised(load_machine("zen4-native"), ["ports"])


@pytest.mark.parametrize("name", ["base", "zen4", "cortex-a53"])
def test_ideal_execution_makes_no_division_slower(name):
    """A trace tells 35 steps of each, of which a machine with a step of its own takes as many as it assumes."""
    program = Program(
        [Instruction(Operation.INT_DIV, (0, 2, 1), (0, 2)), Instruction(Operation.BRANCH, flags=Flag.BRANCH)]
    )
    for _ in range(500):
        program.execute(0)
        program.execute(1)
    static, chunk = program.static(), program.chunk()
    static.compute_operations[0], static.micro_operations[0] = 7, 10
    places = np.flatnonzero(chunk.static_id == 0).astype(np.uint64)
    chunk = replace(chunk, division_instruction=places, division_steps=np.full(len(places), 35, np.uint8))
    cycles = []
    for ideal in ((), ("execution",)):
        simulation = Simulation(load_machine(name), static, ideal)
        simulation.run(chunk)
        cycles.append(simulation.counters["cycles"])
    assert cycles[1] <= cycles[0]


def test_ideal_data_costs_no_walk_more_than_the_first_level():
    tlb = {"entries": 8, "l2_entries": 8, "l2_latency": 5, "walk_latency": 0, "walk": "caches"}
    machine = replace_fields(load_machine("base"), {"tlb": tlb})
    program = Program([Instruction(Operation.BRANCH, flags=Flag.BRANCH) for _ in range(64)])
    static = program.static()
    static = replace(static, address=np.arange(64, dtype=np.uint64) * np.uint64(3 << 21) + np.uint64(0x400000))
    for k in range(1000):
        program.execute(k % 64)
    simulation = Simulation(machine, static, ["data"])
    simulation.run(program.chunk())
    assert simulation.statistics["l1d_accesses"] == 0
