"""Micro-operations of real families: forms, tables, cracking, and what they do to simulated time."""

import json
import subprocess
from types import MappingProxyType

import capstone
import numpy as np
import pytest

from support.errors import InputError
from tools.write_native_micro_operations import examples
from tracegen.decode import decode
from tracegen.decode.native.table import Cost, NativeTable, families, native_table, table_path, write_table
from tracegen.decode.native.x86_64_form import form, of_registers
from uarch.configuration import machine_from_dict, replace_fields
from uarch.constraints import FAMILIES, GEM5, IN_ORDER_FAMILIES, MICROCODES
from uarch.instructions import FLAGS_REGISTER, LAST, NO_REGISTER, STACK_MOVED, STACK_READ, Chunk
from uarch.machine_files import load_machine
from uarch.timing._core import parts
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES

ADD, ADD_MEMORY, IMUL, MOV, XOR = "4801d8", "480303", "480fafc3", "4889d8", "31c0"
CMP, JNE, LOAD128, STORE128, DIVSD = "4839d8", "7500", "0f1003", "0f1103", "f20f5ec1"
NOP, LEA = "90", "488d44d808"


def instructions_of(*code):
    address, raw, at = [], np.zeros((len(code), 16), np.uint8), 0x400000
    for row, one in enumerate(code):
        data = bytes.fromhex(one)
        raw[row, : len(data)] = list(data)
        address.append(at)
        at += len(data)
    return decode(np.array(address, np.uint64), raw, "x86-64")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ADD, "add r64,r64"),
        (ADD_MEMORY, "add r64,m64"),
        (XOR, "xor r32,r32 same"),
        (LOAD128, "movups x,m128"),
        (DIVSD, "divsd x,x"),
        (LEA, "lea r64,m3"),
        ("d3e0", "shl r32,cl"),
        ("c5f558c2", "vaddpd y,y,y"),
        (NOP, "nop"),
    ],
)
def test_forms(code, name):
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    assert form(next(engine.disasm(bytes.fromhex(code), 0, 1))) == name


def test_a_memory_operand_costs_as_a_register_does():
    forms = {
        "add r64,r64": (1, 1, 0.25),
        "add r64,m64": (2, 6, 0.5),
        "mov r64,m64": (1, 5, 0.5),
        "foo r64,m64": (2, 9, 1.0),
    }
    table = NativeTable("x", "", "", MappingProxyType({name: Cost(*cost) for name, cost in forms.items()}))
    assert of_registers("add r64,m64") == ["add r64,r64"]
    assert of_registers("addsd x,m64") == ["addsd x,x", "addsd x,r64"]
    assert table.cost("add r64,m64") == Cost(2, 1, 0.25)
    assert table.cost("foo r64,m64") == Cost(2, 4, 1.0)  # without the load's 5 cycles
    assert table.cost("bar") is None


def test_every_family_has_a_table_with_its_source():
    assert set(families()) == set(MICROCODES) - {GEM5}
    for family in families():
        table = native_table(family)
        assert "llvm-mca" in table.source or "measured on" in table.source
        assert table.date >= "2026-11-25"
        assert len(table.forms) > 700
        add, multiply = {"x86-64": ("add r64,r64", "imul r64,r64"), "aarch64": ("add x,x,x", "mul w,w,w")}[
            FAMILIES[family]
        ]
        assert table.forms[add][:2] == (1, 3 if family in IN_ORDER_FAMILIES else 1)  # whose operands may be 2 late
        assert table.forms[multiply][1] in (2, 3, 4)
        if FAMILIES[family] == "x86-64":  # a zero idiom
            assert instructions_of(XOR).native(family).instructions.compute_operations.tolist() == [0]
    with pytest.raises(InputError, match="no table"):
        native_table("zen9")


@pytest.mark.parametrize("family", ["zen5", "haswell", "cortex-a72"])
def test_a_table_is_written_as_it_is(family, tmp_path):
    table = native_table(family)
    write_table(tmp_path / "x.json", table.source, table.forms)
    written, known = (json.loads(path.read_text()) for path in (tmp_path / "x.json", table_path(family)))
    assert written["forms"] == known["forms"] and written["source"] == known["source"]


