"""Decoding: known encodings, and agreement with the accesses that gem5 recorded for real programs."""

import re
from pathlib import Path

import capstone
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import InputError
from tracegen.decode import decode, disassemble
from tracegen.decode.x86_64 import decode_instruction
from tracegen.formats.trace import Trace
from uarch.instructions import (
    CARRY_REGISTER,
    DIRECTION_REGISTER,
    FLAGS_REGISTER,
    MASK_REGISTERS,
    MAX_DESTINATIONS,
    MAX_SOURCES,
    NO_REGISTER,
    OVERFLOW_REGISTER,
    VECTOR_REGISTERS,
    X87_REGISTER,
    Flag,
    Operation,
)

SEEN = Path(__file__).parents[1] / "data" / "gem5-seen"  # the first 15,000 instructions of runs of stock gem5
RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R11 = 0, 1, 2, 3, 4, 5, 6, 7, 8, 11
ZF, CF, OF, DF = FLAGS_REGISTER, CARRY_REGISTER, OVERFLOW_REGISTER, DIRECTION_REGISTER
X0, X1, X2 = VECTOR_REGISTERS, VECTOR_REGISTERS + 1, VECTOR_REGISTERS + 2
K1, K2 = MASK_REGISTERS + 1, MASK_REGISTERS + 2


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
        Operation(decoded.operation[0]),
        Flag(int(decoded.flags[0])),
        used[:address],
        used[address:],
        set(written),
        int(decoded.micro_operations[0]),
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # add rax, [rbx]: a load and an addition
        ("480303", (Operation.INT_ALU, Flag.LOAD, [RBX], [RAX], {RAX, ZF, CF, OF}, 2)),
        # add [rbx], rax: load, addition, store
        ("480103", (Operation.INT_ALU, Flag.LOAD | Flag.STORE, [RBX], [RAX], {ZF, CF, OF}, 3)),
        ("488b03", (Operation.NONE, Flag.LOAD, [RBX], [], {RAX}, 1)),  # mov rax, [rbx]
        ("488903", (Operation.NONE, Flag.STORE, [RBX], [RAX], set(), 1)),  # mov [rbx], rax
        ("4889d8", (Operation.MOVE, Flag(0), [], [RBX], {RAX}, 1)),  # mov rax, rbx
        ("88d8", (Operation.MOVE, Flag(0), [], [RBX, RAX], {RAX}, 1)),  # mov al, bl keeps the rest of rax
        ("31c0", (Operation.INT_ALU, Flag.ZEROING, [], [], {RAX, ZF, CF, OF}, 1)),  # xor eax, eax
        ("488d0480", (Operation.INT_ALU, Flag(0), [], [RAX], {RAX}, 1)),  # lea: no access
        ("50", (Operation.NONE, Flag.STORE, [RSP], [RAX], {RSP}, 2)),  # push rax
        ("58", (Operation.NONE, Flag.LOAD, [RSP], [], {RSP, RAX}, 3)),  # pop rax
        ("7402", (Operation.BRANCH, Flag.BRANCH | Flag.CONDITIONAL, [], [ZF], set(), 3)),  # je
        ("f3aa", (Operation.NONE, Flag.STORE | Flag.STRING, [RDI], [RAX, DF, RCX], {RDI, RCX}, 5)),
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
        ("c9", (Operation.NONE, Flag.LOAD, [RSP], [RBP], {RSP, RBP}, 4)),  # leave
        ("4887d8", (Operation.INT_ALU, Flag(0), [], [RAX, RBX], {RAX, RBX}, 3)),  # xchg rax, rbx
        (
            "488703",  # xchg [rbx], rax
            (Operation.INT_ALU, Flag.ATOMIC | Flag.LOAD | Flag.STORE, [RBX], [RAX], {RAX}, 5),
        ),
        ("0faee8", (Operation.SYSTEM, Flag.BARRIER | Flag.SERIALIZING, [], [], set(), 1)),  # lfence
        ("0fae13", (Operation.SYSTEM, Flag.LOAD, [RBX], [], set(), 2)),  # ldmxcsr [rbx]
        ("660f3a40c100", (Operation.SIMD_FP_MUL, Flag.FLOAT | Flag.VECTOR, [], [X0, X1], {X0}, 2)),  # dpps
    ],
)
def test_x86_encoding(code, expected):
    operation, flags, address, data, written, count = one(code)
    assert (operation, flags, address, set(data), written, count) == (*expected[:3], set(expected[3]), *expected[4:])


