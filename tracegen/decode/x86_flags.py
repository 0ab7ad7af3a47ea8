"""Flag groups that an x86 instruction reads and writes.

Processors rename the status flags in groups, so that `inc` needs no carry and `adc` nothing but the carry: ZF, SF, PF
and AF together, CF, OF, and DF (AMD's and gem5's partition: `src/arch/x86/regs/ccr.hh`, with CF and OF apart as the
instructions' definitions have them, Intel SDM 1, appendix A). A group that is written in part, or perhaps not at all,
is read too: its old value stays.
"""

from __future__ import annotations

import re
from functools import cache

from capstone import CsInsn
from capstone import x86_const as x86

from uarch.instructions import CARRY_REGISTER, DIRECTION_REGISTER, FLAGS_REGISTER, OVERFLOW_REGISTER

_STATUS = (FLAGS_REGISTER, CARRY_REGISTER, OVERFLOW_REGISTER)
_LETTERS = {
    "ZF": FLAGS_REGISTER,
    "SF": FLAGS_REGISTER,
    "PF": FLAGS_REGISTER,
    "CF": CARRY_REGISTER,
    "OF": OVERFLOW_REGISTER,
    "DF": DIRECTION_REGISTER,
}  # AF goes with ZF and is read by nothing in 64-bit mode but lahf and pushf


def _bits(*kinds: str) -> dict[str, int]:
    return {
        letter: sum(getattr(x86, f"X86_EFLAGS_{kind}_{letter}", 0) for kind in kinds)
        | (x86.X86_EFLAGS_RESET_0F if letter == "OF" and "RESET" in kinds else 0)
        for letter in _LETTERS
    }


_TESTS, _CHANGES, _UNDEFINED = _bits("TEST"), _bits("MODIFY", "SET", "RESET"), _bits("UNDEFINED")
_SHIFTS = re.compile(r"sh[lr]d?|sal|sar|ro[lr]|rc[lr]")
_STRINGS = re.compile(r"(?:movs|stos|lods|cmps|scas|ins|outs)[bwdq]")
_DIRECTS = frozenset(("cld", "std", "popf", "popfd", "popfq"))
_COMPARES_FLOATS = re.compile(r"fu?comip?|fucompi|fcompi")
_WRITES_ALL = re.compile(r"test|cmpxchg|xadd|k(?:or)?test[bwdq]|lzcnt|v?pcmp[ei]str[im]")  # the disassembler errs


def groups(instruction: CsInsn, mnemonic: str, reads: bool, writes: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups read and written; `reads`, `writes`: whether the disassembler lists the flags among such registers."""
    operands = instruction.operands
    by_register = bool(operands) and operands[-1].type == x86.X86_OP_REG
    return _groups(mnemonic, instruction.eflags, reads, writes, by_register)


@cache
def _groups(
    mnemonic: str, bits: int, reads: bool, writes: bool, by_register: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    read: list[int] = []
    if mnemonic.startswith("fcmov"):
        condition = mnemonic.removeprefix("fcmov").removeprefix("n")
        read = {"b": [CARRY_REGISTER], "be": [CARRY_REGISTER, FLAGS_REGISTER]}.get(condition, [FLAGS_REGISTER])
    elif reads:
        read = [group for letter, group in _LETTERS.items() if bits & _TESTS[letter]]
        if mnemonic == "lahf":
            read = [FLAGS_REGISTER, CARRY_REGISTER]
        elif mnemonic.startswith("pushf"):
            read = [*_STATUS, DIRECTION_REGISTER]
        elif mnemonic == "adox":
            read = [OVERFLOW_REGISTER]
        elif _STRINGS.fullmatch(mnemonic):
            read = [DIRECTION_REGISTER]
    elif mnemonic in ("cmc", "rcl", "rcr"):
        read = [CARRY_REGISTER]
    written: list[int] = []
    if mnemonic.startswith("f") and writes and _COMPARES_FLOATS.fullmatch(mnemonic):
        written = [*_STATUS]  # the bits that the disassembler gives are the x87 status word's
    elif _WRITES_ALL.fullmatch(mnemonic):
        written = [*_STATUS]
    elif writes and not mnemonic.startswith("f"):
        changed = [one for one in _LETTERS if bits & _CHANGES[one] and (one != "DF" or mnemonic in _DIRECTS)]
        written = [*dict.fromkeys(_LETTERS[letter] for letter in changed)]
        if not bits:
            written = [*_STATUS]
        kept = [one for one in ("ZF", "SF", "PF") if not bits & (_CHANGES[one] | _UNDEFINED[one])]
        if FLAGS_REGISTER in written and kept and bits:
            read.append(FLAGS_REGISTER)
        if mnemonic.startswith(("rol", "ror", "rcl", "rcr")):
            written = [CARRY_REGISTER, OVERFLOW_REGISTER]
    if by_register and _SHIFTS.fullmatch(mnemonic):
        read += written  # by cl: by zero, it leaves them all
    return tuple(read), tuple(written)
