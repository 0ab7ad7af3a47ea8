"""Long string instructions in parts: what is simulated, and what passes in between, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.tracegen.string_parts import string, told_by_parts
from tests.uarch.programs import Instruction, Program
from tracegen.live_points import _core
from tracegen.live_points.string_instructions import LONG, parts
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

AREA = 0x10000000
STRING = Instruction(Operation.INT_ALU, (1,), (1,), Flag.STRING | Flag.LOAD | Flag.STORE, 1, micro_operations=4)


def piece(*counts, copies=0):
    """Strings of so many accesses of a byte, each with two other instructions behind it: of stores, or copies from so
    far away.
    """
    program = Program([STRING, Instruction()])
    for count in counts:
        each = [(AREA + k // 2 + copies * (1 - k % 2), 1, k % 2) if copies else (AREA + k, 1, 1) for k in range(count)]
        program.execute(0, *each)
        program.execute(1)
        program.execute(1)
    return program, program.chunk()


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=3), st.sampled_from([0, -1, 1 << 24]))
@settings(max_examples=15, deadline=None)
def test_parts_and_what_passes_between_them_are_all_of_the_piece(counts, copies):
    _, chunk = piece(*counts, copies=copies)
    counted, accesses, seen = np.zeros(len(chunk)), 0.0, 0
    for part in parts(chunk):
        if part.passed is not None:
            lines = part.passed >> np.uint64(_core.LINE_SHIFT)
            begin = int(part.chunk.access_offset[0] - chunk.access_offset[0])
            passed = slice(seen, begin)
            stored = set((chunk.address[passed][chunk.is_store[passed] == 1] >> np.uint64(6)).tolist())
            last = {int(line): k for k, line in enumerate(chunk.address[passed] >> np.uint64(6))}
            assert set(lines.tolist()) == set(last)
            assert {int(line) for line in lines[(part.passed & np.uint64(_core.DIRTY)) != 0]} == stored
            order = [last[line] for line in lines.tolist()]
            assert order == sorted(order)
            seen = begin
        own = part.chunk.address
        assert np.array_equal(own, chunk.address[seen : seen + len(own)])
        assert np.array_equal(part.chunk.static_id, chunk.static_id[part.begin : part.end])
        seen += len(own)
        accesses += part.times * len(own)
        counted[part.begin : part.end] += part.times > 0
    assert seen == len(chunk.address)
    assert accesses == pytest.approx(sum(counts))
    assert (counted >= 1).all()


@pytest.mark.parametrize("copies", [0, 1 << 24])
def test_a_piece_without_long_strings_is_one_part(copies):
    _, chunk = piece(3, LONG, 0, copies=copies)
    (part,) = parts(chunk)
    assert part.chunk is chunk and part.passed is None and part.times == 1


@pytest.mark.parametrize("name", ["base", "cortex-a53"])
@pytest.mark.parametrize("copies", [False, True])
def test_parts_tell_the_cycles_of_a_string_over_megabytes(name, copies):
    machine, (static, chunk) = load_machine(name), string(600_000, copies=copies)
    whole = Simulation(machine, static)
    whole.run(chunk)
    assert told_by_parts(machine, static, chunk) == pytest.approx(whole.statistics["cycles"], rel=0.02)
    assert sum(len(part.chunk.address) for part in parts(chunk)) < len(chunk.address) / 3