@pytest.mark.parametrize(
    ("code", "data", "written"),
    [
        # Parts of registers: 8 and 16 bits are merged, 32 bits clear the upper half.
        ("88dc", {RBX, RAX}, {RAX}),  # mov ah, bl
        ("6689d8", {RBX, RAX}, {RAX}),  # mov ax, bx
        ("4188c0", {RAX, R8}, {R8}),  # mov r8b, al
        ("89d8", {RBX}, {RAX}),  # mov eax, ebx
        ("0fb6c4", {RAX}, {RAX}),  # movzx eax, ah
        ("30c0", {RAX}, {RAX, ZF, CF, OF}),  # xor al, al clears a part only
        ("6631c0", {RAX}, {RAX, ZF, CF, OF}),  # xor ax, ax
        ("31c0", set(), {RAX, ZF, CF, OF}),  # xor eax, eax
        ("6698", {RAX}, {RAX}),  # cbw
        ("99", {RAX}, {RDX}),  # cdq
        # Flag groups.
        ("ffc0", {RAX}, {RAX, ZF, OF}),  # inc eax leaves the carry
        ("11d8", {RAX, RBX, CF}, {RAX, ZF, CF, OF}),  # adc eax, ebx
        ("7208", {CF}, set()),  # jb
        ("7c08", {ZF, OF}, set()),  # jl
        ("7608", {ZF, CF}, set()),  # jbe
        ("0f9cc0", {ZF, OF, RAX}, {RAX}),  # setl al
        ("0f46c3", {ZF, CF, RBX, RAX}, {RAX}),  # cmovbe eax, ebx
        ("d3e0", {RAX, RCX, ZF, CF, OF}, {RAX, ZF, CF, OF}),  # shl eax, cl: by zero it leaves them
        ("c1e003", {RAX}, {RAX, ZF, CF, OF}),  # shl eax, 3
        ("c1c003", {RAX}, {RAX, CF, OF}),  # rol eax, 3
        ("d3c0", {RAX, RCX, CF, OF}, {RAX, CF, OF}),  # rol eax, cl
        ("d1d0", {RAX, CF}, {RAX, CF, OF}),  # rcl eax, 1
        ("c4e271f7c3", {RBX, RCX}, {RAX}),  # shlx eax, ebx, ecx
        ("0fa3d8", {RAX, RBX}, {CF}),  # bt eax, ebx
        ("0fbcc3", {RAX, RBX}, {RAX, ZF}),  # bsf eax, ebx leaves eax where ebx is 0
        ("f30fbcc3", {RBX}, {RAX, ZF, CF}),  # tzcnt eax, ebx
        ("f5", {CF}, {CF}),  # cmc
        ("f8", set(), {CF}),  # clc
        ("fd", set(), {DF}),  # std
        ("9f", {ZF, CF, RAX}, {RAX}),  # lahf
        ("f30f38f6c3", {OF, RAX, RBX}, {OF, RAX}),  # adox eax, ebx
        ("660f2fc1", {X0, X1}, {ZF, CF, OF}),  # comisd
        ("0fb10f", {RDI, RAX, RCX}, {RAX, ZF, CF, OF}),  # cmpxchg [rdi], ecx
        ("0fb1d1", {RAX, RCX, RDX}, {RAX, RCX, ZF, CF, OF}),  # cmpxchg ecx, edx
        ("480fc70f", {RDI, RAX, RBX, RCX, RDX, ZF}, {RAX, RDX, ZF}),  # cmpxchg16b [rdi] writes ZF only
        ("0fc1d8", {RAX, RBX}, {RAX, RBX, ZF, CF, OF}),  # xadd eax, ebx
        ("f3a6", {RDI, RSI, RCX, DF}, {RDI, RSI, RCX, ZF, CF, OF}),  # repe cmpsb
        ("0f05", {RAX}, {RAX, RCX, R11}),  # syscall
        # Vector registers: scalars without VEX keep the upper part.
        ("f20f10c1", {X0, X1}, {X0}),  # movsd xmm0, xmm1
        ("f20f1003", {RBX}, {X0}),  # movsd xmm0, [rbx] clears the rest
        ("f20f2ac0", {RAX, X0}, {X0}),  # cvtsi2sd xmm0, eax
        ("f20f51c1", {X0, X1}, {X0}),  # sqrtsd xmm0, xmm1
        ("c5f351c2", {X1, X2}, {X0}),  # vsqrtsd xmm0, xmm1, xmm2
        ("660f51c1", {X1}, {X0}),  # sqrtpd xmm0, xmm1
        ("0f1603", {RBX, X0}, {X0}),  # movhps xmm0, [rbx]
        ("c5f458c2", {X1, X2}, {X0}),  # vaddps ymm0, ymm1, ymm2
        ("c4e2f1b9c2", {X0, X1, X2}, {X0}),  # vfmadd231sd
        ("c5f877", set(), set()),  # vzeroupper: what is read later stays
        ("62f1744958c2", {X0, X1, X2, K1}, {X0}),  # vaddps zmm0{k1}, zmm1, zmm2 merges
        ("62f174c958c2", {X1, X2, K1}, {X0}),  # vaddps zmm0{k1}{z}, zmm1, zmm2 does not
        ("62f17e497f03", {RBX, X0, K1}, set()),  # vmovdqu32 [rbx]{k1}, zmm0
        ("c5f899ca", {K1, K2}, {ZF, CF, OF}),  # ktestw k1, k2
        ("c5ec4acb", {K2, K2 + 1}, {K1}),  # kaddw k1, k2, k3
        ("dec1", {X87_REGISTER}, {X87_REGISTER}),  # faddp
        ("dac1", {X87_REGISTER, CF}, {X87_REGISTER}),  # fcmovb
        ("dad1", {X87_REGISTER, ZF, CF}, {X87_REGISTER}),  # fcmovbe
        ("d903", {RBX}, {X87_REGISTER}),  # fld dword ptr [rbx]
        ("c4e269900488", {RAX, X0, X1, X2}, {X0, X2}),  # vpgatherdd xmm0, [rax + xmm1*4], xmm2 clears its mask
        ("0f1f0400", set(), set()),  # nop [rax+rax]
        # Where the disassembler tells of no flags, result or operand.
        ("8403", {RBX, RAX}, {ZF, CF, OF}),  # test [rbx], al
        ("66850b", {RBX, RCX}, {ZF, CF, OF}),  # test [rbx], cx
        ("8503", {RBX, RAX}, {ZF, CF, OF}),  # test [rbx], eax
        ("488503", {RBX, RAX}, {ZF, CF, OF}),  # test [rbx], rax
        ("f60303", {RBX}, {ZF, CF, OF}),  # test byte ptr [rbx], 3
        ("c4e27d5a00", {RAX}, {X0}),  # vbroadcasti128 ymm0, [rax]
        ("c5f95a00", {RAX}, {X0}),  # vcvtpd2ps xmm0, xmmword ptr [rax]
        ("62f27d485a00", {RAX}, {X0}),  # vbroadcasti32x4 zmm0, [rax]
        ("62f27d495a00", {RAX, X0, K1}, {X0}),  # vbroadcasti32x4 zmm0{k1}, [rax] merges
        ("62f27dc95a00", {RAX, K1}, {X0}),  # vbroadcasti32x4 zmm0{k1}{z}, [rax] does not
        ("c4e2791700", {RAX, X0}, {ZF, CF, OF}),  # vptest xmm0, [rax] has no result
        ("c5f92e00", {RAX, X0}, {ZF, CF, OF}),  # vucomisd xmm0, [rax] neither
        ("660f3a60c100", {X0, X1, RAX, RDX}, {X0, ZF, CF, OF}),  # pcmpestrm xmm0, xmm1, 0
    ],
)
def test_x86_registers(code, data, written):
    found = one(code)
    assert ({*found[2], *found[3]}, found[4]) == (data, written)


