"""Use of `t1`, the first temporary register of gem5's x86 microcode, by instruction.

Immediates, and what is loaded to be computed with, go through it. A micro-operation of one or two bytes keeps the rest
of the register that it writes, so it reads it (`merge` in ldstop.isa, limmop.isa and regop.isa of
`src/arch/x86/isa/microops`): a load of a byte waits for the one before it, until an instruction writes all of it.
"""

from __future__ import annotations

import re

from capstone import x86_const as x86
from capstone.x86 import X86Op

from uarch.instructions import Temporary

WHOLE = 4  # bytes of a write that keeps nothing

_LOADS = re.compile(
    r"add|sub|and|or|xor|adc|sbb|cmp|test|imul|mul|mov[sz]xd?|cmov\w+|inc|dec|neg|not|s[ha][lr]d?|r[oc][lr]|bt[src]?|xadd"
    r"|xchg|cmpxchg|popcnt|push\w*|pop\w*|ldmxcsr|pinsr[bwdq]|(?:movs|cmps|scas)[bwdq]|call|jmp|ret\w*"
)
_KEEPS_LOADED = re.compile(r"push\w*|pop\w*|movs[bwdq]|call|xchg|xadd")  # of those that store
_IMMEDIATES = re.compile(r"add|sub|and|or|xor|adc|sbb|cmp|test|imul|not|mov|push\w*")
_AT_ONCE = re.compile(
    r"j(?!mp)\w+|loop\w*|call|bt[src]|idiv|xlatb|leave|enter|syscall|int\d?|rdtscp?|[ls]ahf|pushf\w*|cl[cd]|st[cd]|cmc"
    r"|stmxcsr|rounds[sd]"
)
_COMPUTED = re.compile(r"set\w+|pextr[bwdq]")
_SCANS = re.compile(r"bs[fr]|[lt]zcnt")  # gem5 takes the second for the first
_ADDRESSES = re.compile(r"(?:and|or|xor|andn)p[sd]|pandn?|por|pxor|p?unpckh\w+")  # of vectors in memory


def temporary(mnemonic: str, operands: list[X86Op], loads: bool, stores: bool) -> Temporary:
    """Return the use by an instruction, without prefixes, that loads and stores or not."""
    memory = next((operand for operand in operands if operand.type == x86.X86_OP_MEM), None)
    immediate = bool(operands) and operands[-1].type == x86.X86_OP_IMM
    width = memory.size if memory is not None else operands[0].size if operands else 8
    merged = Temporary.MERGED if width < WHOLE else Temporary(0)
    if mnemonic == "div":
        return Temporary.COMPUTED | merged
    if _SCANS.fullmatch(mnemonic):
        return Temporary.COMPUTED | Temporary.CONDITIONS | merged
    if memory is not None and _ADDRESSES.fullmatch(mnemonic):
        return Temporary.AT_ONCE
    if loads and ((mnemonic == "mov" and width < WHOLE) or (mnemonic == "movsx" and width == 2)):
        return Temporary.MERGES_LOADED
    if loads and _LOADS.fullmatch(mnemonic) and not (mnemonic == "imul" and immediate):
        computed = stores and not _KEEPS_LOADED.fullmatch(mnemonic)
        return (Temporary.COMPUTED if computed else Temporary.LOADED) | merged
    if mnemonic in ("movzx", "movsx"):
        return Temporary.COMPUTED | Temporary.MERGED if operands[1].size == 1 else Temporary(0)
    if mnemonic == "bswap":
        return Temporary.COMPUTED if width > WHOLE else Temporary(0)
    if (immediate or mnemonic == "not") and _IMMEDIATES.fullmatch(mnemonic):
        if mnemonic == "mov" and memory is None:
            return Temporary(0)
        return Temporary.AT_ONCE | merged
    if _AT_ONCE.fullmatch(mnemonic) or (mnemonic == "jmp" and immediate):
        return Temporary.AT_ONCE
    if mnemonic == "xchg" or (memory is not None and _COMPUTED.fullmatch(mnemonic)):
        return Temporary.COMPUTED | merged
    return Temporary(0)