def test_cracked_as_zen3_does():
    native = instructions_of(ADD, ADD_MEMORY, MOV, XOR, NOP, CMP, JNE, LOAD128, IMUL).native("zen3")
    cracked = native.instructions
    assert cracked.micro_operations.tolist() == [1, 1, 1, 1, 1, 1, 0, 1, 1]  # the branch is fused with the compare
    assert cracked.compute_operations.tolist() == [1, 1, 0, 0, 0, 0, 1, 0, 1]  # both take the branch's unit
    assert cracked.cycles_after.tolist() == [0, 0, 0, 0, 0, 1, 0, 3, 0]  # the compare's flags; a vector's load
    assert native.latency[[0, 1, 8]].tolist() == [1, 1, 3]
    assert not cracked.cycles_before.any()
    assert not cracked.chained.any()


def test_a_form_costs_as_with_other_registers_unless_renaming_does_it():
    forms = {"sqrtsd x,x same": (1, 21, 9.0), "xor r64,r64 same": (1, 0, 0.2), "movups x,m128": (1, 8, 0.5)}
    table = NativeTable("x", "", "", MappingProxyType({name: Cost(*cost) for name, cost in forms.items()}))
    assert table.cost("sqrtsd x,x") == table.cost("sqrtsd x,m64") == Cost(1, 21, 9.0)
    assert table.cost("xor r64,r64") is None
    assert native_table("zen3").vector_cycles == (0.5, 1)


def test_zens_scalar_operations_do_not_read_their_results_register():
    sqrt, same = "f20f51c1", "f20f51c0"  # sqrtsd xmm0, xmm1; sqrtsd xmm0, xmm0
    for family, sources in (("zen3", [33]), ("skylake", [32, 33])):
        found = instructions_of(sqrt).native(family).instructions.sources[0]
        assert sorted(found[found != NO_REGISTER].tolist()) == sources
    assert instructions_of(same).native("zen3").instructions.sources[0][0] == 32


def test_divisions_keep_their_unit_for_their_throughput():
    native = instructions_of("48f7f3", DIVSD).native("zen3")  # div rbx
    assert native.busy.tolist() == [8, 5]
    assert native.latency.tolist() == [15, 13]


def test_no_fusion_across_a_gap_or_with_memory_and_immediate():
    with_memory = "48833b05"  # cmp qword ptr [rbx], 5
    assert instructions_of(with_memory, JNE).native("zen3").instructions.micro_operations.tolist() == [1, 1]
    assert instructions_of(IMUL, JNE).native("zen3").instructions.micro_operations.tolist() == [1, 1]
    assert instructions_of(ADD, JNE).native("zen2").instructions.micro_operations.tolist() == [1, 1]
    assert instructions_of(ADD, JNE).native("zen3").instructions.micro_operations.tolist() == [1, 0]


def cycles(code, microcode, accesses=(), rounds=400, machine=None):
    """Cycles a round of the code repeated on Zen 2; `accesses`: of each instruction, (address, size, is_store)s."""
    static = instructions_of(*code)
    accesses = list(accesses) or [()] * len(code)
    each = [access for of_one in accesses for access in of_one]
    ids = np.tile(np.arange(len(code), dtype=np.uint32), rounds)
    offset = np.concatenate([[0], np.cumsum(np.tile([len(a) for a in accesses], rounds))]).astype(np.int64)
    columns = [
        np.tile(np.array([a[k] for a in each], dtype), rounds)
        for k, dtype in enumerate((np.uint64, np.uint8, np.uint8))
    ]
    chunk = Chunk(0, ids, np.append(ids[1:], LAST).astype(np.uint32), offset, *columns)
    machine = replace_fields(machine or load_machine("zen2"), {"microcode": microcode})
    simulation = Simulation(machine, static, ("branches", "instructions"))
    simulation.run(chunk)
    simulation.reset_counters()
    simulation.run(chunk)
    return simulation.counters["cycles"] / rounds


def test_time_of_chains_and_of_what_is_eliminated():
    assert cycles([ADD] * 8, "zen3") == pytest.approx(8, abs=0.1)
    assert cycles([IMUL] * 8, "zen3") == pytest.approx(24, abs=0.2)
    assert cycles([DIVSD] * 4, "zen3") == pytest.approx(4 * 13, rel=0.05)
    assert cycles([NOP] * 12, "zen3") == pytest.approx(3, abs=0.1)  # decoded four a cycle
    assert cycles([MOV] * 12, "zen3") == pytest.approx(3, abs=0.1)  # eliminated: no unit