@pytest.mark.parametrize(
    ("code", "flags", "address"),
    [
        ("c00803", Flag.LOAD | Flag.STORE, [RAX]),  # ror byte ptr [rax], 3
        ("d310", Flag.LOAD | Flag.STORE, [RAX]),  # rcl dword ptr [rax], cl
        ("c1e003", Flag(0), []),  # shl eax, 3
        ("db18", Flag.STORE, [RAX]),  # fistp dword ptr [rax]
        ("df10", Flag.STORE, [RAX]),  # fist word ptr [rax]
        ("dd20", Flag.LOAD, [RAX]),  # frstor [rax]
        ("c4e3791d0000", Flag.STORE, [RAX]),  # vcvtps2ph [rax], xmm0, 0
        ("c4e1f89100", Flag.STORE, [RAX]),  # kmovq [rax], k0
        ("c4e1f89000", Flag.LOAD, [RAX]),  # kmovq k0, [rax]
        ("660ff7c1", Flag.STORE, [RDI]),  # maskmovdqu xmm0, xmm1
        ("c5f9f7c1", Flag.STORE, [RDI]),  # vmaskmovdqu xmm0, xmm1
        ("d7", Flag.LOAD, []),  # xlatb
        ("0f1c00", Flag(0), []),  # cldemote [rax] reads nothing
    ],
)
def test_x86_accesses_that_the_disassembler_misses(code, flags, address):
    found = one(code)
    assert (found[1] & (Flag.LOAD | Flag.STORE), found[2]) == (flags, address)


