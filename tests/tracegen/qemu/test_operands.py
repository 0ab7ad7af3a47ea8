"""Quotients and prefetched addresses that the plugin takes from QEMU's registers: known answers, gem5's microcode by
hand, and what it reads of encodings against a disassembler.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import capstone
import numpy as np
import pytest
from capstone import x86_const as x86
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.digests import trace_digest
from tracegen.decode import aarch64, decode, disassemble
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import load, save
from tracegen.live_points.record import of_stream, of_trace
from tracegen.live_points.simulate import LivePointsSimulator
from tracegen.qemu import Execution, plugin, stream, trace
from tracegen.qemu.blocks import BlockTable
from tracegen.qemu.interruption import Interruptions
from tracegen.qemu.replay import Replay
from uarch.configuration import Machine
from uarch.instructions import Operation
from uarch.space import sample
from uarch.timing.simulations import simulated_cycles

REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()


class Operand(ctypes.Structure):
    _fields_ = [
        ("known", ctypes.c_bool),
        ("base", ctypes.c_int8),
        ("index", ctypes.c_int8),
        ("scale", ctypes.c_uint8),
        ("extended_from", ctypes.c_uint8),
        ("is_signed", ctypes.c_bool),
        ("displacement", ctypes.c_int64),
    ]


class Encoding(ctypes.Structure):
    _fields_ = [
        ("operand", Operand),
        ("writes", ctypes.c_uint32),
        ("accesses", ctypes.c_bool),
        ("tells", ctypes.c_bool),
        ("prefetches", ctypes.c_bool),
        ("zeroes", ctypes.c_bool),
        ("adds", ctypes.c_int64),
        ("divides", ctypes.c_uint8),
        ("is_signed", ctypes.c_bool),
    ]


@pytest.fixture(scope="session")
def operands(tmp_path_factory):
    """operands.h as a library."""
    folder = tmp_path_factory.mktemp("operands")
    (folder / "o.c").write_text(
        f'#include "{plugin.OPERANDS}"\n'
        "unsigned steps(uint64_t q, unsigned n, bool s) { return divide_steps(q, n, s); }\n"
        "void x86(const uint8_t *c, size_t n, uint64_t a, struct encoding *e) { *e = x86_encoding(c, n, a); }\n"
        "void arm(const uint8_t *c, size_t n, uint64_t a, struct encoding *e) { *e = arm_encoding(c, n, a); }\n"
    )
    library = folder / "o.so"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", "-O1", *warnings, "-shared", "-fPIC", "-o", library, folder / "o.c"], check=True)
    made = ctypes.CDLL(str(library))
    made.steps.argtypes = [ctypes.c_uint64, ctypes.c_uint, ctypes.c_bool]
    for function in (made.x86, made.arm):
        function.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.POINTER(Encoding)]
    return made


# Divisions


def gem5_steps(dividend: int, divisor: int, size: int) -> tuple[int, int]:
    """(quotient, steps) of gem5's microcode of `div`, step by step (microops/regop.isa: Div1, Div2 and divideStep)."""
    bits, mask = 8 * size, (1 << 64) - 1
    low, rest, quotient, left = dividend & ((1 << bits) - 1), dividend >> bits, 0, bits

    def subtract(rest: int, quotient: int) -> tuple[int, int]:
        if divisor <= rest:
            shift = rest.bit_length() - divisor.bit_length()
            shift -= rest < divisor << shift
            return rest - (divisor << shift), quotient | 1 << shift
        return rest, quotient

    def shifted(rest: int) -> int:
        return (rest << 1 | low >> (left - 1) & 1) & mask

    rest, quotient = subtract(rest, quotient)  # div1
    steps = 1
    while True:
        steps += 1
        if left and divisor >> 63:
            while left and not rest >> 63:
                rest, quotient, left = shifted(rest), quotient << 1, left - 1
            if rest >> 63:
                high = rest < divisor and left > 0
                if high:
                    rest, quotient, left = shifted(rest), quotient << 1, left - 1
                if high or divisor <= rest:
                    rest, quotient = (rest - divisor) & mask, quotient + 1
        elif left:
            while rest < divisor and left:
                rest, quotient, left = shifted(rest), quotient << 1, left - 1
            rest, quotient = subtract(rest, quotient)
        if left == 0 and steps > 3 and (steps - 3) % (2 if size == 1 else 4) == 0:
            return quotient & mask, steps


