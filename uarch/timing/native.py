"""Static instructions with a real family's micro-operations, as one table row each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import VECTOR_REGISTERS, X87_REGISTER, NativeInstructions, Operation
from uarch.timing.shared_rows import SharedRows, shared_rows
from uarch.timing.static import (
    BEFORE,
    CHAINED,
    COMPUTES,
    DIVIDER,
    FP_ADD,
    FP_DESTINATIONS,
    FP_MUL,
    INT_DESTINATIONS,
    LATENCY,
    MICRO_OPERATIONS,
    NOT_DIVIDER,
    SIMD,
    UNIT,
    Rows,
    common_rows,
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
    """[S, COLUMNS] what the cores read of each static instruction."""
    shared = shared_rows(native, lambda: _shared(native))
    table = np.zeros((256, 3), np.int16)
    for operation, (unit, latency, divider) in unit_table(machine, native.instructions.isa).items():
        table[operation] = (_UNITS.get(operation, unit), latency, divider)
    for operation in _FP_DIVIDES:
        table[operation, DIVIDER] = _FP_DIVIDER
    operations, float_move, known, computes = shared.kinds.T
    units = table[operations]
    units[float_move > 0, UNIT] = SIMD
    in_order = machine.core == "in-order"
    if in_order:
        units[units[:, UNIT] == SIMD, UNIT] = FP_ADD
        units[units[:, DIVIDER] == _FP_DIVIDER, DIVIDER] = NOT_DIVIDER
    units[:, LATENCY] = np.where(known >= 0, known, units[:, LATENCY])
    units[computes == 0, DIVIDER] = NOT_DIVIDER
    rows = shared.filled(slice(UNIT, DIVIDER + 1), units)
    divides = rows[:, DIVIDER] != NOT_DIVIDER
    busy = np.where(native.busy > 0, np.rint(native.busy), rows[:, LATENCY])
    rows[divides, BEFORE] = np.maximum(busy[divides], 1)
    counts = _unit_counts(machine)[rows[:, UNIT]]
    if in_order:
        rows[:, BEFORE] = np.where((native.busy >= 1) & ~divides, np.rint(native.busy * counts), 1)
        return rows
    # As many on its unit as keep it busy so long; the others are on units of their own.
    several = (native.busy > 0) & ~divides & (rows[:, COMPUTES] > 1)
    booked = np.rint(native.busy[several] * counts[several])
    rows[several, COMPUTES] = np.clip(booked, 1, rows[several, COMPUTES])
    # One that not all units of its kind can do: it is slower than they are many.
    single = (native.busy > 0) & ~divides & (native.instructions.compute_operations == 1)
    ports = np.maximum(np.rint(1 / np.where(single, native.busy, 1)), 1)
    rows[:, BEFORE] = np.where(single & (ports < counts), ports, rows[:, BEFORE])
    return rows


def _unit_counts(machine: Machine) -> NDArray[np.int64]:
    """Count the units of each kind."""
    units = machine.functional_units
    return np.array([0, units.int_alu, units.int_mul, units.fp_add, units.fp_mul, units.simd])


def _shared(native: NativeInstructions) -> SharedRows:
    """Rows without what a machine fills in; kinds by operation, move of floating-point units or not, latency, whether
    something is computed.
    """
    instructions = native.instructions
    operations, computes = instructions.operation, instructions.compute_operations
    sources, destinations = instructions.sources, instructions.destinations
    rows = common_rows(instructions, operations, computes, sources, destinations)
    rows[:, CHAINED] = native.traits
    rows[:, MICRO_OPERATIONS] = instructions.micro_operations
    vector = (destinations >= VECTOR_REGISTERS) & (destinations < 2 * VECTOR_REGISTERS)
    rows[:, INT_DESTINATIONS] = (destinations < VECTOR_REGISTERS).sum(axis=1)
    rows[:, FP_DESTINATIONS] = (vector | (destinations == X87_REGISTER)).sum(axis=1)
    return SharedRows.of(rows, operations, instructions.float_move, native.latency, computes > 0)
