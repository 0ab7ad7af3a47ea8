"""RISC-V (RV64GC): operation class, registers and micro-operations of one instruction, from capstone's operands.

Floating-point arithmetic accrues its exceptions in `fflags`: it writes them and, as accruing commutes, does not read
them (unprivileged specification, §11.2). The rounding mode is with the other control registers. Reading or writing any
drains the pipeline (gem5's CSR instructions, src/arch/riscv/isa/decoder.isa).
"""

from __future__ import annotations

import re

from capstone import CsInsn
from capstone import riscv_const as riscv

from tracegen.decode.decoded import Decoded, distinct, one_each
from uarch.instructions import FLAGS_REGISTER, OTHER_REGISTER, VECTOR_REGISTERS, Flag, Operation

_LINKS = (1, 5)  # ra, t0 (unprivileged specification, table 3)
_INTEGER = "zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6".split()
_FLOATING = (
    "ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1 fa0 fa1 fa2 fa3 fa4 fa5 fa6 fa7 "
    "fs2 fs3 fs4 fs5 fs6 fs7 fs8 fs9 fs10 fs11 ft8 ft9 ft10 ft11"
).split()
_REGISTER: dict[str, int | None] = {name: number for number, name in enumerate(_INTEGER)}
_REGISTER["zero"] = None
_REGISTER.update({name: VECTOR_REGISTERS + number for number, name in enumerate(_FLOATING)})

# The B extension and Zbc, which capstone 5 does not know, by opcode, the highest bits (7 where there are two registers,
# 6 with a number, 12 with one register) and funct3.
_OP, _OP_32, _OP_IMM, _OP_IMM_32 = 0x33, 0x3B, 0x13, 0x1B
_OF_TWO = {
    _OP: {
        0x05: {1: "clmul", 2: "clmulr", 3: "clmulh", 4: "min", 5: "minu", 6: "max", 7: "maxu"},
        0x10: {2: "sh1add", 4: "sh2add", 6: "sh3add"},
        0x14: {1: "bset"},
        0x20: {4: "xnor", 6: "orn", 7: "andn"},
        0x24: {1: "bclr", 5: "bext"},
        0x30: {1: "rol", 5: "ror"},
        0x34: {1: "binv"},
    },
    _OP_32: {0x04: {0: "add.uw"}, 0x10: {2: "sh1add.uw", 4: "sh2add.uw", 6: "sh3add.uw"}, 0x30: {1: "rolw", 5: "rorw"}},
}
_OF_NUMBER = {
    _OP_IMM: {0x0A: {1: "bseti"}, 0x12: {1: "bclri", 5: "bexti"}, 0x18: {5: "rori"}, 0x1A: {1: "binvi"}},
    _OP_IMM_32: {0x02: {1: "slli.uw"}, 0x18: {5: "roriw"}},
}
_OF_ONE = {
    _OP_32: {0x080: {4: "zext.h"}},
    _OP_IMM: {
        0x287: {5: "orc.b"},
        0x600: {1: "clz"},
        0x601: {1: "ctz"},
        0x602: {1: "cpop"},
        0x604: {1: "sext.b"},
        0x605: {1: "sext.h"},
        0x6B8: {5: "rev8"},
    },
    _OP_IMM_32: {0x600: {1: "clzw"}, 0x601: {1: "ctzw"}, 0x602: {1: "cpopw"}},
}

_LOADS = re.compile(r"f?l[bhwdq]u?(?:sp)?")
_STORES = re.compile(r"f?s[bhwdq](?:sp)?")
_FLOAT_MOVES = re.compile(r"fmv\.[sdh]\Z|fsgnj|fneg|fabs|fclass")  # gem5's FloatMisc (src/arch/riscv/isa/decoder.isa)
_EXACT = re.compile(r"fmv|fsgnj|fneg|fabs|fclass")  # raise nothing
_RULES: list[tuple[re.Pattern[str], Operation]] = [
    (re.compile(rf"(?:{pattern})\Z"), operation)
    for pattern, operation in [
        (r"nop|unimp", Operation.NONE),
        (
            r"ecall|ebreak|fence\S*|csr\w+|rd(?:cycle|time|instret)h?|fr?csr|fs?csr|frrm|fsrm|frflags|fsflags|wfi",
            Operation.SYSTEM,
        ),
        (r"mv|li|lui|fmv\.[sd]", Operation.MOVE),
        (r"mul\w*", Operation.INT_MUL),
        (r"(?:div|rem)\w*", Operation.INT_DIV),
        (r"fn?m(?:add|sub)\.\w", Operation.FP_FMA),
        (r"fmul\.\w", Operation.FP_MUL),
        (r"fdiv\.\w", Operation.FP_DIV),
        (r"fsqrt\.\w", Operation.FP_SQRT),
        (r"f\w+\.\S+", Operation.FP_ADD),
    ]
]