def test_a_vectors_access_is_one():
    """QEMU makes two accesses of a 128-bit load; Zen 2 loads two such vectors a cycle."""
    pair = [(0x10000000, 8, 0), (0x10000008, 8, 0)]
    assert cycles([LOAD128] * 8, "zen3", [pair] * 8) == pytest.approx(4, abs=0.2)
    assert cycles([LOAD128] * 8, GEM5, [pair] * 8) == pytest.approx(8, abs=0.3)


def test_the_stack_engine_keeps_the_stack_pointer():
    """Pops wait for no pop before them; what adds to the stack pointer is waited for."""
    pop, add = "5b", "4883c408"  # pop rbx; add rsp, 8
    load = [(0x10000000, 8, 0)]
    for family in ("zen3", "skylake"):
        found = instructions_of(pop, add).native(family).instructions
        assert [4 in row for row in found.sources.tolist()] == [True, True]
        assert [4 in row for row in found.destinations.tolist()] == [False, True]
    assert cycles([pop] * 8, "zen3", [load] * 8) == pytest.approx(4, abs=0.2)  # two loads a cycle


def test_the_stack_pointer_is_read_a_cycle_after_the_stack_engine_moved_it():
    push, add, sub, pop = "53", "4883c408", "4883ec08", "5b"  # rbx; rsp, 8
    store, load = [(0x10000000, 8, 1)], [(0x10000000, 8, 0)]
    assert cycles([sub, add], "zen4") == pytest.approx(2, abs=0.05)
    assert cycles([push, add], "zen4", [store, []]) == pytest.approx(2, abs=0.05)  # one cycle would be the addition's
    assert cycles([push, pop], "zen4", [store, load]) == pytest.approx(1, abs=0.05)  # one store a cycle
    found = instructions_of(push, add, ADD).native("zen4").traits
    assert found.tolist() == [STACK_MOVED, STACK_READ, 0]
    filled = [push, add, *[NOP] * 9]  # and the micro-operation that adds what was pushed: 12, decoded four a cycle
    assert cycles(filled, "zen4", [store, *[[]] * 10]) == pytest.approx(3, abs=0.05)
    assert cycles([sub, *filled[1:]], "zen4") == pytest.approx(11 / 4, abs=0.05)


def renamed(between, first, load, machine):
    """Cycles of a chain: a store of rax, `between` stores elsewhere, a load of rax, a multiplication by itself."""
    others = [[(0x10000008 + 8 * k, 8, 1)] for k in range(between)]  # of one line, as many as a cycle writes
    code = [first, *["488911"] * between, load, "480fafc0"]  # mov [rcx], rdx; imul rax, rax
    accesses = [[(0x10000000, 8, 1)], *others, [(0x10000000, 8, 0)], []]
    return cycles(code, "zen4", accesses, machine=machine)


def test_a_load_takes_its_register_from_one_of_the_last_stores():
    store, load, other = "488903", "488b03", "488b06"  # mov [rbx], rax; mov rax, [rbx]; mov rax, [rsi]
    fields = {"forward_latency": 5, "functional_units.store_ports": 8, "pipeline.rob_entries": 512}
    without = replace_fields(load_machine("zen4"), fields)
    machine = replace_fields(without, {"memory_renaming": 4})
    slow = renamed(0, store, load, without)
    assert slow == pytest.approx(3 + 1 + 5, abs=0.1)  # into the store queue, and out of it
    assert renamed(0, store, load, machine) == pytest.approx(3, abs=0.1)
    assert renamed(0, store, other, machine) == pytest.approx(3, abs=0.1)  # whatever the address is made of
    assert renamed(3, store, load, machine) == pytest.approx(3, abs=0.1)
    assert renamed(4, store, load, machine) == pytest.approx(slow, abs=0.5)  # of the fifth last
    assert renamed(0, store, "480fbe03", machine) > slow  # movsx rax, byte ptr [rbx]


def test_arithmetic_in_memory_is_renamed_too():
    same, other = "480103", "480106"  # add [rbx], rax; add [rsi], rax
    access = [(0x10000000, 8, 0), (0x10000000, 8, 1)]
    machine = replace_fields(load_machine("zen4"), {"forward_latency": 5, "memory_renaming": 16})
    assert cycles([same, same], "zen4", [access, access], machine=machine) == pytest.approx(2, abs=0.1)
    assert cycles([same, other], "zen4", [access, access], machine=machine) == pytest.approx(2, abs=0.1)
    slow = replace_fields(load_machine("zen4"), {"forward_latency": 5})
    assert cycles([same, other], "zen4", [access, access], machine=slow) == pytest.approx(2 * 7, abs=0.2)


