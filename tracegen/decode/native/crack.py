"""Static instructions of x86-64 with a real family's micro-operations in place of gem5's.

What the front end takes is counted in the fused domain: an instruction with a memory operand is as many as with a
register, a compare and the branch behind it one. Eliminated moves, zero idioms and nops execute nothing.
"""

from __future__ import annotations

from dataclasses import replace

import capstone
import numpy as np
from numpy.typing import NDArray

from tracegen.decode.native.form import SAME, form
from tracegen.decode.native.table import native_table
from uarch.instructions import NO_REGISTER, Flag, NativeInstructions, Operation, StaticInstructions

_MOST = 24  # micro-operations on a unit; what is longer is microcode, whose latency tells
# Instructions that fuse with a conditional branch behind them: Fog, "The microarchitecture of Intel, AMD and VIA CPUs"
# (2023), sections 10.11 (Sandy Bridge and later), 22.8 (Zen 2) and 23.8 (Zen 3). Zen 4 as Zen 3.
_COMPARES = frozenset(("cmp", "test"))
_INTEL = _COMPARES | {"add", "sub", "and", "inc", "dec"}
_ZEN = _INTEL | {"or", "xor"}
_FUSE = dict.fromkeys(("haswell", "skylake", "icelake", "golden-cove"), _INTEL)
_FUSE |= {"zen2": _COMPARES, "zen3": _ZEN, "zen4": _ZEN}
_NOTHING = frozenset(("nop", "endbr64", "endbr32", "prefetch"))
_UNKNOWN = (1, -1)


def native_instructions(instructions: StaticInstructions, code: NDArray[np.uint8], family: str) -> NativeInstructions:
    """The instructions, whose bytes are `code` [S, 16], as a family's micro-operations. Raises InputError."""
    table = native_table(family)
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    size = len(instructions)
    front, computes, latency = np.ones(size, np.uint8), np.ones(size, np.uint8), np.full(size, -1, np.int16)
    busy = np.zeros(size, np.float32)
    loads = np.zeros(size, np.uint8)  # cycles until what is loaded is in a vector register
    fuses, conditional = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    known: dict[bytes, tuple[str, str]] = {}
    flags, operation = instructions.flags, instructions.operation
    sources, destinations = instructions.sources.copy(), instructions.destinations.copy()
    accesses = (flags & (Flag.LOAD | Flag.STORE)) != 0
    for row in range(size):
        raw = code[row].tobytes()
        found = known.get(raw)
        if found is None:
            instruction = next(engine.disasm(raw, 0, 1), None)
            found = known[raw] = ("", "") if instruction is None else (instruction.mnemonic, form(instruction))
        mnemonic, name = found
        cost = table.cost(name)
        operations, cycles = _UNKNOWN if cost is None else (cost.micro_operations, cost.latency)
        if mnemonic in _KEEP_UPPER and family.startswith("zen"):
            _drop_merged(sources[row], instructions.destinations[row], name)
        if mnemonic in _STACK:
            destinations[row][destinations[row] == _STACK_POINTER] = NO_REGISTER
        moves = operation[row] in (Operation.NONE, Operation.MOVE)
        if moves and accesses[row]:
            front[row], computes[row] = min(operations, 2) if mnemonic[:4] in ("push", "call") else 1, 0
            latency[row] = -1
        elif (
            _eliminated(name, int(flags[row]), family)
            or (cost is not None and cycles == 0)
            or mnemonic in _NOTHING
            or (moves and not accesses[row] and not name)
        ):
            front[row], computes[row] = 1, 0
        else:
            front[row] = min(max(operations - _beside(bool(accesses[row]), family), 1), 255)
            computes[row] = min(front[row], _MOST)
            if cost is not None and computes[row] > 1:
                busy[row] = cost.throughput
            latency[row] = min(max(cycles, 1), 2000) if cost is not None else -1
            if operation[row] in _DIVIDES:
                computes[row] = 1
                busy[row] = cost.throughput if cost is not None else 0
        if flags[row] & Flag.BRANCH:
            computes[row], latency[row] = 1, 1
            front[row] = min(front[row], 2)
        if flags[row] & Flag.LOAD and _vector(name):
            loads[row] = table.vector_load
        conditional[row] = bool(flags[row] & Flag.CONDITIONAL)
        fuses[row] = mnemonic in _FUSE[family] and not (accesses[row] and name.endswith(",i"))
    follows = np.zeros(size, np.bool_)
    if size > 1:
        ends = instructions.address[:-1] + instructions.length[:-1]
        follows[1:] = fuses[:-1] & conditional[1:] & (ends == instructions.address[1:])
    front[follows] = 0
    cracked = replace(
        instructions,
        sources=sources,
        destinations=destinations,
        micro_operations=front,
        compute_operations=computes,
        cycles_before=np.zeros(size, np.uint8),
        cycles_after=loads,
        chained=np.zeros(size, np.uint8),
        merges_flags=None,
        interruption=None,
        native=None,
    )
    return NativeInstructions(cracked, latency, busy, table.vector_load_cycles, table.vector_store_cycles)


# What the stack engine keeps out of the registers: the stack pointer is that of the last explicit write and a distance,
# known before renaming (Fog, "The microarchitecture of Intel, AMD and VIA CPUs", of the stack engine).
_STACK, _STACK_POINTER = frozenset(("push", "pop", "call", "ret")), 4

# Moves that renaming does: the vendors' optimisation guides (AMD 56305 section 2.9.3, Intel 248966 section 2.1).
_WHOLE_MOVES = frozenset(("mov r64,r64", "mov r32,r32"))
_VECTOR_MOVES = frozenset(
    f"{prefix}mov{kind} " for prefix in ("", "v") for kind in ("aps", "apd", "ups", "upd", "dqa", "dqu")
)


def _eliminated(name: str, flags: int, family: str) -> bool:
    """Return whether renaming does it: zero idioms; moves of whole registers (Ice Lake: of vectors alone)."""
    if flags & Flag.ZEROING:
        return True
    plain = name.removesuffix(" same")
    if plain in _WHOLE_MOVES:
        return family != "icelake"
    mnemonic, _, kinds = plain.partition(" ")
    return f"{mnemonic} " in _VECTOR_MOVES and kinds in ("x,x", "y,y")


# Scalar operations that keep the upper half of their result's register: Zen knows where that half is zero, as scalar
# code leaves it, and waits for nothing (AMD 56665, "XMM register merge optimization").
_KEEP_UPPER = frozenset("cvtsi2ss cvtsi2sd cvtsd2ss cvtss2sd sqrtss sqrtsd rcpss rsqrtss roundss roundsd".split())


def _drop_merged(sources: NDArray[np.uint8], destinations: NDArray[np.uint8], name: str) -> None:
    """Take the result's register from the sources, unless it is the operand too."""
    if not name.endswith(SAME):
        kept = sources[sources != destinations[0]]
        sources[:] = NO_REGISTER
        sources[: len(kept)] = kept


def _vector(name: str) -> bool:
    """Return whether an instruction of this form has vector registers."""
    return any(kind in ("x", "y", "z") for kind in name.removesuffix(" same").partition(" ")[2].split(","))


_DIVIDES = (Operation.INT_DIV, Operation.FP_DIV, Operation.FP_SQRT, Operation.SIMD_FP_DIV, Operation.SIMD_FP_SQRT)


def _beside(accesses: bool, family: str) -> int:
    """Micro-operations of loads and stores, which Intel's models count and its front end fuses."""
    return int(accesses and not family.startswith("zen"))
