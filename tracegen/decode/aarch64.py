"""AArch64: operation class, registers and micro-operations of one instruction, from capstone's operands.

w and x registers are one, and b, h, s, d, q and v: a write of a part clears the rest (Arm ARM, §B1.2.1), but for what
inserts into a lane. N, Z, C and V are one register: all instructions but `_FLAG_MANIPULATION` write all four.
"""

from __future__ import annotations

import re

from capstone import CsInsn
from capstone import arm64_const as arm

from tracegen.decode.decoded import Decoded, MicroOperations, distinct, one_each
from uarch.instructions import FLAGS_REGISTER, OTHER_REGISTER, VECTOR_REGISTERS, Flag, Operation

_SP, _LINK = 31, 30
_CALLS = re.compile(r"blr?\w*\Z")
_RETURNS = re.compile(r"ret\w*|eret\Z")
_CONDITIONAL = re.compile(r"b\..+|cbn?z|tbn?z")
_LOADS = re.compile(r"ld(?!g)\w+")
_STORES = re.compile(r"st(?!g)\w+")
_ATOMIC = re.compile(r"(?:cas|swp|(?:ld|st)(?:add|clr|eor|set|[su]m(?:ax|in)))[abhlp]*\Z")
_EXCLUSIVE_LOAD = re.compile(r"lda?xp?[rbhp]\w*")
_EXCLUSIVE_STORE = re.compile(r"stl?x[rp][bh]?")
_COMPARES = re.compile(r"cmp|cmn|tst|ccmp|ccmn|fcmpe?|fccmpe?")
_READ_FLAGS = re.compile(
    r"b\..+|csel|csinc|csinv|csneg|cset|csetm|cinc|cinv|cneg|fcsel|ccm[pn]|fccmpe?|adcs?|sbcs?|ngcs?"
)
_SETS_FLAGS = re.compile(r"(?:add|sub|and|bic|adc|sbc|neg|ngc)s|cmp|cmn|tst|ccmp|ccmn|fcmpe?|fccmpe?")
# Accumulating, inserting and bitwise-select forms; narrowing into the upper half (`xtn2`) keeps the lower one.
_READS_DESTINATION = re.compile(
    r"movk|bfi|bfc|bfm|bfxil|ins|[su]q?r?d?ml[as]l?2?h?|[su]?ml[as]l?2?|sqrdml[as]h|sqdml[as]l2?|fml[as](?:l2?)?|fcmla"
    r"|bsl|bit|bif|[us]{1,2}dot|bfdot|us?mmla|smmla|bfmmla|bfmlal[bt]|tbx|sha1[cpm]|sha\d+su\d|sha(?:256|512)h2?|aes[ed]"
    r"|sli|sri|[su]abal?2?|[su]adalp|[su]r?sra|suqadd|usqadd"
    r"|(?:xtn|[su]qxtn|sqxtun|b?fcvtn|fcvtxn|q?r?shrn|[su]q?r?shrn|sqr?shrun|r?addhn|r?subhn)2"
)
_FLAG_MANIPULATION = frozenset(("cfinv", "rmif", "setf8", "setf16", "axflag", "xaflag"))
_BARRIERS = frozenset(("dmb", "dsb", "isb"))
_SYSTEM = frozenset(("dc", "ic", "at", "tlbi", "sys"))  # operations on what a register names
_STRUCTURE_LOAD = re.compile(r"ld[1-4]r?$")
_PAIRS = re.compile(r"(ld|st)n?p(?:sw)?")
_STRUCTURE = re.compile(r"(ld|st)[1-4]r?")
_ARRANGED = re.compile(r"v\d+\.(\d*)([bhsd])")
_ELEMENT = {"b": 1, "h": 2, "s": 4, "d": 8}  # bytes
_FLOAT_MOVES = re.compile(r"fmov|fneg|fabs|frint[a-z]")  # gem5's FloatMisc (src/arch/arm/isa/insts/fp64.isa)

# (scalar or integer form, vector form), first match counts.
_RULES: list[tuple[re.Pattern[str], Operation, Operation]] = [
    (re.compile(rf"(?:{pattern})\Z"), scalar, vector)
    for pattern, scalar, vector in [
        (r"nop|hint|yield|bti|prfm|prfum|paciasp|autiasp|xpaclri", Operation.NONE, Operation.NONE),
        (r"svc|hvc|smc|brk|hlt|mrs|msr|sys|dc|ic|tlbi|at|dmb|dsb|isb|clrex", Operation.SYSTEM, Operation.SYSTEM),
        (r"movz?|movn|fmov|mvn?", Operation.MOVE, Operation.MOVE),
        (r"mul|madd|msub|mneg|[su]mull|[su]maddl|[su]msubl|[su]mulh|[su]mnegl", Operation.INT_MUL, Operation.SIMD_MUL),
        (r"[su]div", Operation.INT_DIV, Operation.INT_DIV),
        (r"aes\w+|sha\d\w+|pmull2?|crc32\w+", Operation.CRYPTO, Operation.CRYPTO),
        (r"fn?madd|fn?msub|fml[as](?:l2?)?|fcmla|bfdot|bfmmla|bfmlal[bt]", Operation.FP_FMA, Operation.SIMD_FP_FMA),
        (r"fn?mulx?", Operation.FP_MUL, Operation.SIMD_FP_MUL),
        (r"fdiv|frecpe", Operation.FP_DIV, Operation.SIMD_FP_DIV),
        (r"fsqrt|frsqrte", Operation.FP_SQRT, Operation.SIMD_FP_SQRT),
        (r"f\w+|bfcvt(?:n2?)?|[su]cvtf", Operation.FP_ADD, Operation.SIMD_FP_ADD),
        (
            r"p?mul|[su]?q?r?d?mull?\w*|[su]?q?r?d?ml[as]l?2?h?|[us]{1,2}dot|us?mmla|smmla",
            Operation.INT_MUL,
            Operation.SIMD_MUL,
        ),
    ]
]


