"""A program as machines see it: its static instructions and the stream of their executions.

Nothing here depends on an instruction set: `tracegen.decode` maps x86-64, AArch64 and RISC-V into these terms, and
the timing model and the feature schemas read nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray


class Operation(IntEnum):
    """Operation of the computing part of an instruction (its loads and stores are counted apart).

    ``add rax, [rbx]`` is INT_ALU with one load; ``mov rax, [rbx]`` is NONE with one load; ``mov [rbx], rax`` is NONE
    with one store.
    """

    NONE = 0  # nothing to compute: nop, pure load, pure store
    MOVE = 1  # register to register copy, constant to register
    INT_ALU = 2  # add, logic, shift, compare, address computation, conditional move
    INT_MUL = 3
    INT_DIV = 4
    FP_ADD = 5  # scalar floating point: add, compare, convert, min/max, sign
    FP_MUL = 6
    FP_FMA = 7
    FP_DIV = 8
    FP_SQRT = 9
    FP_MISC = 10  # transcendental and other slow x87 operations
    SIMD_INT = 11  # packed integer, logic, shuffle, vector moves between lanes
    SIMD_MUL = 12  # packed integer multiply
    SIMD_FP_ADD = 13
    SIMD_FP_MUL = 14
    SIMD_FP_FMA = 15
    SIMD_FP_DIV = 16
    SIMD_FP_SQRT = 17
    CRYPTO = 18  # AES, SHA, carry-less multiply, CRC
    BRANCH = 19
    SYSTEM = 20  # system calls, cpuid, fences, control registers


class Flag(IntFlag):
    """Static properties of an instruction; any number may hold."""

    BRANCH = 1 << 0  # may change the program counter
    CONDITIONAL = 1 << 1  # a branch that may fall through
    INDIRECT = 1 << 2  # a branch whose target comes from a register or memory (returns too)
    CALL = 1 << 3
    RETURN = 1 << 4
    LOAD = 1 << 5  # reads memory when executed
    STORE = 1 << 6  # writes memory when executed
    ATOMIC = 1 << 7  # locked or atomic read-modify-write, load-linked
    STORE_CONDITIONAL = 1 << 8
    BARRIER = 1 << 9  # memory fence
    SERIALIZING = 1 << 10  # nothing younger starts before it is complete
    SYSCALL = 1 << 11
    STRING = 1 << 12  # rep-prefixed: one executed instruction with any number of accesses
    VECTOR = 1 << 13  # operates on packed vectors
    FLOAT = 1 << 14  # operates on floating-point values
    ZEROING = 1 << 15  # dependency-breaking idiom (xor eax, eax); its sources are already left out


class Interruption(IntEnum):
    """Event that breaks the stream of an instruction's own micro-operations."""

    NONE = 0
    TRAP = 1  # the first one traps when it retires, and the rest is fetched again; `micro_operations` is without it
    BRANCH = 2  # the third one is a branch within the microcode that is always taken


class Temporary(IntFlag):
    """Use that an instruction makes of the temporary register of gem5's x86 microcode (`t1`): by what it writes it, if
    at all, and whether it waits for it.
    """

    AT_ONCE = 1 << 0  # written by an immediate or the program counter,
    LOADED = 1 << 1  # by what it loads,
    COMPUTED = 1 << 2  # or by its result
    MERGED = 1 << 3  # only a part, which reads the rest: what writes it waits
    MERGES_LOADED = 1 << 4  # none of it, but what it loads is a part of a register, which its load waits for
    CONDITIONS = 1 << 5  # besides, the microcode's own flags change, for which every condition waits


# One space of architectural registers, aliases collapsed (al, ax, eax and rax are one register). Integer registers are
# 0–31; zero registers (xzr, x0 of RISC-V) are left out of sources and destinations.
VECTOR_REGISTERS = 32  # 32–63: xmm/ymm/zmm, v/q/d/s, f
FLAGS_REGISTER = 64  # x86's ZF, SF, PF and AF, which are renamed together; AArch64's NZCV; RISC-V's fflags
X87_REGISTER = 65  # the x87 stack as one register (MMX too)
MASK_REGISTERS = 66  # 66–73: k0–k7
OTHER_REGISTER = 74  # segment, control and status registers as one
CARRY_REGISTER = 75  # x86's CF, which inc and dec leave
OVERFLOW_REGISTER = 76  # x86's OF, which rotates write without the others
DIRECTION_REGISTER = 77  # x86's DF, which string instructions read
REGISTERS = 78
FLAG_GROUPS = (FLAGS_REGISTER, CARRY_REGISTER, OVERFLOW_REGISTER, DIRECTION_REGISTER)  # rflags
NO_REGISTER = 255

MAX_SOURCES = 8
MAX_DESTINATIONS = 6