def test_zen_5_renames_operands_in_memory_too():
    store, multiply = "488903", "480faf03"  # mov [rbx], rax; imul rax, [rbx]
    accesses = [[(0x10000000, 8, 1)], [(0x10000000, 8, 0)]]
    machine = replace_fields(load_machine("zen4"), {"forward_latency": 5, "memory_renaming": 16})
    assert cycles([store, multiply], "zen5", accesses, machine=machine) == pytest.approx(3, abs=0.1)
    assert cycles([store, multiply], "zen4", accesses, machine=machine) == pytest.approx(3 + 1 + 5, abs=0.1)


def test_what_not_all_units_can_do_is_slower():
    """Zen 4 shifts and sets two a cycle and moves one between general and vector registers, of four of each kind."""
    shift, add, set_, move = "48c1e{}03", "4883c{}01", "0f94c{}", "66480f6e{}"  # shl, add r, i; sete r8; movq x, rdi
    for text, numbers, expected in (
        (shift, "0123", 2),
        (add, "0123", 1),
        (set_, "0123", 2),
        (move, ("c7", "cf", "d7", "df"), 4),
    ):
        code = [text.format(number) for number in numbers]
        assert cycles(code, "zen4") == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("codes", "chained"),
    [
        (["c4e2c1f7c6", "c4e2c1f7ce", "c4e2c1f7d6", "c4e2c1f7de"], False),  # shlx of rsi by rdi: none waits for another
        (["48c1e003", "48c1e103", "48c1e203", "48c1e303"], True),  # shl rax, rcx, rdx, rbx, each behind itself
    ],
)
def test_what_waits_for_a_unit_is_charged_to_ports(codes, chained):
    """Shifts, two a cycle. One behind itself waits a cycle for the last round's and a cycle for its port."""
    static = instructions_of(*codes)
    ids = np.tile(np.arange(4, dtype=np.uint32), 1000)
    none = np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.uint8)
    chunk = Chunk(0, ids, np.append(ids[1:], LAST).astype(np.uint32), np.zeros(len(ids) + 1, np.int64), *none)
    simulation = Simulation(load_machine("zen4-native"), static, ("branches", "instructions"))
    stack = new_stack(1)
    simulation.run_with_stacks(chunk, [(stack, np.zeros(len(ids), np.uint32))])
    of = dict(zip(CAUSES, stack[0].tolist(), strict=True))
    stalls = of["ports"] + of["integer operations"]
    assert stalls > 0.6 * stack.sum()
    assert of["ports"] / stalls == pytest.approx(0.5 if chained else 1.0, abs=0.02)


def test_an_operation_keeps_its_port():
    """Four ports take operations by how many wait there; a port that is idle takes none that another waits with."""
    ports = parts.BoundPorts(4)
    assert [ports.reserve(0, 0, 0) for _ in range(8)] == [0] * 4 + [1] * 4
    assert ports.reserve(2, 0, 0) == 2  # of the first two ports
    assert ports.reserve(0, 3, 3) == 3  # those have left
    late = [ports.reserve(0, 3, 9) for _ in range(3)]  # each on another port, which then has one that waits
    assert late == [9, 9, 9]
    assert ports.reserve(1, 3, 9) == 10  # the first port alone, which is taken then


def test_a_compare_and_its_branch_take_one_unit():
    sub, far = "4829c3", "48ffc0"  # sub rbx, rax; inc rax, which depends on nothing but itself
    others = ["4883c101", "4883c201", "4883c601", "4883c701"]  # add rcx, rdx, rsi, rdi, 1
    assert cycles([*others, CMP, JNE], "zen3") == pytest.approx(5 / 4, abs=0.05)  # five on four units
    many = replace_fields(load_machine("zen2"), {"functional_units.int_alu": 16})  # no port is taken by others
    assert cycles([sub, JNE, far] * 4, "zen3", machine=many) == pytest.approx(4, abs=0.1)  # it is waited for a cycle


