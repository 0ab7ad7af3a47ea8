"""Static instructions with a real family's micro-operations in place of gem5's.

What the front end takes is counted in the fused domain (`x86_64.py`, `aarch64.py`). Eliminated moves, zero idioms and
nops execute nothing.
"""

from __future__ import annotations

from dataclasses import replace

import capstone
import numpy as np
from numpy.typing import NDArray

from tracegen.decode.native import aarch64, x86_64
from tracegen.decode.native.rules import Instruction, Parts, before_branch
from tracegen.decode.native.table import native_table
from uarch.instructions import Flag, NativeInstructions, StaticInstructions

RULES = {"x86-64": x86_64.RULES, "aarch64": aarch64.RULES}


def native_instructions(instructions: StaticInstructions, code: NDArray[np.uint8], family: str) -> NativeInstructions:
    """The instructions, whose bytes are `code` [S, 16], as a family of their instruction set has them. Raises
    InputError.
    """
    table, rules = native_table(family), RULES[instructions.isa]
    engine = capstone.Cs(rules.architecture, rules.mode)
    engine.detail = True
    size = len(instructions)
    sources, destinations = instructions.sources.copy(), instructions.destinations.copy()
    known: dict[bytes, tuple[str, str, bool]] = {}
    found: list[Instruction] = []
    for row in range(size):
        raw = code[row].tobytes()
        names = known.get(raw)
        if names is None:
            instruction = next(engine.disasm(raw, 0, 1), None)
            names = ("", "", False)
            if instruction is not None:
                names = (instruction.mnemonic, rules.form(instruction), rules.slow_address(instruction))
            known[raw] = names
        mnemonic, form, slow = names
        operation, flags = int(instructions.operation[row]), int(instructions.flags[row])
        found.append(Instruction(mnemonic, form, operation, flags, sources[row], destinations[row], slow))
    parts = [rules.parts(one, table) for one in found]
    ends = instructions.address[:-1] + instructions.length[:-1]
    for row in (np.flatnonzero(ends == instructions.address[1:]) + 1).tolist():
        if rules.fuses(found[row - 1], found[row], family):
            parts[row] = parts[row]._replace(front=0)
            if found[row].flags & Flag.BRANCH:
                parts[row - 1] = before_branch(parts[row - 1], bool(found[row - 1].flags & (Flag.LOAD | Flag.STORE)))
    return _native(replace(instructions, sources=sources, destinations=destinations), parts, *table.vector_cycles)


def _native(
    instructions: StaticInstructions, parts: list[Parts], vector_load: float, vector_store: float
) -> NativeInstructions:
    front, computes, latency, busy, after, traits = np.array(parts, np.float64).reshape(-1, len(Parts._fields)).T
    cracked = replace(
        instructions,
        micro_operations=front.astype(np.uint8),
        compute_operations=computes.astype(np.uint8),
        cycles_before=np.zeros(len(parts), np.uint8),
        cycles_after=after.astype(np.uint8),
        chained=np.zeros(len(parts), np.uint8),
        merges_flags=None,
        interruption=None,
        temporary=None,
        native=None,
    )
    return NativeInstructions(
        cracked, latency.astype(np.int16), busy.astype(np.float32), traits.astype(np.uint8), vector_load, vector_store
    )