def test_x87_additions_are_additions():
    assert one("dec1")[0] == Operation.FP_ADD


@pytest.mark.parametrize("code", ["f3a6", "480fc70c08", "62f27d49900488", "0f05"])
def test_registers_fit_their_rows(code):
    found = one(code)
    assert len(found[2]) + len(found[3]) <= MAX_SOURCES
    assert len(found[4]) <= MAX_DESTINATIONS


@pytest.mark.parametrize(
    ("code", "operation", "flags", "address", "data", "written"),
    [
        ("208c40f8", Operation.NONE, Flag.LOAD, [1], [], {0, 1}),  # ldr x0, [x1], #8: writes the base back
        ("200000f9", Operation.NONE, Flag.STORE, [1], [0], set()),  # str x0, [x1]
        ("1f0001eb", Operation.INT_ALU, Flag(0), [], [0, 1], {FLAGS_REGISTER}),  # cmp x0, x1
        ("23740bd5", Operation.NONE, Flag.STORE, [3], [], set()),  # dc zva, x3
        ("83740bd5", Operation.NONE, Flag.STORE, [3], [], set()),  # dc gzva, x3
        ("237b0bd5", Operation.SYSTEM, Flag(0), [], [3], set()),  # dc cvau, x3
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


@pytest.mark.parametrize(
    ("code", "data", "written"),
    [
        ("201c0c4e", {X0, 1}, {X0}),  # mov v0.s[1], w1: the other lanes stay
        ("2000af9e", {X0, 1}, {X0}),  # fmov v0.d[1], x1
        ("2000679e", {1}, {X0}),  # fmov d0, x1 clears the rest
        ("2090400d", {X0, 1}, {X0}),  # ld1 {v0.s}[1], [x1]
        ("20a8404c", {1}, {X0, X1}),  # ld1 {v0.4s, v1.4s}, [x1]
        ("2070c24c", {1, 2}, {1, X0}),  # ld1 {v0.16b}, [x1], x2
        ("2084c24d", {1, 2, X0}, {1, X0}),  # ld1 {v0.d}[1], [x1], x2
        ("20740bd5", {0}, set()),  # dc zva, x0
        ("2028614e", {X0, X1}, {X0}),  # xtn2 keeps the lower half
        ("2028610e", {X1}, {X0}),  # xtn
        ("2068a14e", {X0, X1}, {X0}),  # bfcvtn2
        ("2014004f", {X0}, {X0}),  # orr v0.4s, #1
        ("2014006f", {X0}, {X0}),  # bic v0.4s, #1
        ("200c221e", {X1, X2, ZF}, {X0}),  # fcsel s0, s1, s2, eq
        ("207ca26e", {X0, X1, X2}, {X0}),  # uaba
        ("2000a0f2", {0}, {0}),  # movk x0
        ("000041fa", {0, 1, ZF}, {ZF}),  # ccmp x0, x1, #0, eq
        ("200002ba", {1, 2, ZF}, {0, ZF}),  # adcs x0, x1, x2
        ("00423bd5", {ZF}, {0}),  # mrs x0, nzcv
        ("00421bd5", {0}, {ZF}),  # msr nzcv, x0
        ("058401ba", {0, ZF}, {ZF}),  # rmif x0
        ("417ca088", {0, 1, 2}, {0}),  # cas w0, w1, [x2]
        ("827c2048", {0, 1, 2, 3, 4}, {0, 1}),  # casp
        ("5f0020b8", {0, 2}, set()),  # stadd w0, [x2]
        ("e0031faa", set(), {0}),  # mov x0, xzr
        ("010000d4", {8}, {0}),  # svc
    ],
)
def test_aarch64_registers(code, data, written):
    found = one(code, "aarch64")
    assert ({*found[2], *found[3]}, found[4]) == (data, written)


@pytest.mark.parametrize(
    ("code", "data", "written"),
    [
        ("33802000", {1, 2}, set()),  # add zero, ra, sp
        ("53f5c502", {VECTOR_REGISTERS + 11, VECTOR_REGISTERS + 12}, {VECTOR_REGISTERS + 10, ZF}),  # fadd.d accrues
        ("538505e2", {VECTOR_REGISTERS + 11}, {10}),  # fmv.x.d raises nothing
        ("73251000", {ZF}, {10}),  # frflags a0
        ("73101500", {10}, {ZF}),  # fsflags a0
        ("73a51500", {11, ZF}, {10, ZF}),  # csrrs a0, fflags, a1
        ("73d01100", set(), {ZF}),  # fsflagsi 3
        ("73201500", {10, ZF}, {ZF}),  # csrs fflags, a0
        ("73101000", set(), {ZF}),  # fsflags zero
        ("ef028000", set(), {5}),  # jal t0
        ("0d05", {10}, {10}),  # c.addi a0, 3
        ("0d45", set(), {10}),  # c.li a0, 3
        ("2800", {2}, {10}),  # c.addi4spn a0, sp, 8
        ("2f30b600", {11, 12}, set()),  # amoadd.d zero, a1, (a2)
        ("73000000", {17}, {10}),  # ecall
    ],
)
def test_riscv_registers(code, data, written):
    found = one(code, "riscv64")
    assert ({*found[2], *found[3]}, found[4]) == (data, written)


@pytest.mark.parametrize(
    ("code", "operation", "accumulates"),
    [
        ("209c824e", Operation.SIMD_MUL, True),  # usdot v0.4s, v1.16b, v2.16b
        ("20f0224f", Operation.SIMD_MUL, True),  # sudot v0.4s, v1.16b, v2.4b[1]
        ("20a4824e", Operation.SIMD_MUL, True),  # smmla
        ("20a4826e", Operation.SIMD_MUL, True),  # ummla
        ("20ac824e", Operation.SIMD_MUL, True),  # usmmla
        ("2090620e", Operation.SIMD_MUL, True),  # sqdmlal v0.4s, v1.4h, v2.4h
        ("2084826e", Operation.SIMD_MUL, True),  # sqrdmlah v0.4s, v1.4s, v2.4s
        ("208c827e", Operation.SIMD_MUL, True),  # sqrdmlsh s0, s1, s2
        ("209c226e", Operation.SIMD_MUL, False),  # pmul v0.16b, v1.16b, v2.16b
        ("20fc426e", Operation.SIMD_FP_FMA, True),  # bfdot v0.4s, v1.8h, v2.8h
        ("20ec426e", Operation.SIMD_FP_FMA, True),  # bfmmla
        ("20fcc22e", Operation.SIMD_FP_FMA, True),  # bfmlalb
        ("20f0d24f", Operation.SIMD_FP_FMA, True),  # bfmlalt v0.4s, v1.8h, v2.h[1]
        ("20ec224e", Operation.SIMD_FP_FMA, True),  # fmlal v0.4s, v1.4h, v2.4h
        ("20cc226e", Operation.SIMD_FP_FMA, True),  # fmlal2
        ("2040924f", Operation.SIMD_FP_FMA, True),  # fmlsl v0.4s, v1.4h, v2.h[1]
        ("20cca26e", Operation.SIMD_FP_FMA, True),  # fmlsl2
        ("20cc826e", Operation.SIMD_FP_FMA, True),  # fcmla v0.4s, v1.4s, v2.4s, #90
    ],
)
def test_aarch64_sums_of_products(code, operation, accumulates):
    found = one(code, "aarch64")
    assert (found[0], {*found[3]}, found[4]) == (operation, {X1, X2, *([X0] if accumulates else [])}, {X0})


JUMP, CALL, RETURN = Flag.INDIRECT, Flag.INDIRECT | Flag.CALL, Flag.INDIRECT | Flag.RETURN


@pytest.mark.parametrize(
    ("code", "kind", "data", "written"),
    [
        ("67030e00", JUMP, {28}, {6}),  # jalr t1, t3, of an entry of a procedure linkage table
        ("67008300", JUMP, {6}, set()),  # jr 8(t1), of an unrelaxed tail call
        ("67000300", JUMP, {6}, set()),  # jr t1
        ("0283", JUMP, {6}, set()),  # c.jr t1
        ("6f038000", Flag(0), set(), {6}),  # jal t1
        ("6f008000", Flag(0), set(), set()),  # j
        ("21a0", Flag(0), set(), set()),  # c.j
        ("ef008000", Flag.CALL, set(), {1}),  # jal ra
        ("ef028000", Flag.CALL, set(), {5}),  # jal t0
        ("e7000300", CALL, {6}, {1}),  # jalr ra, t1
        ("e7020300", CALL, {6}, {5}),  # jalr t0, t1
        ("e7800000", CALL, {1}, {1}),  # jalr ra, ra, of an unrelaxed call
        ("e7800200", CALL, {5}, {1}),  # jalr ra, t0
        ("0293", CALL, {6}, {1}),  # c.jalr t1
        ("67804000", RETURN, {1}, set()),  # jr 4(ra)
        ("67834000", RETURN, {1}, {6}),  # jalr t1, 4(ra)
        ("67800200", RETURN, {5}, set()),  # jr t0, of routines that save registers
        ("8282", RETURN, {5}, set()),  # c.jr t0
        ("8280", RETURN, {1}, set()),  # c.jr ra
    ],
)
def test_riscv_jumps_follow_the_hints_on_return_addresses(code, kind, data, written):
    assert one(code, "riscv64")[:5] == (Operation.BRANCH, Flag.BRANCH | kind, [], [*data], written)


@pytest.mark.parametrize(
    ("code", "isa", "serializes"),
    [
        ("73a51500", "riscv64", True),  # csrrs a0, fflags, a1
        ("73101500", "riscv64", True),  # fsflags a0
        ("73252000", "riscv64", True),  # frrm a0
        ("732510c0", "riscv64", True),  # rdtime a0
        ("73d01100", "riscv64", True),  # fsflagsi 3
        ("00441bd5", "aarch64", True),  # msr fpcr, x0
        ("00421bd5", "aarch64", False),  # msr nzcv, x0: renamed flags
        ("00443bd5", "aarch64", False),  # mrs x0, fpcr
    ],
)
def test_control_registers_drain_the_pipeline(code, isa, serializes):
    found = one(code, isa)
    assert (found[0], bool(found[1] & Flag.SERIALIZING)) == (Operation.SYSTEM, serializes)


# As the GNU assembler encodes them.
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("33a5c520", "sh1add a0, a1, a2"),
        ("33c5c520", "sh2add a0, a1, a2"),
        ("33e5c520", "sh3add a0, a1, a2"),
        ("33f5c540", "andn a0, a1, a2"),
        ("33e5c540", "orn a0, a1, a2"),
        ("33c5c540", "xnor a0, a1, a2"),
        ("33e5c50a", "max a0, a1, a2"),
        ("33f5c50a", "maxu a0, a1, a2"),
        ("33c5c50a", "min a0, a1, a2"),
        ("33d5c50a", "minu a0, a1, a2"),
        ("3395c560", "rol a0, a1, a2"),
        ("33d5c560", "ror a0, a1, a2"),
        ("3395c50a", "clmul a0, a1, a2"),
        ("33b5c50a", "clmulh a0, a1, a2"),
        ("33a5c50a", "clmulr a0, a1, a2"),
        ("3395c548", "bclr a0, a1, a2"),
        ("33d5c548", "bext a0, a1, a2"),
        ("3395c568", "binv a0, a1, a2"),
        ("3395c528", "bset a0, a1, a2"),
        ("3b85c508", "add.uw a0, a1, a2"),
        ("3ba5c520", "sh1add.uw a0, a1, a2"),
        ("3bc5c520", "sh2add.uw a0, a1, a2"),
        ("3be5c520", "sh3add.uw a0, a1, a2"),
        ("3b95c560", "rolw a0, a1, a2"),
        ("3bd5c560", "rorw a0, a1, a2"),
        ("3bc50508", "zext.h a0, a1"),
        ("1395354a", "bclri a0, a1, 35"),
        ("13d5354a", "bexti a0, a1, 35"),
        ("1395356a", "binvi a0, a1, 35"),
        ("1395352a", "bseti a0, a1, 35"),
        ("13d53562", "rori a0, a1, 35"),
        ("1bd5f560", "roriw a0, a1, 15"),
        ("1b95350a", "slli.uw a0, a1, 35"),
        ("13950560", "clz a0, a1"),
        ("13951560", "ctz a0, a1"),
        ("13952560", "cpop a0, a1"),
        ("1b950560", "clzw a0, a1"),
        ("1b951560", "ctzw a0, a1"),
        ("1b952560", "cpopw a0, a1"),
        ("13954560", "sext.b a0, a1"),
        ("13955560", "sext.h a0, a1"),
        ("13d57528", "orc.b a0, a1"),
        ("13d5856b", "rev8 a0, a1"),
        ("3b850508", "add.uw a0, a1, zero"),
        ("33a00520", "sh1add zero, a1, zero"),
    ],
)
def test_riscv_bit_manipulation(code, text):
    name, destination, *sources = re.findall(r"[\w.]+", text)
    number = {"zero": None, "a0": 10, "a1": 11, "a2": 12}
    operation = Operation.INT_MUL if name.startswith("clmul") else Operation.INT_ALU
    read = [number[one] for one in sources if number.get(one)]
    written = {number[destination]} - {None}
    assert one(code, "riscv64") == (operation, Flag(0), [], read, written, 1)
    row = np.frombuffer(bytes.fromhex(code).ljust(16, b"\0"), np.uint8)[None]
    assert disassemble(np.zeros(1, np.uint64), row, "riscv64") == [text]