def decode_instruction(instruction: CsInsn) -> Decoded:
    """One instruction with capstone's detail."""
    mnemonic = instruction.mnemonic
    operands = instruction.operands
    branch = _branch_flags(mnemonic)
    registers = [(_number(instruction.reg_name(o.reg)), o.vas != 0) for o in operands if o.type == arm.ARM64_OP_REG]
    memory = [o for o in operands if o.type == arm.ARM64_OP_MEM]
    vector = any(arranged for _, arranged in registers)
    atomic = bool(_ATOMIC.match(mnemonic))
    load = (bool(_LOADS.match(mnemonic)) or atomic) and bool(memory or "lit" in mnemonic or _is_literal(operands))
    store = (bool(_STORES.match(mnemonic)) or atomic) and bool(memory)
    zeroes = mnemonic == "dc" and instruction.op_str.startswith(("zva", "gzva"))
    store |= zeroes
    flags = branch
    flags |= (Flag.LOAD if load else Flag(0)) | (Flag.STORE if store else Flag(0))
    if atomic or _EXCLUSIVE_LOAD.match(mnemonic):
        flags |= Flag.ATOMIC
    if _EXCLUSIVE_STORE.match(mnemonic):
        flags |= Flag.STORE_CONDITIONAL
    if mnemonic in _BARRIERS:
        flags |= Flag.BARRIER
    if mnemonic == "isb" or (mnemonic == "msr" and "nzcv" not in instruction.op_str):  # as of gem5's `Msr64`
        flags |= Flag.SERIALIZING
    if mnemonic == "svc":
        flags |= Flag.SYSCALL | Flag.SERIALIZING

    address = distinct(_number(instruction.reg_name(r)) for o in memory for r in (o.mem.base, o.mem.index) if r)
    plain = [number for number, _ in registers]
    if zeroes:
        address, plain = distinct(plain), []
    data: list[int | None]
    results: list[int | None]
    if branch:
        data, results = plain, []
        if branch & Flag.CALL:
            results = [_LINK]
        elif branch & Flag.RETURN and not plain:
            data = [_LINK]
    elif _COMPARES.fullmatch(mnemonic) or (store and not atomic and not flags & Flag.STORE_CONDITIONAL):
        data, results = plain, []
    elif flags & Flag.STORE_CONDITIONAL:
        data, results = plain[1:], plain[:1]
    elif mnemonic.startswith("cas"):  # the compared registers receive what was there
        half = len(plain) // 2
        data, results = plain, plain[:half]
    elif atomic:
        data, results = plain[:1], plain[1:]
    elif load:
        count = 2 if mnemonic.startswith(("ldp", "ldnp", "ldxp", "ldaxp", "ldpsw")) else max(len(plain), 1)
        data, results = [], plain[:count]
        if _STRUCTURE_LOAD.match(mnemonic):  # ld1 {v0.4s}, [x1], x2: what is added to the address afterwards is read
            results = [number for number in plain if number is not None and number >= VECTOR_REGISTERS]
            data = [number for number in plain if number not in results]
        if "[" in instruction.op_str.split("}")[-1].split(",")[0]:  # ld1 {v0.s}[1], …: a lane, the others stay
            data = [*data, *results]
    elif mnemonic == "mrs":
        data, results = [FLAGS_REGISTER if "nzcv" in instruction.op_str else OTHER_REGISTER], plain
    elif mnemonic == "msr":
        data, results = plain, [FLAGS_REGISTER if "nzcv" in instruction.op_str else OTHER_REGISTER]
    elif mnemonic in _FLAG_MANIPULATION:
        data, results = [*plain, FLAGS_REGISTER], [FLAGS_REGISTER]
    elif mnemonic in _SYSTEM:
        data, results = plain, []
    elif mnemonic == "svc":  # Linux takes the call's number in x8 and answers in x0
        data, results = [8], [0]
    else:
        data, results = plain[1:], plain[:1]
        into_lane = "[" in instruction.op_str.split(",")[0]  # mov v0.s[1], w0: the other lanes stay
        immediate_logic = len(plain) == 1 and mnemonic in ("orr", "bic")  # orr v0.4s, #1
        if _READS_DESTINATION.fullmatch(mnemonic) or into_lane or immediate_logic:
            data = plain
    if _READ_FLAGS.fullmatch(mnemonic):
        data = [*data, FLAGS_REGISTER]
    if _SETS_FLAGS.fullmatch(mnemonic):
        results = [*results, FLAGS_REGISTER]
    if memory and instruction.writeback:
        results = [*results, address[0]]

    operation = _operation(mnemonic, vector, any(n is not None and n >= VECTOR_REGISTERS for n in plain))
    if branch:
        operation = Operation.BRANCH
    elif load or store:
        operation = Operation.INT_ALU if atomic else Operation.NONE
    if operation.name.startswith("SIMD"):
        flags |= Flag.VECTOR
    if "FP" in operation.name:
        flags |= Flag.FLOAT
    moves_base = bool(memory and instruction.writeback)
    cracked = _of_access(mnemonic, instruction.op_str, moves_base) if load != store else None
    cracked = cracked or one_each(operation, int(load) + int(store), int(moves_base))
    scalar = not vector and any(n is not None and VECTOR_REGISTERS <= n < FLAGS_REGISTER for n in plain)
    return Decoded(
        operation,
        flags,
        address,
        distinct(data),
        distinct(results),
        cracked,
        vector_unit=operation is Operation.MOVE and vector,
        float_move=scalar and bool(_FLOAT_MOVES.fullmatch(mnemonic)),
    )


