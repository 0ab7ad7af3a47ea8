"""ChampSim traces: what records mean, the way back from one of our own traces, and what damaged ones say."""

import gzip
import io
import lzma
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from tests.conftest import KERNELS
from tests.digests import trace_digest
from tests.fuzz import CASES
from tests.tracegen.formats.champsim_records import PIN, champsim_records
from tracegen.decode import decode
from tracegen.decode.champsim import REGISTER, BranchKind
from tracegen.features import SCHEMAS
from tracegen.formats.champsim import import_champsim, unpacked_blocks
from tracegen.formats.champsim_scan import MOST_ADDRESSES, Scan, branch_kind, lengths
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution
from tracegen.qemu import trace as run_qemu
from tracegen.suite.inputs import compile_c
from uarch.instructions import FLAGS_REGISTER, NO_REGISTER, VECTOR_REGISTERS, Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing.simulations import simulated_cycles

RECORD = np.dtype(
    [
        ("ip", "<u8"),
        ("is_branch", "u1"),
        ("taken", "u1"),
        ("written", "u1", 2),
        ("read", "u1", 4),
        ("stores", "<u8", 2),
        ("loads", "<u8", 4),
    ]
)
assert RECORD.itemsize == 64


def record(ip, written="", read="", stores=(), loads=(), branch=0, taken=0):
    row = np.zeros((), RECORD)
    row["ip"], row["is_branch"], row["taken"] = ip, branch, taken
    for field, names in (("written", written.split()), ("read", read.split())):
        row[field][: len(names)] = [PIN[name] for name in names]
    row["stores"][: len(stores)] = stores
    row["loads"][: len(loads)] = loads
    return row


LOOP = [  # a loop run twice, a call and its return, a repeated store of three rounds
    record(0x1000, "rax rflags", "rax rbx"),  # add rax, rbx
    record(0x1003, "ecx", "rsi", loads=[0x8000]),  # mov ecx, [rsi]
    record(0x1006, "", "rdi rcx", stores=[0x9002]),  # mov [rdi], rcx
    record(0x100A, "rip", "rip rflags", branch=1, taken=1),  # jne 0x1000
    record(0x1000, "rax rflags", "rax rbx"),
    record(0x1003, "ecx", "rsi", loads=[0x803E]),
    record(0x1006, "", "rdi rcx", stores=[0x9008]),
    record(0x100A, "rip", "rip rflags", branch=1),
    record(0x100C, "rsp rip", "rsp rip", stores=[0x7FF8], branch=1, taken=1),  # call 0x2000
    record(0x2000, "rdi rcx", "rax rdi rcx", stores=[0xA000]),  # rep stosq
    record(0x2000, "rdi rcx", "rax rdi rcx", stores=[0xA008]),
    record(0x2000, "rdi rcx", "rax rdi rcx", stores=[0xA010]),
    record(0x2003, "rsp rip", "rsp", loads=[0x7FF8], branch=1, taken=1),  # ret
    record(0x1011, "xmm0 mxcsr", "xmm0 xmm1 mxcsr"),  # addsd xmm0, xmm1
]


def write(path, records):
    path.write_bytes(b"".join(np.asarray(row).tobytes() for row in records))
    return path


@pytest.mark.slow
def test_records_become_the_trace_they_mean(tmp_path):
    result = import_champsim(write(tmp_path / "loop.champsimtrace", LOOP), tmp_path / "t.trace.h5", progress=False)
    assert (result.records, result.instructions, result.static, result.notes()) == (14, 12, 8, [])
    with Trace(tmp_path / "t.trace.h5") as trace:
        assert trace.digest == trace_digest(trace.path)
        assert (trace.isa, trace.source, trace.program) == ("champsim", "champsim", "loop")
        program = decode(trace.address, trace.code, trace.isa)
        (chunk,) = trace.chunks()
        executed = trace.address[chunk.static_id]
    assert executed.tolist() == [*[0x1000, 0x1003, 0x1006, 0x100A] * 2, 0x100C, 0x2000, 0x2003, 0x1011]
    assert program.length.tolist() == [3, 3, 4, 2, 5, 4, 3, 1]
    assert [Operation(o).name for o in program.operation] == [
        "INT_ALU",
        "NONE",
        "NONE",
        "BRANCH",
        "BRANCH",
        "FP_ADD",
        "NONE",
        "BRANCH",
    ]
    assert chunk.taken(program).tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0]
    owner = np.repeat(np.arange(len(chunk)), np.diff(chunk.access_offset))
    assert list(zip(owner.tolist(), chunk.address.tolist(), chunk.is_store.tolist(), strict=True)) == [
        (1, 0x8000, 0),
        (2, 0x9002, 1),
        (5, 0x803E, 0),
        (6, 0x9008, 1),
        (8, 0x7FF8, 1),
        (9, 0xA000, 1),
        (9, 0xA008, 1),
        (9, 0xA010, 1),
        (10, 0x7FF8, 0),
    ]
    assert chunk.size.tolist() == [4, 2, 2, 8, 8, 8, 8, 8, 8]  # the register's width where the address is aligned to it
    assert program.sources[1].tolist()[:2] == [6, NO_REGISTER]  # rsi forms the address of the load
    assert program.address_sources.tolist() == [0, 1, 1, 0, 1, 0, 1, 1]
    assert program.destinations[0].tolist()[:2] == [0, FLAGS_REGISTER]
    assert program.flags[6] & int(Flag.STRING)
    assert program.sources[5].tolist()[:2] == [VECTOR_REGISTERS, VECTOR_REGISTERS + 1]


