"""Cracking by families of x86-64: an instruction with a memory operand is as many micro-operations of the front end as
with a register, a compare and the branch behind it one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracegen.decode.native.rules import Instruction, Parts, Rules, computed
from tracegen.decode.native.table import NativeTable
from tracegen.decode.native.x86_64_form import SAME, form, slow_address
from uarch.instructions import (
    CARRY_REGISTER,
    FLAGS_REGISTER,
    NO_REGISTER,
    OVERFLOW_REGISTER,
    RENAMES_OPERAND,
    STACK_MOVED,
    STACK_READ,
    Flag,
)

# Instructions that fuse with a conditional branch behind them: Fog, "The microarchitecture of Intel, AMD and VIA CPUs"
# (2023), sections 10.11 (Sandy Bridge and later), 22.8 (Zen 2) and 23.8 (Zen 3). Zen 4 and Zen 5 as Zen 3.
_COMPARES = frozenset(("cmp", "test"))
_INTEL = _COMPARES | {"add", "sub", "and", "inc", "dec"}
_ZEN = _INTEL | {"or", "xor"}
_FUSE = dict.fromkeys(("haswell", "skylake", "icelake", "golden-cove"), _INTEL)
_FUSE |= {"zen2": _COMPARES, "zen3": _ZEN, "zen4": _ZEN, "zen5": _ZEN}
_NOTHING = frozenset(("nop", "endbr64", "endbr32", "prefetch"))
_MEMORY = Flag.LOAD | Flag.STORE
# What the stack engine keeps out of the registers: the stack pointer is that of the last explicit write and a distance,
# known before renaming (Fog, "The microarchitecture of Intel, AMD and VIA CPUs", of the stack engine).
_STACK, _STACK_POINTER = frozenset(("push", "pop", "call", "ret")), 4

# Moves that renaming does: the vendors' optimisation guides (AMD 56305 section 2.9.3, Intel 248966 section 2.1).
_WHOLE_MOVES = frozenset(("mov r64,r64", "mov r32,r32"))
_VECTOR_MOVES = frozenset(
    f"{prefix}mov{kind} " for prefix in ("", "v") for kind in ("aps", "apd", "ups", "upd", "dqa", "dqu")
)
# Scalar operations that keep the upper half of their result's register: Zen knows where that half is zero, as scalar
# code leaves it, and waits for nothing (AMD 56665, "XMM register merge optimization").
_KEEP_UPPER = frozenset("cvtsi2ss cvtsi2sd cvtsd2ss cvtss2sd sqrtss sqrtsd rcpss rsqrtss roundss roundsd".split())

# What loops on a Zen 4 and a Zen 5 show (benchmarks/uarch/host_loops.py): slow addresses take a cycle more, and a shift
# by `cl` does not wait for the flags, which it leaves where `cl` is zero.
_MEASURED = frozenset(("zen4", "zen5"))
_RENAME_OPERANDS = frozenset(("zen5",))  # of loads that are an operation's operand, by the same loops
_SHIFTS = frozenset(("shl", "shr", "sal", "sar", "rol", "ror"))
_FLAGS = (FLAGS_REGISTER, CARRY_REGISTER, OVERFLOW_REGISTER)


def _parts(instruction: Instruction, table: NativeTable) -> Parts:
    mnemonic, name, operation, flags, sources, destinations, slow = instruction
    stack = STACK_MOVED if mnemonic in _STACK else STACK_READ if (sources == _STACK_POINTER).any() else 0
    if mnemonic in _KEEP_UPPER and table.family.startswith("zen"):
        _drop_merged(instruction)
    if mnemonic in _STACK:
        destinations[destinations == _STACK_POINTER] = NO_REGISTER
    if mnemonic in _SHIFTS and name.endswith(",cl") and table.family in _MEASURED:
        _drop(instruction, _FLAGS)
    cost = table.cost(name)
    operations = 1 if cost is None else cost.micro_operations
    accesses, idle = bool(flags & _MEMORY), _eliminated(name, flags, table.family)
    if accesses and (instruction.moves or _extends_loaded(name, table.family)):
        parts = Parts(min(operations, 2) if mnemonic[:4] in ("push", "call") else 1, 0)
    elif idle or (cost is not None and cost.latency == 0) or mnemonic in _NOTHING or (instruction.moves and not name):
        parts = Parts(1, 0)
    else:
        front = min(max(operations - _beside(accesses, table.family), 1), 255)
        parts = computed(front, front, operation, cost)
    if flags & Flag.BRANCH:
        busy = 0.0 if cost is None else cost.throughput
        parts = parts._replace(front=min(parts.front, 2), computes=1, latency=1, busy=busy)
    if flags & Flag.LOAD:
        parts = parts._replace(after=table.vector_load * _vector(name) + (slow and table.family in _MEASURED))
    renames = RENAMES_OPERAND * (table.family in _RENAME_OPERANDS and parts.computes > 0 and bool(flags & Flag.LOAD))
    return parts._replace(traits=parts.traits | stack | renames)


def _eliminated(name: str, flags: int, family: str) -> bool:
    """Return whether renaming does it: zero idioms; moves of whole registers (Ice Lake: of vectors alone)."""
    if flags & Flag.ZEROING:
        return True
    plain = name.removesuffix(SAME)
    if plain in _WHOLE_MOVES:
        return family != "icelake"
    mnemonic, _, kinds = plain.partition(" ")
    return f"{mnemonic} " in _VECTOR_MOVES and kinds in ("x,x", "y,y")


def _drop_merged(instruction: Instruction) -> None:
    """Take the result's register from the sources, unless it is the operand too."""
    if not instruction.form.endswith(SAME):
        _drop(instruction, instruction.destinations[:1].tolist())


def _drop(instruction: Instruction, registers: Sequence[int]) -> None:
    """Take registers from the sources."""
    sources = instruction.sources
    kept = sources[~np.isin(sources, registers)]
    sources[:] = NO_REGISTER
    sources[: len(kept)] = kept


def _extends_loaded(name: str, family: str) -> bool:
    """Return whether the load does all of it: zeros in front; on Intel signs too (Fog, "Instruction tables")."""
    mnemonic, _, kinds = name.partition(" ")
    signs = mnemonic in ("movsx", "movsxd") and not family.startswith("zen")
    return (mnemonic == "movzx" or signs) and kinds.startswith(("r32,m", "r64,m"))


def _vector(name: str) -> bool:
    """Return whether an instruction of this form has vector registers."""
    return any(kind in ("x", "y", "z") for kind in name.removesuffix(SAME).partition(" ")[2].split(","))


def _beside(accesses: bool, family: str) -> int:
    """Micro-operations of loads and stores, which Intel's models count and its front end fuses."""
    return int(accesses and not family.startswith("zen"))


def _fuses(first: Instruction, second: Instruction, family: str) -> bool:
    with_number = first.flags & _MEMORY and first.form.endswith(",i")
    return bool(second.flags & Flag.CONDITIONAL) and first.mnemonic in _FUSE[family] and not with_number


RULES = Rules(form, _parts, _fuses, slow_address)
