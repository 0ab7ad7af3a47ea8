"""Cracking by Arm's families of AArch64.

What is decoded and renamed are macro-operations; dispatch splits them into micro-operations, of which it takes about
twice as many a cycle: Neoverse N1 four and eight (comments and issue width of LLVM's AArch64SchedNeoverseN1.td),
Cortex-A72 three and five (published descriptions). So two micro-operations count as one of the front end, which is an
estimate. Neither eliminates moves in LLVM's models, or fuses a compare with a branch (in LLVM's Cortex-A77 is the
first).

Cortex-A53 issues up to two instructions a cycle, in order. An access counts as many as cycles that it keeps the memory
unit for, which takes one after another. LLVM's FuseAES is there for its scheduler alone.
"""

from __future__ import annotations

import re

from tracegen.decode.native.aarch64_form import form
from tracegen.decode.native.rules import Instruction, Parts, Rules, computed
from tracegen.decode.native.table import NativeTable
from uarch.constraints import IN_ORDER_FAMILIES
from uarch.instructions import Flag

_IN_ONE = 2  # micro-operations of a macro-operation
_NOTHING = frozenset(("nop", "bti", "hint", "yield", "prfm", "prfum"))
# Operands that are shifted or extended are needed a cycle before others (LLVM's A53ReadShifted): as if the result came
# a cycle later.
_SHIFTED = re.compile(r"[xw],((lsl|lsr|asr|ror) \S+|ext)\Z")
_MEMORY = Flag.LOAD | Flag.STORE
# Neighbours that are decoded as one where both write the same register: the features FuseAES and FuseLiterals of LLVM's
# AArch64Processors.td.
_AES = frozenset((("aese", "aesmc"), ("aesd", "aesimc")))
_FUSE = {"cortex-a72": _AES | {("mov", "movk"), ("movz", "movk")}, "neoverse-n1": _AES}


def _parts(instruction: Instruction, table: NativeTable) -> Parts:
    cost = table.cost(instruction.form)
    operations = 1 if cost is None else max(cost.micro_operations, 1)
    front = -(-operations // _IN_ONE)
    in_order = cost is not None and table.family in IN_ORDER_FAMILIES
    if instruction.flags & Flag.BRANCH:
        return Parts(front, 1, 1)
    if instruction.moves and instruction.flags & _MEMORY:
        loads = cost is not None and instruction.flags & Flag.LOAD
        if cost is not None and in_order:
            front = max(round(cost.throughput), 1)
        return Parts(front, 0, after=max(cost.latency - table.load_latency, 0) if cost and loads else 0)
    if instruction.mnemonic in _NOTHING or not instruction.form or (cost is not None and cost.latency == 0):
        return Parts(1, 0)
    parts = computed(front, operations, instruction.operation, cost)
    return parts._replace(after=1) if in_order and _SHIFTED.search(instruction.form) else parts


def _fuses(first: Instruction, second: Instruction, family: str) -> bool:
    pair = (first.mnemonic, second.mnemonic)
    return pair in _FUSE.get(family, ()) and bool(first.destinations[0] == second.destinations[0])


RULES = Rules(form, _parts, _fuses)
