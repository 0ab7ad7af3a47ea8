"""ChampSim records: what an instruction does, guessed from what such a record knows of it.

A ChampSim trace has no machine code: of each instruction there are its registers, the addresses it accessed and whether
it branched. `static/code` of a trace with the isa `champsim` holds, instead of an encoding:

    byte 0      length in bytes, from the address executed after it; guessed where it never fell through
    byte 1      `BranchKind`
    byte 2, 3   most loads and stores of one execution
    byte 4      1 where records of this address follow each other: a repeated string instruction, folded into one
    byte 5–8    registers written, 0 for none
    byte 9–12   registers read, 0 for none
    byte 13–15  0

Registers have the numbers of Pin's enumeration for x86-64 (kit 3.x; 3–122 are the same in all), as ChampSim's tracer
writes them. What is guessed: without flags written and without memory it moves; what writes flags is integer arithmetic
(rax and rdx written: a multiplication, a division where both are read); what reads MXCSR is floating-point arithmetic,
another vector operation an integer one. Micro-operations are counted as for x86-64 where that much is known.
"""

from __future__ import annotations

from enum import IntEnum

from tracegen.decode.decoded import Decoded, MicroOperations, distinct, one_each
from tracegen.decode.x86_micro_operations import HALF
from uarch.instructions import (
    FLAGS_REGISTER,
    MASK_REGISTERS,
    OTHER_REGISTER,
    VECTOR_REGISTERS,
    X87_REGISTER,
    Flag,
    Operation,
)

STACK_POINTER, FLAGS, INSTRUCTION_POINTER = 6, 25, 26  # what ChampSim tells branches by
MXCSR = (195, 204)  # Pin 3 without and with AMX


class BranchKind(IntEnum):
    """ChampSim's kinds of branches (inc/instruction.h)."""

    NONE = 0
    JUMP = 1
    INDIRECT_JUMP = 2
    CONDITIONAL = 3
    CALL = 4
    INDIRECT_CALL = 5
    RETURN = 6
    OTHER = 7  # a branch by its record, of none of these kinds by its registers
    SYSTEM = 8  # writes the instruction pointer, but no branch by its record: a system call


_FLAGS_OF = {
    BranchKind.JUMP: Flag.BRANCH,
    BranchKind.INDIRECT_JUMP: Flag.BRANCH | Flag.INDIRECT,
    BranchKind.CONDITIONAL: Flag.BRANCH | Flag.CONDITIONAL,
    BranchKind.CALL: Flag.BRANCH | Flag.CALL,
    BranchKind.INDIRECT_CALL: Flag.BRANCH | Flag.CALL | Flag.INDIRECT,
    BranchKind.RETURN: Flag.BRANCH | Flag.RETURN | Flag.INDIRECT,
    BranchKind.OTHER: Flag.BRANCH | Flag.CONDITIONAL,
}


