"""However a stream is divided into chunks, and with or without a stack, it takes the same cycles."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import mixed

from uarch.configuration import Machine, replace_field
from uarch.constraints import PREDICTORS, PREFETCHERS
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES
from uarch.timing.statistics import QUEUES

INSTRUCTIONS = 1500


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    name = draw(st.sampled_from(("base", "cortex-a53")))  # out of order and in order
    machine = load_machine(name)
    predictors = PREDICTORS[1:] if name == "base" else PREDICTORS
    fields = {
        "branch_predictor.kind": st.sampled_from(predictors),
        "l1d.prefetcher": st.sampled_from(PREFETCHERS),
        "l2.prefetcher": st.sampled_from(PREFETCHERS),
        "l1d.mshrs": st.sampled_from((1, 2, 4, 16)),
        "memory": st.sampled_from(("DDR5_4400_4x8", "DDR3_1600_8x8")),
    }
    for field, values in fields.items():
        machine = replace_field(machine, field, draw(values))
    return machine


@pytest.mark.slow
@settings(max_examples=40)
@given(
    machines(),
    st.sampled_from(("x86-64", "aarch64")),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, INSTRUCTIONS), max_size=12),
)
def test_any_division_into_chunks_gives_the_same_cycles_and_stacks(machine, isa, seed, cuts):
    program = mixed(seed, INSTRUCTIONS)
    program.isa = isa
    static, whole = program.static(), program.chunk()
    simulation = Simulation(machine, static)
    latency = simulation.run(whole)

    for divided in ([0, INSTRUCTIONS], [0, *sorted(cuts), INSTRUCTIONS]):
        chunks = [program.chunk(begin, end) for begin, end in pairwise(divided)]
        plain, stacked = Simulation(machine, static), Simulation(machine, static)
        stack = new_stack(len(program.instructions))
        assert np.array_equal(np.concatenate([plain.run(chunk) for chunk in chunks]), latency)
        with_stack = [stacked.run_with_stacks(chunk, [(stack, chunk.static_id)]) for chunk in chunks]
        assert np.array_equal(np.concatenate(with_stack), latency)
        assert plain.statistics == simulation.statistics and stacked.counters == simulation.counters
        assert stack.min() >= 0 and stack.sum() == simulation.statistics["cycles"]
        if divided == [0, INSTRUCTIONS]:
            undivided, statistics = stack, stacked.statistics  # which have the occupancy of queues too
        assert np.array_equal(stack, undivided) and stacked.statistics == statistics
        if latency.max() < 65535:  # what an instruction's group gets are its own cycles
            assert np.array_equal(stack.sum(axis=1), np.bincount(whole.static_id, latency, len(stack)))


@pytest.mark.slow
@settings(max_examples=20)
@given(machines(), st.integers(0, 2**32 - 1), st.integers(0, INSTRUCTIONS))
def test_what_a_stack_is_kept_of_may_change_on_the_way(machine, seed, cut):
    """Chunks with and without a stack take turns; groups are any that are given."""
    program = mixed(seed, INSTRUCTIONS)
    static, first, second = program.static(), program.chunk(0, cut), program.chunk(cut)
    expected = Simulation(machine, static).run(program.chunk())
    simulation, stack = Simulation(machine, static), new_stack(3)
    groups = np.random.default_rng(seed).integers(0, 3, len(second)).astype(np.uint32)
    latency = np.concatenate([simulation.run(first), simulation.run_with_stacks(second, [(stack, groups)])])
    assert np.array_equal(latency, expected)
    assert stack.shape == (3, len(CAUSES)) and stack.sum() == latency[cut:].sum()
    assert np.array_equal(stack.sum(axis=1), np.bincount(groups, latency[cut:], 3))


@pytest.mark.parametrize("name", ["base", "zen4", "neoverse-n1"])
def test_no_queue_holds_more_than_its_entries(name):
    """Strings of up to 200 loads and stores are longer than the queues."""
    machine = load_machine(name)
    program = mixed(7, INSTRUCTIONS)
    static, whole = program.static(), program.chunk()
    simulation = Simulation(machine, static)
    simulation.run_with_stacks(whole, [(new_stack(len(program.instructions)), whole.static_id)])
    for queue in QUEUES:
        mean = simulation.statistics[f"{queue}_occupied"] / simulation.statistics["cycles"]
        entries = getattr(machine.pipeline, {"reorder_buffer": "rob"}.get(queue, queue) + "_entries")
        assert 0 < mean <= entries
