"""Static instructions with a real family's micro-operations in place of gem5's.

What the front end takes is counted in the fused domain (`x86_64.py`, `aarch64.py`). Eliminated moves, zero idioms and
nops execute nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracegen.decode.disassembler import disassembler
from tracegen.decode.encodings import distinct_encodings
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
    engine = disassembler(instructions.isa)
    encodings, which = distinct_encodings(code, instructions.isa)
    first = np.unique(which, return_index=True)[1]
    sources, destinations = instructions.sources[first], instructions.destinations[first]
    distinct: list[Instruction] = []
    for place, raw in enumerate(encodings):
        mnemonic, form, slow = "", "", False
        disassembled = next(engine.disasm(raw, 0, 1), None)
        if disassembled is not None:
            mnemonic, form = disassembled.mnemonic, rules.form(disassembled)
            slow = rules.slow_address(disassembled)
        operation, flags = int(instructions.operation[first[place]]), int(instructions.flags[first[place]])
        distinct.append(Instruction(mnemonic, form, operation, flags, sources[place], destinations[place], slow))
    costs = [rules.parts(one, table) for one in distinct]
    found, parts = [distinct[place] for place in which], [costs[place] for place in which]
    ends = instructions.address[:-1] + instructions.length[:-1]
    for row in (np.flatnonzero(ends == instructions.address[1:]) + 1).tolist():
        if rules.fuses(found[row - 1], found[row], family):
            parts[row] = parts[row]._replace(front=0)
            if found[row].flags & Flag.BRANCH:
                parts[row - 1] = before_branch(parts[row - 1], bool(found[row - 1].flags & (Flag.LOAD | Flag.STORE)))
    renamed = replace(instructions, sources=sources[which], destinations=destinations[which])
    return _native(renamed, parts, *table.vector_cycles)


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
