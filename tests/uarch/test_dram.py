"""The DRAM by hand: every time is a sum of timings of the data sheet (picoseconds)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Instruction, Program

from uarch.configuration import replace_field
from uarch.constraints import dram_models
from uarch.machine_files import load_machine
from uarch.timing._core import parts
from uarch.timing.simulation import Simulation

BEGIN = 1_000_000  # between two refreshes
PERIOD = 333  # picoseconds of a cycle of base


def channel(name, frequency_ghz=3.0):
    """A machine's DRAM, and its timings in picoseconds."""
    machine = replace_field(replace_field(load_machine("base"), "memory", name), "frequency_ghz", frequency_ghz)
    memory = parts.dram_of(Simulation(machine, Program([Instruction()]).static())._core)
    model = dram_models()[name]
    return memory, {key: round(1000 * value) for key, value in model.items() if key.startswith("t_")}


def test_a_cycle_is_whole_picoseconds_halves_up():
    memory, t = channel("DDR3_1600_8x8", 3.2)
    cycle, controller = 3000, 20_000
    took = t["t_rcd"] + t["t_cl"] + t["t_burst"] + controller
    assert memory.read(0, cycle) == cycle + -(-took // 313) != cycle + -(-took // 312)


@pytest.mark.parametrize("name", ["DDR5_4400_4x8", "DDR3_1600_8x8"])
def test_the_first_read_opens_its_row(name):
    memory, t = channel(name)
    assert memory.read_at(0, BEGIN) == BEGIN + t["t_rcd"] + t["t_cl"] + t["t_burst"]


def test_a_line_of_two_bursts_takes_the_bus_twice():
    memory, t = channel("HBM_1000_4H_1x64")
    assert memory.read_at(0, BEGIN) == BEGIN + t["t_rcd"] + t["t_cl"] + 2 * t["t_burst"]


def test_an_open_row_waits_for_nothing():
    memory, t = channel("DDR3_1600_8x8")
    memory.read_at(0, BEGIN)
    assert memory.read_at(1, BEGIN + 100_000) == BEGIN + 100_000 + t["t_cl"] + t["t_burst"]


def test_another_row_of_the_bank_closes_the_open_one():
    memory, t = channel("DDR3_1600_8x8")
    lines = int(dram_models()["DDR3_1600_8x8"]["row_bytes"]) // 64 * 16  # as many banks on
    memory.read_at(0, BEGIN)
    later = BEGIN + 100_000
    assert memory.read_at(lines, later) == later + t["t_rp"] + t["t_rcd"] + t["t_cl"] + t["t_burst"]


def test_a_closed_row_is_opened_again_after_a_row_cycle():
    memory, t = channel("DDR5_4400_4x8")
    memory.read_at(0, BEGIN)
    again = BEGIN + t["t_ras"] + t["t_rp"]
    assert memory.read_at(1, BEGIN + 1) == again + t["t_rcd"] + t["t_cl"] + t["t_burst"]


def test_a_row_that_is_waited_for_stays_open():
    memory, t = channel("DDR5_4400_4x8")
    first = memory.read_at(0, BEGIN)
    assert memory.read_at(1, BEGIN) == first + t["t_ccd_long"]


def test_a_burst_that_waits_for_its_bank_holds_up_others():
    memory, t = channel("DDR5_4400_4x8")
    memory.read_at(0, BEGIN)
    second = memory.read_at(1, BEGIN + 1)  # a row cycle later
    other = memory.read_at(16, BEGIN + 2)  # of the next bank, which is idle
    assert other == second + t["t_burst"]


def test_a_fifth_row_waits_until_the_first_of_four_is_long_enough_ago():
    name = "DDR3_1600_8x8"
    memory, t = channel(name)
    lines = int(dram_models()[name]["row_bytes"]) // 64
    fifth = [memory.read_at(bank * lines, BEGIN) for bank in range(5)][-1]
    assert t["t_xaw"] > 4 * t["t_rrd"]
    assert fifth == BEGIN + t["t_xaw"] + t["t_rcd"] + t["t_cl"] + t["t_burst"]


def test_another_rank_takes_the_bus_over_after_a_gap():
    name = "DDR3_1600_8x8"
    memory, t = channel(name)
    rank = int(dram_models()[name]["banks"] * dram_models()[name]["row_bytes"]) // 64
    for line in (0, rank):
        memory.read_at(line, BEGIN)
    first = memory.read_at(1, BEGIN + 100_000)
    assert memory.read_at(rank + 1, BEGIN + 100_000) == first + t["t_burst"] + t["t_cs"]


def test_a_read_from_the_past_changes_no_bank():
    memory, t = channel("DDR5_4400_4x8")
    untouched, _ = channel("DDR5_4400_4x8")
    memory.read_at(0, BEGIN)
    untouched.read_at(0, BEGIN)
    assert memory.read_at(16, BEGIN - 100_000) == BEGIN - 100_000 + t["t_rcd"] + t["t_cl"] + t["t_burst"]
    # What comes next finds the same rows, commands and activations: the two banks, then the bus turned around.
    for line, later in ((16, 1), (0, 2), (32, 3), (16, 100_000), (1 << 20, BEGIN)):
        arrival = BEGIN + later
        assert memory.read_at(line, arrival) == untouched.read_at(line, arrival)


def test_refresh_closes_all_rows_and_takes_its_time():
    memory, t = channel("DDR3_1600_8x8")
    memory.read_at(0, BEGIN)
    due = t["t_refi"]
    expected = due + t["t_rfc"] + t["t_rcd"] + t["t_cl"] + t["t_burst"]
    assert memory.read_at(1, due + 1) == expected


REFRESHED = "DDR3_1600_8x8"


def test_a_refresh_under_way_lasts_from_when_it_began():
    memory, t = channel(REFRESHED)
    cycle = 3_000_000
    now, passed = cycle * PERIOD, t["t_rfc"] / 2 / t["t_refi"]
    memory.set_refresh(cycle, passed)
    assert memory.read_at(0, now) == now + t["t_rfc"] // 2 + t["t_rcd"] + t["t_cl"] + t["t_burst"]


def test_no_refresh_comes_before_the_interval_is_over():
    memory, t = channel(REFRESHED)
    cycle = 3_000_000
    now = cycle * PERIOD
    memory.set_refresh(cycle, 0.25)
    due = now + round(0.75 * t["t_refi"])
    memory.read_at(0, due - 100_000)
    assert memory.read_at(1, due - 1) == due - 1 + t["t_cl"] + t["t_burst"]
    assert memory.read_at(2, due + 1) == due + t["t_rfc"] + t["t_rcd"] + t["t_cl"] + t["t_burst"]


def test_the_first_awaited_read_behind_a_refresh_has_a_surplus():
    memory, t = channel(REFRESHED)
    cycle = 3_000_000
    memory.set_refresh(cycle, 0.0)  # it begins now
    expected = t["t_rfc"] ** 2 / 2 / t["t_refi"]  # of a read long after the one before
    later = 30  # cycles
    memory.read(0, cycle + 10, awaited=False)
    assert memory.refresh_surplus == 0
    memory.read(1, cycle + later)
    first = t["t_rfc"] - later * PERIOD - expected
    assert memory.refresh_surplus == pytest.approx(first / PERIOD)
    memory.read(2, cycle + later)  # at the same time: nothing more is waited for, or expected
    assert memory.refresh_surplus == pytest.approx(first / PERIOD)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 1500), min_size=1, max_size=30))
