"""Main memory behind the last cache: fixed latency and bandwidth, or one channel of a DRAM with banks and open rows.

Times are core cycles. As requests come in program order rather than in time order, the data bus is a window of equal
slots (one line each, stamped with the slot's number) instead of one next-free time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine, SimpleMemory
from uarch.constraints import dram_models
from uarch.timing.compiled import compiled, out_of_line

FRACTION = 1024  # slot lengths are kept in 1/1024 cycle
SLOTS = 4096
CONTROLLER_NS = 10.0  # gem5's MemCtrl: static frontend latency, and as much again in the backend
FORGET = 4  # row cycles after which a bank's bookings in the future no longer hold up an earlier request

# Columns of `parameters`.
KIND, LATENCY, SLOT, CONTROLLER, CL, RCD, RP, RAS, BURST, BANKS, ROW_LINES, CLOSED, REFI, RFC, ROW_CYCLE = range(15)
SIMPLE, DRAM = 0, 1
# Columns of `banks`.
ROW, ACTIVATED, COLUMN = range(3)


class Memory(NamedTuple):
    parameters: NDArray[np.int64]
    banks: NDArray[np.int64]  # [banks, 3] open row (-1: none), cycle of its activation, next free cycle
    bus: NDArray[np.int64]  # [SLOTS] number of the slot last taken in each place


def new_memory(machine: Machine) -> Memory:
    values = np.zeros(16, np.int64)
    model, banks = machine.memory, 1

    def cycles(ns: float) -> int:
        return max(1, round(ns * machine.frequency_ghz))

    if isinstance(model, SimpleMemory):
        values[LATENCY] = cycles(model.latency_ns)
        values[SLOT] = max(1, round(64 / model.bandwidth_gbs * machine.frequency_ghz * FRACTION))
    else:
        dram = dram_models()[model.model]
        bursts = 64 // int(dram["burst_bytes"])
        banks = int(dram["banks"] * dram["ranks"])
        values[KIND] = DRAM
        values[SLOT] = max(1, round(bursts * dram["t_burst"] * machine.frequency_ghz * FRACTION))
        values[CONTROLLER] = cycles(CONTROLLER_NS)
        for column, name in (
            (CL, "t_cl"),
            (RCD, "t_rcd"),
            (RP, "t_rp"),
            (RAS, "t_ras"),
            (REFI, "t_refi"),
            (RFC, "t_rfc"),
        ):
            values[column] = cycles(dram[name])
        values[BURST] = cycles(bursts * dram["t_burst"])
        values[BANKS] = banks
        values[ROW_LINES] = int(dram["row_bytes"]) // 64
        values[CLOSED] = int(dram["closed"])
        values[ROW_CYCLE] = values[RAS] + values[RP]
    state = np.full((banks, 3), -1, np.int64)
    state[:, ACTIVATED:] = 0
    return Memory(values, state, np.full(SLOTS, -1, np.int64))


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
    return _column(memory, line, cycle + p[CONTROLLER]) + p[CL] + p[BURST] + p[CONTROLLER]


@compiled
def write_memory(memory: Memory, line: int, cycle: int) -> None:
    """Nobody waits for a write; it takes its share of the bus and, in a DRAM, of its bank."""
    if memory.parameters[KIND] == SIMPLE:
        _take_bus(memory, cycle)
    else:
        _column(memory, line, cycle)


@out_of_line
def _column(memory: Memory, line: int, cycle: int) -> int:
    """Cycle of the column command for `line`: opens its row first where it must. Address order is gem5's RoRaBaCoCh."""
    p = memory.parameters
    phase = cycle % p[REFI]
    if phase < p[RFC]:  # all banks are refreshing
        cycle += p[RFC] - phase
    row_number = line // p[ROW_LINES]
    bank = row_number % p[BANKS]
    row = row_number // p[BANKS]
    state = memory.banks[bank]
    free, activated = state[COLUMN], state[ACTIVATED]
    if free > cycle + FORGET * p[ROW_CYCLE]:
        free, activated = cycle, cycle
    is_open = state[ROW] >= 0
    if p[CLOSED] == 1 and cycle > free + p[BURST]:  # nothing was waiting for this row when it was last used
        is_open = False
    if is_open and state[ROW] == row:
        column = max(cycle, free)
    else:
        start = max(cycle, free)
        if is_open:
            start = max(start, activated + p[RAS]) + p[RP]
        elif p[CLOSED] == 1:
            start = max(start, activated + p[ROW_CYCLE])
        state[ACTIVATED] = start
        column = start + p[RCD]
    state[ROW] = row
    column = _take_bus(memory, column + p[CL]) - p[CL]
    state[COLUMN] = column + p[BURST]
    return column
