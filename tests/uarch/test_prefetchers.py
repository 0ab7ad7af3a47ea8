"""What prefetchers want, by hand from gem5's rules."""

import pytest
from programs import Program, load

from uarch.configuration import load_machine, replace_field
from uarch.timing.prefetchers import (
    CODE,
    DATA,
    HEAD,
    LINE,
    NONE,
    QUEUE,
    STRIDE,
    TAGGED,
    WAITING,
    kind_of,
    new_prefetchers,
    train,
)
from uarch.timing.simulation import Simulation

L1D, PAGE, PC = 1, 0x10000000, 0x400100


def wanted(prefetchers):
    """Lines from the page's first that wait, the oldest first."""
    count, head = prefetchers.state[L1D, [WAITING, HEAD]]
    lines = [prefetchers.queue[L1D, (head + k) % QUEUE, LINE] for k in range(count)]
    return [int(line) - (PAGE >> 6) for line in lines if line >= 0]


def see(prefetchers, kind, *offsets, pc=PC, who=DATA, missed=1):
    for offset in offsets:
        train(prefetchers, L1D, kind, PAGE + offset, pc, who, 100, missed)
    return wanted(prefetchers)


def test_the_tagged_one_wants_the_next_two_lines_of_the_page():
    assert see(new_prefetchers(), TAGGED, 0) == [1, 2]
    assert see(new_prefetchers(), TAGGED, 62 * 64) == [63]


def test_a_stride_is_followed_when_it_is_seen_again():
    prefetchers = new_prefetchers()
    assert see(prefetchers, STRIDE, 0, 128) == []
    assert see(prefetchers, STRIDE, 256) == [6, 8, 10, 12]


def test_a_stride_within_a_line_is_that_of_lines():
    assert see(new_prefetchers(), STRIDE, 0, 8, 16) == [1, 2, 3, 4]
    assert see(new_prefetchers(), STRIDE, 640, 632, 624) == [8, 7, 6, 5]


def test_a_sure_entry_follows_even_a_new_stride():
    prefetchers = new_prefetchers()
    see(prefetchers, STRIDE, 0, 64, 128, 192, 256)  # as sure as it gets is 7: here 4 - 1 + 3
    prefetchers.state[L1D, WAITING] = 0
    assert see(prefetchers, STRIDE, 768) == [20, 28, 36, 44]


def test_each_that_asks_has_its_own_strides_and_code_has_none():
    prefetchers = new_prefetchers()
    see(prefetchers, STRIDE, 0, 64)
    assert see(prefetchers, STRIDE, 128, who=DATA + 2) == []
    assert see(prefetchers, STRIDE, 128, 192, 256, 320, who=CODE) == []
    assert see(prefetchers, STRIDE, 128) == [3, 4, 5, 6]


def test_a_demand_takes_its_line_out_of_the_queue_and_none_waits_twice():
    prefetchers = new_prefetchers()
    assert see(prefetchers, TAGGED, 0, 64) == [2, 3]
    assert see(prefetchers, TAGGED, 0) == [2, 3, 1]


def test_of_too_many_the_oldest_are_dropped():
    prefetchers = new_prefetchers()
    for line in range(0, 60, 3):
        see(prefetchers, TAGGED, 64 * line)
    everything = [line + ahead for line in range(0, 60, 3) for ahead in (1, 2)]
    assert wanted(prefetchers) == everything[-QUEUE:]


@pytest.mark.parametrize(("mshrs", "prefetches"), [(2, False), (4, True)])
def test_a_prefetcher_leaves_two_mshrs_alone(mshrs, prefetches):
    assert (kind_of("stride", mshrs) != NONE) == prefetches
    machine = load_machine("base")
    for field, value in (("mshrs", mshrs), ("prefetcher", "stride")):
        machine = replace_field(machine, f"l1d.{field}", value)
    program = Program([load(1, 1)])  # one after another: demands leave the other MSHRs free
    for k in range(400):
        program.execute(0, (PAGE + 64 * k, 8, 0))
    simulation = Simulation(machine, program.static())
    simulation.run(program.chunk())
    assert (simulation.counters["l1d_prefetches"] > 0) == prefetches