def _of_access(mnemonic: str, operands: str, moves_base: bool) -> MicroOperations | None:
    """Micro-operations of accesses that gem5 splits (src/arch/arm/insts/macromem.cc), None for all others.

    - Pairs (PairMemOp): the address where it is not the base's (all but post-indexed ones); one load of both (two of q
      registers), a store of each (each half of a q register; one of both w or s registers); the new base.
    - A store of a q register (BigFpMem…Op): its halves; the new base.
    - Structures (V{ld,st}{Mult,Single}Op64): an access for each 16 bytes; those that spread what was loaded over the
      registers, or collect what is stored; the new base.
    """
    if pair := _PAIRS.fullmatch(mnemonic):
        bytes_each = {"q": 16, "d": 8, "x": 8}.get(operands[0], 4) if mnemonic != "ldpsw" else 4
        forms_address = not (moves_base and "]," in operands)
        accesses = (bytes_each + 4) // 8 if pair[1] == "ld" else bytes_each // 4
        return MicroOperations(accesses + forms_address + moves_base, 0, int(forms_address))
    if mnemonic.startswith(("str", "stur")) and operands.startswith("q"):
        return MicroOperations(2 + moves_base, 0)
    if (structure := _STRUCTURE.fullmatch(mnemonic)) and (found := _ARRANGED.findall(operands)):
        registers, (lanes, element) = len(found), found[0]
        count = registers * _ELEMENT[element] * (int(lanes) if lanes and not mnemonic.endswith("r") else 1)
        load = structure[1] == "ld"
        others = (registers + 1) // 2 if load else 1 + (count > 32)
        return MicroOperations((count + 15) // 16 + others + moves_base, 0, int(not load), int(load))
    return None


def _operation(mnemonic: str, vector: bool, any_vector_register: bool) -> Operation:
    for pattern, scalar, packed in _RULES:
        if pattern.match(mnemonic):
            if scalar is Operation.MOVE and not vector:
                return Operation.MOVE
            return packed if vector or (any_vector_register and scalar is Operation.INT_MUL) else scalar
    return Operation.SIMD_INT if any_vector_register else Operation.INT_ALU


def _is_literal(operands: list[object]) -> bool:
    """A PC-relative load (`ldr x0, label`) has a register and an immediate."""
    return len(operands) == 2 and getattr(operands[1], "type", None) == arm.ARM64_OP_IMM


def _branch_flags(mnemonic: str) -> Flag:
    if mnemonic == "b":
        return Flag.BRANCH
    if _CONDITIONAL.fullmatch(mnemonic):
        return Flag.BRANCH | Flag.CONDITIONAL
    if _RETURNS.fullmatch(mnemonic):
        return Flag.BRANCH | Flag.RETURN | Flag.INDIRECT
    if mnemonic.startswith("br") and mnemonic != "brk":
        return Flag.BRANCH | Flag.INDIRECT
    if _CALLS.fullmatch(mnemonic):
        return Flag.BRANCH | Flag.CALL | (Flag.INDIRECT if mnemonic.startswith("blr") else Flag(0))
    return Flag(0)


def _number(name: str | None) -> int | None:
    """Register number with aliases collapsed; None for the zero registers."""
    if not name or name in ("xzr", "wzr"):
        return None
    if name in ("sp", "wsp"):
        return _SP
    if name in ("fp", "lr"):
        return 29 if name == "fp" else _LINK
    if name == "nzcv":
        return FLAGS_REGISTER
    if name[1:].isdigit():
        if name[0] in "xw":
            return int(name[1:])
        if name[0] in "vqdshb":
            return VECTOR_REGISTERS + int(name[1:])
    return OTHER_REGISTER
