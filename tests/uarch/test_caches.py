"""Miss counts against a cache written the plain way."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Instruction, Program, load, store

from uarch.configuration import replace_field
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

BASE = load_machine("base")


class PlainCache:
    """Set-associative, LRU, write-back, write-allocate; `below` is the next level or None."""

    def __init__(self, size_kib, ways, below=None):
        self.sets = [OrderedDict() for _ in range(size_kib * 16 // ways)]
        self.ways, self.below, self.accesses, self.misses = ways, below, 0, 0

    def access(self, line, write=False):
        self.accesses += 1
        entries = self.sets[line % len(self.sets)]
        if line in entries:
            entries.move_to_end(line)
            entries[line] |= write
            return
        self.misses += 1
        if self.below:
            self.below.access(line)
        self.insert(line, write)

    def insert(self, line, dirty):
        entries = self.sets[line % len(self.sets)]
        if line in entries:
            entries.move_to_end(line)
            entries[line] |= dirty
            return
        if len(entries) == self.ways:
            victim, was_dirty = entries.popitem(last=False)
            if was_dirty and self.below:
                self.below.insert(victim, True)
        entries[line] = dirty


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 600), st.integers(0, 63), st.sampled_from([1, 8, 32]), st.booleans()), max_size=400
    ),
    st.sampled_from([(1, 1), (1, 2), (2, 4), (3, 6)]),
    st.sampled_from([(4, 4), (16, 16)]),
    st.booleans(),
)
def test_miss_counts_equal_those_of_a_plain_cache(accesses, l1, l2, timed):
    machine = BASE
    for level, (size, ways) in (("l1d", l1), ("l2", l2)):
        machine = replace_field(
            machine,
            f"{level}",
            {"size_kib": size, "associativity": ways, "latency": 2, "mshrs": 4, "prefetcher": "none"},
        )
    machine = replace_field(machine, "l3", None)
    # A fence after each access: in flight together, loads take their data from stores and lines are gone only later.
    fence = Instruction(Operation.SYSTEM, flags=Flag.SERIALIZING | Flag.BARRIER)
    program = Program([load(1, 2), store(1, 2), fence])
    below = PlainCache(*l2)
    plain = PlainCache(*l1, below)
    below.access(0x400000 >> 6)  # the code's one line
    for line, offset, size, write in accesses:
        address = 0x10000000 + 64 * line + offset
        program.execute(int(write), (address, size, int(write)))
        program.execute(2)
        for touched in range(address >> 6, ((address + size - 1) >> 6) + 1):
            plain.access(touched, write)
    simulation = Simulation(machine, program.static())
    (simulation.run if timed else simulation.warm)(program.chunk())
    counters = simulation.counters
    assert counters["l1d_accesses"] == plain.accesses
    assert counters["l1d_misses"] == plain.misses
    assert counters["l1i_misses"] == (1 if accesses else 0)
    if accesses:
        assert counters["l2_accesses"] == below.accesses
        assert counters["l2_misses"] == below.misses


@pytest.mark.slow
def test_prefetchers_bring_a_stream_before_it_is_asked_for():
    def misses(l1d, l2):
        machine = replace_field(replace_field(BASE, "l1d.prefetcher", l1d), "l2.prefetcher", l2)
        program = Program([load(1, 2)])
        for k in range(4000):
            program.execute(0, (0x10000000 + 8 * k, 8, 0))
        simulation = Simulation(machine, program.static())
        simulation.run(program.chunk())
        return np.array([simulation.counters["l1d_misses"], simulation.counters["l2_misses"]])

    none = misses("none", "none")
    assert none[0] == 500
    assert misses("stride", "none")[0] < 0.2 * none[0]
    assert misses("none", "tagged")[1] < 0.4 * none[1]
    assert misses("none", "stream")[1] < 0.2 * none[1]  # 24 lines ahead, where `tagged` is two


def test_dirty_lines_that_are_touched_are_written_back_as_those_stored_to():
    machine = BASE
    for level, size, ways in (("l1d", 4, 4), ("l2", 16, 16)):
        machine = replace_field(
            machine, level, {"size_kib": size, "associativity": ways, "latency": 2, "mshrs": 4, "prefetcher": "none"}
        )
    machine = replace_field(machine, "l3", None)
    lines = 0x10000000 // 64 + np.arange(200)  # three L1s full, less than the L2 holds
    stores, loads = Program([store(1, 2), load(1, 2)]), Program([store(1, 2), load(1, 2)])
    for line in lines:
        stores.execute(0, (64 * int(line), 8, 1))
    for line in lines[-1] + 1 + np.arange(1000):
        loads.execute(1, (64 * int(line), 8, 0))
    stored, touched = (Simulation(machine, stores.static()) for _ in range(2))
    stored.warm(stores.chunk())
    touched.touch(lines.astype(np.uint64) << np.uint64(4) | np.uint64(1))
    for simulation in (stored, touched):
        simulation.reset_counters()
        simulation.run(loads.chunk())
    assert touched.statistics["l2_write_backs"] == stored.statistics["l2_write_backs"] == len(lines)


@pytest.mark.parametrize("touched", [False, True])
def test_a_dirty_line_that_is_read_again_is_dirty_in_the_level_that_asked(touched):
    """An array larger than L1D that was written once and is read over and over goes back and forth dirty (gem5's
    Cache::satisfyRequest), whether it was stored to and read or only touched so.
    """
    machine = BASE
    for level, size, ways in (("l1d", 4, 4), ("l2", 64, 16)):
        machine = replace_field(
            machine, level, {"size_kib": size, "associativity": ways, "latency": 2, "mshrs": 4, "prefetcher": "none"}
        )
    machine = replace_field(machine, "l3", None)
    lines = 0x10000000 // 64 + np.arange(256)  # four L1Ds full
    program, reads = Program([store(1, 2), load(1, 2)]), Program([store(1, 2), load(1, 2)])
    for line in lines:
        program.execute(0, (64 * int(line), 8, 1))
    for line in [*lines, *lines]:
        program.execute(1, (64 * int(line), 8, 0))
        reads.execute(1, (64 * int(line), 8, 0))
    simulation = Simulation(machine, program.static())
    if touched:
        code = lines.astype(np.uint64) << np.uint64(4)
        simulation.touch(np.concatenate([code | np.uint64(1), code]))
    else:
        simulation.run(program.chunk())
    simulation.reset_counters()
    simulation.run(reads.chunk())
    missed = simulation.statistics["l1d_misses"]
    assert missed > 1.5 * len(lines)  # stores that wait answer a few
    assert simulation.statistics["l1d_write_backs"] == missed
    assert simulation.statistics["l2_write_backs"] == 0


def test_a_line_that_is_written_before_another_one_takes_its_place_is_written_back():
    """Stores of aarch64 do not wait for one another: the second one comes before the first one's line does."""
    machine = replace_field(replace_field(BASE, "l1d.size_kib", 16), "l1d.associativity", 1)
    program = Program([load(1, 2), Instruction(Operation.INT_DIV, (1,), (1,)), store(1, 2)], isa="aarch64")
    first, same_set = 0x10000000, 0x10000000 + (16 << 10)
    program.execute(0, (first, 8, 0))
    for address in (same_set, first):
        program.execute(2, (address, 8, 1))
    for _ in range(400):
        program.execute(1)
    for line in range(1, 200):  # in other sets, which makes the two go to the cache
        program.execute(2, (first + 64 * line, 8, 1))
    simulation = Simulation(machine, program.static())
    simulation.run(program.chunk())
    assert simulation.statistics["l1d_write_backs"] == 1


def test_code_that_touches_drive_from_its_cache_is_recent_in_the_next():
    machine = BASE
    for level, size in (("l1i", 4), ("l2", 16)):
        machine = replace_field(
            machine, level, {"size_kib": size, "associativity": 4, "latency": 2, "mshrs": 4, "prefetcher": "none"}
        )
    machine = replace_field(replace_field(machine, "l3", None), "l1d.prefetcher", "none")
    loop = Program([Instruction(length=4)])
    loop.execute(0)
    code, sets = 0x400000 // 64, 64  # of the L2
    data = code + sets * np.arange(100, 104)
    newer = code + 16 * np.arange(1, 5)  # drive the loop from the set of the L1, and are in other sets of the L2
    touches = [code << 4 | 2, *(line << 4 for line in data[:3]), *(line << 4 | 2 for line in newer), data[3] << 4]
    simulation = Simulation(machine, loop.static())
    simulation.touch(np.array(touches, np.uint64))
    simulation.run(loop.chunk())
    assert (simulation.statistics["l1i_misses"], simulation.statistics["l2_misses"]) == (1, 0)
