"""The order of a DRAM's reads: known answers of gem5's controller (DRAMInterface::chooseNextFRFCFS)."""

from programs import Program, load

from uarch.configuration import replace_field
from uarch.constraints import dram_models
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

DRAM = "DDR3_1600_8x8"
ROW = int(dram_models()[DRAM]["row_bytes"])
BANKS = int(dram_models()[DRAM]["banks"] * dram_models()[DRAM]["ranks"])
LINES = 16  # of each row; so many bursts close it


def counters(rows: int) -> dict[str, int]:
    """Independent loads that miss, line by line of `rows` rows of one bank in turn."""
    machine = replace_field(load_machine("base"), "memory", {"model": DRAM})
    for level in ("l1d", "l2", "l3"):
        machine = replace_field(machine, f"{level}.prefetcher", "none")
    program = Program([load(number + 8, 2) for number in range(4)])
    place = 0
    for begin in range(0, 40 * LINES, LINES):
        for line in range(begin, begin + LINES):
            for row in range(rows):
                address = 0x10000000 + ROW * BANKS * (row + rows * (line // (ROW // 64))) + line % (ROW // 64) * 64
                program.execute(place % 4, (address, 8, 0))
                place += 1
    simulation = Simulation(machine, program.static())
    simulation.run(program.chunk())
    return simulation.statistics


def test_reads_to_an_open_row_go_first():
    """Misses that wait together go to the open row first, though those to others come in between; strictly in
    their order none would find its row open.
    """
    alone, between = counters(1), counters(3)
    assert alone["dram_row_hits"] >= 0.9 * (alone["dram_row_hits"] + alone["dram_row_misses"])
    assert between["dram_row_hits"] >= 0.5 * (between["dram_row_hits"] + between["dram_row_misses"])


def test_a_row_is_closed_after_sixteen_bursts():
    """gem5's max_accesses_per_row."""
    found = counters(1)
    bursts = found["dram_row_hits"] + found["dram_row_misses"]
    assert bursts / 16 <= found["dram_row_misses"] <= bursts / 16 + 4
