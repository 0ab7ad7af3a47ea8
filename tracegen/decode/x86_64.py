"""x86-64: operation class, registers and accesses of one instruction, from capstone's operands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from capstone import CsInsn
from capstone import x86_const as x86
from capstone.x86 import X86Op

from tracegen.decode import x86_flags
from tracegen.decode.decoded import Decoded, distinct
from tracegen.decode.x86_micro_operations import crack, divide_steps, shifts_bytes
from tracegen.decode.x86_temporary import temporary
from uarch.instructions import (
    FLAGS_REGISTER,
    MASK_REGISTERS,
    MERGES_RESULT,
    OTHER_REGISTER,
    VECTOR_REGISTERS,
    X87_REGISTER,
    Flag,
    Interruption,
    Operation,
)

_NUMBERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
RAX, RDX, RSP, RDI = (_NUMBERS.index(name) for name in ("rax", "rdx", "rsp", "rdi"))


def _register_numbers() -> tuple[dict[str, int], frozenset[str]]:
    """Name of every register → its number with aliases collapsed; and the names of 8- and 16-bit parts."""
    numbers: dict[str, int] = {}
    partial: set[str] = set()
    for number, name in enumerate(_NUMBERS):
        if number < 8:
            base = name[1:]
            parts = [base, base[0] + "l", base[0] + "h"] if number < 4 else [base, base + "l"]
            wide = [name, "e" + base]
        else:
            parts = [name + "w", name + "b"]
            wide = [name, name + "d"]
        partial.update(parts)
        numbers.update(dict.fromkeys(wide + parts, number))
    for number in range(32):
        numbers.update(dict.fromkeys((f"xmm{number}", f"ymm{number}", f"zmm{number}"), VECTOR_REGISTERS + number))
    for number in range(8):
        numbers[f"k{number}"] = MASK_REGISTERS + number
        numbers.update(dict.fromkeys((f"st({number})", f"mm{number}"), X87_REGISTER))
    numbers["fpsw"] = X87_REGISTER
    numbers.update(dict.fromkeys((*(f"cr{n}" for n in range(9)), "cs", "ds", "es", "ss"), OTHER_REGISTER))
    return numbers, frozenset(partial)


_REGISTER, _PARTIAL = _register_numbers()

# Mnemonic (without prefixes; `v` of AVX optional) → operation; the first match counts.
_RULES: list[tuple[re.Pattern[str], Operation]] = [
    (re.compile(rf"(?:{pattern})\Z"), operation)
    for pattern, operation in [
        (r"nop|endbr\d\d|prefetch\w*|pause|wait|fwait|clflush\w*|clwb|cldemote|ud[012]", Operation.NONE),
        (
            r"syscall|sysenter|int\d?|cpuid|rdtscp?|[lsm]fence|xgetbv|rdpmc|hlt|in|out|f?xsave\w*|f?xrstor\w*",
            Operation.SYSTEM,
        ),
        (
            r"ldmxcsr|stmxcsr|vldmxcsr|vstmxcsr|fldcw|fn?stcw|vzeroupper|vzeroall|emms|rdrand|rdseed|rd[fg]sbase",
            Operation.SYSTEM,
        ),
        (r"push\w*|pop(?!cnt)\w*|leave|enter", Operation.NONE),
        (r"movs[bwq]|stos[bwdq]|lods[bwdq]", Operation.NONE),
        (r"cmps[bwq]|scas[bwdq]", Operation.INT_ALU),
        (r"mov|movabs|movbe|movnti", Operation.MOVE),
        (r"mov[sz]xd?", Operation.INT_ALU),
        (r"imul|mul|mulx", Operation.INT_MUL),
        (r"idiv|div", Operation.INT_DIV),
        (r"aes\w+|sha\d\w+|pclmul\w+|crc32", Operation.CRYPTO),
        (r"f(?:sin|cos|sincos|ptan|patan|yl2x|yl2xp1|2xm1|prem1?|scale|xtract|bld|bstp)", Operation.FP_MISC),
        (r"fsqrt", Operation.FP_SQRT),
        (r"fi?divr?p?", Operation.FP_DIV),
        (r"fi?mulp?", Operation.FP_MUL),
        (
            r"fld|fst|fstp|fxch|fld1|fldz|fldpi|fldl2e|fldln2|fldl2t|fldlg2|ffree|fdecstp|fincstp|fcmov\w+",
            Operation.MOVE,
        ),
        (r"f(?!n?madd|n?msub)\w+", Operation.FP_ADD),
        (r"v?(?:sqrt|rsqrt14|rsqrt)s[sdh]", Operation.FP_SQRT),
        (r"v?(?:sqrt|rsqrt14|rsqrt)p[sdh]", Operation.SIMD_FP_SQRT),
        (r"v?divs[sdh]|v?rcpss", Operation.FP_DIV),
        (r"v?divp[sdh]|v?rcpps", Operation.SIMD_FP_DIV),
        (r"vf?n?m(?:add|sub)\d*s[sdh]|vfn?m(?:add|sub)\d+s[sdh]", Operation.FP_FMA),
        (r"vfn?m(?:add|sub|addsub|subadd)\d+p[sdh]", Operation.SIMD_FP_FMA),
        (r"v?muls[sdh]", Operation.FP_MUL),
        (r"v?mulp[sdh]|v?dpp[sd]", Operation.SIMD_FP_MUL),
        (r"v?(?:add|sub|min|max|round|cmp|cmp\w+)s[sdh]|v?u?comis[sd]", Operation.FP_ADD),
        (r"v?cvt\w*(?:2s[sdi]|2usi)|v?cvts[sid]2\w+|v?cvttsd2si|v?cvttss2si", Operation.FP_ADD),
        (r"v?(?:add|sub|addsub|hadd|hsub|min|max|round|cmp|cmp\w+)p[sdh]|v?cvt\w+", Operation.SIMD_FP_ADD),
        (r"v?mov(?:[aud]p[sd]|dq[au]\d*|ntdqa?|ntp[sd]|[sh]s?s|s[sdh]|lddqu)|v?lddqu", Operation.MOVE),
        (r"v?mov[dq]|v?movq2dq|v?movdq2q", Operation.SIMD_INT),
        (r"v?pmul\w+|v?pmadd\w+|v?psadbw|v?mpsadbw|vpdp\w+", Operation.SIMD_MUL),
        (
            r"xchg|xadd|cmpxchg\w*|bt[src]?|bs[fr]|popcnt|[lt]zcnt|lahf|sahf|pdep|pext|pushf\w*|popf\w*",
            Operation.INT_ALU,
        ),
        (r"k\w+", Operation.SIMD_INT),
        (
            r"v?p\w+|v?(?:and|or|xor|andn|shuf|unpck[lh]|blend\w*|movmsk|test|insert|extract|perm\w*|broadcast\w*|gather\w*|mov)\w*(?:p[sd]|ps|ss|sd|128|32x4|64x2|i128|f128|d|q|b|w|dup)",
            Operation.SIMD_INT,
        ),
        (r"v\w+", Operation.SIMD_INT),
    ]
]
_INTEGER_LOGIC = frozenset(("and", "or", "xor", "test", "andn", "insert"))  # `and` is not `andps`

_STRING = re.compile(r"(?:movs|stos|lods|cmps|scas|ins|outs)[bwdq]\Z")
_ZEROING = frozenset("xor sub pxor xorps xorpd psubb psubw psubd psubq vpxor vxorps vxorpd vpxord vpxorq".split())
_BARRIERS = frozenset(("mfence", "lfence", "sfence"))
_SERIALIZING = frozenset(("cpuid", "syscall", "sysenter", "int", "int3", "iretq", "lfence", "mfence"))
_PUSHING = re.compile(r"push\w*|call|enter")
_POPPING = re.compile(r"pop(?!cnt)\w*|ret|leave|iretq?")
_STORES_TO_RDI = re.compile(r"v?maskmov(?:dqu|q)")
_NON_TEMPORAL = re.compile(r"v?movnt(?:i|q|dq|ps|pd)")
_STRING_LOADS = {
    "movs": (1, 1),
    "stos": (0, 1),
    "lods": (1, 0),
    "cmps": (2, 0),
    "scas": (1, 0),
    "ins": (0, 1),
    "outs": (1, 0),
}


@cache
def _operation(mnemonic: str) -> Operation:
    if mnemonic not in _INTEGER_LOGIC:
        for pattern, operation in _RULES:
            if pattern.match(mnemonic):
                return operation
    return Operation.INT_ALU


def decode_instruction(instruction: CsInsn) -> Decoded:
    """One instruction with capstone's detail."""
    prefixes, _, mnemonic = instruction.mnemonic.rpartition(" ")
    operands = instruction.operands
    string = bool(_STRING.match(mnemonic)) and not any(
        o.type == x86.X86_OP_REG and "mm" in _name(instruction, o.reg) for o in operands
    )
    branch = _branch_flags(instruction, mnemonic)
    operation = Operation.BRANCH if branch else (_operation(mnemonic) if not string else _string_operation(mnemonic))
    flags = branch
    memory = [o for o in operands if o.type == x86.X86_OP_MEM]
    touches = operation not in (Operation.NONE,) or not re.match(r"nop|prefetch|clflush|clwb|cldemote", mnemonic)
    if mnemonic == "lea":
        touches = False
    loads = stores = 0
    if string:
        loads, stores = _STRING_LOADS[mnemonic[:-1]]
        if prefixes.startswith("rep"):
            flags |= Flag.STRING
    elif touches:
        for operand in memory:
            access = _access(instruction, mnemonic, operand)
            loads += access & 1
            stores += access >> 1 & 1
        if _PUSHING.fullmatch(mnemonic):
            stores += 1
            loads = min(loads, len(memory))
        elif _POPPING.fullmatch(mnemonic) or mnemonic == "xlatb":
            loads += 1
        elif _STORES_TO_RDI.fullmatch(mnemonic):
            stores += 1
    flags |= (Flag.LOAD if loads else Flag(0)) | (Flag.STORE if stores else Flag(0))
    if "lock" in prefixes or (mnemonic == "xchg" and memory):
        flags |= Flag.ATOMIC
    if mnemonic in _BARRIERS:
        flags |= Flag.BARRIER
    if mnemonic in _SERIALIZING:
        flags |= Flag.SERIALIZING
    if mnemonic == "syscall":
        flags |= Flag.SYSCALL

    address = distinct(
        _number(instruction, register) for o in memory for register in (o.mem.base, o.mem.index) if register and touches
    )
    if (_PUSHING.fullmatch(mnemonic) or _POPPING.fullmatch(mnemonic)) and RSP not in address:
        address = (*address, RSP)
    elif _STORES_TO_RDI.fullmatch(mnemonic):
        address = (RDI,)
    registers = [o.reg for o in operands if o.type == x86.X86_OP_REG]
    data, destinations = _registers(instruction, mnemonic, registers, operation)
    if mnemonic in _ZEROING and len(registers) == len(operands) >= 2 and registers[-1] == registers[-2]:
        flags |= Flag.ZEROING if operands[0].size >= 4 else Flag(0)  # a part cleared leaves the rest
        data = [] if Flag.ZEROING in flags else data
    explicit = {_number(instruction, register) for register in registers}
    data_registers = tuple(r for r in distinct(data) if r not in address or r in explicit)
    names = [_name(instruction, register) for register in registers]
    if operation in _PACKED:
        flags |= Flag.VECTOR
    if operation in _FLOAT:
        flags |= Flag.FLOAT
    if (operation is Operation.MOVE and (loads or stores)) or (memory and _MOVES_HALF.fullmatch(mnemonic)):
        operation = Operation.NONE
    count = crack(instruction, mnemonic, operation, loads + stores, Flag.ATOMIC in flags)
    scalar = operation in _FLOAT and not mnemonic.startswith("f")  # SSE's; only x87 uses the floating-point units
    # gem5 warns that it writes such stores to the caches, by a micro-operation in front that faults each time
    # (insts/…/move_non_temporal.py, M5DebugOnceFault).
    # gem5's shifts keep AF, its comparisons of floating-point numbers change flags bit by bit (regop.isa, mediaop.isa),
    # and its scans for a bit have conditions within.
    keeps = re.fullmatch(r"(sh[lr]|sa[lr])|v?u?comis[sd]|bs[fr]|[lt]zcnt", mnemonic)
    merges = 0 if keeps is None else 1 if keeps[1] else 2
    # Many of its vector operations read the register that they write, whatever they write of it (`FpDestReg_uqw` in
    # mediaop.isa).
    if _READS_WRITTEN.fullmatch(mnemonic) and destinations and VECTOR_REGISTERS <= destinations[0] < FLAGS_REGISTER:
        merges += 0 if mnemonic[:4] in ("movd", "movq") and (memory or names[-1][:1] == "x") else MERGES_RESULT
    interruption = Interruption.NONE
    if stores > 0 and _NON_TEMPORAL.fullmatch(mnemonic):
        interruption = Interruption.TRAP
    elif shifts_bytes(mnemonic, operands):
        interruption = Interruption.BRANCH
    return Decoded(
        operation,
        flags,
        address,
        data_registers,
        destinations,
        count,
        scalar,
        False,
        merges,
        interruption,
        temporary(mnemonic, operands, loads > 0, stores > 0),
    )