@pytest.mark.parametrize(
    ("written", "read", "kind"),
    [
        ("rip", "rip", BranchKind.JUMP),
        ("rip", "rax", BranchKind.INDIRECT_JUMP),
        ("rip", "rip rflags", BranchKind.CONDITIONAL),
        ("rip", "rip rcx", BranchKind.CONDITIONAL),  # jrcxz
        ("rsp rip", "rsp rip", BranchKind.CALL),
        ("rsp rip", "rsp rip rax", BranchKind.INDIRECT_CALL),
        ("rsp rip", "rsp", BranchKind.RETURN),
        ("rip", "rsp rflags", BranchKind.OTHER),
        ("rax", "rbx", BranchKind.OTHER),
    ],
)
def test_kind_of_a_branch_follows_from_its_registers(written, read, kind):
    row = record(1, written, read)
    registers = np.frombuffer(row.tobytes(), "<u8")[1] >> np.uint64(16)
    assert branch_kind(registers, True) == kind


def test_pins_registers_are_one_space_with_aliases_collapsed():
    aliases = {"rax": "al ah ax eax", "rsi": "sil si esi", "r9": "r9b r9w r9d", "xmm3": "ymm3 zmm3", "rsp": "spl esp"}
    for whole, parts in aliases.items():
        assert {REGISTER[PIN[part]] for part in parts.split()} == {REGISTER[PIN[whole]]}
    assert [REGISTER[PIN[name]] for name in "rax rcx rdx rbx rsp rbp rsi rdi r8 r15".split()] == [*range(9), 15]
    assert REGISTER[PIN["rip"]] is None


@settings(max_examples=100)
@given(st.binary(min_size=16, max_size=16))
def test_any_sixteen_bytes_decode(code):
    program = decode(np.array([64], np.uint64), np.frombuffer(code, np.uint8)[None], "champsim")
    assert program.length[0] >= 1
    assert program.micro_operations[0] >= 1


def test_a_conditional_branch_always_taken_a_few_bytes_on_stays_taken(tmp_path):
    rows = [record(0x1000, "rip", "rip rflags", branch=1, taken=1), record(0x1002, "rax", "rbx")] * 2
    result = import_champsim(write(tmp_path / "t", rows), tmp_path / "t.trace.h5", progress=False)
    with Trace(result.path) as trace:
        program = decode(trace.address, trace.code, trace.isa)
        assert next(trace.chunks()).taken(program).tolist() == [1, 1, 1, 0]
    assert result.disagreements == 0


def test_oddities_are_counted(tmp_path):
    rows = [
        record(0x1000, "rax", "rbx"),
        record(0x1004, "rip", "rip rflags", branch=1, taken=0),  # falls through
        record(0x1006, "rax", "rbx"),
        record(0x1000, "rcx", "rbx"),  # another address than behind 0x1006, and other registers
        record(0x1004, "rip", "rip rflags", branch=1, taken=0),  # not taken, but goes to 0x1000
        record(0x1000, "rax rflags", "rax rbx rcx rdx", stores=[PIN["rsi"]]),  # five read: the fifth ran over
    ]
    result = import_champsim(write(tmp_path / "t", rows), tmp_path / "t.trace.h5", progress=False)
    assert (result.other_registers, result.disagreements, result.gaps, result.overflows) == (2, 1, 1, 1)
    assert len(result.notes()) == 4
    with Trace(result.path) as trace:
        assert trace.accesses == 0


