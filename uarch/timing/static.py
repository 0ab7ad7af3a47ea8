"""Static instructions as one table row each, with the latencies and units of one machine filled in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import (
    CARRY_REGISTER,
    FLAG_GROUPS,
    FLAGS_REGISTER,
    MERGES_RESULT,
    NO_REGISTER,
    OVERFLOW_REGISTER,
    REGISTERS,
    VECTOR_REGISTERS,
    X87_REGISTER,
    Flag,
    Operation,
    StaticInstructions,
    Temporary,
)
from uarch.timing.shared_rows import SharedRows, shared_rows
from uarch.timing.stack import execution_column

Rows = NDArray[np.int16]
Registers = NDArray[np.uint8]

# `Resource` of core/pipeline/functional_units.hpp.
INT_ALU, INT_MUL, FP_ADD, FP_MUL, SIMD = range(1, 6)
# Columns of a row, the fields of `StaticInstruction` in core/instruction.hpp.
UNIT, LATENCY, DIVIDER, MICRO_OPERATIONS, SOURCE_COUNT, ADDRESS_COUNT, DESTINATION_COUNT = range(7)
COMPUTES, FLAGS, LENGTH, INT_DESTINATIONS, FP_DESTINATIONS = range(7, 12)
SOURCES_AT, DESTINATIONS_AT, BASE_UPDATES, BEFORE, AFTER, CHAINED, EXECUTION = 12, 20, 26, 27, 28, 29, 30
INTERRUPTION, COLUMNS = 31, 32
DIVIDES = 2  # plus the rounds of a divide: `Interruption` in core/instruction.hpp
SOURCES, DESTINATIONS = 8, 6  # places for them in a row; in those that an instruction does not need is REGISTERS
NOT_DIVIDER, INT_DIVIDER, FP_DIVIDER = range(3)
MICROCODE_FLAGS = OVERFLOW_REGISTER  # whose own place is free, as overflow is in one register with carry


_VECTOR_FORMS = {
    Operation.MOVE: Operation.SIMD_INT,
    Operation.FP_ADD: Operation.SIMD_FP_ADD,
    Operation.FP_MUL: Operation.SIMD_FP_MUL,
    Operation.FP_FMA: Operation.SIMD_FP_FMA,
    Operation.FP_DIV: Operation.SIMD_FP_DIV,
    Operation.FP_SQRT: Operation.SIMD_FP_SQRT,
}


def unit_table(machine: Machine, isa: str) -> dict[Operation, tuple[int, int, int]]:
    """Operation → (unit, latency in cycles, unpipelined divider or not)."""
    units = machine.functional_units
    add, multiply, divide = units.fp_add_latency, units.fp_mul_latency, units.fp_div_latency
    if machine.core == "in-order":  # each of Minor's units has one latency
        simple = simd_multiply = simd_divide = add
        multiply_add = multiply
    else:
        simple, simd_multiply, simd_divide = 1, multiply, divide
        multiply_add = multiply + 1
    return {
        Operation.NONE: (INT_ALU, 1, NOT_DIVIDER),
        Operation.MOVE: (INT_ALU, 1, NOT_DIVIDER),
        Operation.INT_ALU: (INT_ALU, 1, NOT_DIVIDER),
        Operation.INT_MUL: (INT_MUL, units.mul_latency, NOT_DIVIDER),
        Operation.INT_DIV: (INT_MUL, units.int_div_latency(isa), INT_DIVIDER),
        Operation.FP_ADD: (FP_ADD, add, NOT_DIVIDER),
        Operation.FP_MUL: (FP_MUL, multiply, NOT_DIVIDER),
        Operation.FP_FMA: (FP_MUL, multiply_add, NOT_DIVIDER),
        Operation.FP_DIV: (FP_MUL, divide, FP_DIVIDER),
        Operation.FP_SQRT: (FP_MUL, 2 * divide, FP_DIVIDER),
        Operation.FP_MISC: (FP_MUL, 3, NOT_DIVIDER),
        Operation.SIMD_INT: (SIMD, simple, NOT_DIVIDER),
        Operation.SIMD_MUL: (SIMD, simd_multiply, NOT_DIVIDER),
        Operation.SIMD_FP_ADD: (SIMD, add, NOT_DIVIDER),
        Operation.SIMD_FP_MUL: (SIMD, simd_multiply, NOT_DIVIDER),
        Operation.SIMD_FP_FMA: (SIMD, simd_multiply, NOT_DIVIDER),
        Operation.SIMD_FP_DIV: (SIMD, simd_divide, NOT_DIVIDER),
        Operation.SIMD_FP_SQRT: (SIMD, simd_divide, NOT_DIVIDER),
        Operation.CRYPTO: (SIMD, simple, NOT_DIVIDER),
        Operation.BRANCH: (INT_ALU, 1, NOT_DIVIDER),
        Operation.SYSTEM: (INT_ALU, 1, NOT_DIVIDER),
    }


def static_rows(machine: Machine, instructions: StaticInstructions) -> Rows:
    """[S, COLUMNS] what the cores read of each static instruction."""
    shared = shared_rows(instructions, lambda: _shared(instructions))
    table = np.zeros((256, 3), np.int16)
    for operation, entry in unit_table(machine, instructions.isa).items():
        table[operation] = entry
    operation, float_move, steps = shared.kinds.T
    units = table[operation]
    if machine.core == "in-order":
        units[float_move > 0] = (FP_ADD, machine.functional_units.fp_add_latency, NOT_DIVIDER)
    else:
        units[float_move > 0] = (FP_MUL, 3, NOT_DIVIDER)
    units[:, LATENCY] = np.minimum(units[:, LATENCY] * steps, np.iinfo(np.int16).max)
    return shared.filled(slice(UNIT, DIVIDER + 1), units)


def _shared(instructions: StaticInstructions) -> SharedRows:
    """Rows without what a machine fills in; kinds by operation, move of floating-point units or not, and steps."""
    instructions = _through_temporary(instructions)
    flags, operations = instructions.flags, instructions.operation
    for scalar, vector in _VECTOR_FORMS.items():
        operations = np.where(instructions.vector_unit & (operations == scalar), np.uint8(vector), operations)
    divides = operations == Operation.INT_DIV
    steps = np.where(divides, np.maximum(instructions.compute_operations, 1), 1).astype(np.int64)
    sources, destinations = _flags_as_gem5(instructions.sources, instructions.destinations)
    if instructions.merges_flags is not None:
        sources = _with(FLAGS_REGISTER, sources, instructions.merges_flags % MERGES_RESULT > 0)
        sources = _with(CARRY_REGISTER, sources, instructions.merges_flags % MERGES_RESULT > 1)
        sources = _with_results(sources, destinations, instructions.merges_flags >= MERGES_RESULT)
    if instructions.isa == "x86-64":
        # gem5 does not know that `xor eax, eax` needs no eax (`Xor` in microops/regop.isa, `Mxor` in mediaop.isa).
        sources = _with_results(sources, destinations, (flags & Flag.ZEROING) != 0)
        if instructions.temporary is not None:
            merges = (instructions.temporary & Temporary.MERGES_LOADED) != 0
            sources = _with_results(sources, destinations, merges)
        scans = np.zeros(len(instructions), np.bool_)
        if instructions.temporary is not None:
            scans = (instructions.temporary & Temporary.CONDITIONS) != 0
        sources, destinations = _with_microcode_flags(sources, destinations, divides, scans)
    computes = np.where(divides, 1, instructions.compute_operations)
    rows = common_rows(instructions, operations, computes, sources, destinations)
    rows[:, BEFORE] = instructions.cycles_before
    rows[:, CHAINED] = instructions.chained
    if instructions.interruption is not None:
        rows[:, INTERRUPTION] = instructions.interruption
    if instructions.isa == "x86-64":  # gem5's microcode of a divide is three steps and rounds of four
        rows[divides, INTERRUPTION] = np.maximum((steps[divides] - 3) // 4, 1) + DIVIDES
    if instructions.temporary is not None:
        rows[:, INTERRUPTION] += instructions.temporary.astype(np.int16) << 8  # a field of its own, of a byte
    rows[:, MICRO_OPERATIONS] = np.maximum(instructions.micro_operations, 1)
    rows[:, INT_DESTINATIONS], rows[:, FP_DESTINATIONS] = _renamed(instructions)
    return SharedRows.of(rows, operations, instructions.float_move, steps)


def common_rows(
    instructions: StaticInstructions,
    operations: NDArray[np.uint8],
    computes: NDArray[np.integer],
    sources: Registers,
    destinations: Registers,
) -> Rows:
    """Rows with the columns that gem5's micro-operations and a real family's fill alike."""
    rows = np.zeros((len(instructions), COLUMNS), np.int16)
    rows[:, COMPUTES], rows[:, AFTER] = computes, instructions.cycles_after
    rows[:, EXECUTION] = np.array([_execution(operation) for operation in range(256)], np.int16)[operations]
    rows[:, FLAGS] = instructions.flags.view(np.int16)
    rows[:, LENGTH] = instructions.length
    rows[:, SOURCE_COUNT] = (sources != NO_REGISTER).sum(axis=1)
    rows[:, ADDRESS_COUNT] = instructions.address_sources
    rows[:, DESTINATION_COUNT] = (destinations != NO_REGISTER).sum(axis=1)
    rows[:, SOURCES_AT : SOURCES_AT + SOURCES] = np.where(sources == NO_REGISTER, REGISTERS, sources)
    rows[:, DESTINATIONS_AT : DESTINATIONS_AT + DESTINATIONS] = np.where(
        destinations == NO_REGISTER, REGISTERS, destinations
    )
    rows[:, BASE_UPDATES] = _base_updates(instructions, rows[:, COMPUTES] > 0)
    return rows


def _through_temporary(instructions: StaticInstructions) -> StaticInstructions:
    """Return them with a micro-operation more where a register's byte goes through gem5's temporary register before it
    is extended (MOVZX_B_R_R in insts/…/move.py), which the counts that models learn from leave out.
    """
    if instructions.temporary is None:
        return instructions
    through = (instructions.temporary == Temporary.COMPUTED | Temporary.MERGED) & (instructions.micro_operations == 1)
    more = through.astype(np.uint8)
    return replace(
        instructions,
        micro_operations=instructions.micro_operations + more,
        cycles_after=instructions.cycles_after + more,
    )


def _execution(operation: int) -> int:
    return execution_column(Operation(operation) if operation in set(Operation) else Operation.NONE)


def _flags_as_gem5(sources: Registers, destinations: Registers) -> tuple[Registers, Registers]:
    """gem5 has carry and overflow in one register: what writes only one of them reads the other."""
    writes = [(destinations == flag).any(axis=1) for flag in (CARRY_REGISTER, OVERFLOW_REGISTER)]
    sources = np.where(sources == OVERFLOW_REGISTER, CARRY_REGISTER, sources).astype(np.uint8)
    destinations = np.where(destinations == OVERFLOW_REGISTER, CARRY_REGISTER, destinations).astype(np.uint8)
    only_one = writes[0] != writes[1]
    free = (sources == NO_REGISTER).argmax(axis=1)  # 0 where none is
    add = np.flatnonzero(only_one & (sources[np.arange(len(sources)), free] == NO_REGISTER))
    sources[add, free[add]] = CARRY_REGISTER
    return sources, destinations


def _with_microcode_flags(
    sources: Registers, destinations: Registers, divides: NDArray[np.bool_], scans: NDArray[np.bool_]
) -> tuple[Registers, Registers]:
    """gem5's microcode has flags of its own (ECF and EZF), by which a divide tells when it is done, and a scan for a
    bit which half has one. Every micro-operation with a condition reads all flags there are (`CondRegOp` in
    microops/regop.isa), so branches, conditional moves and sets, and divides wait for the last divide or scan.
    """
    groups = FLAG_GROUPS
    reads = np.isin(sources, groups).any(axis=1) & ~np.isin(destinations, groups).any(axis=1)
    return _with(MICROCODE_FLAGS, sources, reads | divides), _with(MICROCODE_FLAGS, destinations, divides | scans)


def _with_results(sources: Registers, destinations: Registers, rows: NDArray[np.bool_]) -> Registers:
    """`sources` where those of `rows` also have the integer and vector registers that they write."""
    registers = np.where(destinations < FLAGS_REGISTER, destinations, NO_REGISTER)
    for register in np.unique(registers[rows]):
        if register != NO_REGISTER:
            sources = _with(int(register), sources, rows & (registers == register).any(axis=1))
    return sources


def _with(register: int, registers: Registers, rows: NDArray[np.bool_]) -> Registers:
    """`registers` [S, places] with one more in the first free place of `rows` that have one."""
    registers = registers.copy()
    free = (registers == NO_REGISTER).argmax(axis=1)  # 0 where none is
    has = (registers == register).any(axis=1)
    add = np.flatnonzero(rows & ~has & (registers[np.arange(len(registers)), free] == NO_REGISTER))
    registers[add, free[add]] = register
    return registers


def _renamed(instructions: StaticInstructions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[S] physical registers that an instruction takes of each file: every micro-operation but stores, compares and
    branches has a result, of vector registers where the instruction's are such.
    """
    flags, destinations = instructions.flags, instructions.destinations
    whole = (destinations < VECTOR_REGISTERS).sum(axis=1)
    vector = ((destinations >= VECTOR_REGISTERS) & (destinations < 2 * VECTOR_REGISTERS)) | (
        destinations == X87_REGISTER
    )
    floats = vector.sum(axis=1)
    writes = (flags & Flag.STORE) != 0
    branches = (flags & Flag.BRANCH) != 0
    silent = (instructions.compute_operations > 0) & (whole + floats == 0) & ~branches
    results = instructions.micro_operations.astype(np.int64) - writes - branches - silent
    results = np.minimum(np.maximum(results, whole + floats), 32)
    return np.where(floats > 0, whole, results), np.where(floats > 0, results - whole, 0)


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