def _registers(
    instruction: CsInsn, mnemonic: str, registers: list[int], operation: Operation
) -> tuple[list[int | None], tuple[int, ...]]:
    """Registers read (those of addresses among them) and written, where the disassembler's lists are completed: it
    leaves out what is merged into, the flags of some, and operands of masked AVX-512 instructions.

    Writes to 8- and 16-bit parts keep the rest of the register, so they read it; writes to 32 bits clear the upper
    half and do not (Intel SDM 1, §3.4.1.1). A conditional move and a bit scan may leave their destination as it is.
    Without VEX, a scalar conversion or root keeps the upper part of its destination (SDM 2, each instruction).
    """
    read, written = instruction.regs_access()
    explicit = [_number(instruction, register) for register in registers]
    data: list[int | None] = []
    results: list[int | None] = []
    reads, writes = (x86.X86_REG_EFLAGS in registers for registers in (read, written))
    tested, changed = x86_flags.groups(instruction, mnemonic, reads, writes)
    for register in read:  # in the disassembler's order, which a features file shows
        data += tested if register == x86.X86_REG_EFLAGS else [_number(instruction, register)]
    for register in written:
        results += changed if register == x86.X86_REG_EFLAGS else [_number(instruction, register)]
    data += tested
    if operation in _X87 and mnemonic.startswith("f"):
        results.append(X87_REGISTER)
        if not mnemonic.startswith("fld"):
            data.append(X87_REGISTER)
    if mnemonic in _EXCHANGES:
        data += explicit
        results = [*explicit] if mnemonic != "cmpxchg" else [*explicit[:-1], RAX]
    elif mnemonic in _ACCUMULATES or (explicit and _MERGES.fullmatch(mnemonic)):
        data += explicit[:1]
    elif mnemonic == "syscall":  # System V's AMD64 ABI, §A.2.1: the result, and what the instruction itself saves
        data, results = [RAX], [RAX, _NUMBERS.index("rcx"), _NUMBERS.index("r11")]
    elif mnemonic == "xlatb":
        data, results = [RAX, _NUMBERS.index("rbx")], [RAX]
    elif mnemonic in ("vzeroupper", "vzeroall"):
        results = []  # what is read later are the lower parts, which stay
    elif mnemonic in ("cwd", "cdq", "cqo"):
        results = [RDX]
    elif mnemonic == "nop":
        data = []
    elif mnemonic.lstrip("v") in ("pcmpestrm", "pcmpistrm"):
        data += [RAX, RDX] if "estr" in mnemonic else []
        results = [VECTOR_REGISTERS]
    elif mnemonic == "test":
        data += explicit
    elif mnemonic.startswith("k") and not read and not written:
        data = [*explicit] if "test" in mnemonic else [*explicit[1:]]
        results = [] if "test" in mnemonic else [*explicit[:1]]
    elif mnemonic.startswith("v"):
        data += [_number(instruction, o.reg) for o in instruction.operands if o.type == x86.X86_OP_REG and not o.access]
        if mnemonic.startswith(("vgather", "vpgather")):  # lanes that the mask leaves out stay; the mask is cleared
            data += explicit
            results += explicit[1:]
        elif _lacks_result(instruction, mnemonic, explicit, results):  # of broadcasts and others
            data = [one for one in data if one != explicit[0] or one in explicit[1:]]
            data += explicit[:1] if _merges_under_mask(instruction, explicit) else []
            results.append(explicit[0])
    results += changed
    data += [_number(instruction, register) for register in written if _name(instruction, register) in _PARTIAL]
    return data, distinct(results)


