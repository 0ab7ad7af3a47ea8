"""Decoding: known encodings, and agreement with the accesses that gem5 recorded for real programs."""

from pathlib import Path

import numpy as np
import pytest

from tracegen.decode import decode
from tracegen.trace import Trace
from uarch.errors import InputError
from uarch.instructions import FLAGS_REGISTER, NO_REGISTER, VECTOR_REGISTERS, Flag, Operation

SHARED = Path(__file__).parents[3] / "shared" / "gem5-x86"
RAX, RCX, RBX, RSP, RSI, RDI = 0, 1, 3, 4, 6, 7


def one(code, isa="x86-64"):
    raw = bytes.fromhex(code)
    padded = np.zeros((1, 16), np.uint8)
    padded[0, : len(raw)] = list(raw)
    decoded = decode(np.array([0x1000], np.uint64), padded, isa)
    assert decoded.length[0] == len(raw)
    used = decoded.sources[0][decoded.sources[0] != NO_REGISTER].tolist()
    address = decoded.address_sources[0]
    written = decoded.destinations[0][decoded.destinations[0] != NO_REGISTER].tolist()
    return (
        Operation(decoded.operation[0]), Flag(int(decoded.flags[0])), used[:address], used[address:], set(written),
        int(decoded.micro_operations[0]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # add rax, [rbx]: a load and an addition
        ("480303", (Operation.INT_ALU, Flag.LOAD, [RBX], [RAX], {RAX, FLAGS_REGISTER}, 2)),
        # add [rbx], rax: load, addition, store
        ("480103", (Operation.INT_ALU, Flag.LOAD | Flag.STORE, [RBX], [RAX], {FLAGS_REGISTER}, 3)),
        ("488b03", (Operation.NONE, Flag.LOAD, [RBX], [], {RAX}, 1)),  # mov rax, [rbx]
        ("488903", (Operation.NONE, Flag.STORE, [RBX], [RAX], set(), 1)),  # mov [rbx], rax
        ("4889d8", (Operation.MOVE, Flag(0), [], [RBX], {RAX}, 1)),  # mov rax, rbx
        ("88d8", (Operation.MOVE, Flag(0), [], [RBX, RAX], {RAX}, 1)),  # mov al, bl keeps the rest of rax
        ("31c0", (Operation.INT_ALU, Flag.ZEROING, [], [], {RAX, FLAGS_REGISTER}, 1)),  # xor eax, eax
        ("488d0480", (Operation.INT_ALU, Flag(0), [], [RAX], {RAX}, 1)),  # lea: no access
        ("50", (Operation.NONE, Flag.STORE, [RSP], [RAX], {RSP}, 2)),  # push rax
        ("58", (Operation.NONE, Flag.LOAD, [RSP], [], {RSP, RAX}, 3)),  # pop rax
        ("7402", (Operation.BRANCH, Flag.BRANCH | Flag.CONDITIONAL, [], [FLAGS_REGISTER], set(), 3)),  # je
        ("f3aa", (Operation.NONE, Flag.STORE | Flag.STRING, [RDI], [RAX, FLAGS_REGISTER, RCX], {RDI, RCX}, 5)),
        (
            "f20f58c1",
            (Operation.FP_ADD, Flag.FLOAT, [], [VECTOR_REGISTERS, VECTOR_REGISTERS + 1], {VECTOR_REGISTERS}, 1),
        ),
        (
            "0f58c1",
            (
                Operation.SIMD_FP_ADD,
                Flag.FLOAT | Flag.VECTOR,
                [],
                [VECTOR_REGISTERS, VECTOR_REGISTERS + 1],
                {VECTOR_REGISTERS},
                2,
            ),
        ),
        ("0f1103", (Operation.NONE, Flag.STORE, [RBX], [VECTOR_REGISTERS], set(), 2)),  # movups [rbx], xmm0
        ("c3", (Operation.BRANCH, Flag.BRANCH | Flag.RETURN | Flag.INDIRECT | Flag.LOAD, [RSP], [], {RSP}, 3)),
    ],
)
def test_x86_encoding(code, expected):
    operation, flags, address, data, written, count = one(code)
    assert (operation, flags, address, set(data), written, count) == (
        *expected[:3], set(expected[3]), *expected[4:]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "operation", "flags", "address", "data", "written"),
    [
        ("208c40f8", Operation.NONE, Flag.LOAD, [1], [], {0, 1}),  # ldr x0, [x1], #8: writes the base back
        ("200000f9", Operation.NONE, Flag.STORE, [1], [0], set()),  # str x0, [x1]
        ("1f0001eb", Operation.INT_ALU, Flag(0), [], [0, 1], {FLAGS_REGISTER}),  # cmp x0, x1
        ("c0035fd6", Operation.BRANCH, Flag.BRANCH | Flag.RETURN | Flag.INDIRECT, [], [30], set()),  # ret
        ("200cc29a", Operation.INT_DIV, Flag(0), [], [1, 2], {0}),  # sdiv x0, x1, x2
        ("2028621e", Operation.FP_ADD, Flag.FLOAT, [], [33, 34], {32}),  # fadd d0, d1, d2
        ("2084a24e", Operation.SIMD_INT, Flag.VECTOR, [], [33, 34], {32}),  # add v0.4s, v1.4s, v2.4s
    ],
)
def test_aarch64_encoding(code, operation, flags, address, data, written):
    found = one(code, "aarch64")
    assert found[:5] == (operation, flags, address, data, written)