@pytest.fixture(scope="module")
def way_back(tmp_path_factory):
    """One of our own traces, and what comes back of it by way of ChampSim records."""
    folder = tmp_path_factory.mktemp("champsim")
    original = folder / "qsort.trace.h5"
    compile_c(KERNELS / "qsort.c", folder / "qsort", ["-static"])
    run_qemu(Execution([str(folder / "qsort"), "3000"], stdout=2, max_instructions=200_000), original, progress=False)
    with Trace(original) as trace:
        words = np.concatenate(list(champsim_records(trace)))
    (folder / "qsort.champsimtrace").write_bytes(words.tobytes())
    result = import_champsim(folder / "qsort.champsimtrace", folder / "back.trace.h5", progress=False)
    return original, folder, result


@pytest.mark.slow
def test_the_way_back_keeps_sequence_branches_and_lines(way_back):
    original, _, result = way_back
    assert (result.other_registers, result.disagreements, result.gaps) == (0, 0, 0)
    with Trace(original) as first, Trace(result.path) as second:
        assert np.array_equal(first.address, second.address)
        one, two = decode(first.address, first.code, first.isa), decode(second.address, second.code, second.isa)
        (a,), (b,) = first.chunks(), second.chunks()
    assert np.array_equal(a.static_id, b.static_id)
    conditional = (one.flags & int(Flag.CONDITIONAL)) != 0
    branches = int(Flag.BRANCH | Flag.CONDITIONAL | Flag.INDIRECT | Flag.CALL | Flag.RETURN)
    assert np.array_equal(one.flags & branches, two.flags & branches)
    here = conditional[a.static_id]
    assert np.array_equal(a.taken(one)[here], b.taken(two)[here])
    fell = np.flatnonzero(a.taken(one)[:-1] == 0)
    assert np.array_equal(one.length[a.static_id[fell]], two.length[b.static_id[fell]])

    def lines(chunk):
        owner = np.repeat(np.arange(len(chunk)), np.diff(chunk.access_offset))
        return set(zip(owner.tolist(), (chunk.address >> 6).tolist(), chunk.is_store.tolist(), strict=True))

    assert lines(b) <= lines(a)
    assert len(lines(b)) > 0.99 * len(lines(a))  # less those of accesses that crossed a line
    assert (one.operation[a.static_id] == two.operation[b.static_id]).mean() > 0.8


@pytest.mark.slow
def test_the_way_back_keeps_features_and_cycles(way_back):
    original, _, result = way_back
    stored, cycles = [], []
    for path in (original, result.path):
        with Trace(path) as trace:
            program = decode(trace.address, trace.code, trace.isa)
            extractor = SCHEMAS["default"].extractor(program)
            stored.append(np.concatenate([extractor.extract(chunk) for chunk in trace.chunks()]))
            machines = [load_machine(name) for name in ("base", "cortex-a53")]
            cycles.append(simulated_cycles(machines, program, trace.chunks()))
    assert (stored[0] == stored[1]).mean() > 0.92
    assert cycles[1] == pytest.approx(cycles[0], rel=0.15)


@pytest.mark.slow
def test_compressed_and_piped_input_is_the_same(way_back, tmp_path):
    _, folder, result = way_back
    raw = (folder / "qsort.champsimtrace").read_bytes()
    (tmp_path / "a.xz").write_bytes(lzma.compress(raw[:6400], preset=0) + lzma.compress(raw[6400:], preset=0))
    (tmp_path / "b.gz").write_bytes(gzip.compress(raw, 1))
    with Trace(result.path) as trace:
        digest = trace.digest
    for name in ("a.xz", "b.gz"):
        import_champsim(tmp_path / name, tmp_path / "t.trace.h5", progress=False)
        with Trace(tmp_path / "t.trace.h5") as trace:
            assert trace.digest == digest
    words = [sys.executable, "-m", "perfvec", "import", "champsim", "-", "-o", str(tmp_path / "p.trace.h5")]
    piped = subprocess.run(words, input=gzip.compress(raw, 1), capture_output=True, check=False)
    assert piped.returncode == 0, piped.stderr
    with Trace(tmp_path / "p.trace.h5") as trace:
        assert trace.digest == digest