def _lacks_result(instruction: CsInsn, mnemonic: str, explicit: list[int | None], results: list[int | None]) -> bool:
    first = instruction.operands[0].type if instruction.operands else x86.X86_OP_INVALID
    return first == x86.X86_OP_REG and explicit[0] not in results and not _WITHOUT_RESULT.fullmatch(mnemonic)


def _merges_under_mask(instruction: CsInsn, explicit: list[int | None]) -> bool:
    """Tell whether lanes that a mask leaves out stay; of a mask as the result none does."""
    is_mask = [one in range(MASK_REGISTERS, MASK_REGISTERS + 8) for one in explicit]
    return any(is_mask[1:]) and not is_mask[0] and not any(one.avx_zero_opmask for one in instruction.operands)


_WITHOUT_RESULT = re.compile(r"vu?comi\w+|vp?test(?:p[sd])?|vpcmp[ei]str[im]|vmaskmovdqu|ver[rw]|vmwrite")
_EXCHANGES = frozenset(("xchg", "xadd", "cmpxchg"))
_ACCUMULATES = frozenset(("bsf", "bsr", "adox", "adcx"))
_MERGES = re.compile(r"cmov\w+|cvt(?:si2s[sd]|ss2sd|sd2ss)|(?:sqrt|rsqrt|rcp)s[sd]")