def test_loads_that_extend():
    """Zeros cost nothing on Zen, and signs a cycle; Zen 4's addresses of a scaled index or three parts cost one."""
    zeros, signs, plain = "0fb60418", "0fbe0418", "8b0418"  # movzx, movsx eax, byte ptr [rax + rbx]; mov
    scaled, parts = "8b0498", "8b441840"  # mov eax, [rax + 4*rbx]; mov eax, [rax + rbx + 64]
    load = [(0x10000000, 8, 0)]
    time = {
        (family, code): cycles([code] * 4, family, [load] * 4) / 4
        for family in ("zen3", "zen4", "skylake")
        for code in (zeros, signs, plain, scaled, parts)
    }
    for family, sign, slow in (("zen3", 1, 0), ("zen4", 1, 1), ("skylake", 0, 0)):
        more = [time[family, code] - time[family, plain] for code in (zeros, signs, scaled, parts)]
        assert more == pytest.approx([0, sign, slow, slow], abs=0.05)


def test_zen_4_shifts_wait_for_no_flags():
    shift, test = "d3e3", "4885c0"  # shl ebx, cl; test rax, rax
    for family, reads in (("zen3", True), ("zen4", False)):
        found = instructions_of(shift, test).native(family).instructions.sources[0].tolist()
        assert (FLAGS_REGISTER in found) == reads
        assert 1 in found and 3 in found  # cl and ebx


def test_a_cycles_stores_go_to_one_line():
    store = "488903"  # mov [rbx], rax
    machine = replace_fields(load_machine("zen4-native"), {"functional_units.store_ports": 2})
    for apart, lines, expected in ((8, 1, 1), (64, 1, 2), (64, 2, 1)):
        accesses = [[(0x10000000, 8, 1)], [(0x10000000 + apart, 8, 1)], [], []]
        several = replace_fields(machine, {"store_lines": lines})
        found = cycles([store] * 2 + [NOP] * 2, "zen4", accesses, machine=several)
        assert found == pytest.approx(expected, abs=0.1)


def test_a_sum_is_there_earlier_for_the_next_sum():
    """Zen 5 adds in two cycles behind an addition, in three otherwise; what is loaded takes no part in it."""
    add, multiply, add_loaded = "f20f58c1", "f20f59c1", "f20f5803"  # addsd, mulsd xmm0, xmm1; addsd xmm0, [rbx]
    load = [(0x10000000, 8, 0)]
    assert cycles([add] * 4, "zen5") == pytest.approx(8, abs=0.05)
    assert cycles([add_loaded] * 4, "zen5", [load] * 4) == pytest.approx(8, abs=0.05)
    assert cycles([add, multiply], "zen5") == pytest.approx(6, abs=0.05)
    assert cycles([add, add, multiply], "zen5") == pytest.approx(8, abs=0.05)
    assert cycles([add] * 4, "zen4") == pytest.approx(12, abs=0.05)


def test_not_all_units_branch():
    """Zen 4 has two units of four that branch, Zen 5 three of its own (jne to the instruction behind it)."""
    assert cycles([CMP, JNE] * 6, "zen4") == pytest.approx(3, abs=0.05)
    wide = replace_fields(load_machine("zen4"), {"functional_units.int_alu": 6})
    assert cycles([CMP, JNE] * 6, "zen5", machine=wide) == pytest.approx(2, abs=0.05)


def test_machines_without_the_field_stay_as_they_are():
    machine = load_machine("zen2")
    assert machine.microcode == GEM5
    assert "microcode" not in machine.to_dict()
    other = replace_fields(machine, {"microcode": "zen2"})
    assert machine_from_dict(other.to_dict()) == other
    with pytest.raises(InputError, match="one of gem5"):
        replace_fields(machine, {"microcode": "zen1"})
    with pytest.raises(InputError, match="out-of-order cores"):
        replace_fields(load_machine("cortex-a53"), {"microcode": "zen2"})


def test_a_trace_without_machine_code_is_refused():
    machine = replace_fields(load_machine("zen2"), {"microcode": "zen2"})
    from dataclasses import replace

    with pytest.raises(InputError, match="needs the machine code"):
        Simulation(machine, replace(instructions_of(ADD), native=None))


def test_examples_of_forms_are_an_assembler_s_text(tmp_path):
    lines = "add %rbx, %rax", ".byte 0x06", "add %rcx, %rdx", "imul %rbx, %rax"  # 0x06 is no instruction of x86-64
    (tmp_path / "a.s").write_text("\n".join((".text", *lines, "")))
    subprocess.run(["as", tmp_path / "a.s", "-o", tmp_path / "a.o"], check=True)
    found = {"add r64,r64": "addq %rbx, %rax", "imul r64,r64": "imulq %rbx, %rax"}
    assert examples([tmp_path / "a.o"]) == {"x86-64": found}