def test_riscv_vectors_stay_unknown():
    assert one("57000202", "riscv64")[:2] == (Operation.NONE, Flag(0))  # vadd.vv v0, v0, v4


DISTANCES = st.tuples(
    st.sampled_from(["e8", "e9", *(f"0f8{kind:x}" for kind in range(16))]), st.binary(min_size=4, max_size=4)
)


@given(st.lists(st.binary(min_size=16, max_size=16) | DISTANCES.map(lambda d: bytes.fromhex(d[0]) + d[1]), max_size=12))
def test_rows_are_decoded_as_if_alone(encodings):
    """Among others that are alike but for a branch's distance; none lies in front of another."""
    code = np.array([list(raw.ljust(16, b"\0")) for raw in encodings], np.uint8).reshape(-1, 16)
    together = decode(np.arange(len(code), dtype=np.uint64) * np.uint64(64), code, "x86-64")
    for row in range(len(code)):
        engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        engine.detail = True
        instruction = next(engine.disasm(code[row].tobytes(), 0, 1), None)
        if instruction is None:
            assert together.operation[row] == Operation.NONE
            continue
        alone = decode_instruction(instruction)
        assert together.length[row] == instruction.size
        assert (together.operation[row], together.flags[row]) == (alone.operation, alone.flags)
        sources = [*alone.address, *alone.data][:MAX_SOURCES]
        assert together.sources[row].tolist() == sources + [NO_REGISTER] * (MAX_SOURCES - len(sources))
        written = list(alone.destinations)[:MAX_DESTINATIONS]
        assert together.destinations[row].tolist() == written + [NO_REGISTER] * (MAX_DESTINATIONS - len(written))
        assert together.micro_operations[row] == alone.micro_operations.total