def in_context(instruction: CsInsn, decoded: Decoded, before: Iterator[Decoded]) -> Decoded:
    """Return an instruction as changed by those in front of it (`before`, the nearest first): a divide whose upper half
    of the dividend was computed, not cleared or filled with the sign, has a quotient of its full width.
    """
    if decoded.operation is not Operation.INT_DIV or not decoded.micro_operations.compute > 1:
        return decoded
    for other in before:
        if RDX in other.destinations:
            signs = other.operation is Operation.INT_ALU and other.data == (RAX,)  # cqo, cdq
            extends = Flag.ZEROING in other.flags or signs
            if extends or (other.operation is Operation.MOVE and not other.data):
                return decoded
            width = instruction.operands[0].size
            return decoded._replace(micro_operations=divide_steps(width)) if width >= 4 else decoded
    return decoded


_READS_WRITTEN = re.compile(
    r"mov[dq]|pabs[bwd]|pmov[sz]x\w+|cvt(?:dq2p[sd]|t?p[sd]2dq|ps2pd|pd2ps)|r?sqrtp[sd]|rcpps|roundp[sd]"
)
_FLOAT = frozenset(
    (
        Operation.FP_ADD,
        Operation.FP_MUL,
        Operation.FP_FMA,
        Operation.FP_DIV,
        Operation.FP_SQRT,
        Operation.FP_MISC,
        Operation.SIMD_FP_ADD,
        Operation.SIMD_FP_MUL,
        Operation.SIMD_FP_FMA,
        Operation.SIMD_FP_DIV,
        Operation.SIMD_FP_SQRT,
    )
)
_X87 = frozenset((*_FLOAT, Operation.MOVE))
_MOVES_HALF = re.compile(r"v?mov(?:[dq]|[hl]p[sd])")
_PACKED = frozenset(op for op in Operation if op.name.startswith("SIMD"))


