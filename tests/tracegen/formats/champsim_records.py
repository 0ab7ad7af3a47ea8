"""ChampSim records of one of our own x86-64 traces: what ChampSim's Pin tool would have written for the same run."""

from __future__ import annotations

import re

import capstone
import numpy as np
from capstone import x86_const as x86

from tracegen.decode import decode
from uarch.instructions import Flag, Operation

# Pin's REG enumeration for x86-64 (kit 3.x with AMX), from 3 on.
NAMES = (
    "rdi rsi rbp rsp rbx rdx rcx rax r8 r9 r10 r11 r12 r13 r14 r15 cs ss ds es fs gs rflags rip "
    "al ah ax cl ch cx dl dh dx bl bh bx bp si di sp flags ip "
    "edi dil esi sil ebp bpl esp spl ebx edx ecx eax eflags eip"
    + "".join(f" r{n}b r{n}w r{n}d" for n in range(8, 16))
    + "".join(f" mm{n}" for n in range(8))
    + "".join(f" {v}mm{n}" for v in "xyz" for n in range(32))
    + "".join(f" k{n}" for n in range(8))
    + "".join(f" tmm{n}" for n in range(8))
    + " tileconfig mxcsr mxcsrmask orig_rax fpcw fpsw fptag fpip_off fpip_sel fpopcode fpdp_off fpdp_sel"
    + "".join(f" st({n})" for n in range(8))
).split()
PIN = {name: number for number, name in enumerate(NAMES, 3)}
PIN["eflags"] = PIN["rflags"]  # the processor's flags are one register in 64-bit mode, whatever capstone calls them


def _registers(instruction, operation):
    """Pin numbers read and written, in the order of the operands, implicit ones last."""
    name = instruction.reg_name
    implicit_read, implicit_written = instruction.regs_access()
    read, written = [], []
    for operand in instruction.operands:
        if operand.type == x86.X86_OP_MEM:
            read += [name(r) for r in (operand.mem.base, operand.mem.index) if r]
        elif operand.type == x86.X86_OP_REG:
            read += [name(operand.reg)] if operand.reg in implicit_read else []
            written += [name(operand.reg)] if operand.reg in implicit_written else []
    mnemonic = instruction.mnemonic.split()[-1]
    late_read = [name(r) for r in implicit_read]
    late_written = [name(r) for r in implicit_written]
    stack = ["rsp"] if re.match(r"(push|pop(?!cnt)|call|ret|leave)", mnemonic) else []
    if operation == Operation.BRANCH:
        indirect = instruction.operands and instruction.operands[0].type != x86.X86_OP_IMM
        late_read += stack + ([] if mnemonic.startswith("ret") or (indirect and mnemonic == "jmp") else ["rip"])
        late_written = [*stack, "rip", *late_written]
    elif mnemonic == "syscall":
        late_written = ["rip", "rcx", "r11"]
    else:
        late_read += stack
        late_written += stack
        if operation.name.startswith(("FP", "SIMD_FP")) and not mnemonic.startswith("f"):
            late_read, late_written = [*late_read, "mxcsr"], [*late_written, "mxcsr"]
    pick = lambda names: list(dict.fromkeys(PIN[n] for n in names if n in PIN))  # noqa: E731
    return pick(read + late_read), pick(written + late_written)


def _words(address, code):
    """Record [S, 8] of each static instruction without accesses, and whether it is a string instruction."""
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    decoded = decode(address, code, "x86-64")
    records = np.zeros((len(address), 64), np.uint8)
    records[:, :8] = address.astype("<u8")[:, None].view(np.uint8)
    for row, raw in enumerate(code):
        instruction = next(engine.disasm(raw.tobytes(), 0, 1), None)
        if instruction is None:
            continue
        operation = Operation(decoded.operation[row])
        read, written = _registers(instruction, operation)
        records[row, 8] = operation == Operation.BRANCH and not decoded.flags[row] & (Flag.CALL | Flag.RETURN)
        fields = records[row, 10:]
        fields[2 : 2 + len(read[:4])] = read[:4]
        if len(read) > 4:
            fields[6] = read[-1]  # the tool writes what does not fit behind the list
        fields[: len(written[:2])] = written[:2]
        if len(written) > 2:
            fields[2] = written[-1]
    return records.view("<u8"), (decoded.flags & int(Flag.STRING)) != 0, decoded


def champsim_records(trace):
    """Yields records [n, 8] as words; repeated string instructions are a record an iteration."""
    templates, string, decoded = _words(trace.address, trace.code)
    compares = np.array([raw[:2].tobytes() in (b"\xf3\xa6", b"\xf2\xa6") for raw in trace.code])
    branch = (decoded.flags & int(Flag.BRANCH)) != 0
    for chunk in trace.chunks():
        n, ids = len(chunk), chunk.static_id
        owner = np.repeat(np.arange(n), np.diff(chunk.access_offset))
        store = chunk.is_store.astype(bool)
        kind = owner * 2 + store
        order = np.argsort(kind, kind="stable")
        kind, owner, store = kind[order], owner[order], store[order]
        address, size = chunk.address[order], chunk.size[order].astype(np.uint64)
        same = np.zeros(len(kind), bool)
        same[1:] = (kind[1:] == kind[:-1]) & (
            (address[1:] == address[:-1]) | ((address[1:] == address[:-1] + size[:-1]) & ~string[ids[owner[1:]]])
        )
        same &= ~string[ids[owner]]
        kind, owner, store, address = (column[~same] for column in (kind, owner, store, address))
        first = np.r_[True, kind[1:] != kind[:-1]] if len(kind) else np.empty(0, bool)
        rank = np.arange(len(kind)) - np.maximum.accumulate(np.where(first, np.arange(len(kind)), 0))
        per = np.where(compares[ids[owner]], 2, 1)
        iteration = np.where(string[ids[owner]], rank // per, 0)
        rank = np.where(string[ids[owner]], rank % per, rank)
        count = np.ones(n, np.int64)
        np.maximum.at(count, owner, iteration + 1)
        start = np.cumsum(count) - count
        words = np.repeat(templates[ids], count, axis=0)
        bytes_ = words.view(np.uint8)
        taken = chunk.taken(decoded) * branch[ids]
        bytes_[:, 9] = np.repeat(taken, count) * bytes_[:, 8]
        column = np.where(store, 2, 4) + rank
        overflown = store & (words[(start[owner] + iteration), 2] != 0)
        column = column + overflown
        fits = column < np.where(store, 4, 8)
        words[(start[owner] + iteration)[fits], column[fits]] = address[fits]
        yield words
