"""Main memory behind the last cache: fixed latency and bandwidth, or one channel of a DRAM (`dram.py`).

Times are core cycles. As requests come in program order rather than in time order, the data bus of the simple memory
is a window of equal slots (one line each, stamped with the slot's number) instead of one next-free time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine, SimpleMemory
from uarch.constraints import dram_models
from uarch.jit import compiled
from uarch.timing import dram
from uarch.timing.dram import Dram, new_dram
from uarch.timing.reference import by_reference

FRACTION = 1024  # slot lengths are kept in 1/1024 cycle
SLOTS = 4096
CONTROLLER_NS = 10.0  # gem5's MemCtrl: static frontend latency, and as much again in the backend

# Places in `parameters`; the period and the controller's latency are picoseconds.
KIND, LATENCY, SLOT, CONTROLLER, PERIOD = range(5)
SIMPLE, DRAM = 0, 1


@by_reference
class Memory(NamedTuple):
    parameters: NDArray[np.int64]
    bus: NDArray[np.int64]  # [SLOTS] number of the slot last taken in each place
    dram: Dram


def new_memory(machine: Machine) -> Memory:
    values = np.zeros(5, np.int64)
    model = machine.memory
    if isinstance(model, SimpleMemory):
        values[LATENCY] = max(1, round(model.latency_ns * machine.frequency_ghz))
        values[SLOT] = max(1, round(64 / model.bandwidth_gbs * machine.frequency_ghz * FRACTION))
        channel = new_dram(next(iter(dram_models().values())))  # not used
    else:
        values[KIND] = DRAM
        values[PERIOD] = round(1000 / machine.frequency_ghz)  # gem5's clocks are whole picoseconds
        values[CONTROLLER] = round(2 * CONTROLLER_NS * 1000)
        channel = new_dram(dram_models()[model.model])
    return Memory(values, np.full(SLOTS, -1, np.int64), channel)


@compiled
def _take_bus(memory: Memory, cycle: int) -> int:
    """First cycle from `cycle` on at which the data bus can start on one line."""
    slot_length = memory.parameters[SLOT]
    slot = cycle * FRACTION // slot_length
    while memory.bus[slot & (SLOTS - 1)] == slot:
        slot += 1
    memory.bus[slot & (SLOTS - 1)] = slot
    return max(cycle, slot * slot_length // FRACTION)


@compiled
def read_memory(memory: Memory, line: int, cycle: int) -> int:
    """Cycle at which the 64-byte `line` asked for at `cycle` has left the memory."""
    p = memory.parameters
    if p[KIND] == SIMPLE:
        return _take_bus(memory, cycle) + p[LATENCY]
    return (dram.read(memory.dram, line, cycle * p[PERIOD]) + p[CONTROLLER] + p[PERIOD] - 1) // p[PERIOD]


@compiled
def write_memory(memory: Memory, line: int, cycle: int) -> None:
    """Nobody waits for a write; it takes its share of the bus or, in a DRAM, waits in a queue."""
    if memory.parameters[KIND] == SIMPLE:
        _take_bus(memory, cycle)
    else:
        dram.write(memory.dram, line, cycle * memory.parameters[PERIOD])
