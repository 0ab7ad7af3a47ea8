"""Micro-operations of Arm's families: forms of AArch64, cracking, and what they do to simulated time."""

from pathlib import Path

import capstone
import numpy as np
import pytest

from support.errors import InputError
from tests.tracegen.decode.test_native import ADD
from tests.tracegen.decode.test_native import instructions_of as of_x86_64
from tracegen.decode import decode
from tracegen.decode.native.aarch64_form import form
from tracegen.decode.native.table import Cost, native_table
from uarch.configuration import replace_fields
from uarch.constraints import FAMILIES, GEM5
from uarch.instructions import LAST, Chunk, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

ARM = sorted(family for family, isa in FAMILIES.items() if isa == "aarch64")
CODE = {  # what assemblers make of it, least byte first
    "add x0, x1, x2": "2000028b",
    "add x0, x1, x2, lsl #3": "200c028b",
    "add x0, x1, x2, lsl #8": "2020028b",
    "add x0, x1, w2, sxtw": "20c0228b",
    "add x0, x0, x1": "0000018b",
    "add x0, x1, x0, lsl #3": "200c008b",
    "mul x3, x1, x2": "237c029b",
    "add v0.2d, v1.2d, v2.2d": "2084e24e",
    "fmadd d0, d0, d1, d2": "0008411f",
    "fadd d3, d4, d5": "8328651e",
    "fmul d3, d4, d5": "8308651e",
    "ldr x0, [x0]": "000040f9",
    "str x0, [x3]": "600000f9",
    "mul x0, x0, x1": "007c019b",
    "udiv x0, x0, x1": "0008c19a",
    "fdiv d0, d0, d1": "0018611e",
    "fadd d0, d0, d1": "0028611e",
    "fmla v0.4s, v1.4s, v2.s[0]": "2010824f",
    "csel x0, x1, x2, eq": "2000829a",
    "mov v0.s[1], w1": "201c0c4e",
    "ldr x0, [x1]": "200040f9",
    "ldr x0, [x1, #8]": "200440f9",
    "ldr x0, [x1], #8": "208440f8",
    "ldr x0, [x1, x2, lsl #3]": "207862f8",
    "ldr w0, [sp, w2, sxtw #2]": "e0db62b8",
    "ldp x0, x1, [x2]": "400440a9",
    "ldp x0, x1, [x2], #16": "4004c1a8",
    "stp x29, x30, [sp, #-16]!": "fd7bbfa9",
    "ldr q0, [x1]": "2000c03d",
    "str q0, [x1]": "2000803d",
    "mov x0, x1": "e00301aa",
    "mov x0, #1": "200080d2",
    "movk x0, #1, lsl #16": "2000a0f2",
    "movk x1, #1, lsl #16": "2100a0f2",
    "aese v0.16b, v1.16b": "2048284e",
    "aesmc v0.16b, v0.16b": "0068284e",
    "cmp x0, x1": "1f0001eb",
    "b.ne #8": "41000054",
    "ret": "c0035fd6",
    "nop": "1f2003d5",
}


def instructions_of(*texts):
    code = np.zeros((len(texts), 16), np.uint8)
    for row, text in enumerate(texts):
        code[row, :4] = list(bytes.fromhex(CODE[text]))
    return decode(0x400000 + 4 * np.arange(len(texts), dtype=np.uint64), code, "aarch64")


def test_the_code_is_what_it_says():
    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    for text, code in CODE.items():
        _, _, mnemonic, operands = next(engine.disasm_lite(bytes.fromhex(code), 0, 1))
        assert f"{mnemonic} {operands}".rstrip().replace("0x10]", "16]").replace("#0x10", "#16") == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("add x0, x1, x2", "add x,x,x"),
        ("add x0, x1, x2, lsl #3", "add x,x,x,lsl 1-4"),
        ("add x0, x1, x2, lsl #8", "add x,x,x,lsl i"),
        ("add x0, x1, w2, sxtw", "add x,x,w,ext"),
        ("fmla v0.4s, v1.4s, v2.s[0]", "fmla 4s,4s,s[]"),
        ("csel x0, x1, x2, eq", "csel x,x,x,c"),
        ("mov v0.s[1], w1", "mov s[],w"),
        ("ldr x0, [x1, #8]", "ldr x,[x]"),
        ("ldr x0, [x1], #8", "ldr x,[x],i"),
        ("ldr x0, [x1, x2, lsl #3]", "ldr x,[x,x,lsl i]"),
        ("ldr w0, [sp, w2, sxtw #2]", "ldr w,[x,w,ext]"),
        ("stp x29, x30, [sp, #-16]!", "stp x,x,[x]!"),
        ("movk x0, #1, lsl #16", "movk x,i,lsl i"),
        ("b.ne #8", "b.ne i"),
        ("ret", "ret"),
    ],
)
def test_forms(text, name):
    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    engine.detail = True
    assert form(next(engine.disasm(bytes.fromhex(CODE[text]), 0, 1))) == name


