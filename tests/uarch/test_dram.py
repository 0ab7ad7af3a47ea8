"""The DRAM by hand: every time is a sum of timings of the data sheet (picoseconds)."""

import pytest
from programs import Instruction, Program

from uarch.configuration import replace_field
from uarch.constraints import dram_models
from uarch.machine_files import load_machine
from uarch.timing._core import parts
from uarch.timing.simulation import Simulation

BEGIN = 1_000_000  # between two refreshes


def channel(name):
    """A machine's DRAM, and its timings in picoseconds."""
    machine = replace_field(load_machine("base"), "memory", name)
    memory = parts.dram_of(Simulation(machine, Program([Instruction()]).static())._core)
    model = dram_models()[name]
    return memory, {key: round(1000 * value) for key, value in model.items() if key.startswith("t_")}


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