_STORES_FIRST = re.compile(
    r"v?p?(?:mov|extr|compress|mask)\w*|v?stmxcsr|fn?st\w*|fistt?p?|set\w+|f?xsave\w*|vcvtps2ph|kmov\w|vp?scatter\w+"
)
_MODIFIES_FIRST = re.compile(r"cmpxchg\w*|xadd|xchg|ro[lr]|rc[lr]")
_LOADS_FIRST = re.compile(r"frstor")


def _access(instruction: CsInsn, mnemonic: str, operand: X86Op) -> int:
    """Bits 1 (read) and 2 (write) of a memory operand; the disassembler calls some stores reads."""
    first = instruction.operands[0].type == x86.X86_OP_MEM
    if first and _STORES_FIRST.fullmatch(mnemonic):
        return 2
    if first and _MODIFIES_FIRST.fullmatch(mnemonic):
        return 3
    if first and _LOADS_FIRST.fullmatch(mnemonic):
        return 1
    return operand.access or 1


def _string_operation(mnemonic: str) -> Operation:
    return Operation.INT_ALU if mnemonic[:-1] in ("cmps", "scas") else Operation.NONE


def _branch_flags(instruction: CsInsn, mnemonic: str) -> Flag:
    """Branch kind from the mnemonic: capstone's groups leave some out (`repz ret`, `loop`)."""
    indirect = Flag(0)
    if instruction.operands and instruction.operands[0].type != x86.X86_OP_IMM:
        indirect = Flag.INDIRECT
    if mnemonic in ("jmp", "ljmp"):
        return Flag.BRANCH | indirect
    if mnemonic in ("call", "lcall"):
        return Flag.BRANCH | Flag.CALL | indirect
    if mnemonic in ("ret", "retf", "retfq", "iretq"):
        return Flag.BRANCH | Flag.RETURN | Flag.INDIRECT
    if mnemonic.startswith(("j", "loop")):
        return Flag.BRANCH | Flag.CONDITIONAL
    return Flag(0)


_known_names: dict[int, str] = {}


def _name(instruction: CsInsn, register: int) -> str:
    name = _known_names.get(register)
    if name is None:
        name = _known_names[register] = instruction.reg_name(register) or ""
    return name


def _number(instruction: CsInsn, register: int) -> int | None:
    return _REGISTER.get(_name(instruction, register))
