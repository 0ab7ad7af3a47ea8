"""Whatever machine the configuration accepts, the core runs it: every field at its bounds and between."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import Instruction, Program, mixed

from uarch.configuration import DramMemory, Machine, RelationError, machine_from_dict
from uarch.constraints import RULES, Rule
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.ideal import IDEAL
from uarch.timing.simulation import Simulation, new_stack, touches_of
from uarch.timing.statistics import LEVELS, MISPREDICTIONS, QUEUES

LARGEST = 4096  # KiB: more would only take memory
PROGRAM = mixed(3, 400)


def values(rule: Rule, field: str) -> st.SearchStrategy:
    if rule.names is not None:
        return st.sampled_from(rule.names())
    low, high = rule.low, min(rule.high, LARGEST) if field.endswith("size_kib") else rule.high
    if rule.power_of_two:
        return st.integers(math.ceil(math.log2(max(low, 1))), int(math.log2(high))).map(lambda power: 1 << power)
    if rule.type is float:
        return st.sampled_from((low, high)) | st.floats(math.log(low), math.log(high)).map(
            lambda power: min(max(math.exp(power), low), high)
        )
    return st.sampled_from((int(low), int(high))) | st.integers(int(low), int(high))


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    base = load_machine(draw(st.sampled_from(("base", "cortex-a53")))).to_dict()
    base["tlb"] = draw(st.none() | st.just({"entries": 64, "l2_entries": 2048, "l2_latency": 7, "walk_latency": 50}))
    base["system_calls"] = draw(st.none() | st.just({}))
    for field, rule in RULES.items():
        section, _, name = field.rpartition(".")
        section = "pipeline" if section in ("out-of-order", "in-order") else section
        if field.startswith(("out-of-order.", "in-order.")) and not field.startswith(base["core"]):
            continue
        if field in ("name", "core", "microcode") or section == "memory" or not draw(st.booleans()):
            continue
        where = base[section] if section else base
        if where is not None:
            where[name] = draw(values(rule, field))
    base["memory"] = draw(
        st.sampled_from(({"model": "DDR5_4400_4x8"}, {"model": "HBM_1000_4H_1x64"}))
        | st.builds(
            lambda latency, bandwidth: {"model": "simple", "latency_ns": latency, "bandwidth_gbs": bandwidth},
            values(RULES["memory.latency_ns"], "latency_ns"),
            values(RULES["memory.bandwidth_gbs"], "bandwidth_gbs"),
        )
    )
    for queue in ("issue_queue_entries", "load_queue_entries", "store_queue_entries"):
        if queue in base["pipeline"]:
            base["pipeline"][queue] = min(base["pipeline"][queue], base["pipeline"]["rob_entries"])
    if "memory_width" in base["pipeline"]:
        base["pipeline"]["memory_width"] = min(base["pipeline"]["memory_width"], base["pipeline"]["width"])
    for level in ("l1i", "l1d", "l2", "l3"):  # whole powers of two of sets
        if (cache := base[level]) is not None:
            sets = max(cache["size_kib"] * 16 // cache["associativity"], 1)
            sets = 1 << int(math.log2(sets))
            while sets * cache["associativity"] % 16:
                sets *= 2
            cache["size_kib"] = sets * cache["associativity"] // 16
    try:
        return machine_from_dict(base)
    except RelationError:
        assume(False)
        raise


@pytest.mark.slow
@settings(max_examples=20)
@given(machines(), st.sets(st.sampled_from(sorted(IDEAL))))
def test_the_core_runs_every_machine_that_is_valid(machine, ideal):
    simulation = Simulation(machine, PROGRAM.static(), ideal)
    chunk, stack = PROGRAM.chunk(), new_stack(1)
    latency = simulation.run_with_stacks(chunk, [(stack, np.zeros(len(chunk), np.uint32))])
    cycles = simulation.counters["cycles"]
    assert stack.sum() == cycles and stack.min() >= 0
    assert latency.max() == 65535 or latency.sum(dtype=np.int64) == cycles
    assert cycles >= len(chunk) / 32
    counts_are_consistent(machine, simulation.statistics, endless="windows" in ideal)


def counts_are_consistent(machine: Machine, counts: dict[str, int], *, endless: bool) -> None:
    assert counts["mispredictions"] == sum(counts[f"mispredicted_{kind}"] for kind in MISPREDICTIONS)
    if machine.core == "in-order":
        assert counts["redirected_at_decode"] == 0  # all are found where branches commit
    elif not endless:
        for queue, field in zip(QUEUES, ("rob", "issue_queue", "load_queue", "store_queue"), strict=True):
            assert counts[f"{queue}_occupied"] <= getattr(machine.pipeline, f"{field}_entries") * counts["cycles"]
    for level in LEVELS:
        assert counts[f"{level}_covered_misses"] <= counts[f"{level}_useful_prefetches"]
        assert counts[f"{level}_late_prefetches"] <= counts[f"{level}_useful_prefetches"]
    if isinstance(machine.memory, DramMemory):
        lines = counts["dram_row_hits"] + counts["dram_row_misses"]
        assert counts["memory_reads"] <= lines <= counts["memory_reads"] + counts["memory_writes"]


def test_a_chunk_of_another_program_is_refused():
    simulation = Simulation(load_machine("base"), mixed(1, 10).static())
    chunk = PROGRAM.chunk()
    broken = chunk.__class__(**{**vars(chunk), "static_id": chunk.static_id + 64})
    with pytest.raises(ValueError, match="static_id is beyond the program's instructions"):
        simulation.run(broken)


def test_a_stack_that_cannot_be_added_to_in_place_is_refused():
    simulation = Simulation(load_machine("base"), PROGRAM.static())
    chunk, stack = PROGRAM.chunk(), new_stack(2)
    for other in (np.zeros((2, 2 * stack.shape[1]), np.int64)[:, ::2], stack.astype(np.int32)):
        with pytest.raises(ValueError, match="int64 in C order"):
            simulation.run_with_stacks(chunk, [(other, np.zeros(len(chunk), np.uint32))])


@pytest.mark.parametrize("name", ["zen4", "cortex-a53"])
def test_the_upper_half_of_the_address_space_takes_as_long_as_the_lower(name):
    """A kernel's addresses, of which the highest bit is no sign."""
    machine = load_machine(name)

    def simulated(code, data):
        program = Program([Instruction(Operation.INT_ALU, (1,), (1,), Flag.STORE), Instruction()], base=code)
        for k in range(20_000):
            program.execute(0, (data + 64 * k, 8, 1))
            program.execute(1)
        simulation = Simulation(machine, program.static())
        lines = (np.uint64(data) >> np.uint64(6)) + np.arange(64, dtype=np.uint64)
        simulation.touch(touches_of(lines, np.zeros(64, bool), np.zeros(64, bool)))
        latency = simulation.run(program.chunk())
        return latency.tolist(), simulation.statistics

    low, high = simulated(0x400000, 0x10000000), simulated(0xFFFF800000400000, 0xFFFF800010000000)
    assert high[0] == low[0]
    assert {name: value for name, value in high[1].items() if value == value} == {
        name: value for name, value in low[1].items() if value == value
    }
