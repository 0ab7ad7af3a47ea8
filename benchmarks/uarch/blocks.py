"""Basic blocks of programs: those executed most in live-points, as text for other tools, and their accesses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import capstone
import numpy as np
from capstone import x86_const as x86

from tracegen.decode.disassembler import disassembler
from tracegen.live_points.live_points import LivePoints
from uarch.instructions import Flag, Operation

_LEFT_OUT = Flag.CALL | Flag.RETURN | Flag.STRING | Flag.SYSCALL | Flag.SERIALIZING | Flag.BARRIER | Flag.ATOMIC
_LEAST = 4  # instructions


@dataclass(frozen=True)
class Block:
    """Consecutive static instructions: addresses, bytes of each and of all, and how often they were executed."""

    isa: str
    address: np.ndarray
    code: np.ndarray
    size: int
    times: int

    @cached_property
    def instructions(self) -> list[capstone.CsInsn]:
        """The instructions, of x86-64 in AT&T's syntax; fewer where one is not known."""
        engine = disassembler(self.isa)
        if self.isa == "x86-64":
            engine.syntax = capstone.CS_OPT_SYNTAX_ATT
        return [found for raw in self.code for found in engine.disasm(raw.tobytes(), 0, 1)]

    @cached_property
    def text(self) -> str:
        """The block as assembly, its jumps of x86-64 to a label."""
        lines = "".join(f"{one.mnemonic} {one.op_str}\n" for one in self.instructions)
        return re.sub(r"^(j\w+) 0x\w+$", r"\1 .L0", lines, flags=re.MULTILINE)

    def straight(self) -> list[bytes]:
        """The bytes, of x86-64; a conditional branch goes to the next instruction, taken or, inverted, not."""
        *body, last = [bytes(one.bytes) for one in self.instructions]
        opcode = last[1] if last[0] == 0x0F else last[0]
        if re.match(rb"[\x70-\x7f]|\x0f[\x80-\x8f]", last, re.DOTALL):
            body = [b"".join(body)]
            return [body[0] + bytes((0x70 | opcode & 15 ^ other, 0)) for other in (0, 1)]
        return [b"".join(body if last[0] in (0xE9, 0xEB, 0xFF) else [*body, last])]

    def places(self, copies: int) -> list[int]:
        """Addresses that so many copies access, one for each instruction.

        On x86-64 each register points to a page of its own; elsewhere an instruction has a line of its own.
        """
        if self.isa != "x86-64":
            return [0x10000000 + 64 * place for place in range(len(self.address) * copies)]
        pages: dict[tuple[int, int], int] = {(x86.X86_REG_RSP, 0): 0}
        stack, found = 0, []
        for instruction in self.instructions * copies:
            moved = _moved(instruction)
            page, place = 0, stack + min(moved, 0)
            for operand in instruction.operands:
                if operand.type == x86.X86_OP_MEM:
                    page = pages.setdefault((operand.mem.base, operand.mem.index), len(pages))
                    place = operand.mem.disp + stack * (operand.mem.base == x86.X86_REG_RSP)
            stack += moved
            found.append(0x10000000 + (4096 + 64) * page + place % 2048)
        return found


def blocks_of(points: LivePoints, most: int) -> list[Block]:
    """The blocks executed most in the sampled units, of known instructions."""
    return sorted(_all_blocks(points), key=lambda block: -block.times)[:most]


def _all_blocks(points: LivePoints) -> Iterator[Block]:
    static = points.static
    ids, counts = np.unique(points.pieces.static_id, return_counts=True)
    times = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    ends = static.address[:-1] + static.length[:-1] != static.address[1:]
    begin = 0
    for row in range(len(static)):
        last = row == len(static) - 1 or bool(ends[row]) or bool(static.flags[row] & Flag.BRANCH)
        if not last and times.get(row, 0) == times.get(row + 1, 0):
            continue
        rows = slice(begin, row + 1)
        begin = row + 1
        odd = np.isin(static.operation[rows], (Operation.INT_DIV, Operation.FP_MISC))
        if np.any(odd) or np.any(static.flags[rows] & _LEFT_OUT) or not times.get(rows.start, 0):
            continue
        address = static.address[rows]
        size = int(address[-1] + static.length[row] - address[0])
        block = Block(static.isa, address, points.code[rows], size, times[rows.start])
        if len(block.instructions) == len(address) >= _LEAST:
            yield block


def _moved(instruction: capstone.CsInsn) -> int:
    """Bytes by which an instruction moves the stack pointer."""
    mnemonic, operands = instruction.mnemonic[:4], instruction.operands
    if mnemonic in ("push", "popq"):
        return -8 if mnemonic == "push" else 8
    constant = mnemonic in ("addq", "subq") and operands[0].type == x86.X86_OP_IMM
    if not constant or operands[1].type != x86.X86_OP_REG or operands[1].reg != x86.X86_REG_RSP:
        return 0
    return int(operands[0].imm) * (1 if mnemonic == "addq" else -1)