def test_costs_are_those_of_the_models():
    """Micro-operations, latency, reciprocal throughput as `llvm-mca-19 -mcpu=…` prints them."""
    one, a72 = native_table("neoverse-n1"), native_table("cortex-a72")
    assert one.cost("ldp x,x,[x]") == a72.cost("ldp x,x,[x]") == Cost(2, 4, 1.0)
    assert one.cost("ldp x,x,[x],i") == Cost(3, 4, 1.0)  # one more for the base
    assert (one.cost("mul x,x,x"), a72.cost("mul x,x,x")) == (Cost(1, 4, 3.0), Cost(1, 5, 1.0))
    assert one.cost("mul w,w,w")[:2] == (1, 2)
    assert a72.cost("mul w,w,w")[:2] == (1, 3)
    assert one.cost("fdiv d,d,d") == Cost(1, 15, 7.0)
    assert one.cost("add x,x,x,lsl i")[1] - one.cost("add x,x,x,lsl 1-4")[1] == 1
    assert (one.load_latency, one.vector_load, one.vector_cycles) == (4, 1, (0.5, 1.0))
    assert one.cost("no such form") is None


def test_what_cortex_a57s_model_has_otherwise_stays_the_machines():
    table = native_table("cortex-a72")
    assert "Cortex-A57" in table.source
    assert [table.cost(name) for name in ("fdiv d,d,d", "udiv x,x,x", "fadd d,d,d", "fmadd d,d,d,d")] == [None] * 4
    native = instructions_of("fdiv d0, d0, d1", "fadd d0, d0, d1").native("cortex-a72")
    assert native.latency.tolist() == [-1, -1]


def test_two_micro_operations_are_one_of_the_front_end():
    texts = ("ldr x0, [x1]", "ldp x0, x1, [x2]", "ldp x0, x1, [x2], #16", "str q0, [x1]", "add x0, x1, x2", "nop")
    cracked = instructions_of(*texts).native("neoverse-n1").instructions
    assert cracked.micro_operations.tolist() == [1, 1, 2, 2, 1, 1]
    assert cracked.compute_operations.tolist() == [0, 0, 0, 0, 1, 0]


def test_vectors_are_loaded_later():
    cracked = instructions_of("ldr x0, [x1]", "ldr q0, [x1]").native("neoverse-n1").instructions
    assert cracked.cycles_after.tolist() == [0, 1]


def test_pairs_that_are_one():
    def front(family, *texts):
        return instructions_of(*texts).native(family).instructions.micro_operations.tolist()

    literal = ("mov x0, #1", "movk x0, #1, lsl #16")
    assert front("cortex-a72", *literal) == [1, 0]
    assert front("neoverse-n1", *literal) == [1, 1]
    assert front("cortex-a72", "mov x0, #1", "movk x1, #1, lsl #16") == [1, 1]  # another register
    assert front("neoverse-n1", "aese v0.16b, v1.16b", "aesmc v0.16b, v0.16b") == [1, 0]
    assert front("neoverse-n1", "cmp x0, x1", "b.ne #8") == [1, 1]


