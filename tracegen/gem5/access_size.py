"""Bytes of an instruction's memory accesses, from its code: gem5's text tells addresses, but no sizes."""

from __future__ import annotations

import re
from collections.abc import Callable

import capstone
import numpy as np
from capstone import arm64_const, x86_const
from numpy.typing import NDArray

from tracegen.decode.disassembler import disassembler

_X86_STACK = 8
_ARM_REGISTER = {"w": 4, "x": 8, "b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "v": 16, "z": 16, "p": 2}
_ARM_PAIR = re.compile(r"(ld|st)(n|x|ax|lx)?p|casp")
_ARM_STRUCTURE = re.compile(r"(ld|st)[1-4](r?)$")
_ARM_LIST = re.compile(r"\.(\d*)([bhsd])\}(\[)?")  # registers of a structure: lanes, a lane, only one
_SVE = re.compile(r"(?:ld|st)(?:ff|nf|nt)?[1-4](r?)(q?)s?([bhwd])$")
_SVE_LIST = re.compile(r"\{z\d+\.([bhsd])")
_SVE_VECTOR = 16  # gem5's, in syscall emulation (sve_vl_se = 1)
_MEMORY_BYTES = {"b": 1, "h": 2, "w": 4, "d": 8, "q": 16}
_ARM_LINE = 64  # what gem5's `dc zva` zeroes, and its other operations on a line reach
_RISCV = re.compile(r"(?:c\.)?(?:amo\w+\.|lr\.|sc\.|f?[ls])([bhwdq])")


def _x86(instruction: capstone.CsInsn) -> int:
    sizes = [operand.size for operand in instruction.operands if operand.type == x86_const.X86_OP_MEM]
    if sizes and instruction.id not in (x86_const.X86_INS_LEA, x86_const.X86_INS_NOP):
        return max(sizes)
    if instruction.id in (x86_const.X86_INS_PUSH, x86_const.X86_INS_POP):
        return int(instruction.operands[0].size) if instruction.operands[0].size == 2 else _X86_STACK
    return _X86_STACK  # call, return, leave


def _aarch64(instruction: capstone.CsInsn) -> int:
    name = instruction.mnemonic.split(".")[0]
    registers = [
        instruction.reg_name(operand.reg)
        for operand in instruction.operands
        if operand.type == arm64_const.ARM64_OP_REG
    ]
    if (scalable := _SVE.match(name)) and (element := _SVE_LIST.match(instruction.op_str)):
        return _sve(scalable, element.group(1), instruction.op_str.partition("}")[0].count("z"))
    if structure := _ARM_STRUCTURE.match(name):
        lanes, kind, single = _ARM_LIST.search(instruction.op_str).groups()  # type: ignore[union-attr]
        whole = int(lanes) if lanes and not single and not structure.group(2) else 1
        return len(registers) * whole * _ARM_REGISTER[kind]
    if name == "dc":
        return _ARM_LINE
    if name in ("prfm", "prfum"):
        return 1
    if name.endswith("sw"):
        return 8 if _ARM_PAIR.match(name) else 4
    if name.endswith("b") and not name.endswith("sub"):
        return 1
    if name.endswith("h"):
        return 2
    # The data register of a store-exclusive comes second, after its status.
    exclusive = re.match(r"stl?xp?r?$", name) is not None and len(registers) > 1
    size = _ARM_REGISTER.get(registers[1 if exclusive else 0][0], 8) if registers else 8
    return 2 * size if _ARM_PAIR.match(name) else size


def _sve(name: re.Match[str], element: str, registers: int) -> int:
    """Whole vectors, whatever the predicate says; of a load to all lanes its one element, or its 16 bytes."""
    repeated, quadword, kind = name.groups()
    if repeated:
        return _SVE_VECTOR if quadword else _MEMORY_BYTES[kind]
    return registers * _SVE_VECTOR // _ARM_REGISTER[element] * _MEMORY_BYTES[kind]


def _riscv64(instruction: capstone.CsInsn) -> int:
    found = _RISCV.match(instruction.mnemonic)
    return _MEMORY_BYTES[found.group(1)] if found else 8


_RULES: dict[str, Callable[[capstone.CsInsn], int]] = {"x86-64": _x86, "aarch64": _aarch64, "riscv64": _riscv64}


def access_bytes(code: NDArray[np.uint8], isa: str) -> NDArray[np.int64]:
    """[S] bytes that one execution of each of `code` u8 [S, 16] reads, or writes, where it accesses memory at all: of a
    repeated string instruction those of one repetition.
    """
    engine, rule = disassembler(isa), _RULES[isa]
    result = np.full(len(code), 8, np.int64)
    for row, raw in enumerate(code):
        instruction = next(engine.disasm(raw.tobytes(), 0, 1), None)
        if instruction is not None:
            result[row] = rule(instruction)
    return result


def shares(size: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """[R] bytes of each access, where an instruction's `size` [R] is spread over those of equal `owner` [R], in their
    order: in equal parts that are a power of two, else as gem5 does: whole ones of such a size and the rest (24 bytes
    of `ld3 {v0.8b-v2.8b}` are 16 and 8).
    """
    _, which, counts = np.unique(owner, return_inverse=True, return_counts=True)
    parts = counts[which]
    share = -(-size // parts)
    uneven = np.flatnonzero(share & (share - 1))
    if len(uneven):
        order = uneven[np.argsort(which[uneven], kind="stable")]
        last = np.append(np.diff(which[order]) != 0, True)
        whole = 1 << np.ceil(np.log2(share[order])).astype(np.int64)
        rest = size[order] - whole * (parts[order] - 1)
        share[order] = np.where(rest <= 0, share[order], np.where(last, rest, whole))
    return share