@settings(max_examples=400)
@given(st.sampled_from((1, 2, 4, 8)), st.integers(0, 64), st.integers(0, 64), st.integers(0, 2**192))
@example(8, 0, 0, 2**192 - 1)
@example(8, 0, 63, 0)
def test_steps_follow_from_the_quotient(operands, size, short, shorter, bits):
    whole = 1 << 8 * size
    quotient, divisor = (bits % whole) >> min(short, 8 * size), ((bits >> 64) % whole >> min(shorter, 8 * size)) or 1
    dividend = quotient * divisor + (bits >> 128) % divisor
    found, steps = gem5_steps(dividend, divisor, size)
    assert found == quotient
    assert operands.steps(quotient | 0xABCD << 8 * size & 2**64 - 1, size, False) == steps
    if quotient < whole // 2:
        assert operands.steps(quotient, size, True) == operands.steps(-quotient % 2**64, size, True) == steps


def executed(path: Path, name: str, function: str) -> list[tuple[int, list[int], int | None]]:
    """(index, addresses, steps) of each executed instruction of a function whose text begins with `name`."""
    rows = []
    with Trace(path) as file:
        assert file.digest == trace_digest(file.path)
        text = disassemble(file.address, file.code, file.isa)
        begins, _, names = file.symbols()
        owner = np.searchsorted(begins, file.address, side="right") - 1
        wanted = np.array([line.startswith(name) and names[o] == function for line, o in zip(text, owner, strict=True)])
        for chunk in file.chunks():
            told = dict(zip(chunk.division_instruction.tolist(), chunk.division_steps.tolist(), strict=True))
            for k in np.flatnonzero(wanted[chunk.static_id]).tolist():
                accesses = slice(*(chunk.access_offset[k : k + 2] - chunk.access_offset[0]).tolist())
                rows.append((chunk.start + k, chunk.address[accesses].tolist(), told.get(chunk.start + k)))
    return rows


def run_of(build, folder: Path, **options: int) -> Execution:
    """Return a run of `divide`, of the same instructions each time."""
    return Execution([str(build("divide", "-static"))], stdout=(folder / "out").open("w"), env={}, **options)


@pytest.fixture(scope="module")
def divided(build, tmp_path_factory):
    """(trace, (bytes, negative where signed; quotient) of each division of `main`)"""
    folder = tmp_path_factory.mktemp("divide")
    trace(run_of(build, folder), folder / "divide.trace.h5", progress=False)
    lines = [line.split() for line in (folder / "out").read_text().splitlines()]
    return folder / "divide.trace.h5", [(int(size), int(q, 10 if int(size) < 0 else 16)) for size, q in lines]


@pytest.mark.slow
def test_each_divisions_steps_are_those_of_its_quotient(divided, operands):
    path, quotients = divided
    wanted = [operands.steps(quotient % 2**64, abs(size), size < 0) for size, quotient in quotients]
    found = executed(path, "div", "main") + executed(path, "idiv", "main")
    assert [steps for _, _, steps in sorted(found)] == wanted
    assert set(wanted) > {5, 7, 9, 11, 15, 19, 23, 27, 31, 35, 39}


@pytest.mark.slow
def test_the_compilers_options_do_not_matter(build, divided, tmp_path, monkeypatch):
    monkeypatch.setattr(plugin, "FLAGS", (*plugin.FLAGS, "-O0", "-fno-omit-frame-pointer"))
    trace(run_of(build, tmp_path), tmp_path / "t.trace.h5", progress=False)
    with Trace(tmp_path / "t.trace.h5") as file, Trace(divided[0]) as expected:
        assert file.digest == expected.digest


