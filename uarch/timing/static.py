"""Static instructions as one table row each, with the latencies and units of one machine filled in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import (
    NO_REGISTER,
    REGISTERS,
    VECTOR_REGISTERS,
    X87_REGISTER,
    Flag,
    Operation,
    StaticInstructions,
)
from uarch.timing.compiled import compiled
from uarch.timing.ports import FP_ADD, FP_MUL, INT_ALU, INT_MUL, SIMD

Array = NDArray[np.int64]
Rows = NDArray[np.int16]

# Columns of a row: 32 of 16 bits are one cache line.
UNIT, LATENCY, DIVIDER, MICRO_OPERATIONS, SOURCE_COUNT, ADDRESS_COUNT, DESTINATION_COUNT = range(7)
COMPUTES, FLAGS, LENGTH, INT_DESTINATIONS, FP_DESTINATIONS = range(7, 12)
SOURCES_AT, DESTINATIONS_AT, BASE_UPDATES, COLUMNS = 12, 20, 26, 32
# A divide of many micro-operations is microcode: some set it up, each of the others is a step through the divider
# (gem5's x86 takes 7 steps for small quotients, up to 37 for 64 bits).
DIVIDE_SET_UP = 3
NOT_DIVIDER, INT_DIVIDER, FP_DIVIDER = range(3)


def unit_table(machine: Machine) -> dict[Operation, tuple[int, int, int]]:
    """Operation → (unit, latency in cycles, unpipelined divider or not)."""
    units = machine.functional_units
    add, multiply, divide = units.fp_add_latency, units.fp_mul_latency, units.fp_div_latency
    return {
        Operation.NONE: (INT_ALU, 1, NOT_DIVIDER),
        Operation.MOVE: (INT_ALU, 1, NOT_DIVIDER),
        Operation.INT_ALU: (INT_ALU, 1, NOT_DIVIDER),
        Operation.INT_MUL: (INT_MUL, units.mul_latency, NOT_DIVIDER),
        Operation.INT_DIV: (INT_MUL, units.div_latency, INT_DIVIDER),
        Operation.FP_ADD: (FP_ADD, add, NOT_DIVIDER),
        Operation.FP_MUL: (FP_MUL, multiply, NOT_DIVIDER),
        Operation.FP_FMA: (FP_MUL, multiply + 1, NOT_DIVIDER),
        Operation.FP_DIV: (FP_MUL, divide, FP_DIVIDER),
        Operation.FP_SQRT: (FP_MUL, 2 * divide, FP_DIVIDER),
        Operation.FP_MISC: (FP_MUL, 3, NOT_DIVIDER),
        Operation.SIMD_INT: (SIMD, 1, NOT_DIVIDER),
        Operation.SIMD_MUL: (SIMD, multiply, NOT_DIVIDER),
        Operation.SIMD_FP_ADD: (SIMD, add, NOT_DIVIDER),
        Operation.SIMD_FP_MUL: (SIMD, multiply, NOT_DIVIDER),
        Operation.SIMD_FP_FMA: (SIMD, multiply + 1, NOT_DIVIDER),
        Operation.SIMD_FP_DIV: (SIMD, divide, NOT_DIVIDER),
        Operation.SIMD_FP_SQRT: (SIMD, 2 * divide, NOT_DIVIDER),
        Operation.CRYPTO: (SIMD, multiply, NOT_DIVIDER),
        Operation.BRANCH: (INT_ALU, 1, NOT_DIVIDER),
        Operation.SYSTEM: (INT_ALU, 1, NOT_DIVIDER),
    }


def static_rows(machine: Machine, instructions: StaticInstructions) -> Rows:
    """[S, COLUMNS] what the cores read of each static instruction."""
    rows = np.zeros((len(instructions), COLUMNS), np.int16)
    table = np.zeros((256, 3), np.int16)
    for operation, entry in unit_table(machine).items():
        table[operation] = entry
    rows[:, UNIT : DIVIDER + 1] = table[instructions.operation]
    flags, operations = instructions.flags, instructions.operation
    touches = (flags & (Flag.LOAD | Flag.STORE)) != 0
    moves = (operations == Operation.NONE) | (operations == Operation.MOVE)
    rows[:, COMPUTES] = ~(moves & touches)
    rows[:, MICRO_OPERATIONS] = np.maximum(instructions.micro_operations, 1)
    rows[:, FLAGS] = flags.view(np.int16)
    rows[:, LENGTH] = instructions.length
    sources, destinations = instructions.sources, instructions.destinations
    rows[:, SOURCE_COUNT] = (sources != NO_REGISTER).sum(axis=1)
    rows[:, ADDRESS_COUNT] = instructions.address_sources
    rows[:, DESTINATION_COUNT] = (destinations != NO_REGISTER).sum(axis=1)
    rows[:, SOURCES_AT : SOURCES_AT + 8] = np.where(sources == NO_REGISTER, REGISTERS, sources)
    rows[:, DESTINATIONS_AT : DESTINATIONS_AT + 6] = np.where(destinations == NO_REGISTER, REGISTERS, destinations)
    rows[:, BASE_UPDATES] = _base_updates(instructions, rows[:, COMPUTES] == 1)
    microcoded = (operations == Operation.INT_DIV) & (rows[:, MICRO_OPERATIONS] > DIVIDE_SET_UP)
    steps = np.where(microcoded, rows[:, MICRO_OPERATIONS].astype(np.int64) - DIVIDE_SET_UP, 1)
    rows[:, LATENCY] = np.minimum(rows[:, LATENCY] * steps, np.iinfo(np.int16).max)
    rows[:, INT_DESTINATIONS] = (destinations < VECTOR_REGISTERS).sum(axis=1)
    floats = (destinations >= VECTOR_REGISTERS) & (destinations < 2 * VECTOR_REGISTERS)
    rows[:, FP_DESTINATIONS] = (floats | (destinations == X87_REGISTER)).sum(axis=1)
    return rows


def _base_updates(instructions: StaticInstructions, computes: NDArray[np.bool_]) -> NDArray[np.int16]:
    """[S] a bit for each destination that is the address register moved on (stack pointers, post-increments): ready
    one cycle after the address is known, not when the data arrives.

    A destination that is also an address source is one where the instruction does nothing but move data and has other
    results too or no load (`pop`, `push`), or where it is a call or a return.
    """
    sources, destinations = instructions.sources, instructions.destinations
    forms_address = np.arange(sources.shape[1]) < instructions.address_sources[:, None]
    sources = np.where(forms_address, sources, NO_REGISTER - 1)
    shared = (destinations[:, :, None] == sources[:, None, :]).any(axis=2)
    others = ((destinations != NO_REGISTER) & ~shared).any(axis=1)
    loads = (instructions.flags & Flag.LOAD) != 0
    stack = (instructions.flags & (Flag.CALL | Flag.RETURN)) != 0
    moved = stack | (~computes & (others | ~loads))
    return ((shared & moved[:, None]) @ (1 << np.arange(destinations.shape[1]))).astype(np.int16)


@compiled
def latest(ready: Array, row: Rows, first: int, last: int) -> int:
    """Cycle at which sources `first` to `last - 1` of the instruction are all there."""
    cycle = 0
    for source in range(first, last):
        cycle = max(cycle, ready[row[SOURCES_AT + source]])
    return cycle
