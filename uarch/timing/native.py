"""Static instructions with a real family's micro-operations, as one table row each."""

from __future__ import annotations

import numpy as np

from uarch.configuration import Machine
from uarch.instructions import NO_REGISTER, REGISTERS, VECTOR_REGISTERS, X87_REGISTER, NativeInstructions, Operation
from uarch.timing.static import (
    ADDRESS_COUNT,
    AFTER,
    BASE_UPDATES,
    COLUMNS,
    COMPUTES,
    DESTINATION_COUNT,
    DESTINATIONS,
    DESTINATIONS_AT,
    DIVIDER,
    EXECUTION,
    FLAGS,
    FP_ADD,
    FP_DESTINATIONS,
    FP_MUL,
    INT_DESTINATIONS,
    LATENCY,
    LENGTH,
    MICRO_OPERATIONS,
    SIMD,
    SOURCE_COUNT,
    SOURCES,
    SOURCES_AT,
    UNIT,
    Rows,
    base_updates,
    execution,
    unit_table,
)

# Units of packed operations: the same as of scalar ones, unlike gem5's.
_UNITS = {
    Operation.SIMD_FP_ADD: FP_ADD,
    Operation.SIMD_FP_MUL: FP_MUL,
    Operation.SIMD_FP_FMA: FP_MUL,
    Operation.SIMD_FP_DIV: FP_MUL,
    Operation.SIMD_FP_SQRT: FP_MUL,
    Operation.SIMD_MUL: FP_MUL,
    Operation.CRYPTO: FP_MUL,
    Operation.FP_FMA: FP_MUL,
}
_FP_DIVIDES = (Operation.FP_DIV, Operation.FP_SQRT, Operation.SIMD_FP_DIV, Operation.SIMD_FP_SQRT)
_FP_DIVIDER = 2


def native_rows(machine: Machine, native: NativeInstructions) -> Rows:
    """[S, COLUMNS] what the out-of-order core reads of each static instruction."""
    instructions = native.instructions
    rows = np.zeros((len(instructions), COLUMNS), np.int16)
    table = np.zeros((256, 3), np.int16)
    for operation, (unit, latency, divider) in unit_table(machine, instructions.isa).items():
        table[operation] = (_UNITS.get(operation, unit), latency, divider)
    for operation in _FP_DIVIDES:
        table[operation, 2] = _FP_DIVIDER
    rows[:, UNIT : DIVIDER + 1] = table[instructions.operation]
    rows[instructions.float_move, UNIT] = SIMD
    known = native.latency >= 0
    rows[known, LATENCY] = native.latency[known]
    rows[:, AFTER] = instructions.cycles_after
    rows[:, MICRO_OPERATIONS] = instructions.micro_operations
    rows[:, COMPUTES] = instructions.compute_operations
    units = machine.functional_units
    kinds = (units.int_alu, units.int_mul, units.fp_add, units.fp_mul, units.simd)
    counts = np.array([0, *kinds])  # by unit
    several = native.busy > 0  # as many on its unit as keep it busy so long; the others are on units of their own
    booked = np.rint(native.busy[several] * counts[rows[several, UNIT]])
    rows[several, COMPUTES] = np.clip(booked, 1, rows[several, COMPUTES])
    rows[rows[:, COMPUTES] == 0, DIVIDER] = 0
    rows[:, FLAGS] = instructions.flags.view(np.int16)
    rows[:, LENGTH] = instructions.length
    columns = np.array([execution(operation) for operation in range(256)], np.int16)
    rows[:, EXECUTION] = columns[instructions.operation]
    sources, destinations = instructions.sources, instructions.destinations
    rows[:, SOURCE_COUNT] = (sources != NO_REGISTER).sum(axis=1)
    rows[:, ADDRESS_COUNT] = instructions.address_sources
    rows[:, DESTINATION_COUNT] = (destinations != NO_REGISTER).sum(axis=1)
    rows[:, SOURCES_AT : SOURCES_AT + SOURCES] = np.where(sources == NO_REGISTER, REGISTERS, sources)
    rows[:, DESTINATIONS_AT : DESTINATIONS_AT + DESTINATIONS] = np.where(
        destinations == NO_REGISTER, REGISTERS, destinations
    )
    rows[:, BASE_UPDATES] = base_updates(instructions, rows[:, COMPUTES] > 0)
    vector = (destinations >= VECTOR_REGISTERS) & (destinations < 2 * VECTOR_REGISTERS)
    rows[:, INT_DESTINATIONS] = (destinations < VECTOR_REGISTERS).sum(axis=1)
    rows[:, FP_DESTINATIONS] = (vector | (destinations == X87_REGISTER)).sum(axis=1)
    return rows