def test_unknown_code_keeps_its_place():
    assert one("ffff", "x86-64")[0] == Operation.NONE


def test_unsupported_isa_is_named():
    with pytest.raises(InputError, match="mips"):
        decode(np.zeros(0, np.uint64), np.zeros((0, 16), np.uint8), "mips")


@pytest.mark.parametrize("name", ["perl", "x264", "gforth"])
def test_loads_and_stores_are_those_that_gem5_saw(name):
    with Trace(SEEN / f"{name}.trace.h5") as trace:
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
        ("ff13", 5, 1, 1, 0),  # call [rbx]
        ("c20800", 5, 1, 0, 0),  # ret 8
        ("f0ff03", 5, 1, 0, 0),  # lock inc dword ptr [rbx]: a fence before and after
        ("488703", 5, 1, 0, 1),  # xchg [rbx], rax
        ("8f0500000000", 5, 0, 1, 1),  # pop [rip]
        ("ffe0", 1, 1, 0, 0),  # jmp rax
        ("0f94c0", 2, 1, 0, 1),  # sete al
        ("480fb603", 2, 1, 0, 0),  # movzx rax, byte ptr [rbx]
        ("c70301000000", 2, 0, 1, 0),  # mov dword ptr [rbx], 1
        ("0fc8", 3, 1, 0, 2),  # bswap eax
        ("480fc8", 9, 1, 0, 5),  # bswap rax
        ("480fbcc1", 30, 1, 0, 14),  # bsf rax, rcx
        ("480fbdc1", 28, 1, 0, 12),  # bsr rax, rcx
        ("660f1207", 1, 0, 0, 0),  # movlpd xmm0, [rdi]
        ("660f1607", 1, 0, 0, 0),  # movhpd xmm0, [rdi]
        ("66480f7ec0", 1, 1, 0, 0),  # movq rax, xmm0
        ("66480f6ec0", 2, 1, 0, 0),  # movq xmm0, rax
        ("660fd607", 1, 0, 0, 0),  # movq [rdi], xmm0
        ("f30f7e07", 2, 0, 0, 0),  # movq xmm0, [rdi]
        ("f3aa", 5, 3, 0, 0),  # rep stosb: setting up, and of each store
        ("660fefc0", 2, 2, 0, 0),  # pxor xmm0, xmm0
        ("660f383dc1", 2, 2, 0, 0),  # pmaxsd xmm0, xmm1: packed, whatever its name ends with
        ("660f6f03", 2, 0, 0, 0),  # movdqa xmm0, [rbx]
        ("f20f1103", 1, 0, 0, 0),  # movsd [rbx], xmm0
        ("f20f1003", 2, 0, 0, 0),  # movsd xmm0, [rbx]
        ("f20f5803", 2, 1, 0, 0),  # addsd xmm0, [rbx]
        ("0f5803", 4, 2, 0, 0),  # addps xmm0, [rbx]
        ("c5fc5803", 8, 4, 0, 0),  # vaddps ymm0, ymm0, [rbx]
        ("660fe703", 3, 0, 0, 0),  # movntdq [rbx], xmm0
        ("f20f2a03", 2, 1, 0, 0),  # cvtsi2sd xmm0, dword ptr [rbx]
        ("660f73d808", 8, 3, 0, 1),  # psrldq xmm0, 8
        ("660f73d809", 10, 2, 3, 1),  # psrldq xmm0, 9
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
    ("code", "total", "before"),
    [
        # As in gem5's macromem.cc: the address where it is not the base's, accesses, halves, spreading, the new base.
        ("410c4029", 2, 1),  # ldp w1, w3, [x2]
        ("4004c1a8", 2, 0),  # ldp x0, x1, [x2], #16
        ("410840ad", 3, 1),  # ldp q1, q2, [x2]
        ("410c0029", 2, 1),  # stp w1, w3, [x2]
        ("410c00a9", 3, 1),  # stp x1, x3, [x2]
        ("fd7bbfa9", 4, 1),  # stp x29, x30, [sp, #-16]!
        ("2070000c", 2, 1),  # st1 {v0.8b}, [x1]
        ("2000000c", 3, 1),  # st4 {v0.8b - v3.8b}, [x1]
        ("2000004c", 6, 1),  # st4 {v0.16b - v3.16b}, [x1]
    ],
)
def test_aarch64_micro_operations(code, total, before):
    padded = np.frombuffer(bytes.fromhex(code).ljust(16, b"\0"), np.uint8).reshape(1, 16)
    decoded = decode(np.array([0x1000], np.uint64), padded, "aarch64")
    assert (int(decoded.micro_operations[0]), int(decoded.cycles_before[0])) == (total, before)


@pytest.mark.parametrize(
    ("front", "divide", "steps"),
    [
        ("31d2", "48f7f6", 7),  # xor edx, edx; div rsi: the quotient is as long as the values are
        ("4899", "48f7f6", 7),  # cqo
        ("4889ca", "48f7f6", 35),  # mov rdx, rcx: a dividend of 128 bits
        ("31db", "48f7f6", 7),  # nothing known of rdx
        ("89ca", "f7f6", 19),  # mov edx, ecx; div esi: one of 64 bits
        ("6689ca", "66f7f6", 7),  # mov dx, cx; div si
    ],
)
def test_divides_of_double_width(front, divide, steps):
    codes = [bytes.fromhex(front), bytes.fromhex(divide)]
    padded = np.zeros((2, 16), np.uint8)
    for row, raw in enumerate(codes):
        padded[row, : len(raw)] = list(raw)
    decoded = decode(np.array([0x1000, 0x1000 + len(codes[0])], np.uint64), padded, "x86-64")
    assert decoded.compute_operations[1] == steps