@pytest.mark.parametrize(
    ("code", "operation", "flags", "address", "data", "written"),
    [
        ("03b58500", Operation.NONE, Flag.LOAD, [11], [], {10}),  # ld a0, 8(a1)
        ("23b4a500", Operation.NONE, Flag.STORE, [11], [10], set()),  # sd a0, 8(a1)
        ("2e95", Operation.INT_ALU, Flag(0), [], [10, 11], {10}),  # c.add a0, a1
        ("8280", Operation.BRANCH, Flag.BRANCH | Flag.RETURN | Flag.INDIRECT, [], [1], set()),  # ret
        ("3385c502", Operation.INT_MUL, Flag(0), [], [11, 12], {10}),  # mul a0, a1, a2
        ("afa26500", Operation.INT_ALU, Flag.ATOMIC | Flag.LOAD | Flag.STORE, [11], [6], {5}),  # amoadd.w t0, t1, (a1)
    ],
)
def test_riscv_encoding(code, operation, flags, address, data, written):
    assert one(code, "riscv64")[:5] == (operation, flags, address, data, written)


def test_unknown_code_keeps_its_place():
    assert one("ffff", "x86-64")[0] == Operation.NONE


def test_unsupported_isa_is_named():
    with pytest.raises(InputError, match="mips"):
        decode(np.zeros(0, np.uint64), np.zeros((0, 16), np.uint8), "mips")


@pytest.mark.skipif(not SHARED.exists(), reason="needs the gem5 traces in ../shared")
@pytest.mark.parametrize("name", ["perl", "x264", "gforth"])
def test_loads_and_stores_are_those_that_gem5_saw(name):
    with Trace(SHARED / f"{name}.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        seen = np.zeros((len(instructions), 2), bool)
        wrong = 0
        for chunk in trace.chunks():
            who = np.repeat(chunk.static_id, np.diff(chunk.access_offset))
            seen[who, chunk.is_store] = True
            branch = (instructions.flags[chunk.static_id] & int(Flag.BRANCH)) != 0
            wrong += int((chunk.taken(instructions).astype(bool) & ~branch).sum())
    expected = np.stack([instructions.flags & int(Flag.LOAD), instructions.flags & int(Flag.STORE)], axis=1) != 0
    assert wrong == 0  # only branches leave the fall-through path: lengths and branch kinds are right
    assert (expected != seen).any(axis=1).mean() < 0.001  # prefetch instructions, which gem5 counts as loads


@pytest.mark.parametrize(
    ("code", "total", "compute", "before", "after"),
    [
        # As in gem5's microcode: brought immediates and program counters, halves of vectors, chains.
        ("4883c001", 2, 1, 1, 0),  # add rax, 1
        ("83050000000001", 5, 1, 1, 0),  # add dword ptr [rip], 1
        ("480fafc3", 3, 1, 0, 1),  # imul rax, rbx
        ("e800000000", 5, 1, 1, 0),  # call
        ("ffd0", 4, 1, 1, 0),  # call rax
        ("ffe0", 1, 1, 0, 0),  # jmp rax
        ("0f94c0", 2, 1, 0, 1),  # sete al
        ("480fb603", 2, 1, 0, 0),  # movzx rax, byte ptr [rbx]
        ("c70301000000", 2, 0, 1, 0),  # mov dword ptr [rbx], 1
        ("f3aa", 5, 3, 0, 0),  # rep stosb: setting up, and of each store
        ("660fefc0", 2, 2, 0, 0),  # pxor xmm0, xmm0
        ("660f383dc1", 2, 2, 0, 0),  # pmaxsd xmm0, xmm1: packed, whatever its name ends with
        ("660f6f03", 2, 0, 0, 0),  # movdqa xmm0, [rbx]
        ("f20f1103", 1, 0, 0, 0),  # movsd [rbx], xmm0
        ("f20f1003", 2, 0, 0, 0),  # movsd xmm0, [rbx]
        ("f20f5803", 2, 1, 0, 0),  # addsd xmm0, [rbx]
        ("0f5803", 4, 2, 0, 0),  # addps xmm0, [rbx]
        ("c5fc5803", 8, 4, 0, 0),  # vaddps ymm0, ymm0, [rbx]
    ],
)
def test_x86_micro_operations(code, total, compute, before, after):
    raw = bytes.fromhex(code)
    padded = np.zeros((1, 16), np.uint8)
    padded[0, : len(raw)] = list(raw)
    decoded = decode(np.array([0x1000], np.uint64), padded, "x86-64")
    found = (decoded.micro_operations, decoded.compute_operations, decoded.cycles_before, decoded.cycles_after)
    assert [int(column[0]) for column in found] == [total, compute, before, after]


@pytest.mark.parametrize(
    ("front", "steps"),
    [
        ("31d2", 7),  # xor edx, edx: the quotient is as long as the values are
        ("4899", 7),  # cqo
        ("4889ca", 37),  # mov rdx, rcx: a dividend of 128 bits
        ("31db", 7),  # nothing known of rdx
    ],
)
def test_divides_of_double_width(front, steps):
    codes = [bytes.fromhex(front), bytes.fromhex("48f7f6")]  # div rsi
    padded = np.zeros((2, 16), np.uint8)
    for row, raw in enumerate(codes):
        padded[row, : len(raw)] = list(raw)
    decoded = decode(np.array([0x1000, 0x1000 + len(codes[0])], np.uint64), padded, "x86-64")
    assert decoded.compute_operations[1] == steps