def test_the_surplus_is_nothing_on_average(gaps):
    """The mean over times of refreshes, of reads at times that do not depend on them."""
    times = 1000
    memory, t = channel(REFRESHED)
    cycle, found = 3_000_000, []
    for passed in (np.arange(times) + 0.5) / times:
        memory.set_refresh(cycle, passed)
        before = memory.refresh_surplus
        for gap in gaps:
            cycle += gap
            memory.read(0, cycle)
        found.append(memory.refresh_surplus - before)
    # A read's wait jumps by all of t_rfc between two of these times, so the mean over them is half a step off.
    assert np.mean(found) == pytest.approx(0, abs=len(gaps) * t["t_rfc"] / PERIOD / times)
    assert np.max(found) > 0


def test_what_has_passed_of_an_interval_is_less_than_one():
    simulation = Simulation(load_machine("base"), Program([Instruction()]).static())
    for passed in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"\[0, 1\)"):
            simulation.set_refresh(passed)
    simulation.set_refresh(0.5)
    assert simulation.refresh_surplus == 0


def test_writes_wait_until_their_queue_is_nearly_full():
    high = int(parts.Dram.HIGH * 64)
    ready = {}
    for lines in (high, high + 1):
        memory, t = channel("DDR3_1600_8x8")
        memory.read_at(1 << 20, BEGIN)  # the bus is taken
        for line in range(lines):
            memory.write_at(line, BEGIN)
        memory.write_at(0, BEGIN)  # is there already
        assert memory.writes_waiting == lines
        ready[lines] = memory.read_at(1 << 20, BEGIN + 1)
    assert memory.writes_waiting == high + 1 - parts.Dram.MIN_WRITES
    # They go first, and the bus turns around before and after.
    assert ready[high + 1] - ready[high] >= parts.Dram.MIN_WRITES * t["t_burst"] + t["t_wtr"] + t["t_cwl"]