def decode_instruction(instruction: CsInsn) -> Decoded:
    """One instruction with capstone's detail (which gives no register access for RISC-V: the operand order tells)."""
    mnemonic = instruction.mnemonic
    compressed = mnemonic.startswith("c.")
    name = mnemonic.removeprefix("c.")
    registers = [
        _REGISTER.get(instruction.reg_name(o.reg), OTHER_REGISTER)
        for o in instruction.operands
        if o.type == riscv.RISCV_OP_REG
    ]
    bases = [
        _REGISTER.get(instruction.reg_name(o.mem.base), OTHER_REGISTER)
        for o in instruction.operands
        if o.type == riscv.RISCV_OP_MEM
    ]
    word = int.from_bytes(instruction.bytes, "little")
    if (jump := _jump(word)) is not None:
        linked, target = jump
        return Decoded(Operation.BRANCH, _jump_flags(linked, target), (), _used(target), _used(linked))
    if name.startswith("b") and registers:
        return Decoded(Operation.BRANCH, Flag.BRANCH | Flag.CONDITIONAL, (), distinct(registers))

    if name.startswith(("lr.", "sc.", "amo")):
        base = distinct(registers[-1:])
        conditional = name.startswith("sc.")
        load, store = not conditional, not name.startswith("lr.")
        flags = Flag.STORE_CONDITIONAL if conditional else Flag.ATOMIC
        flags |= (Flag.LOAD if load else Flag(0)) | (Flag.STORE if store else Flag(0))
        operation = Operation.INT_ALU if name.startswith("amo") else Operation.NONE
        count = one_each(operation, int(load) + int(store))
        return Decoded(operation, flags, base, distinct(registers[1:-1]), distinct(registers[:1]), count)
    if _LOADS.fullmatch(name) and len(registers) + len(bases) >= 2:
        address, count = distinct(bases or registers[1:]), one_each(Operation.NONE, 1)
        return Decoded(Operation.NONE, Flag.LOAD, address, (), distinct(registers[:1]), count)
    if _STORES.fullmatch(name) and len(registers) + len(bases) >= 2:
        address, count = distinct(bases or registers[1:]), one_each(Operation.NONE, 1)
        return Decoded(Operation.NONE, Flag.STORE, address, distinct(registers[:1]), (), count)

    if word & 0x7F == 0x73 and word >> 12 & 3:
        return Decoded(Operation.SYSTEM, Flag.SERIALIZING, (), *_control_registers(word))
    operation = next((operation for pattern, operation in _RULES if pattern.match(name)), Operation.INT_ALU)
    flags = Flag.FLOAT if operation.name.startswith("FP") else Flag(0)
    if name.startswith("fence"):
        flags |= Flag.BARRIER
    if name == "ecall":
        flags |= Flag.SYSCALL | Flag.SERIALIZING
    # Two-operand compressed forms read their destination (c.add a0, a1), except moves and constants.
    reads_destination = compressed and name not in ("mv", "li", "lui", "addi4spn", "nop")
    data = registers if reads_destination else registers[1:]
    if name == "ecall":  # Linux takes the call's number in a7 and answers in a0
        data, registers = [17], [10]
    elif name.startswith(("fence", "sfence")):
        data, registers = registers, []
    accrues = [FLAGS_REGISTER] if Flag.FLOAT in flags and not _EXACT.match(name) else []
    moves = bool(_FLOAT_MOVES.match(name))
    return Decoded(operation, flags, (), distinct(data), distinct([*registers[:1], *accrues]), float_move=moves)


def decode_beyond(code: bytes) -> tuple[str, Decoded] | None:
    """Text and meaning of an instruction that capstone does not know; None where it is unknown here, too."""
    word = int.from_bytes(code[:4], "little")
    opcode, kind, one, two = word & 0x7F, word >> 12 & 7, word >> 15 & 31, word >> 20 & 31
    others: tuple[int, ...] = (one,)
    operands = ""
    if (name := _OF_TWO.get(opcode, {}).get(word >> 25, {}).get(kind)) is not None:
        others, operands = (one, two), f", {_INTEGER[two]}"
    elif (name := _OF_NUMBER.get(opcode, {}).get(word >> 26, {}).get(kind)) is not None:
        operands = f", {word >> 20 & 63}"
    elif (name := _OF_ONE.get(opcode, {}).get(word >> 20, {}).get(kind)) is None:
        return None
    destination = word >> 7 & 31
    operation = Operation.INT_MUL if name.startswith("clmul") else Operation.INT_ALU
    data, results = (distinct(number or None for number in numbers) for numbers in (others, (destination,)))
    text = f"{name} {_INTEGER[destination]}, {_INTEGER[one]}{operands}"
    return text, Decoded(operation, Flag(0), (), data, results)


def _control_registers(word: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Registers that a Zicsr instruction reads and writes (unprivileged specification, §6.1): the disassembler prints
    most of them by names that do not tell which operand is which.
    """
    number, source, destination = word >> 20, word >> 15 & 31, word >> 7 & 31
    swaps, immediate = word >> 12 & 3 == 1, bool(word >> 14 & 1)
    own = {1: [FLAGS_REGISTER], 3: [FLAGS_REGISTER, OTHER_REGISTER]}.get(number, [OTHER_REGISTER])
    data = [*([source] if source and not immediate else []), *(own if destination or not swaps else [])]
    results = [*([destination] if destination else []), *(own if swaps or source else [])]
    return distinct(data), distinct(results)


def _jump(word: int) -> tuple[int, int | None] | None:
    """Register that a jump links (0: none) and the one that it goes to (None: a distance); None for all others."""
    rd, rs1 = word >> 7 & 31, word >> 15 & 31
    if word & 0x7F == 0x6F:  # jal
        return rd, None
    if word & 0x707F == 0x67:  # jalr
        return rd, rs1
    if word & 0xE003 == 0xA001:  # c.j
        return 0, None
    if word & 0xE07F == 0x8002 and rd:  # c.jr, c.jalr
        return word >> 12 & 1, rd
    return None


def _jump_flags(linked: int, target: int | None) -> Flag:
    """Kind of a jump, by the hints on return addresses (unprivileged specification, §2.5.1); what swaps them calls."""
    flags = Flag.BRANCH | (Flag(0) if target is None else Flag.INDIRECT)
    if linked in _LINKS:
        return flags | Flag.CALL
    return flags | Flag.RETURN if target in _LINKS else flags


def _used(register: int | None) -> tuple[int, ...]:
    return (register,) if register else ()