@dataclass(frozen=True)
class StaticInstructions:
    """The distinct instructions of one trace, S rows, in the order of `static/address`.

    Registers are numbered as above; unused slots hold NO_REGISTER and come last. The first `address_sources` entries
    of a row of `sources` form its memory address; the rest are data.
    """

    address: NDArray[np.uint64]  # [S] virtual byte address
    length: NDArray[np.uint8]  # [S] bytes
    operation: NDArray[np.uint8]  # [S] Operation
    flags: NDArray[np.uint16]  # [S] Flag bits
    sources: NDArray[np.uint8]  # [S, MAX_SOURCES]
    address_sources: NDArray[np.uint8]  # [S]
    destinations: NDArray[np.uint8]  # [S, MAX_DESTINATIONS]
    micro_operations: NDArray[np.uint8]  # [S] at least 1: compute part, loads, stores and what helps them
    compute_operations: NDArray[np.uint8]  # [S] of them on `operation`'s unit: side by side, in a divide one by one
    cycles_before: NDArray[np.uint8]  # [S] of other micro-operations before an access or computation can begin
    cycles_after: NDArray[np.uint8]  # [S] of other micro-operations after it until registers have the results
    chained: NDArray[
        np.uint8
    ]  # [S] 1: computes after the last such one only; 2: so, and its second half after its first
    vector_unit: NDArray[np.bool_]  # [S] a scalar floating-point operation that the vector units do
    float_move: NDArray[np.bool_]  # [S] a move, change of sign or rounding that the floating-point units do
    isa: str = "x86-64"  # its order of stores and its own registers are a core's concern (`uarch.gem5.table.ISAS`)
    merges_flags: NDArray[np.uint8] | None = (
        None  # [S] so many of FLAGS and CARRY are read as they are written; and MERGES_RESULT (None: 0)
    )
    interruption: NDArray[np.uint8] | None = None  # [S] Interruption (None: there is none)
    temporary: NDArray[np.uint8] | None = None  # [S] Temporary (None: there is none)
    # By a family's name, the same instructions with its micro-operations (None: there is no machine code to tell by).
    native: Callable[[str], NativeInstructions] | None = None

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class NativeInstructions:
    """Static instructions with the micro-operations of a real family, S rows.

    `instructions` has in `micro_operations` what the front end takes (0: fused with the one in front), in
    `compute_operations` those on `operation`'s unit (0: nothing is executed).
    """

    instructions: StaticInstructions
    latency: NDArray[np.int16]  # [S] of the computing part, cycles; -1: as of `operation`
    busy: NDArray[np.float32]  # [S] cycles between two of many; 0: as few as its kind of units allow
    traits: NDArray[np.uint8]  # [S] STACK_MOVED by the stack engine, STACK_READ otherwise; FORWARDS; RENAMES_OPERAND
    vector_load: float  # cycles of one of many loads to vector registers
    vector_store: float


STACK_MOVED, STACK_READ = 1, 2  # of `NativeInstructions.traits`, as in uarch/timing/core/instruction.hpp
FORWARDS = 4  # its result is there a cycle earlier for the next one that forwards
RENAMES_OPERAND = 8  # takes what it computes with from a store's register, as moves do
MERGES_RESULT = 4  # of `merges_flags`: its first destination, a vector register, is read as it is written
LAST = np.uint32(0xFFFFFFFF)  # `next_static_id` of the last instruction of a trace


@dataclass(frozen=True)
class Chunk:
    """n consecutive executed instructions of a trace, their m memory accesses, and the c system calls and d divisions
    that are known.
    """

    start: int  # index of the first one in the trace
    static_id: NDArray[np.uint32]  # [n]
    next_static_id: NDArray[np.uint32]  # [n] the instruction executed after it, LAST at the end of the trace
    access_offset: NDArray[np.int64]  # [n+1] instruction k makes accesses access_offset[k]:access_offset[k+1]
    address: NDArray[np.uint64]  # [m] virtual byte address
    size: NDArray[np.uint8]  # [m] bytes, 0 where larger than 255
    is_store: NDArray[np.uint8]  # [m]
    # [c] index in the trace, ascending; which call it makes (`uarch.system_calls`)
    call_instruction: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    call_number: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    # [d] index in the trace, ascending; steps of gem5's microcode for its quotient
    division_instruction: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    division_steps: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    def __len__(self) -> int:
        return len(self.static_id)

    def part(self, begin: int, end: int) -> Chunk:
        """Instructions begin … end of it and their accesses; `access_offset` goes on counting from the chunk's first
        access, so that of the part's access m is `access_offset[k] - access_offset[0]`.
        """
        offset = self.access_offset[begin : end + 1]
        accesses = slice(int(offset[0] - self.access_offset[0]), int(offset[-1] - self.access_offset[0]))
        ends = np.array([self.start + begin, self.start + end], np.uint64)
        calls = slice(*np.searchsorted(self.call_instruction, ends).tolist())
        divisions = slice(*np.searchsorted(self.division_instruction, ends).tolist())
        return Chunk(
            self.start + begin,
            self.static_id[begin:end],
            self.next_static_id[begin:end],
            offset,
            self.address[accesses],
            self.size[accesses],
            self.is_store[accesses],
            self.call_instruction[calls],
            self.call_number[calls],
            self.division_instruction[divisions],
            self.division_steps[divisions],
        )

    def taken(self, instructions: StaticInstructions) -> NDArray[np.uint8]:
        """[n] 1 where the next executed address is not the fall-through one (0 for the trace's last instruction)."""
        return taken(instructions, self.static_id, self.next_static_id)


def taken(
    instructions: StaticInstructions, here: NDArray[np.uint32], following: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """[n] 1 where the instruction executed after `here`, `following`, is not the fall-through one (0 for LAST)."""
    last = following == LAST
    through = instructions.address[here] + instructions.length[here]
    return ((instructions.address[np.where(last, 0, following)] != through) & ~last).astype(np.uint8)