def test_writes_go_when_nothing_is_read():
    memory, _ = channel("DDR3_1600_8x8")
    for line in range(40):
        memory.write_at(line, 0)
    other_bank = int(dram_models()["DDR3_1600_8x8"]["row_bytes"]) // 64
    read = memory.read_at(other_bank, BEGIN)
    idle, _ = channel("DDR3_1600_8x8")
    assert read == idle.read_at(other_bank, BEGIN)  # they were done long before
    assert memory.writes_waiting == int(parts.Dram.LOW * 64) - parts.Dram.MIN_WRITES


def test_a_read_behind_writes_waits_longer_in_their_bank_group():
    name, ready = "DDR5_4400_4x8", {}
    banks, row_lines = (int(dram_models()[name][key]) for key in ("banks", "row_bytes"))
    row_lines //= 64
    for bank in (8, 1):  # of the group of bank 0, of another one
        memory, t = channel(name)
        memory.read_at(2 * row_lines, BEGIN)  # the bus is taken
        for line in range(int(parts.Dram.HIGH * 64) + 1):  # all to bank 0
            memory.write_at(line // row_lines * row_lines * banks + line % row_lines, BEGIN)
        ready[bank] = memory.read_at(bank * row_lines, BEGIN + 1)
    assert ready[8] - ready[1] == t["t_wtr_long"] - t["t_wtr"] > 0


def test_a_read_waits_for_the_last_write_of_its_rank():
    """Whatever another rank has written since."""
    name = "DDR3_1600_8x8"
    memory, t = channel(name)
    banks, row_lines = int(dram_models()[name]["banks"]), int(dram_models()[name]["row_bytes"]) // 64
    memory.read_at(100, BEGIN)
    before = parts.Dram.MIN_WRITES - 1  # so many to the open row, then one to the other rank, and the read
    for line in range(int(parts.Dram.HIGH * 64) + 1):
        memory.write_at(line if line < before else banks * row_lines + line, BEGIN)
    last = BEGIN + t["t_rcd"] + t["t_burst"] + t["t_rtw"] + (before - 1) * t["t_burst"]
    expected = last + t["t_cwl"] + t["t_burst"] + t["t_wtr"] + t["t_cl"] + t["t_burst"]
    assert memory.read_at(row_lines, BEGIN + 1) == expected


def test_ranks_activate_apart():
    """Four rows at a time in a rank: those of the other one do not count."""
    name = "DDR3_1600_8x8"
    lines, banks = int(dram_models()[name]["row_bytes"]) // 64, int(dram_models()[name]["banks"])
    memory, t = channel(name)
    for bank in range(4):
        memory.read_at(bank * lines, BEGIN)
    of_other = memory.read_at(banks * lines, BEGIN)
    assert of_other == BEGIN + t["t_rcd"] + 4 * t["t_burst"] + t["t_cs"] + t["t_cl"] + t["t_burst"] + 3 * (
        t["t_rrd"] - t["t_burst"]
    )


def test_a_write_may_follow_its_activation_sooner_than_a_read():
    name = "HBM_2000_4H_1x64"
    assert dram_models()[name]["t_rcd_write"] < dram_models()[name]["t_rcd"]
    memory, t = channel(name)
    banks, lines = (int(dram_models()[name][key]) for key in ("banks", "row_bytes"))
    lines //= 64
    first = memory.read_at(0, BEGIN)
    for row in range(int(parts.Dram.HIGH * 64) + 1):  # of bank 1: each opens a row
        memory.write_at((row * banks + 1) * lines, BEGIN)
    read = memory.read_at(1, BEGIN + 1)
    each = t["t_rcd_write"] + t["t_ccd_long"] + t["t_cwl"] + t["t_burst"] + t["t_wr"] + t["t_rp"]
    # So many writes go first, all but the last as a whole; with t_rcd each would take 6 ns more.
    assert read - first == pytest.approx(parts.Dram.MIN_WRITES * each, abs=24_000)
