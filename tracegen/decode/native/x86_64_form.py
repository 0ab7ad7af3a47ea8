"""The form of an instruction of x86-64: its mnemonic and the kinds of its operands, as tables of latency have it."""

from __future__ import annotations

from capstone import CsInsn
from capstone import x86_const as x86
from capstone.x86 import X86Op

SAME = " same"  # the registers that it reads are one: a zero idiom, perhaps


def form(instruction: CsInsn) -> str:
    """Mnemonic and operands in Intel's order: r64, m128 (a memory operand of so many bits), i, x, y, z, k, f (x87 or
    MMX), cl; of `lea` m1 to m3, the parts of the address. ` same` where its sources are one register.
    """
    operands = instruction.operands
    mnemonic = instruction.mnemonic
    kinds = [_kind(instruction, operand, mnemonic) for operand in operands]
    registers = [operand.reg for operand in operands if operand.type == x86.X86_OP_REG]
    same = SAME if len(registers) == len(operands) > 1 and registers[-1] == registers[-2] else ""
    return f"{mnemonic} {','.join(kinds)}".rstrip() + same


def _kind(instruction: CsInsn, operand: X86Op, mnemonic: str) -> str:
    if operand.type == x86.X86_OP_IMM:
        return "i"
    if operand.type == x86.X86_OP_MEM:
        if mnemonic == "lea":
            memory = operand.mem
            return f"m{(memory.base != 0) + (memory.index != 0) + (memory.disp != 0)}"
        return f"m{operand.size * 8}"
    name = instruction.reg_name(operand.reg) or ""
    if name[:1] in "xyz" and name[1:3] == "mm":
        return name[0]
    if name == "cl":
        return "cl"
    if name.startswith(("st", "mm")):
        return "f"
    return "k" if name[:1] == "k" else f"r{operand.size * 8}"


def slow_address(instruction: CsInsn) -> bool:
    """Return whether the memory operand's address has a scaled index, or three parts."""
    memory = next((operand.mem for operand in instruction.operands if operand.type == x86.X86_OP_MEM), None)
    return memory is not None and memory.index != 0 and (memory.scale > 1 or (memory.base != 0 and memory.disp != 0))


def of_registers(name: str) -> list[str]:
    """Forms with a register in place of the memory operand, the likely ones first; none without a memory operand."""
    mnemonic, _, rest = name.partition(" ")
    kinds = rest.split(",")
    place = next((k for k, kind in enumerate(kinds) if kind[:1] == "m" and kind[1:].isdigit()), None)
    if place is None:
        return []
    bits = int(kinds[place][1:])
    vectors = [kind for kind in kinds if kind in ("x", "y", "z")]
    wide = "x" if bits <= 128 else "y" if bits == 256 else "z"
    choices = [wide, f"r{bits}"] if vectors else [f"r{bits}"]
    return [f"{mnemonic} {','.join([*kinds[:place], kind, *kinds[place + 1 :]])}" for kind in choices]