@pytest.mark.parametrize("family", ARM)
def test_every_instruction_of_a_program_cracks(family):
    """All of a static program of AArch64, a third of it of forms that tables have."""
    from elftools.elf.elffile import ELFFile

    path = Path(__file__).parents[2] / "tracegen" / "data" / "gem5" / "aarch64" / "touch"
    with path.open("rb") as stream:
        text = ELFFile(stream).get_section_by_name(".text").data()
    words = np.frombuffer(text[: len(text) // 4 * 4], np.uint8).reshape(-1, 4)
    code = np.zeros((len(words), 16), np.uint8)
    code[:, :4] = words
    plain = decode(0x400000 + 4 * np.arange(len(words), dtype=np.uint64), code, "aarch64")
    native = plain.native(family)
    assert len(words) > 100
    front = native.instructions.micro_operations
    assert front.min() >= 0
    assert ((front >= 1) | (np.roll(front, 1) >= 1)).all()  # none, only where fused with the one in front
    busy = native.busy[plain.operation == Operation.NONE]
    assert not busy.any()
    assert (native.latency >= 1).mean() > 1 / 3


def cycles(machine, *texts, rounds=300, accesses=()):
    """Cycles a round of the code repeated; `accesses`: of each instruction, (address, size, is_store)s."""
    static = instructions_of(*texts)
    each = list(accesses) or [()] * len(texts)
    flat = [access for of_one in each for access in of_one]
    ids = np.tile(np.arange(len(texts), dtype=np.uint32), rounds)
    offset = np.concatenate([[0], np.cumsum(np.tile([len(a) for a in each], rounds))]).astype(np.int64)
    columns = [
        np.tile(np.array([a[k] for a in flat], dtype), rounds)
        for k, dtype in enumerate((np.uint64, np.uint8, np.uint8))
    ]
    chunk = Chunk(0, ids, np.append(ids[1:], LAST).astype(np.uint32), offset, *columns)
    simulation = Simulation(machine, static, ("branches", "instructions"))
    simulation.run(chunk)
    simulation.reset_counters()
    simulation.run(chunk)
    return simulation.counters["cycles"] / rounds


def test_times_on_the_native_presets_are_the_models():
    one, a72 = load_machine("neoverse-n1-native"), load_machine("cortex-a72-native")
    assert cycles(one, *["mul x0, x0, x1"] * 4) == pytest.approx(16, abs=0.2)
    assert cycles(a72, *["mul x0, x0, x1"] * 4) == pytest.approx(20, abs=0.2)
    assert cycles(one, *["udiv x0, x0, x1"] * 2) == pytest.approx(40, abs=0.5)
    assert cycles(one, *["fdiv d0, d0, d1"] * 2) == pytest.approx(30, abs=0.5)
    pair = [(0x10000000, 8, 0), (0x10000008, 8, 0)]
    gem5 = replace_fields(one, {"microcode": GEM5})
    loads = ["ldp x0, x1, [x2]"] * 4
    assert cycles(one, *loads, accesses=[pair] * 4) < cycles(gem5, *loads, accesses=[pair] * 4)


def test_another_instruction_set_is_refused():
    arm, x86 = load_machine("neoverse-n1-native"), load_machine("zen4-native")
    with pytest.raises(InputError, match="zen4 has the micro-operations of x86-64, but the program is of aarch64; set"):
        Simulation(x86, instructions_of("nop"))
    with pytest.raises(InputError, match="to gem5 or to one of golden-cove, haswell"):
        Simulation(arm, of_x86_64(ADD))
    with pytest.raises(InputError, match="out-of-order cores"):
        replace_fields(load_machine("cortex-a53"), {"microcode": "cortex-a72"})


LOAD, STORE = [(0x10000000, 8, 0)], [(0x10000000, 8, 1)]


@pytest.mark.parametrize(
    ("texts", "accesses", "expected"),
    [
        (["add x0, x0, x1"] * 4, [()] * 4, 4),  # 3 cycles, of which operands may be 2 late
        (["add x0, x1, x2"] * 4, [()] * 4, 2),  # two at once
        (["add x0, x1, x0, lsl #3"] * 4, [()] * 4, 8),  # what is shifted may be 1 late
        (["mul x0, x0, x1"] * 4, [()] * 4, 12),  # 4 cycles, operands 1 late
        (["mul x3, x1, x2"] * 4, [()] * 4, 4),
        (["fmadd d0, d0, d1, d2"] * 4, [()] * 4, 40),
        (["fadd d0, d0, d1"] * 4, [()] * 4, 16),  # the preset's
        (["fdiv d0, d0, d1", "fmul d3, d4, d5"] * 2, [()] * 4, 66),  # 33 each; for 29 of them it keeps the unit
        (["add v0.2d, v1.2d, v2.2d", "fadd d3, d4, d5"] * 2, [()] * 4, 4),  # one unit for both
        (["ldr x0, [x1]"] * 4, [LOAD] * 4, 4),
        (["ldr x0, [x0]"] * 4, [LOAD] * 4, 12),  # L1D's 3 cycles
        (["ldr x0, [x1], #8"] * 4, [LOAD] * 4, 4),  # the base is there at once
        (["ldr x0, [x1]", "add x0, x0, x1"] * 2, [LOAD, ()] * 2, 6),  # the next load goes with the addition
        (["ldp x0, x1, [x2]"] * 4, [LOAD] * 4, 8),
        (["add x0, x1, x2", "str x0, [x3]"] * 2, [(), STORE] * 2, 8),  # 3 cycles to the memory unit
    ],
    ids=lambda value: value[0] if isinstance(value, list) and isinstance(value[0], str) else "",
)
def test_cycles_in_order_are_those_of_the_family(texts, accesses, expected):
    """Cycles a round as LLVM's CortexA53Model has units, latencies and forwarding; two instructions a cycle."""
    machine = load_machine("cortex-a53-native")
    assert cycles(machine, *texts, accesses=accesses) == pytest.approx(expected, abs=0.1)


def test_an_out_of_order_core_has_no_family_of_in_order_cores():
    with pytest.raises(InputError, match=r"one of gem5, .*: the others are of in-order cores"):
        replace_fields(load_machine("cortex-a72"), {"microcode": "cortex-a53"})
    with pytest.raises(InputError, match="one of gem5, cortex-a53: the others are of out-of-order cores"):
        replace_fields(load_machine("cortex-a55"), {"microcode": "neoverse-n1"})


def test_costs_of_cortex_a53():
    table = native_table("cortex-a53")
    assert table.cost("add x,x,x") == Cost(1, 3, 0.5)
    assert table.cost("mul x,x,x") == Cost(1, 4, 1.0)
    assert table.cost("ldp x,x,[x]") == Cost(2, 4, 2.0)
    assert table.cost("fdiv d,d,d") == Cost(1, 33, 29.0)
    assert [table.cost(name) for name in ("udiv x,x,x", "fadd d,d,d", "fmul s,s,s")] == [None] * 3