def _pin_registers() -> tuple[tuple[int | None, ...], bytes]:
    """Return by Pin's number the register in `uarch.instructions`' space (None: one without data), and its bytes."""
    order = (7, 6, 5, 4, 3, 2, 1, 0, *range(8, 16))  # rdi rsi rbp rsp rbx rdx rcx rax r8 …
    number: list[int | None] = [None] * 256
    width = bytearray([8] * 256)

    def put(first: int, registers: list[int | None], sizes: list[int]) -> None:
        number[first : first + len(registers)] = registers
        width[first : first + len(registers)] = bytes(sizes)

    put(3, list(order), [8] * 16)
    put(19, [OTHER_REGISTER] * 6, [8] * 6)  # segments
    put(FLAGS, [FLAGS_REGISTER, None], [8, 8])
    put(27, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 1, 2] * 4)  # al ah ax cl ch cx dl dh dx bl bh bx
    put(39, [5, 6, 7, 4, FLAGS_REGISTER, None], [2] * 6)  # bp si di sp flags ip
    put(45, [7, 7, 6, 6, 5, 5, 4, 4], [4, 1] * 4)  # edi dil esi sil ebp bpl esp spl
    put(53, [3, 2, 1, 0, FLAGS_REGISTER, None], [4] * 6)  # ebx edx ecx eax eflags eip
    put(59, [8 + n // 3 for n in range(24)], [1, 2, 4] * 8)  # r8b r8w r8d …
    put(83, [X87_REGISTER] * 8, [8] * 8)  # mm
    for first, size in ((91, 16), (123, 32), (155, 64)):  # xmm, ymm, zmm; older kits have ymm at 107: hence modulo 16
        put(first, [VECTOR_REGISTERS + n % 16 for n in range(32)], [size] * 32)
    put(187, [MASK_REGISTERS + n for n in range(8)], [8] * 8)
    put(207, [X87_REGISTER] * 16, [8] * 16)  # the x87 unit's control words and stack, with AMX
    return tuple(number), bytes(width)


REGISTER, WIDTH = _pin_registers()
_RAX, _RDX, _RSP, _RSI, _RDI = 0, 2, 4, 6, 7


def decode_record(code: bytes) -> tuple[int, Decoded]:
    """Length and meaning of the 16 bytes that stand for one instruction; any bytes have one."""
    length, kind = max(code[0], 1), BranchKind(min(code[1], BranchKind.SYSTEM))
    loads, stores = min(code[2], 4), min(code[3], 2)
    written = distinct(REGISTER[r] for r in code[5:9] if r)
    read = distinct(REGISTER[r] for r in code[9:13] if r)
    flags = (Flag.LOAD if loads else Flag(0)) | (Flag.STORE if stores else Flag(0))
    if kind is BranchKind.SYSTEM:
        return length, Decoded(
            Operation.SYSTEM, flags | Flag.SYSCALL | Flag.SERIALIZING, (), read, written, MicroOperations(31)
        )
    if kind is not BranchKind.NONE:
        address = _address(read, (), stores=False) if loads + stores else ()
        data = tuple(r for r in read if r not in address)
        micro = _branch_operations(kind, loads)
        return length, Decoded(Operation.BRANCH, flags | _FLAGS_OF[kind], address, data, written, micro)
    if code[4]:
        string = tuple(r for r in read if r in (_RSI, _RDI))
        data = tuple(r for r in read if r not in string)
        flags |= Flag.STRING
        operation = Operation.INT_ALU if FLAGS_REGISTER in written else Operation.NONE
        return length, Decoded(operation, flags, string, data, written, MicroOperations(6, 2 if stores else 3))

    operation = _operation(code[9:13], read, written, loads + stores)
    flags |= _arithmetic_flags(operation)
    address = _address(read, written, stores=bool(stores)) if loads + stores else ()
    data = tuple(r for r in read if r not in address)
    if operation is Operation.NONE and loads == 1 and not data:
        data = tuple(r for r in read if r in written and r != _RSP)
    lanes = max((WIDTH[r] for r in code[5:13] if r and WIDTH[r] > HALF), default=HALF) // HALF
    micro = _micro_operations(operation, address, read, written, loads, stores, lanes)
    return length, Decoded(operation, flags, address, data, written, micro)


def _address(read: tuple[int, ...], written: tuple[int, ...], *, stores: bool) -> tuple[int, ...]:
    """Return which integer registers form the address: the stack pointer alone where it is written
    too (push, pop); of a store all but the last; of a load those that it does not also write, else all.
    """
    integers = tuple(r for r in read if r < VECTOR_REGISTERS)
    if _RSP in integers and (_RSP in written or not written):
        return (_RSP,) if _RSP in written else integers[:-1] or integers
    if stores:
        return integers[:-1] or integers
    return tuple(r for r in integers if r not in written) or integers


def _operation(sources: bytes, read: tuple[int, ...], written: tuple[int, ...], accesses: int) -> Operation:
    vectors = any(VECTOR_REGISTERS <= r < FLAGS_REGISTER for r in (*read, *written))
    if any(r in MXCSR for r in sources):
        return Operation.FP_ADD
    if vectors:
        combines = any(r in read for r in written) or sum(r >= VECTOR_REGISTERS for r in read) > 1
        return Operation.SIMD_INT if combines else Operation.NONE if accesses else Operation.MOVE
    if X87_REGISTER in read or X87_REGISTER in written:
        return Operation.FP_ADD if X87_REGISTER in read and X87_REGISTER in written else Operation.MOVE
    if _RAX in written and _RDX in written and _RAX in read:
        return Operation.INT_DIV if _RDX in read else Operation.INT_MUL
    if FLAGS_REGISTER in written or FLAGS_REGISTER in read:
        return Operation.INT_ALU
    if accesses or not (read or written):
        return Operation.NONE
    return Operation.INT_ALU if len(read) > 1 else Operation.MOVE


def _arithmetic_flags(operation: Operation) -> Flag:
    if operation is Operation.FP_ADD:
        return Flag.FLOAT
    return Flag.VECTOR if operation is Operation.SIMD_INT else Flag(0)


def _branch_operations(kind: BranchKind, loads: int) -> MicroOperations:
    if kind in (BranchKind.CALL, BranchKind.INDIRECT_CALL):
        return MicroOperations(5 if kind is BranchKind.CALL or loads else 4, 1, 1)
    if kind is BranchKind.INDIRECT_JUMP:
        return MicroOperations(1 + loads, 1)
    return MicroOperations(3, 1, int(kind is not BranchKind.RETURN))


def _micro_operations(
    operation: Operation,
    address: tuple[int, ...],
    read: tuple[int, ...],
    written: tuple[int, ...],
    loads: int,
    stores: int,
    lanes: int,
) -> MicroOperations:
    """Return those of `x86_micro_operations`; a vector register is `lanes` of 64 bits, stored as if a scalar."""
    if operation is Operation.NONE and address == (_RSP,) and _RSP in written:
        return MicroOperations(3, 0, 0, 1) if loads else MicroOperations(2, 0)
    if operation is Operation.INT_ALU and FLAGS_REGISTER in read and FLAGS_REGISTER not in written:
        return MicroOperations(2 + loads + stores, 1, 0, 1)  # set and conditional move by the flags
    if operation is Operation.INT_ALU and len(written) == 2 and not loads and read == written[:1]:
        return MicroOperations(2, 1, 1)  # a register changed by nothing else: an immediate is brought
    if operation is Operation.SIMD_INT:
        return MicroOperations(lanes * (1 + loads) + stores, lanes)
    if operation is Operation.MOVE:
        return MicroOperations(lanes, lanes)
    if operation is Operation.NONE and loads:
        return MicroOperations(lanes * loads + stores, 0)
    if operation is Operation.INT_MUL:
        return MicroOperations(3 + loads, 1, 0, 1, 1)
    if operation is Operation.INT_DIV:
        return MicroOperations(10 + loads, 7, 0, 1)
    return one_each(operation, loads + stores)
