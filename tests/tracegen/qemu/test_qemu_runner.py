"""Tracing with QEMU: what is counted, how programs end, and what they see."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from support.errors import InputError
from tests.digests import trace_digest
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace

FREESTANDING = ("-nostdlib", "-nostartfiles", "-static", "-no-pie")


@pytest.fixture
def run(tmp_path):
    """run(program, *arguments, **options): (TraceResult, Trace), the trace verified."""
    opened = []

    def run_program(*command, **options):
        result = trace(Execution([str(part) for part in command], **options), tmp_path / "t.trace.h5", progress=False)
        opened.append(Trace(result.path))
        assert opened[-1].digest == trace_digest(opened[-1].path)
        assert len(opened[-1]) == result.instructions
        return result, opened[-1]

    yield run_program
    for file in opened:
        file.close()
    assert not list(tmp_path.glob(".t.trace.h5*")), "temporary files are left"


def whole(file):
    """The trace as one chunk."""
    (chunk,) = file.chunks(size=len(file))
    return chunk


def function_range(file, name):
    address, size, names = file.symbols()
    at = names.index(name)
    return int(address[at]), int(address[at] + size[at])


def executed_in(file, name):
    """Return how many executed instructions lie in a function."""
    low, high = function_range(file, name)
    inside = (file.address >= low) & (file.address < high)
    return int(inside[whole(file).static_id].sum())


# ---- counts ----


def test_counts_every_instruction(build, run):
    result, file = run(build("counted", *FREESTANDING))
    assert (result.isa, result.instructions, result.exit_status) == ("x86-64", 5005, 0)
    assert len(file.address) == 10
    assert file.accesses == 2000


@pytest.mark.parametrize("isa", ["aarch64", "riscv64"])
def test_counts_every_instruction_of_other_isas(build, run, isa):
    result, file = run(build(f"counted_{isa}", *FREESTANDING, isa=isa))
    assert (result.isa, result.instructions, result.exit_status) == (isa, 5006, 0)
    assert file.accesses == 2000
    chunk = whole(file)
    assert set(zip(chunk.size.tolist(), chunk.is_store.tolist(), strict=True)) == {(8, 0), (4, 1)}


@pytest.mark.parametrize("isa", ["aarch64", "riscv64"])
@pytest.mark.parametrize("flags", [("-static",), ()], ids=["static", "dynamic"])
def test_runs_whole_programs_of_other_isas(build, run, isa, flags):
    result, file = run(build("behave", *flags, isa=isa))
    assert result.exit_status == 0
    assert executed_in(file, "work") >= 4000


def test_a_chosen_cpu_counts_every_instruction_of_sve(build, run, monkeypatch):
    monkeypatch.setenv("QEMU_CPU", "max")
    result, _ = run(build("sve_aarch64", *FREESTANDING, isa="aarch64"))
    assert (result.instructions, result.exit_status) == (5007, 0)
    (line,) = result.unrecorded
    assert "SVE" in line


def test_copies_of_the_c_library_load_and_store(build, run, tmp_path):
    with (tmp_path / "places").open("wb") as places:
        result, file = run(build("copies", "-static", isa="aarch64"), stdout=places)
    chunk = whole(file)
    for way, place in enumerate((tmp_path / "places").read_text().split()):
        inside = (chunk.address - np.uint64(place) < 64000) & (chunk.is_store == way)
        accesses = zip(chunk.address[inside] - np.uint64(place), chunk.size[inside], strict=True)
        touched = {int(first) + byte for first, size in accesses for byte in range(size)}
        assert touched == {32 * copy + byte for copy in range(2000) for byte in range(24)}
    assert result.unrecorded == ()


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("-static",), (), ("-no-pie",)], ids=["static", "pie", "no-pie"])
def test_agrees_with_qemu_singlestepping(build, run, tmp_path, flags):
    program = build("behave", *flags)
    environment = {"PATH": os.environ["PATH"]}  # the C library's start reads all of it
    result, _ = run(program, env=environment)
    log = tmp_path / "log"
    # "exec,nochain" with one instruction a block writes a line per executed instruction
    command = ["qemu-x86_64", "-singlestep", "-d", "exec,nochain", "-D", str(log), str(program)]
    subprocess.run(command, check=True, env=environment)
    with log.open("rb") as stream:
        lines = sum(line.startswith(b"Trace") for line in stream)
    assert result.instructions == pytest.approx(lines, rel=0.01)


def test_repeated_string_is_one_instruction(build, run):
    result, file = run(build("strings", *FREESTANDING))
    assert result.instructions == 13
    chunk = whole(file)
    assert np.diff(chunk.access_offset).tolist() == [0, 0, 0, 64, 0, 0, 0, 8, 0, 0, 0, 0, 0]
    assert chunk.is_store[:64].all()
    assert np.diff(chunk.address[:64].astype(np.int64)).tolist() == [1] * 63
    assert chunk.is_store[64:].tolist() == [0, 1] * 4


def test_accesses_have_address_size_and_kind(build, run):
    _, file = run(build("accesses", *FREESTANDING))
    chunk = whole(file)
    data = int(chunk.address[0])
    assert data % 64 == 0
    found = [
        (int(address) - data, int(size), int(store))
        for address, size, store in zip(chunk.address, chunk.size, chunk.is_store, strict=True)
    ]
    stores = [(0, 1, 1), (2, 2, 1), (4, 4, 1), (8, 8, 1)]
    loads = [(0, 1, 0), (2, 2, 0), (4, 4, 0), (8, 8, 0)]
    assert found[:10] == [*stores, *loads, (4, 4, 0), (4, 4, 1)]
    assert found[10][1:] == (8, 1) and found[11] == (found[10][0], 8, 0)  # push, pop


def test_code_is_what_the_file_holds(build, run):
    program = build("counted", *FREESTANDING)
    _, file = run(program)
    binary = program.read_bytes()
    for row in range(len(file.address) - 1):
        length = int(file.address[row + 1] - file.address[row])
        assert file.code[row, :length].tobytes() in binary
        assert not file.code[row, length:].any()


def test_symbols_are_at_run_time_addresses(build, run):
    _, file = run(build("behave"))
    names = file.symbols()[2]
    assert {"main", "work", "printf"} <= set(names)
    assert executed_in(file, "work") >= 4000
    assert executed_in(file, "__libc_start_main") > 0  # of the C library


# ---- max and skip ----


def test_max_is_exact_and_stops(build, run):
    result, _ = run(build("behave"), "wait", max_instructions=1_234_567)
    assert result.instructions == 1_234_567
    assert result.stopped and result.exit_status is None and result.signal is None


def test_max_beyond_the_end_changes_nothing(build, run):
    result, _ = run(build("counted", *FREESTANDING), max_instructions=1_000_000)
    assert (result.instructions, result.exit_status, result.stopped) == (5005, 0, False)


@pytest.mark.parametrize(("skip", "limit"), [(1, None), (777, 100), (4, 3), (5004, None)])
def test_skip_is_exact(build, run, tmp_path, skip, limit):
    program = build("counted", *FREESTANDING)
    _, file = run(program)
    full = whole(file)
    expected = file.address[full.static_id][skip : None if limit is None else skip + limit]
    owners = np.repeat(np.arange(len(full)), np.diff(full.access_offset))
    result = trace(Execution([str(program)], skip=skip, max_instructions=limit), tmp_path / "part.h5", progress=False)
    with Trace(result.path) as part:
        chunk = whole(part)
        assert part.address[chunk.static_id].tolist() == expected.tolist()
        wanted = full.address[(owners >= skip) & (owners < skip + len(expected))]
        assert chunk.address.tolist() == wanted.tolist()


def test_skip_counts_repeated_strings_once(build, run):
    result, file = run(build("strings", *FREESTANDING), skip=4)
    assert result.instructions == 9
    assert np.diff(whole(file).access_offset).tolist() == [0, 0, 0, 8, 0, 0, 0, 0, 0]


def test_skip_beyond_the_end_is_an_error(build, tmp_path):
    with pytest.raises(InputError, match="nothing was recorded"):
        trace(Execution([str(build("counted", *FREESTANDING))], skip=5005), tmp_path / "t.h5", progress=False)
    assert not list(tmp_path.iterdir())


def test_a_source_file_is_not_replaced_by_a_trace(build, tmp_path):
    source = tmp_path / "counted.c"
    source.write_text("int main() {}")
    with pytest.raises(InputError, match=r"counted.c: is no perfvec-trace file, and would be replaced by one"):
        trace(Execution([str(build("counted", *FREESTANDING))]), source, progress=False)
    assert source.read_text() == "int main() {}" and list(tmp_path.iterdir()) == [source]


# ---- how programs end ----


def test_program_that_closes_stderr_and_exits_directly(build, run):
    result, file = run(build("behave"), "_exit")
    assert result.exit_status == 3
    assert executed_in(file, "work") >= 8000


@pytest.mark.slow
def test_program_that_closes_every_descriptor(build, run):
    result, file = run(build("behave"), "close")
    assert result.exit_status == 0
    assert executed_in(file, "work") >= 12_000_000


def test_forked_child_is_not_traced(build, run):
    result, file = run(build("behave"), "fork")
    assert result.exit_status == 0
    assert executed_in(file, "work") >= 8000
    assert executed_in(file, "child_work") == 0
    (line,) = result.unrecorded
    assert line.endswith("child processes that are not recorded: 1 (trace their programs by themselves)")


def test_exec_ends_the_trace(build, run):
    result, file = run(build("behave"), "exec")
    assert result.exit_status == 0
    assert result.replaced_by == "/bin/true"
    assert executed_in(file, "work") >= 4000


@pytest.mark.parametrize("isa", ["aarch64", "riscv64"])
def test_a_conditional_store_stores_where_it_succeeds_and_loads_nothing(build, run, isa):
    result, file = run(build(f"conditional_{isa}", *FREESTANDING, isa=isa))
    chunk = whole(file)
    assert result.exit_status == 0
    assert list(zip(chunk.size.tolist(), chunk.is_store.tolist(), strict=True)) == [(8, 0), (8, 1)] * 100


def test_death_by_sigkill_keeps_what_was_executed(build, run):
    result, file = run(build("behave"), "kill")
    assert result.signal == signal.SIGKILL and result.exit_status is None
    assert executed_in(file, "work") >= 4000
    assert file.ended_by == "signal 9 (killed)"


def test_death_by_fault_ends_at_the_faulting_instruction(build, run):
    result, file = run(build("fault", *FREESTANDING), stderr=subprocess.DEVNULL)
    assert result.signal == signal.SIGSEGV
    assert result.instructions == 5
    assert file.accesses == 1
    assert file.ended_by == "signal 11 (segmentation fault)"
    assert result.cut_short == file.cut_short
    assert file.cut_short == f"{file.program}: ended by signal 11 (segmentation fault) after 5 recorded instructions"


def test_an_illegal_instruction_is_told_with_what_may_be_the_matter(build, run):
    result, file = run(build("behave"), "illegal", stderr=subprocess.DEVNULL)
    assert file.ended_by == "signal 4 (illegal instruction)"
    assert "QEMU may lack instructions that the program uses" in result.cut_short


def test_a_program_that_ends_by_itself_has_no_such_mark(build, run):
    result, file = run(build("behave"), "_exit")
    assert (file.ended_by, file.cut_short, result.cut_short, result.unrecorded) == ("", "", "", ())


def test_handled_fault_does_not_execute_the_rest_of_its_block(build, run):
    result, file = run(build("recover"), "50")
    assert result.exit_status == 0
    ids = file.address[whole(file).static_id]
    attempt, end = function_range(file, "attempt")
    assert int(np.count_nonzero(ids == attempt)) == 51
    last = ids[(ids >= attempt) & (ids < end)].max()
    assert int(np.count_nonzero(ids == last)) == 1  # the return is reached once
    assert executed_in(file, "attempt") == 50 * 1 + 5  # only the lea, but for the last time


def test_threads_apart(build, run):
    result, file = run(build("behave"), "threads")
    assert result.threads == ()
    (line,) = result.unrecorded
    assert line.endswith("threads that are not recorded: 2 (perfvec trace --threads records each)")
    assert executed_in(file, "child_work") == 0


def test_threads_get_files_of_their_own(build, run, tmp_path):
    result, _ = run(build("behave"), "threads", threads=True)
    assert result.unrecorded == ()
    assert [path.name for path, _ in result.threads] == ["t.thread1.trace.h5", "t.thread2.trace.h5"]
    for number, (path, instructions) in enumerate(result.threads, 1):
        with Trace(path) as file:
            assert len(file) == instructions
            assert file.digest == trace_digest(file.path)
            assert executed_in(file, "child_work") == pytest.approx(50_000 * number * 5, rel=0.5)
            assert executed_in(file, "child_work") >= 50_000 * number * 4


@pytest.mark.parametrize(
    ("isa", "flags"),
    [
        ("x86-64", ()),
        ("aarch64", ("-march=armv8.1-a",)),
        ("aarch64", ("-march=armv8-a", "-mno-outline-atomics")),
        ("riscv64", ()),
    ],
    ids=["x86", "arm", "arm-exclusive", "riscv"],
)
def test_atomic_update_loads_and_stores(build, run, isa, flags):
    _, file = run(build("behave", "-static", *flags, isa=isa), "atomics")
    chunk = whole(file)
    low, high = function_range(file, "add_atomically")
    address = file.address[chunk.static_id]
    owners = np.repeat(address, np.diff(chunk.access_offset))
    inside = (owners >= low) & (owners < high)
    place, count = np.unique(chunk.address[inside], return_counts=True)
    inside &= chunk.address == place[count.argmax()]
    assert chunk.is_store[inside].tolist() == [0, 1] * 1100


@pytest.mark.slow
def test_interrupt_keeps_what_was_executed(build, tmp_path):
    script = (
        "import sys; from tracegen.qemu import Execution, trace\n"
        f"r = trace(Execution([{str(build('behave'))!r}, 'wait']), {str(tmp_path / 't.h5')!r}, progress=False)\n"
        "print(r.interrupted, r.signal, r.instructions > 1000)"
    )
    # A shell's background job, as which the tests may run, ignores SIGINT, and so would what it starts.
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + script
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    limit = time.monotonic() + 30
    while time.monotonic() < limit and not any(part.stat().st_size > 1 << 16 for part in tmp_path.glob(".*.part")):
        time.sleep(0.05)  # until a chunk is written
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output.split() == ["True", str(int(signal.SIGINT)), "True"]
    assert [path.name for path in tmp_path.iterdir()] == ["t.h5"]


# ---- what programs see ----


def test_program_sees_its_world_and_its_status_comes_back(build, tmp_path):
    program = build("behave")
    folder = tmp_path / "a, b=c"
    folder.mkdir()
    (folder / "in").write_text("hello\n")
    with (folder / "in").open() as stdin, (folder / "out").open("w") as stdout:
        environment = {"PATH": os.environ["PATH"], "GREETING": "servus"}
        execution = Execution([str(program), "echo", "--x y"], stdin=stdin, stdout=stdout, env=environment, cwd=folder)
        result = trace(execution, folder / "t.h5", progress=False)
    assert result.exit_status == 7
    assert (folder / "out").read_text() == f"{program}|--x y|servus|{folder}|hello\n"


@pytest.mark.slow
def test_program_is_looked_up_in_path_and_scripts_are_interpreted(run, tmp_path, capfd):
    result, file = run("true")
    assert "script" not in capfd.readouterr().err
    assert result.exit_status == 0 and file.program == "true" and file.command == ["true"]
    assert result.replaced_by is None
    script = tmp_path / "script"
    for first_line in ("#! /bin/sh -e", "#!/usr/bin/env sh"):
        script.write_text(f"{first_line}\nexit $1\n")
        script.chmod(0o755)
        result, _ = run(script, "5")
        assert result.exit_status == 5 and result.replaced_by is None
        said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("perfvec: ")]
        assert len(said) == 1 and f"{script} is a script" in said[0] and "bin/sh, without" in said[0]


# ---- errors ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such program"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_text("text"), "is not executable"),
        (lambda path: (path.write_text("text"), path.chmod(0o755)), "not an ELF program"),
        (lambda path: (path.write_text("#!\n"), path.chmod(0o755)), "names no interpreter"),
        (lambda path: (path.write_bytes(b"\x7fELF\x01\x01\x01" + bytes(60)), path.chmod(0o755)), "32-bit|not an ELF"),
    ],
)
def test_wrong_programs_are_named(tmp_path, make, message):
    make(tmp_path / "program")
    with pytest.raises(InputError, match=message) as error:
        trace(Execution([str(tmp_path / "program")]), tmp_path / "t.h5", progress=False)
    assert "\n" not in str(error.value)


def test_wrong_requests_are_named(tmp_path, monkeypatch):
    output = tmp_path / "t.h5"
    for command, path, options, message in [
        ([], output, {}, "no program"),
        (["true"], tmp_path / "none" / "t.h5", {}, "does not exist"),
        (["true"], tmp_path, {}, "is a folder"),
        (["true"], output, {"max_instructions": 0}, "must be from 1 to"),
        (["true"], output, {"skip": -1}, "must be from 0 to"),
        (["no-such-program-here"], output, {}, "no such program in PATH"),
        ([""], output, {}, "the program's name is empty"),
        (["sh", "-c", "kill -SEGV $$"], output, {"skip": 10**9}, r"nothing was recorded \(sh was ended by signal 11"),
    ]:
        with pytest.raises(InputError, match=message):
            trace(Execution(command, **options), path, progress=False)


def test_missing_qemu_and_compiler_are_named(build, tmp_path, monkeypatch):
    program = build("counted", *FREESTANDING)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="apt install qemu-user"):
        trace(Execution([str(program)]), tmp_path / "t.h5", progress=False)
    (tmp_path / "qemu-x86_64").symlink_to(shutil.which("qemu-x86_64", path=os.defpath + ":/usr/bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(InputError, match="no C compiler"):
        trace(Execution([str(program)]), tmp_path / "t.h5", progress=False)


def test_failed_compilation_is_named(build, tmp_path, monkeypatch):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'plugin.c: error: broken' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(InputError, match="error: broken"):
        trace(Execution([str(build("counted", *FREESTANDING))]), tmp_path / "t.h5", progress=False)


# ---- threads, counted ----


@pytest.mark.slow
def test_each_thread_has_exactly_its_own_instructions(build, run):
    _, main = run(build("parallel"), threads=True)
    main_path = main.path
    assert executed_in(main, "counted") == 0
    counts = []
    for path in sorted(main_path.parent.glob("t.thread*.trace.h5")):
        with Trace(path) as file:
            assert file.digest == trace_digest(file.path)
            counts.append(executed_in(file, "counted"))
    assert counts == [3 * n + 3 for n in (1000, 20000, 300000)]  # in the order of creation


def test_openmp_threads_share_the_loop_exactly(build, run):
    _, main = run(
        build("openmp", "-fopenmp"),
        threads=True,
        env={**os.environ, "OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "passive"},
    )
    counts = [executed_in(main, "counted")]
    for path in main.path.parent.glob("t.thread*.trace.h5"):
        with Trace(path) as file:
            counts.append(executed_in(file, "counted"))
    # 30 calls of 3 * 100 + 3 instructions, ten a thread
    assert counts == [10 * 303] * 3


def test_an_instruction_across_pages_is_executed_once(build, run):
    _, file = run(build("across_pages", *FREESTANDING))
    address = file.address[whole(file).static_id]
    assert np.count_nonzero(address % 4096 == 4094) == 100
