"""Number of micro-operations of an x86-64 instruction, and dependencies of those that compute.

The cracking is that of gem5's X86 (`src/arch/x86/isa/insts`), whose integer part is regular and close to real
decoders without fusion: one micro-operation to compute, one for each load and store, one that brings an immediate into
a temporary register, one that reads the program counter for an address relative to it. Its vector registers are two
halves of 64 bits: a 128-bit operation, load or store is two (so a 256-bit one is four here). `_BODY` has what computes,
by mnemonic; the rest follows from the operands.
Of a string instruction `total` is for setting up and `compute` for what each access brings with it.
"""

from __future__ import annotations

import re

from capstone import CsInsn
from capstone import x86_const as x86
from capstone.x86 import X86Op

from tracegen.decode.decoded import MicroOperations
from uarch.instructions import Operation

_HALF_MOVES = re.compile(r"v?mov[hl]p[sd]")
HALF = 8  # bytes of a vector register that one micro-operation handles
_Body = MicroOperations  # without loads, stores, immediates and program counters
_SIMPLE = _Body(1)
_PAIR = _Body(2, 1, 0, 1)  # the second waits for the first
_INTEGER: list[tuple[re.Pattern[str], _Body]] = [
    (re.compile(rf"(?:{pattern})\Z"), body)
    for pattern, body in [
        (r"mov|movabs|movbe|movnti|lea|cdqe|cwde|cbw|popcnt|prefetch\w*|clflush\w*", _SIMPLE),
        (r"set\w+|cmov\w+", _PAIR),
        (r"imul|mul|mulx", _Body(3, 1, 0, 1)),
        (r"div", _Body(10, 7, 0, 1)),  # seven steps are the least: a round, which finds five set bits of the quotient
        (r"idiv", _Body(29, 7, 4, 6)),
        (r"not", _Body(2, 1, 1)),
        (r"c[wdq][dqo]", _PAIR),
        (r"bswap", _Body(3, 1, 0, 2)),
        (r"bswapq", _Body(9, 1, 0, 5)),  # of 64 bits, by way of two temporary registers
        (r"shld|shrd", _Body(2, 1, 1)),
        (r"bt[src]", _Body(4, 1, 1, 1)),
        (r"bsf|tzcnt", _Body(30, 1, 0, 14)),
        (r"bsr|lzcnt", _Body(28, 1, 0, 12)),
        (r"xchg", _Body(3, 1, 0, 2)),
        (r"xadd", _Body(2, 1, 0, 1)),
        (r"cmpxchg", _Body(3, 1, 0, 2)),
        (r"cmpxchg8b|cmpxchg16b", _Body(10, 1, 0, 4)),
        (r"lahf|sahf|pushf\w*|popf\w*", _Body(2, 1, 0, 1)),
        (r"cld|std|clc|stc|cmc", _Body(4, 1, 0, 2)),
        (r"cpuid|xgetbv|rdtscp?|rdpmc", _Body(5, 1, 0, 4)),
        (r"syscall|sysenter", _Body(31, 1)),
        (r"f?xsave\w*|f?xrstor\w*", _Body(40, 1)),
        (r"enter", _Body(20, 1)),
    ]
]
# Setting up and, of each access, what counts, moves on and (where repeated) branches back.
_STRING = {
    "movs": (6, 2),
    "stos": (5, 3),
    "lods": (5, 3),
    "cmps": (7, 3),
    "scas": (6, 4),
    "ins": (10, 3),
    "outs": (10, 3),
}
_BRINGS_IMMEDIATE = re.compile(r"add|sub|and|or|xor|adc|sbb|cmp|test|imul")
_VECTOR: list[tuple[re.Pattern[str], _Body]] = [
    (re.compile(rf"v?(?:{pattern})\Z"), body)
    for pattern, body in [
        (r"movs[sd]", _SIMPLE),
        (r"mov[dq]", _Body(2)),
        (r"mov[hl]\w*p[sd]", _SIMPLE),
        (r"p?unpckl(?:qdq|pd)|pshuf[lh]w|unpcklpd", _SIMPLE),
        (r"pshufd|shufp[sd]|pack\w+|palignr|pmov[sz]x\w+|cvt\w+pd2\w+|hadd\w+|hsub\w+", _Body(3, 2, 0, 1)),
        # Into two temporary registers, each of which is read as it is written.
        (r"pmaddwd|pmaddubsw", _Body(6, 4, 0, 1, 2)),
        (r"pshufb|phadd\w+", _Body(6, 4, 1, 1)),
        (r"movmskp[sd]|pmovmskb", _Body(3, 2, 1, 1)),
        (r"p(?:sll|srl)dq", _Body(10, 2, 3, 1)),
        (r"cvtt?s[sd]2us?i|cvtt?s[sd]2s?i", _Body(2, 1, 0, 1)),
        (r"cvtu?si2s[sd]", _Body(2, 1, 1)),
        (r"pextr\w+|extractps|pinsr\w+|insertps", _Body(2, 1, 0, 1)),
        (r"rounds[sd]", _PAIR),
        (r"maskmov\w+", _Body(6, 2, 1, 1)),
        (r"ldmxcsr|stmxcsr", _SIMPLE),
        (r"zeroupper|zeroall", _SIMPLE),
        (r"(?!p)\w+s[sd]", _SIMPLE),  # scalar, unlike pmaxsd
    ]
]


def _find(rules: list[tuple[re.Pattern[str], _Body]], mnemonic: str) -> _Body | None:
    for pattern, body in rules:
        if pattern.match(mnemonic):
            return body
    return None


