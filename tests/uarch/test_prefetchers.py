"""Lines that prefetchers want, by hand from gem5's rules, and measures of counts."""

import math

import pytest
from programs import Program, load

from uarch.configuration import replace_field
from uarch.machine_files import load_machine
from uarch.timing._core import parts
from uarch.timing.simulation import Simulation
from uarch.timing.statistics import statistics

PAGE, PC = 0x10000000, 0x400100


def wanted(prefetcher):
    """Lines from the page's first that wait, the oldest first."""
    return [line - (PAGE >> 6) for line in prefetcher.queue.lines]


def see(prefetcher, *offsets, requester=parts.DATA_REQUEST):
    for offset in offsets:
        prefetcher.train(PAGE + offset, PC, requester, cycle=100, missed=True)
    return wanted(prefetcher)


def test_the_tagged_one_wants_the_next_two_lines_of_the_page():
    assert see(parts.Prefetcher("tagged"), 0) == [1, 2]
    assert see(parts.Prefetcher("tagged"), 62 * 64) == [63]


def test_a_stream_is_followed_far_ahead_both_ways_and_not_beyond_its_page():
    prefetcher = parts.Prefetcher("stream")
    assert see(prefetcher, 0, 64) == []
    assert see(prefetcher, 128) == list(range(3, 27))
    assert see(prefetcher, 192) == list(range(4, 28))  # the demand takes its own line out
    assert see(parts.Prefetcher("stream"), 640, 576, 512) == list(range(7, -1, -1))
    assert see(parts.Prefetcher("stream"), 0, 640, 64) == []  # no stream


def test_streams_of_two_pages_do_not_disturb_each_other():
    prefetcher = parts.Prefetcher("stream")
    assert see(prefetcher, 0, 8192, 64, 8256) == []
    assert see(prefetcher, 128) == list(range(3, 27))


def test_a_stride_is_followed_when_it_is_seen_again():
    prefetcher = parts.Prefetcher("stride")
    assert see(prefetcher, 0, 128) == []
    assert see(prefetcher, 256) == [6, 8, 10, 12]


def test_a_stride_within_a_line_is_that_of_lines():
    assert see(parts.Prefetcher("stride"), 0, 8, 16) == [1, 2, 3, 4]
    assert see(parts.Prefetcher("stride"), 640, 632, 624) == [8, 7, 6, 5]


def test_a_sure_entry_follows_even_a_new_stride():
    prefetcher = parts.Prefetcher("stride")
    see(prefetcher, 0, 64, 128, 192, 256)  # as sure as it gets is 7: here 4 - 1 + 3
    while len(prefetcher.queue):
        prefetcher.queue.drop_first()
    assert see(prefetcher, 768) == [20, 28, 36, 44]


def test_each_that_asks_has_its_own_strides_and_code_has_none():
    prefetcher = parts.Prefetcher("stride")
    see(prefetcher, 0, 64)
    assert see(prefetcher, 128, requester=parts.PREFETCH_OF_LEVEL) == []
    assert see(prefetcher, 128, 192, 256, 320, requester=parts.CODE_REQUEST) == []
    assert see(prefetcher, 128) == [3, 4, 5, 6]


def test_a_demand_takes_its_line_out_of_the_queue_and_none_waits_twice():
    prefetcher = parts.Prefetcher("tagged")
    assert see(prefetcher, 0, 64) == [2, 3]
    assert see(prefetcher, 0) == [2, 3, 1]


def test_of_too_many_the_oldest_are_dropped():
    prefetcher = parts.Prefetcher("tagged")
    for line in range(0, 60, 3):
        see(prefetcher, 64 * line)
    everything = [line + ahead for line in range(0, 60, 3) for ahead in (1, 2)]
    assert wanted(prefetcher) == everything[-parts.PrefetchQueue.ENTRIES :]


@pytest.mark.parametrize(("mshrs", "prefetches"), [(2, False), (4, True)])
def test_a_prefetcher_leaves_two_mshrs_alone(mshrs, prefetches):
    machine = load_machine("base")
    for field, value in (("mshrs", mshrs), ("prefetcher", "stride")):
        machine = replace_field(machine, f"l1d.{field}", value)
    program = Program([load(1, 1)])  # one after another: demands leave the other MSHRs free
    for k in range(400):
        program.execute(0, (PAGE + 64 * k, 8, 0))
    simulation = Simulation(machine, program.static())
    simulation.run(program.chunk())
    assert (simulation.counters["l1d_prefetches"] > 0) == prefetches


def test_lines_prefetched_before_the_count_make_no_accuracy_above_one():
    machine = replace_field(load_machine("base"), "l1d.prefetcher", "stride")
    simulation = Simulation(machine, Program([load(1, 2)]).static())
    counts = dict.fromkeys(simulation.statistics, 1) | {"l1d_prefetches": 100, "l1d_useful_prefetches": 103}
    assert statistics(machine, counts)["l1d_prefetch_accuracy"] == 1.0


def test_what_another_prefetcher_used_covers_no_miss_of_the_program():
    """Both levels follow one stride: what the second level has fetched, the first one's prefetcher asks for."""
    machine = load_machine("base")
    for level in ("l1d", "l2"):
        machine = replace_field(machine, f"{level}.prefetcher", "stride")
    program = Program([load(1, 1)])
    for k in range(400):
        program.execute(0, (PAGE + 64 * k, 8, 0))
    simulation = Simulation(machine, program.static())
    simulation.run(program.chunk())
    counts = simulation.statistics
    assert counts["l1d_covered_misses"] == counts["l1d_useful_prefetches"] > 300
    assert counts["l2_covered_misses"] < 0.1 * counts["l2_useful_prefetches"]


@pytest.mark.parametrize(("name", "occupancy"), [("base", 32.0), ("cortex-a53", math.nan)])
def test_measures_of_known_counts(name, occupancy):
    machine = replace_field(load_machine(name), "frequency_ghz", 2.0)
    counts = dict.fromkeys(Simulation(machine, Program([load(1, 2)]).static()).statistics, 0) | {
        "instructions": 1000,
        "cycles": 2000,
        "l1d_accesses": 1000,
        "l1d_misses": 30,
        "l1d_prefetches": 100,
        "l1d_useful_prefetches": 50,
        "l1d_covered_misses": 45,
        "l1d_late_prefetches": 10,
        "memory_reads": 10,
        "memory_writes": 5,
        "dram_row_hits": 3,
        "dram_row_misses": 1,
        "reorder_buffer_occupied": 64_000,
    }
    expected = {
        "seconds": 1e-6,
        "l1d_mpki": 30.0,
        "l1d_miss_ratio": 0.03,
        "l1d_prefetch_accuracy": 0.5,
        "l1d_prefetch_coverage": 45 / (45 + 30),
        "l1d_prefetch_lateness": 10 / 50,
        "memory_gbs": 15 * 64e-9 / 1e-6,
        "dram_row_hit_rate": 0.75,
        "reorder_buffer_occupancy": occupancy,
    }
    found = statistics(machine, counts)
    assert {key: found[key] for key in expected} == pytest.approx(expected, nan_ok=True)