@pytest.mark.slow
def test_all_divisions_of_a_run_are_told_and_nothing_else(divided):
    with Trace(divided[0]) as file:
        divides = decode(file.address, file.code, file.isa).operation == Operation.INT_DIV
        for chunk in file.chunks():
            assert np.array_equal(np.flatnonzero(divides[chunk.static_id]) + chunk.start, chunk.division_instruction)


@pytest.mark.slow
def test_a_part_of_a_run_has_its_divisions(build, divided, tmp_path):
    with Trace(divided[0]) as file:
        (chunk,) = file.chunks(1 << 30)
        middle = int(chunk.division_instruction[len(chunk.division_instruction) // 2])
    skip, most = middle - 500, 1001
    execution = run_of(build, tmp_path, skip=skip, max_instructions=most)
    trace(execution, tmp_path / "part.trace.h5", progress=False)
    begin, end = np.searchsorted(chunk.division_instruction, [skip, skip + most])
    with Trace(tmp_path / "part.trace.h5") as file, stream(execution) as running:
        for (found,) in (file.chunks(), running.chunks()):
            assert np.array_equal(found.division_instruction + np.uint64(skip), chunk.division_instruction[begin:end])
            assert np.array_equal(found.division_steps, chunk.division_steps[begin:end])
            assert skip + 500 in found.division_instruction + np.uint64(skip)


@pytest.mark.slow
def test_registers_that_are_not_what_they_seem_are_not_believed(build, divided, tmp_path, monkeypatch):
    """Read from 8 bytes beside: quotients and addresses are then unknown, and all else is as it was."""
    execution = run_of(build, tmp_path)
    monkeypatch.setattr(plugin, "FLAGS", (*plugin.FLAGS, "-DDISPLACED=8"))
    trace(execution, tmp_path / "t.trace.h5", progress=False)
    with Trace(tmp_path / "t.trace.h5") as file, Trace(divided[0]) as right:
        assert all(len(chunk.division_steps) == 0 for chunk in file.chunks())
        assert len(file) == len(right) and file.accesses == right.accesses
    trace(
        Execution([str(build("prefetch", "-O2"))], stdout=subprocess.DEVNULL), tmp_path / "p.trace.h5", progress=False
    )
    rows = executed(tmp_path / "p.trace.h5", "prefetch", "gather")
    assert len(rows) == 512 and not any(addresses for _, addresses, _ in rows)


def with_gem5s_divider(count: int) -> list[Machine]:
    machines = sample(count, seed=3)
    assert all(machine.functional_units.div_step_latency is None for machine in machines)
    return machines


@pytest.mark.slow
def test_live_points_keep_each_divides_mean_steps(build, divided, tmp_path):
    path, machines = divided[0], with_gem5s_divider(3)
    points = of_trace(path, units=128, progress=False)
    save(points, tmp_path / "divide.livepoints.h5")
    with stream(run_of(build, tmp_path)) as running:
        streamed = of_stream(running, units=128, progress=False)
    with Trace(path) as file:
        (chunk,) = file.chunks(1 << 30)
        static = decode(file.address, file.code, file.isa)
        exact = simulated_cycles(machines, static, [chunk])
    which = chunk.static_id[chunk.division_instruction.astype(np.int64)]
    means = {int(one): round(float(chunk.division_steps[which == one].mean())) for one in np.unique(which)}
    for each in (points, load(tmp_path / "divide.livepoints.h5"), streamed):
        assert dict(zip(each.divisions.static_id.tolist(), each.divisions.steps.tolist(), strict=True)) == means
    found = LivePointsSimulator(points).simulate(machines)
    assert np.all(np.abs(found.cycles - exact) < 3 * found.half_width)


# Prefetches


@pytest.fixture(scope="module", params=["-O0", "-O2", "-O3 -march=x86-64-v3 -funroll-loops"])
def prefetched(request, build, tmp_path_factory):
    """(trace, function → addresses) of a program, compiled in several ways."""
    folder = tmp_path_factory.mktemp("prefetch")
    with (folder / "out").open("w") as out:
        program = build("prefetch", *request.param.split())
        trace(Execution([str(program)], stdout=out), folder / "prefetch.trace.h5", progress=False)
    wanted: dict[str, list[int]] = {}
    for line in (folder / "out").read_text().splitlines():
        wanted.setdefault(line.split()[0], []).append(int(line.split()[1], 16))
    return folder / "prefetch.trace.h5", wanted


@pytest.mark.slow
@pytest.mark.parametrize("function", ["gather", "stream", "chase", "computed", "changes"])
def test_prefetched_addresses_are_known_or_unknown_but_never_wrong(prefetched, function):
    path, wanted = prefetched
    rows = executed(path, "prefetch", function)
    found = [addresses for _, addresses, _ in rows]
    if function == "changes":
        assert len(rows) == 100 and not any(found)
    elif function == "computed":  # where it is unrolled, only the last one of a round is seen
        assert len(rows) == 100
        assert all(each in ([], [address]) for each, address in zip(found, wanted[function], strict=True))
        assert sum(map(bool, found)) in (10, 12, 14, 50, 100)
    else:
        assert sorted(found) == sorted([address] for address in wanted[function])


def test_prefetches_access_a_byte_and_read(prefetched):
    with Trace(prefetched[0]) as file:
        prefetches = np.array([text.startswith("prefetch") for text in disassemble(file.address, file.code, file.isa)])
        for chunk in file.chunks():
            owner = np.repeat(chunk.static_id, np.diff(chunk.access_offset))
            assert set(chunk.size[prefetches[owner]].tolist()) <= {1}
            assert not chunk.is_store[prefetches[owner]].any()


def test_words_of_prefetches_and_divisions(tmp_path):
    """A prefetch that is told behind the access of a later instruction is left out."""
    rows = [word for number in range(4) for word in (0x400000 + number, 0x90, 0)]
    (tmp_path / "blocks").write_bytes(np.array([1, 4, *rows], "<u8").tobytes())
    blocks = BlockTable(tmp_path, "x86-64")
    blocks.update()
    block, access, division, eight, prefetch = 1 << 62, 1 << 63, 1 << 58, 3 << 51, 7 << 51
    words = [block, access | prefetch | 0x1000, access | 2 << 54 | eight | 0x2000, access | 1 << 54 | prefetch | 0x3000]
    words += [
        3 << 60,
        1 << 63 | 5,
        access | 3 << 54 | prefetch,
        division | 3 << 8 | 19,
        block,
        division | 2 << 8 | 67,
        0,
    ]
    replay = Replay(blocks, Interruptions(tmp_path, blocks), None)
    (found,) = replay.read(np.array(words, np.uint64))
    (last,) = replay.finish()
    assert found.accesses.instruction.tolist() == [0, 2, 3] and found.accesses.size.tolist() == [1, 8, 1]
    assert found.accesses.address.tolist() == [0x1000, 0x2000, 1 << 63 | 5] and not found.accesses.is_store.any()
    assert found.divisions.instruction.tolist() == [3, 6] and found.divisions.steps.tolist() == [19, 67]
    assert len(last.divisions.steps) == 0 and replay.instructions == 8


# Encodings


ENGINE = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
ENGINE.detail = True


def general(instruction: capstone.CsInsn, register: int) -> int | None:
    """The number of the general register that a register is, or is a part of."""
    name = instruction.reg_name(register) or ""
    for number, whole in enumerate(REGISTERS):
        base = whole[1:]
        parts = (
            {whole, base, "e" + base, base[0] + "l", base[0] + "h"}
            if number < 4
            else {whole, base, "e" + base, base + "l"}
        )
        if number >= 8:
            parts = {whole, whole + "d", whole + "w", whole + "b"}
        if name in parts:
            return number
    return None


def check(operands: ctypes.CDLL, code: bytes) -> bool:
    """Return whether the disassembler knows an instruction, of which what is read must be true."""
    instruction = next(ENGINE.disasm(code.ljust(16, b"\0"), 0x400000, 1), None)
    if instruction is None:
        return False
    found, text = Encoding(), f"{instruction.mnemonic} {instruction.op_str}: {bytes(instruction.bytes).hex()}"
    operands.x86(bytes(instruction.bytes), instruction.size, 0x400000, found)
    _, written = instruction.regs_access()
    name = instruction.mnemonic.split()[-1]
    if name in ("test", "cmp", "cwd", "cdq", "cqo"):  # the disassembler has some of them write (rax)
        written = []
    for number in {general(instruction, register) for register in written} - {None}:
        assert found.writes >> number & 1, text
    memory = [operand.mem for operand in instruction.operands if operand.type == x86.X86_OP_MEM]
    assert found.prefetches <= name.startswith("prefetch"), text
    assert (found.divides > 0) == (name in ("div", "idiv")), text
    if found.divides:
        assert found.is_signed == (name == "idiv") and found.divides == instruction.operands[0].size, text
    if found.accesses and not memory:
        assert name in ("push", "pop", "call", "ret"), text
    if (found.tells or found.prefetches) and memory:
        registers = [general(instruction, register) for register in (memory[0].base, memory[0].index)]
        relative = memory[0].base == x86.X86_REG_RIP
        assert memory[0].segment not in (x86.X86_REG_FS, x86.X86_REG_GS), text
        assert [found.operand.base, found.operand.index] == [-1 if r is None else r for r in registers], text
        assert 1 << found.operand.scale == (memory[0].scale if registers[1] is not None else 1), text
        assert found.operand.displacement == memory[0].disp + relative * (0x400000 + instruction.size), text
    return True


@pytest.mark.parametrize("code", ["41c7f800000000", "c7f800000000", "c6f801"])
def test_a_transaction_writes_every_register(operands, code):
    assert check(operands, bytes.fromhex(code))
    found = Encoding()
    operands.x86(bytes.fromhex(code), len(code) // 2, 0x400000, found)
    assert found.writes == 0xFFFFFFFF


@pytest.mark.slow
@settings(max_examples=3000)
@given(
    st.binary(min_size=15, max_size=15),
    st.sampled_from(
        (
            b"",
            b"\x48",
            b"\x41",
            b"\x0f",
            b"\x66\x0f",
            b"\xf3\x0f",
            b"\xc5",
            b"\xc4",
            b"\x0f\x18",
            b"\x0f\x38",
            b"\xf7",
            b"\x8b",
        )
    ),
)
def test_what_is_read_of_any_encoding_is_true(operands, code, front):
    check(operands, front + code)


@pytest.mark.slow
def test_what_is_read_of_a_programs_instructions_is_true(operands, divided):
    with Trace(divided[0]) as file:
        known = sum(check(operands, code.tobytes()) for code in file.code)
    assert known > 4000


ARM = {  # prefetch, address with x1 = 0x10000 and w2 = -3 (or x2)
    0xF9800421: ("prfm pldl1strm, [x1, #8]", (1, -1, 0, 8)),
    0xF89FF020: ("prfum pldl1keep, [x1, #-1]", (1, -1, 0, -1)),
    0xF8A26820: ("prfm pldl1keep, [x1, x2]", (1, 2, 0, 0)),
    0xF8A25820: ("prfm pldl1keep, [x1, w2, uxtw #3]", (1, 2, 3, 0)),
    0xD8FFFFE0: ("prfm pldl1keep, #0x3ffffc", (-1, -1, 0, 0x3FFFFC)),
}


@pytest.mark.parametrize("word", ARM, ids=[text for text, _ in ARM.values()])
def test_prefetches_of_aarch64(operands, word):
    found = Encoding()
    operands.arm(word.to_bytes(4, "little"), 4, 0x400000, found)
    operand = found.operand
    assert found.prefetches and operand.known and not found.writes
    assert (operand.base, operand.index, operand.scale, operand.displacement) == ARM[word][1]
    operands.arm((word | 8).to_bytes(4, "little"), 4, 0x400000, found)  # of instructions
    assert not found.prefetches


@pytest.mark.parametrize(
    ("word", "zeroes", "base"),
    [(0xD50B7423, True, 3), (0xD50B7483, True, 3), (0xD50B7463, False, 0), (0xD50B743F, False, 0)],
    ids=["dc zva, x3", "dc gzva, x3", "dc gva, x3", "dc zva, xzr"],
)
def test_zeroed_blocks_of_aarch64(operands, word, zeroes, base):
    found = Encoding()
    operands.arm(word.to_bytes(4, "little"), 4, 0x400000, found)
    assert (found.zeroes, found.operand.known) == (zeroes, zeroes)
    if zeroes:
        assert (found.operand.base, found.operand.index, found.writes) == (base, -1, 0)


@pytest.mark.parametrize(
    ("word", "adds"),
    [(0x91010063, 64), (0xD1010063, -64), (0x91400463, 4096), (0x91010064, 0), (0x11010063, 0), (0xB1010063, 0)],
    ids=["add x3, #64", "sub x3, #64", "add x3, #4096", "add x4, x3, #64", "add w3, #64", "adds x3, #64"],
)
def test_numbers_that_aarch64_adds(operands, word, adds):
    found = Encoding()
    operands.arm(word.to_bytes(4, "little"), 4, 0x400000, found)
    assert found.adds == adds


@pytest.mark.parametrize("cpu", [None, "cortex-a72"], ids=["512", "64"])
def test_zeroed_memory_is_stored_to(build, tmp_path, cpu):
    """Each byte, and none beside: the C library zeroes by `dc zva`, whose block the CPU decides on."""
    program, environment = build("zeroes", "-O2", "-static", isa="aarch64"), {} if cpu is None else {"QEMU_CPU": cpu}
    with (tmp_path / "out").open("w") as out:
        trace(Execution([str(program)], stdout=out, env=environment), tmp_path / "t.trace.h5", progress=False)
    begin, size = map(int, (tmp_path / "out").read_text().split())
    with Trace(tmp_path / "t.trace.h5") as file:
        names = disassemble(file.address, file.code, file.isa)
        zeroes = np.array([name.startswith("dc zva") for name in names])
        assert zeroes.any()
        (chunk,) = file.chunks(len(file))
        counts = np.diff(chunk.access_offset)[zeroes[chunk.static_id]]
        assert set(counts.tolist()) == {1 if cpu else 8}
        inside = (chunk.address - np.uint64(begin) < size) & (chunk.is_store == 1)
        accesses = zip((chunk.address[inside] - np.uint64(begin)).tolist(), chunk.size[inside].tolist(), strict=True)
        stored = {first + byte for first, bytes_ in accesses for byte in range(bytes_)}
    assert stored == set(range(size))


@pytest.mark.slow
@settings(max_examples=3000)
@given(st.integers(0, 2**32 - 1))
def test_what_is_read_of_any_aarch64_word_is_true(operands, word):
    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    engine.detail = True
    instruction = next(engine.disasm(word.to_bytes(4, "little"), 0x400000, 1), None)
    if instruction is None:
        return
    found, text = Encoding(), f"{instruction.mnemonic} {instruction.op_str}: {word:#010x}"
    operands.arm(word.to_bytes(4, "little"), 4, 0x400000, found)
    numbers = {register for register in aarch64.decode_instruction(instruction).destinations if register < 31}
    if re.fullmatch(r"(ld|st)[1-4]r?", instruction.mnemonic):  # of these the disassembler also has the step written
        numbers &= {word >> 5 & 31}
    assert all(found.writes >> number & 1 for number in numbers), text
    assert found.prefetches <= instruction.mnemonic.startswith("prf"), text
    assert found.zeroes <= text.startswith(("dc zva", "dc gzva")), text
    assert not (found.accesses and (found.prefetches or found.zeroes)), text
    if found.adds:
        number = instruction.operands[2].imm << (instruction.operands[2].shift.value)
        assert found.writes == 1 << (word & 31) and (word & 31) == word >> 5 & 31 and word >> 31, text
        assert (instruction.mnemonic, number) == ("add" if found.adds > 0 else "sub", abs(found.adds)), text