def crack(instruction: CsInsn, mnemonic: str, operation: Operation, accesses: int, atomic: bool) -> MicroOperations:
    """The micro-operations of one instruction with `accesses` loads and stores of any width (`mnemonic` without its
    prefixes).
    """
    operands = instruction.operands
    memory = next((o for o in operands if o.type == x86.X86_OP_MEM), None)
    relative = int(memory is not None and memory.mem.base == x86.X86_REG_RIP)
    immediate = int(bool(operands) and operands[-1].type == x86.X86_OP_IMM)
    names = [instruction.reg_name(o.reg) or "" for o in operands if o.type == x86.X86_OP_REG]
    if instruction.group(x86.X86_GRP_CALL):
        return MicroOperations(5 if immediate or memory is not None else 4, 1, 1)
    if mnemonic.startswith("ret"):
        return MicroOperations(5 if immediate else 3, 1)
    if operation is Operation.BRANCH:
        direct = mnemonic != "jmp" or immediate
        return MicroOperations(3 if direct else 1 + accesses + relative, 1, int(direct) or relative)
    if mnemonic.startswith("push"):
        return MicroOperations(1 + accesses + immediate + relative, 0, immediate or relative)
    if mnemonic == "leave":
        return MicroOperations(4, 0)
    if mnemonic.startswith("pop") and mnemonic != "popcnt":
        return MicroOperations(3 if accesses == 1 else 2 + accesses + relative, 0, relative, 1)
    if any(name[:1] in ("x", "y", "z") and name[1:3] == "mm" for name in names):
        if shifts_bytes(mnemonic, operands):
            return MicroOperations(8, 3, 0, 1)  # four of them find that it is by few bytes
        return _vector(mnemonic, operation, operands, relative, accesses, names)
    if mnemonic[-1:] in "bwdq" and mnemonic[:-1] in _STRING:
        return MicroOperations(*_STRING[mnemonic[:-1]])
    if mnemonic in ("nop", "pause", "endbr64", "endbr32"):
        return MicroOperations()
    if mnemonic == "bswap" and operands[0].size == HALF:
        mnemonic = "bswapq"
    return _integer(mnemonic, operation, relative, immediate, accesses, atomic)


def shifts_bytes(mnemonic: str, operands: list[X86Op]) -> bool:
    """Return whether it shifts a 128-bit register by no more than half of it: gem5's microcode branches on that."""
    return mnemonic in ("psrldq", "pslldq") and operands[-1].type == x86.X86_OP_IMM and operands[-1].imm <= HALF


def divide_steps(width: int) -> MicroOperations:
    """A divide of a dividend twice as wide as its `width` bytes: half of the quotient's bits are set, and gem5's
    microcode takes a step for each, in rounds of four and a branch.
    """
    steps = 3 + 4 * width
    return MicroOperations(10 + (steps - 7) * 5 // 4, steps, 0, 1)


def _integer(
    mnemonic: str, operation: Operation, relative: int, immediate: int, accesses: int, atomic: bool
) -> MicroOperations:
    body = _find(_INTEGER, mnemonic) or _SIMPLE
    moves = mnemonic.startswith("mov") and accesses > 0 and mnemonic[3:5] not in ("sx", "zx")
    total, compute, before, after, _ = body
    if moves or operation is Operation.NONE:
        total, compute = (0, 0) if accesses else (1, 1)
    brings = immediate and (bool(_BRINGS_IMMEDIATE.fullmatch(mnemonic)) or moves)
    before = max(before, int(brings), relative)
    if mnemonic == "xchg" and accesses:
        total, after = 1, 1
    total += accesses + int(brings) + relative + (2 if atomic else 0)  # a fence before and after what is locked
    # gem5's multiplies compute their flags from the registers of the product, so each waits for the one before.
    return MicroOperations(max(total, 1), compute, before, after, int(operation is Operation.INT_MUL))


def _vector(
    mnemonic: str, operation: Operation, operands: list[X86Op], relative: int, accesses: int, names: list[str]
) -> MicroOperations:
    memory = next((o for o in operands if o.type == x86.X86_OP_MEM), None)
    width = 64 if any(n[0] == "z" for n in names) else 32 if any(n[0] == "y" for n in names) else 16
    halves = width // HALF
    body = _find(_VECTOR, mnemonic)
    if body is None:
        body = _Body(halves, halves)
    elif width > 16 and body is not _SIMPLE:
        compute = max(body.compute * halves // 2, 1)
        body = body._replace(total=body.total * halves // 2, compute=compute)
    lanes = accesses * max(memory.size // HALF, 1) if memory is not None else accesses
    if memory is not None and _HALF_MOVES.fullmatch(mnemonic):
        lanes = accesses
    if memory is None and mnemonic in ("movd", "movq") and "mm" not in names[0]:
        body = _SIMPLE  # to an integer register
    if accesses and mnemonic.startswith(("cvtsi2", "vcvtsi2")):
        body = _SIMPLE  # loaded where it is converted
    total, compute, before, after, chained = body
    if operation is Operation.NONE:  # a pure load or store; half a register's load clears the other half
        loads = memory is not None and operands[0].type != x86.X86_OP_MEM
        if mnemonic.lstrip("v") in ("movntps", "movntpd", "movntdq"):
            lanes += 1  # it checks its upper half's address first
        clears = int(loads and mnemonic.lstrip("v") in ("movsd", "movss", "movq", "movd"))
        return MicroOperations(max(lanes + clears + relative, 1), 0, relative)
    if operation is Operation.MOVE and mnemonic.lstrip("v") not in ("movss", "movsd"):
        total = compute = halves
    return MicroOperations(max(total + lanes + relative, 1), compute, max(before, relative), after, chained)