def test_only_so_many_records(way_back, tmp_path):
    _, folder, _ = way_back
    cut = tmp_path / "cut"
    cut.write_bytes((folder / "qsort.champsimtrace").read_bytes()[: 64 * 500 + 7])  # what follows is not looked at
    result = import_champsim(cut, tmp_path / "t.trace.h5", max_instructions=500, progress=False)
    assert result.records == 500


def wrong_input(how):
    good = b"".join(row.tobytes() for row in LOOP)
    odd = bytearray(good)
    if how == "truncated":
        return good[:-10]
    if how == "text":
        return b"this is no trace at all\n" * 40
    if how == "xz":
        return lzma.compress(good)[:-30]
    if how == "gzip":
        packed = bytearray(gzip.compress(good))
        packed[20] ^= 0x55
        return bytes(packed)
    if how == "boolean":
        odd[64 * 5 + 8] = 2
    elif how == "taken":
        odd[64 * 5 + 9] = 1
    elif how == "address":
        odd[64 * 5 : 64 * 5 + 8] = bytes(8)
    return bytes(odd)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("truncated", "record 13, after 54 of its 64 bytes"),
        ("text", "record 0"),
        ("xz", "near record 0"),
        ("gzip", "near record 0"),
        ("boolean", "record 5 has is_branch 2"),
        ("taken", "record 5 has branch_taken 1"),
        ("address", "record 5 has the address 0"),
        ("empty", "nothing was recorded"),
        ("absent", "no such file"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(tmp_path, how, says):
    path = tmp_path / "wrong.xz"
    if how != "absent":
        path.write_bytes(b"" if how == "empty" else wrong_input(how))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError) as error:
        import_champsim(path, tmp_path / "t.trace.h5", progress=False)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert "--skip" not in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_endless_code_is_refused_in_bounded_memory():
    scan = Scan("noise")
    rows = np.zeros(1 << 16, RECORD)
    with pytest.raises(InputError, match=f"more than {MOST_ADDRESSES:,} distinct instructions"):
        for block in range(1 << 14):  # 10^9 addresses
            rows["ip"] = np.arange(1, len(rows) + 1, dtype=np.uint64) * np.uint64(1 << 20) + np.uint64(block)
            scan.feed(rows.view("<u8").reshape(-1, 8))
    assert len(scan.statics.address) <= 4 * MOST_ADDRESSES


@pytest.mark.slow
def test_mutations_are_read_or_refused_with_one_line(tmp_path):
    """Bytes flipped, cut, repeated or put in, plain and compressed: a trace or one line, nothing else."""
    rng = np.random.default_rng(7)
    plain = b"".join(row.tobytes() for row in LOOP * 2)
    forms = [plain, plain, plain, gzip.compress(plain, 1), lzma.compress(plain, preset=0)]
    whole = 0
    for number in range(CASES):
        data = bytearray(forms[number % len(forms)])
        for _ in range(rng.integers(1, 5)):
            at, kind = int(rng.integers(0, len(data))), rng.integers(0, 8)
            if kind < 5:
                data[at] = int(rng.integers(0, 256)) if kind else data[at] ^ 1 << int(rng.integers(0, 8))
            elif kind == 5:
                del data[at : at + 64 * int(rng.integers(0, 3)) + int(rng.integers(0, 2))]
            elif kind == 6:
                data[at:at] = data[at : at + 64]
            else:
                data[at : at + 8] = rng.integers(0, 256, 8, np.uint8).tobytes()
            data = data or bytearray(1)
        path = tmp_path / "m"
        if number % 24 == 0:
            path.write_bytes(data)
            whole += _imported(path, tmp_path / "m.trace.h5")
        else:
            _scanned(bytes(data))
    assert CASES / 200 < whole < CASES / 25  # both ends were met
    assert {entry.name for entry in tmp_path.iterdir()} <= {"m", "m.trace.h5"}


def _imported(path, output):
    try:
        import_champsim(path, output, progress=False)
    except InputError as error:
        assert "\n" not in str(error)
        return False
    with Trace(output) as trace:
        program = decode(trace.address, trace.code, trace.isa)
        assert program.length.min() >= 1
        for chunk in trace.chunks():
            chunk.taken(program)
    return True


def _scanned(data):
    scan = Scan("m")
    opener = gzip.open if data[:2] == b"\x1f\x8b" else lzma.open if data[:4] == b"\xfd7zX" else io.BufferedReader
    try:
        with opener(io.BytesIO(data)) as stream:
            for block in unpacked_blocks(stream, "m", None):
                scan.feed(block)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert (lengths(scan.in_order()[0]) >= 1).all()
