"""The form of an instruction of AArch64: its text, with kinds in place of registers and numbers.

`ldp x,x,[x],i` is a post-indexed load of two 64-bit registers, `add x,x,w,ext` an addition of an extended register,
`fmla 4s,4s,s[]` one of vectors by an element.
"""

from __future__ import annotations

import re

from capstone import CsInsn

_CHEAP_SHIFT = 4  # by as much at most addition is as quick as without (LLVM's `IsCheapLSL`)
_TOKEN = re.compile(
    r"(?P<number>#-?[\w.]+)"
    r"|v\d+\.(?P<lanes>\w+)(?P<element>\[\w+\])?"
    r"|\b(?P<general>[xw])(?:\d+|zr)\b|\b(?P<stack>w?sp)\b|\b(?P<float>[bhsdq])\d+\b|\b(?P<frame>fp|lr)\b"
    r"|\b(?P<extend>[us]xt[bhwx])\b(?: #\d+)?"
    r"|\b(?P<condition>eq|ne|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al|nv)\b"
)
_NAMED = frozenset(("mrs", "msr", "dmb", "dsb", "isb", "prfm", "prfum", "sys", "dc", "ic", "at", "tlbi"))
_SHIFT = re.compile(r",lsl #(\w+)\Z")
_OFFSET = re.compile(r",i\]")


def form(instruction: CsInsn) -> str:
    """Mnemonic and operands in assembly's order: x and w (general registers), b, h, s, d and q (of a vector's file),
    4s, 16b, … (arranged vectors), s[] (an element), i (a number), c (a condition), ext (an extension of a register);
    `lsl 1-4` where an operand is moved by so few places. An address's offset and its absence are alike.
    """
    mnemonic, text = instruction.mnemonic, instruction.op_str.replace(", ", ",")
    if mnemonic in _NAMED:
        return mnemonic
    if not text:
        return mnemonic
    if (shift := _SHIFT.search(text)) is not None and text.count("#") == 1:
        places = int(shift[1], 0)
        text = text[: shift.start()] + (",lsl 1-4" if places <= _CHEAP_SHIFT else ",lsl #0")
    return f"{mnemonic} {_OFFSET.sub(']', _TOKEN.sub(_kind, text))}"


def _kind(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found.group()
    if kind in ("number", "condition"):
        return kind[0] if kind == "condition" else "i"
    if kind in ("lanes", "element"):
        return found["lanes"] + ("[]" if found["element"] else "")
    if kind in ("stack", "general"):
        return "w" if text.startswith("w") else "x"
    if kind == "frame":
        return "x"
    return "ext" if kind == "extend" else found["float"]
