"""gem5's text → trace and latencies: against gem5's own statistics, QEMU, a plain reading, and damaged text."""

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from support.errors import InputError
from tests.digests import trace_digest
from tests.errors import message
from tests.fuzz import CASES
from tests.tracegen.gem5 import gem5_runs
from tracegen.features import get_schema
from tracegen.features.file import extract
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.gem5.access_size import access_bytes, shares
from tracegen.gem5.address_space import MMAP_BEGINS, AddressSpace
from tracegen.gem5.reader import Reader, import_gem5
from tracegen.gem5.source import find_source, read_run
from tracegen.gem5.statistics import read_statistics
from tracegen.gem5.text.statics import Statics, slot_of
from tracegen.qemu import Execution
from tracegen.qemu import trace as trace_by_qemu
from uarch.machine_files import load_machine

_BEGIN, _END = "---------- Begin Simulation Statistics ----------", "---------- End Simulation Statistics   ----------"
PERIOD = {"o3": 556, "minor": 714}  # picoseconds: 1.8 and 1.4 GHz


def imported(core, tmp_path, source=None):
    """(report, trace, latencies [n]) of one of the runs."""
    source = source or gem5_runs.DATA / core
    done = import_gem5(
        [source], tmp_path / "t.trace.h5", latency=tmp_path / "t.latency.h5", program=gem5_runs.PROGRAM, progress=False
    )
    with LatencyFile(tmp_path / "t.latency.h5") as file:
        return done, Trace(tmp_path / "t.trace.h5"), file.read(0, len(file))[0].astype(int)


def executed(trace):
    """Addresses [n]; accesses [m, 4]: instruction, address, size, is a store."""
    (chunk,) = trace.chunks(size=1 << 20)
    owner = np.repeat(np.arange(len(trace)), np.diff(chunk.access_offset))
    accesses = np.stack([owner, chunk.address.astype(np.int64), chunk.size, chunk.is_store], axis=1)
    return trace.address[chunk.static_id], accesses


# What is read


@pytest.mark.slow
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_counts_agree_with_gem5s_statistics(core, tmp_path):
    """`touch` executes 936 instructions. O3 leaves its 3 system calls out of numInsts (933); Minor counts 4 again whose
    last micro-operation faulted (940).
    """
    done, trace, latency = imported(core, tmp_path)
    statistics = read_statistics(gem5_runs.DATA / core / "stats.txt")
    assert done.checked
    assert len(trace) == done.instructions == done.labelled == len(latency) == 936
    assert statistics["system.cpu.commitStats0.numInsts"] == {"o3": 936 - 3, "minor": 936 + 4}[core]
    assert done.accesses == 216
    if core == "o3":
        assert statistics["system.cpu.commitStats0.numMemRefs"] == 216
    assert latency.sum() == statistics["simTicks"] / PERIOD[core]
    assert statistics["system.cpu.numCycles"] - latency.sum() == {"o3": 1, "minor": 0}[core]  # O3 ticks at 0, too
    assert trace.digest == trace_digest(trace.path)


@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_instructions_accesses_and_latencies_are_those_of_a_plain_reading(core, tmp_path):
    _, trace, latency = imported(core, tmp_path)
    wanted = gem5_runs.reference(core)
    address, accesses = executed(trace)
    assert address.tolist() == wanted.address
    assert [(i, a, bool(s)) for i, a, _, s in accesses.tolist()] == wanted.accesses
    retired = np.cumsum(latency) * PERIOD[core]
    told = [(i, tick) for i, tick in enumerate(wanted.retired) if tick is not None]
    assert [int(retired[i]) for i, _ in told] == [tick for _, tick in told]
    assert (
        len(told) >= {"o3": 936 - 3 - 3, "minor": 936}[core]
    )  # system calls; the last few, before the simulation ends


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_the_trace_is_that_of_qemu(core, tmp_path):
    """Same instructions, same accesses of the same sizes in the same order; only the stack and what mmap gave lie
    elsewhere.
    """
    _, trace, _ = imported(core, tmp_path)
    trace_by_qemu(Execution([str(gem5_runs.PROGRAM)], stdout=2), tmp_path / "q.trace.h5", progress=False)
    with Trace(tmp_path / "q.trace.h5") as other:
        np.testing.assert_array_equal(trace.address, other.address)
        np.testing.assert_array_equal(trace.code, other.code)
        (addresses, ours), (other_addresses, theirs) = executed(trace), executed(other)
    np.testing.assert_array_equal(addresses, other_addresses)
    np.testing.assert_array_equal(ours[:, [0, 2, 3]], theirs[:, [0, 2, 3]])
    ours, theirs = (rows[np.lexsort((rows[:, 1], rows[:, 3], rows[:, 0]))] for rows in (ours, theirs))
    assert len(set((ours[:, 1] - theirs[:, 1]).tolist())) == 3  # the program's data, the stack, mmap
    with Trace(tmp_path / "q.trace.h5") as other:
        (its,), (mine,) = other.chunks(), trace.chunks()
    assert mine.division_steps.tolist() == its.division_steps.tolist() == [7]
    assert mine.division_instruction.tolist() == its.division_instruction.tolist()


def test_a_repeated_string_instruction_is_one_instruction(tmp_path):
    _, trace, _ = imported("o3", tmp_path)
    _, accesses = executed(trace)
    owners, counts = np.unique(accesses[:, 0], return_counts=True)
    (long,) = owners[counts == 40]
    stores = accesses[accesses[:, 0] == long]
    assert set(stores[:, 2].tolist()) == set(stores[:, 3].tolist()) == {1}
    assert np.diff(stores[:, 1]).tolist() == [1] * 39


@pytest.mark.parametrize("more", [0, 1, 7])
def test_the_steps_of_a_division_are_counted(more, tmp_path):
    """`touch` divides once, in a round of four steps after three; with more rounds in the text there are more."""
    lines = gem5_runs.lines("minor")
    (branch,) = [k for k, line in enumerate(lines) if "IDIV_R : br " in line]
    again = lines[branch - 4 : branch + 1] * more
    assert all("div2 " in line or "br " in line for line in again)
    numbered = [re.sub(r"(FetchSeq|CPSeq)=(\d+)", _later(5 * more), line) for line in lines[branch + 1 :]]
    again = [re.sub(r"(FetchSeq|CPSeq)=(\d+)", _later(5 * (k // 5) + 5), line) for k, line in enumerate(again)]
    text = "\n".join([*lines[: branch + 1], *again, *numbered, ""]).encode()
    folder = gem5_runs.copy("minor", tmp_path / "run", text)
    if more:
        (folder / "stats.txt").unlink()
    _, trace, _ = imported("minor", tmp_path, folder)
    (chunk,) = trace.chunks()
    assert chunk.division_instruction.tolist() == [444]
    assert chunk.division_steps.tolist() == [3 + 4 * (1 + more)]
    assert trace.digest == trace_digest(trace.path)


def _later(by):
    return lambda match: f"{match[1]}={int(match[2]) + by}"


def test_the_machine_is_the_one_that_was_asked_for(tmp_path):
    for core, name in (("o3", "cortex-a72"), ("minor", "cortex-a53")):
        done, trace, _ = imported(core, tmp_path)
        assert done.machine.name == name
        assert done.machine.frequency_ghz == load_machine(name).frequency_ghz
        assert (trace.source, trace.isa, trace.command) == ("gem5", "x86-64", ["./touch"])
        assert json.loads(trace.attribute("environment", "")) == ["PATH=/usr/bin:/bin", "LC_ALL=C"]


@pytest.mark.slow
def test_the_trace_serves_as_any_other(tmp_path):
    _, trace, _ = imported("o3", tmp_path)
    for schema in ("default", "timed", "perfvec-51"):
        extract(trace, get_schema(schema), tmp_path / "t.features.h5")


def test_a_warm_up_has_no_labels(tmp_path):
    _, _, whole = imported("o3", tmp_path)
    import_gem5(
        [gem5_runs.DATA / "o3"],
        tmp_path / "w.trace.h5",
        latency=tmp_path / "w.latency.h5",
        warmup=100,
        progress=False,
        program=gem5_runs.PROGRAM,
    )
    with LatencyFile(tmp_path / "w.latency.h5") as file:
        assert file.start == 100
        assert file.read(0, len(file))[0].tolist() == whole[100:].tolist()


@pytest.mark.parametrize("way", ["plain", "pipe", "files"])
def test_the_text_may_come_in_any_way(way, tmp_path):
    whole = "\n".join(gem5_runs.lines("minor")).encode() + b"\n"
    folder = gem5_runs.copy("minor", tmp_path / "run", whole)
    files = [folder]
    if way == "pipe":
        (folder / "trace.out").unlink()
        os.mkfifo(folder / "trace.out")
        threading.Thread(target=lambda: (folder / "trace.out").write_bytes(whole), daemon=True).start()
    elif way == "files":
        (folder / "trace.out").rename(folder / "other.txt")
        files = [folder / "other.txt", folder / "config.json", folder / "stats.txt"]
    done = import_gem5(files, tmp_path / "t.trace.h5", program=gem5_runs.PROGRAM, progress=False)
    assert (done.instructions, done.checked) == (936, True)


@pytest.mark.slow
def test_the_command_reads_standard_input(tmp_path):
    config = gem5_runs.DATA / "minor" / "config.json"
    words = ["-", config, "--program", gem5_runs.PROGRAM, "-o", tmp_path / "t.trace.h5", "--latency", tmp_path / "l.h5"]
    given = (gem5_runs.DATA / "minor" / "trace.out.gz").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "perfvec", "import", "gem5", *map(str, words)], input=given, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert b"936 instructions, 936 labels from 0 on" in done.stderr
    assert b"not compared with stats.txt" in done.stderr


def test_memory_does_not_depend_on_the_length(tmp_path, monkeypatch):
    """Buffers of the least size give the same trace: parts end in the middle of lines, records and instructions."""
    _, trace, latency = imported("o3", tmp_path)
    before = executed(trace)
    monkeypatch.setattr("tracegen.gem5.reader.OUTPUT", 64)
    monkeypatch.setattr("tracegen.gem5.source.BLOCK", 977)
    _, trace, again = imported("o3", tmp_path)
    assert again.tolist() == latency.tolist()
    for one, other in zip(before, executed(trace), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_record_that_never_came_holds_up_no_others(tmp_path):
    """A store that still waits when the run ends has none; those behind it retired all the same."""
    _, _, whole = imported("o3", tmp_path)
    lines = gem5_runs.lines("o3")
    (retired,) = numbers(lines, "O3PipeView:retire:[1-9]")[-300:-299]
    first = max(number for number in numbers(lines, "O3PipeView:fetch:") if number < retired)
    text = "\n".join(lines[:first] + lines[retired + 1 :]) + "\n"
    folder = gem5_runs.copy("o3", tmp_path / "run", text.encode(errors="surrogateescape"))
    done, _, without = imported("o3", tmp_path, folder)
    assert done.checked and len(without) == len(whole)
    assert without.sum() == whole.sum() and (without != whole).sum() <= 2


@pytest.mark.parametrize("cycles", [100_000, 1 << 33])
def test_a_long_latency_is_whole_or_told(cycles, tmp_path):
    """From one instruction on everything retires so many cycles later."""
    _, _, whole = imported("o3", tmp_path)
    lines = gem5_runs.lines("o3")

    def later(found):
        return f"retire:{int(found[1]) + cycles * PERIOD['o3']}"

    for number in numbers(lines, "O3PipeView:retire:[1-9]")[400:]:
        lines[number] = re.sub(r"retire:(\d+)", later, lines[number])
    text = "\n".join(lines) + "\n"
    folder = gem5_runs.copy("o3", tmp_path / "run", text.encode(errors="surrogateescape"))
    (folder / "stats.txt").unlink()  # of another run
    if cycles > 1 << 32:
        assert "retires more than 4,294,967,295 cycles after" in message(lambda: imported("o3", tmp_path, folder))
        return
    _, _, shifted = imported("o3", tmp_path, folder)
    differs = np.flatnonzero(shifted != whole[: len(shifted)])
    assert len(differs) == 1 and shifted[differs] == whole[differs] + cycles


def test_statistics_of_several_dumps_are_of_the_whole_run(tmp_path):
    path = tmp_path / "stats.txt"

    def written(*sections):
        text = [f"{_BEGIN}\n" + "".join(f"{k} {v} # x\n" for k, v in one.items()) + f"{_END}\n" for one in sections]
        path.write_text("\n".join(text))
        return read_statistics(path)

    assert written({"simTicks": 30, "finalTick": 30, "a": 3}, {"simTicks": 50, "finalTick": 80, "a": 5}) == {
        "simTicks": 80,
        "finalTick": 80,
        "a": 8,
    }
    # never reset: the last one has everything
    assert written({"simTicks": 30, "finalTick": 30, "a": 3}, {"simTicks": 80, "finalTick": 80, "a": 8})["a"] == 8
    # reset after a warm-up that no section tells of
    assert written({"simTicks": 50, "finalTick": 80, "a": 5}) == {"simTicks": 50, "finalTick": 80, "a": 5}


def test_a_hash_table_grows_with_its_numbers():
    table = Statics.empty(bits=4)
    pcs = np.random.default_rng(1).integers(-(2**63), 2**63, 8)
    table.pc[: len(pcs)] = pcs
    larger = table.grown(8).grown(8)
    assert [int(larger.slot[slot_of(larger.slot, larger.pc, pc)]) - 1 for pc in pcs] == list(range(8))


# What is wrong


def damaged(core, tmp_path, change, *, statistics=True) -> str:
    """The message for a run whose lines were changed."""
    lines = change(gem5_runs.lines(core))
    folder = gem5_runs.copy(core, tmp_path / "run", ("\n".join(lines) + "\n").encode(errors="surrogateescape"))
    if not statistics:
        (folder / "stats.txt").unlink()
    told = message(lambda: imported(core, tmp_path, folder))
    assert "trace.out" in told
    assert not list(tmp_path.glob("t.*.h5")) and not list(tmp_path.glob(".t*"))
    return told


def numbers(lines, pattern):
    return [number for number, line in enumerate(lines) if re.search(pattern, line)]


def without(pattern, occurrence):
    def change(lines):
        del lines[numbers(lines, pattern)[occurrence]]
        return lines

    return change


def replaced(pattern, occurrence, old, new):
    def change(lines):
        number = numbers(lines, pattern)[occurrence]
        assert re.search(old, lines[number])
        lines[number] = re.sub(old, new, lines[number], count=1)
        return lines

    return change


@pytest.mark.slow
@pytest.mark.parametrize("core", gem5_runs.CORES)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: lines[: numbers(lines, "IsLastMicroop")[500] + 1], "where"),  # cut between instructions
        (without("flags=", 100), "CPSeq"),
        (replaced("flags=", 100, r"CPSeq=(\d)", r"CPSeq=9\1"), "CPSeq"),
        (replaced("flags=", 100, r"  flags=.*", ""), "no whole line of Exec"),
        (replaced("IsLastMicroop", 50, r"\|IsLastMicroop", ""), "another instruction"),
        (replaced("IsFirstMicroop", 50, r"\|IsFirstMicroop", ""), "middle"),
        (replaced("flags=", 100, " T0 ", " T1 "), "another thread"),
        (replaced("flags=", 100, "system.cpu", "system.cpu1"), "another core"),
        (replaced("flags=", 100, "  CPSeq=", "  CPSq="), "no FetchSeq or CPSeq"),
        (replaced("A=0x", 10, "A=0x", "A=0x1234567890abcdef12"), "64-bit"),
        (replaced("flags=", 100, ": 0x", ": 0x7"), "another instruction"),
        (lambda lines: [lines[0], "x" * 5_000_000, *lines[1:]], "longer than 65,536"),
    ],
)
def test_damage_is_told_with_its_line(core, change, told, tmp_path):
    found = damaged(core, tmp_path, change)
    assert told in found
    assert "line " in found or told == "where"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without("O3PipeView:decode", 200), "O3PipeView"),
        (lambda lines: [re.sub(r"retire:([1-9])", r"retire:1\1", line) for line in lines], "multiple|back in time"),
        (lambda lines: [re.sub(r"fetch:(\d+):0x", r"fetch:\1:0x7", line) for line in lines], "another address"),
        (replaced("O3PipeView:retire:[1-9]", 100, r"retire:(\d+)", "retire:"), "O3PipeView"),
        (lambda lines: [line for line in lines if "O3PipeView" not in line], "no O3PipeView record"),
        (lambda lines: [re.sub(r"retire:\d+:", "retire:0:", line) for line in lines], "squashed"),
    ],
)
def test_damage_to_the_pipeline_view_is_told(change, told, tmp_path):
    assert re.search(told, damaged("o3", tmp_path, change))


def test_an_instruction_left_out_is_told_without_statistics(tmp_path):
    """The numbers are set right, so that only the order of the instructions tells."""

    def change(lines):
        first, last = numbers(lines, "IsLastMicroop")[300:302]
        gap = sum("CPSeq" in line for line in lines[first + 1 : last + 1])
        rest = "\n".join(lines[last + 1 :])
        rest = re.sub(r"CPSeq=(\d+)", lambda found: f"CPSeq={int(found[1]) - gap}", rest)
        return [*lines[: first + 1], *rest.split("\n")]

    assert "is no branch" in damaged("minor", tmp_path, change, statistics=False)


def test_text_that_is_cut_is_told(tmp_path):
    folder = gem5_runs.copy("o3", tmp_path / "run")
    whole = (folder / "trace.out.gz").read_bytes()
    (folder / "trace.out.gz").write_bytes(whole[: len(whole) // 2])
    assert "gzip" in message(lambda: imported("o3", tmp_path, folder))
    (folder / "trace.out.gz").write_bytes(gzip.compress(gzip.decompress(whole)[:-40]))
    assert "cut off" in message(lambda: imported("o3", tmp_path, folder))
    (folder / "trace.out.gz").write_bytes(b"\x1f\x8b" + bytes(100))
    assert "gzip" in message(lambda: imported("o3", tmp_path, folder))
    (folder / "trace.out.gz").write_bytes(b"")
    assert "no executed instruction" in message(lambda: imported("o3", tmp_path, folder))
    (folder / "stats.txt").write_text("---------- Begin Simulation Statistics ----------\nsimTicks 1 #\n")
    (folder / "trace.out.gz").write_bytes(whole)
    assert "stats.txt" in message(lambda: imported("o3", tmp_path, folder))


def test_wrong_files_are_told(tmp_path):
    assert "no trace.out.gz" in message(lambda: find_source([tmp_path]))
    assert "no such file" in message(lambda: find_source([tmp_path / "none"]))
    (tmp_path / "trace.out").write_text("")
    assert "config.json" in message(lambda: find_source([tmp_path / "trace.out"]))
    folder = gem5_runs.copy("o3", tmp_path / "run")
    assert "--program" in message(lambda: import_gem5([folder], tmp_path / "t.trace.h5", progress=False))
    (folder / "run.json").write_text('{"begin": "now"}')
    assert "begin" in message(lambda: imported("o3", tmp_path, folder))
    (folder / "run.json").write_text("[")
    assert "run.json" in message(lambda: imported("o3", tmp_path, folder))
    (folder / "run.json").unlink()
    other = tmp_path / "other"
    other.write_bytes(gem5_runs.PROGRAM.read_bytes()[:700])
    assert "lies neither in" in message(
        lambda: import_gem5([folder], tmp_path / "t.trace.h5", program=other, progress=False)
    )
    assert "true" in message(
        lambda: import_gem5([folder], tmp_path / "t.trace.h5", program=shutil.which("true"), progress=False)
    )


class _Space:
    """Excerpts of both texts, changed at random."""

    def __init__(self, folder: Path, lines: int) -> None:
        self.random = random.Random(7)
        self.runs = {}
        for core in gem5_runs.CORES:
            own = gem5_runs.copy(core, folder / core, b"")
            self.runs[core] = read_run(find_source([own]), gem5_runs.PROGRAM, None)
        self.texts = {core: ("\n".join(gem5_runs.lines(core)[:lines]) + "\n").encode() for core in gem5_runs.CORES}

    def mutated(self, core: str) -> bytes:
        choose = self.random
        data = bytearray(self.texts[core])
        for _ in range(choose.choice((1, 1, 1, 2, 5))):
            at, length = choose.randrange(len(data) + 1), choose.choice((1, 2, 8, 40, 300))
            way = choose.randrange(7)
            if way == 0:
                data[at : at + 1] = bytes([choose.randrange(256)])
            elif way == 1:
                del data[at : at + length]
            elif way == 2:
                data[at:at] = data[at : at + length]
            elif way == 3:
                other = choose.randrange(len(data) + 1)
                data[at : at + length] = data[other : other + length]
            elif way == 4:
                data[at:at] = choose.choice((b"\n", b"\0", b"0x", b"9" * 30, b"|", b")", b" : ", b"O3PipeView:", b"-1"))
            elif way == 5:
                del data[at:]
            else:
                lines = bytes(data).split(b"\n")
                one, two = choose.randrange(len(lines)), choose.randrange(len(lines))
                lines[one], lines[two] = lines[two], lines[one]
                data = bytearray(b"\n".join(lines))
        return bytes(data)


@pytest.mark.slow
def test_damaged_texts_are_read_or_told_in_one_line(tmp_path, monkeypatch):
    space = _Space(tmp_path, 250)
    told = 0
    for number in range(CASES):
        core = gem5_runs.CORES[number % 4 == 0]
        run = space.runs[core]
        data = space.mutated(core)
        monkeypatch.setattr("tracegen.gem5.reader.blocks", lambda _, data=data: iter([data[:5000], data[5000:]]))
        reader = Reader(run, tmp_path, None)
        try:
            reader.read()
        except InputError as error:
            assert "\n" not in str(error) and "trace.out" in str(error)
            told += 1
        else:
            count = int(reader.state.instructions)
            assert 0 < count <= 250
            assert int(reader.state.labelled) + reader.pending == count
            assert len(np.concatenate(list(reader.addresses()))) == count
            assert reader.latencies.tell() == 4 * int(reader.state.labelled)
            assert 0 <= reader.cycles * run.simulation.period <= int(reader.state.retired)
        finally:
            reader.close()
    assert told > CASES / 5  # much damage is to what carries no meaning, as names and disassembly


@pytest.mark.slow
def test_damaged_texts_leave_a_whole_trace_or_none(tmp_path):
    space = _Space(tmp_path, 250)
    for number in range(60):
        core = gem5_runs.CORES[number % 2]
        run = space.runs[core]
        run.source.text.write_bytes(space.mutated(core))
        run.source.statistics.unlink(missing_ok=True)
        output = tmp_path / "t.trace.h5"
        try:
            done = import_gem5([run.source.config.parent], output, program=gem5_runs.PROGRAM, progress=False)
        except InputError as error:
            assert "\n" not in str(error)
            assert not output.exists()
        else:
            with Trace(output) as trace:
                assert trace.digest == trace_digest(trace.path)
                assert len(trace) == done.instructions
                assert sum(len(chunk.static_id) for chunk in trace.chunks()) == len(trace)
            output.unlink()


# Where code lies, and how many bytes it accesses


def test_a_dynamic_programs_files_are_found_where_gem5_maps_them():
    program = Path(shutil.which("true"))
    space = AddressSpace(program, "x86-64", Path())
    loader = space.loader
    assert loader is not None
    begin = MMAP_BEGINS["x86-64"]
    space.place_loader(begin + loader.entry, np.array([begin + loader.entry], np.uint64))
    library = Path(re.search(r"=> (\S*libc\S*)", subprocess.check_output(["ldd", program], text=True))[1])
    space.map("/etc/hostname", 0x1000_0000)  # no program
    space.map(str(library), 0x7FFF_F000_0000)
    space.map(str(library), 0x7FFF_F002_6000)  # a further segment
    image = next(image for image, _ in space.placed if image.path == library)
    segment = image.segments[0]
    address = np.array([begin + loader.entry, 0x7FFF_F000_0000 + segment.address + 64, 0x10], np.uint64)
    code, found = space.code(address)
    assert found.tolist() == [True, True, False]
    np.testing.assert_array_equal(code[1], np.frombuffer(library.read_bytes(), np.uint8)[segment.offset + 64 :][:16])


def test_a_loader_is_found_without_the_programs_first_instruction():
    space = AddressSpace(Path(shutil.which("true")), "x86-64", Path())
    loader = space.loader
    size = -(-(loader.high - loader.low) // 4096) * 4096
    for begin in (MMAP_BEGINS["x86-64"], MMAP_BEGINS["x86-64"] - size):
        space = AddressSpace(Path(shutil.which("true")), "x86-64", Path())
        executed = np.array([begin + loader.segments[0].address + 16], np.uint64)
        space.place_loader(None, executed)
        assert space.code(executed)[1].all()


@pytest.mark.parametrize(
    ("isa", "code", "size"),
    [
        ("x86-64", "488b03", 8),  # mov rax, [rbx]
        ("x86-64", "8803", 1),  # mov [rbx], al
        ("x86-64", "660f6f03", 16),  # movdqa xmm0, [rbx]
        ("x86-64", "f30f1003", 4),  # movss xmm0, [rbx]
        ("x86-64", "50", 8),  # push rax
        ("x86-64", "6650", 2),  # push ax
        ("x86-64", "c3", 8),  # ret
        ("x86-64", "f3aa", 1),  # rep stosb
        ("x86-64", "f348a5", 8),  # rep movsq
        ("aarch64", "200040b9", 4),  # ldr w0, [x1]
        ("aarch64", "200040f9", 8),  # ldr x0, [x1]
        ("aarch64", "20004039", 1),  # ldrb w0, [x1]
        ("aarch64", "20008079", 2),  # ldrsh x0, [x1]
        ("aarch64", "200080b9", 4),  # ldrsw x0, [x1]
        ("aarch64", "fd7bbfa9", 16),  # stp x29, x30, [sp, #-16]!
        ("aarch64", "2004403d", 1),  # ldr b0, [x1, #1]
        ("aarch64", "2000c03d", 16),  # ldr q0, [x1]
        ("aarch64", "2070404c", 16),  # ld1 {v0.16b}, [x1]
        ("aarch64", "617c02c8", 8),  # stxr w2, x1, [x3]
        ("aarch64", "0290400d", 4),  # ld1 {v2.s}[1], [x0]
        ("aarch64", "020c9f0d", 1),  # st1 {v2.b}[3], [x0], #1
        ("aarch64", "03cc404d", 8),  # ld1r {v3.2d}, [x0]
        ("aarch64", "03a4404d", 24),  # ld3 {v3.d, v4.d, v5.d}[1], [x0]
        ("aarch64", "0004404c", 64),  # ld4 {v0.8h, v1.8h, v2.8h, v3.8h}, [x0]
        ("aarch64", "0070000c", 8),  # st1 {v0.8b}, [x0]
        ("aarch64", "047c2248", 16),  # casp x2, x3, x4, x5, [x0]
        ("aarch64", "04fc6208", 8),  # caspal w2, w3, w4, w5, [x0]
        ("aarch64", "20740bd5", 64),  # dc zva, x0
        ("aarch64", "020021f8", 8),  # ldadd x1, x2, [x0]
        ("aarch64", "00a000a4", 16),  # ld1b {z0.b}, p0/z, [x0]: gem5's vectors have 128 bits
        ("aarch64", "04a040a4", 4),  # ld1b {z4.s}, p0/z, [x0]
        ("aarch64", "04a080a4", 8),  # ld1sw {z4.d}, p0/z, [x0]
        ("aarch64", "04e0e1e4", 4),  # st1h {z4.d}, p0, [x0, #1, mul vl]
        ("aarch64", "01605fa5", 16),  # ldff1w {z1.s}, p0/z, [x0, xzr, lsl #2]
        ("aarch64", "01a030a4", 8),  # ldnf1b {z1.h}, p0/z, [x0]
        ("aarch64", "01e080a5", 16),  # ldnt1d {z1.d}, p0/z, [x0]
        ("aarch64", "06e04085", 4),  # ld1rw {z6.d}, p0/z, [x0]
        ("aarch64", "062080a5", 16),  # ld1rqd {z6.d}, p0/z, [x0]
        ("aarch64", "00e040a5", 48),  # ld3w {z0.s-z2.s}, p0/z, [x0]
        ("aarch64", "00e0f0e5", 64),  # st4d {z0.d-z3.d}, p0, [x0]
        ("aarch64", "08c0e7c5", 16),  # ld1d {z8.d}, p0/z, [x0, z7.d, lsl #3]: two of 8
        ("aarch64", "088047e4", 4),  # st1b {z8.s}, p0, [x0, z7.s, uxtw]: four of 1
        ("aarch64", "05408085", 16),  # ldr z5, [x0]
        ("aarch64", "010080e5", 2),  # str p1, [x0]
        ("riscv64", "83b50500", 8),  # ld a1, 0(a1)
        ("riscv64", "2380b500", 1),  # sb a1, 0(a1)
        ("riscv64", "87a50500", 4),  # flw fa1, 0(a1)
        ("riscv64", "2fa5b500", 4),  # amoadd.w
        ("riscv64", "8c41", 4),  # c.lw a1, 0(a1)
    ],
)
def test_sizes_of_accesses(isa, code, size):
    raw = np.zeros((1, 16), np.uint8)
    raw[0, : len(code) // 2] = np.frombuffer(bytes.fromhex(code), np.uint8)
    assert access_bytes(raw, isa).tolist() == [size]


@pytest.mark.parametrize(
    ("size", "owner", "wanted"),
    [
        ([16, 16], [0, 0], [8, 8]),
        ([24, 24], [0, 0], [16, 8]),  # ld3 {v0.8b-v2.8b}
        ([24, 24, 24], [0, 0, 0], [8, 8, 8]),
        ([10, 10], [0, 0], [8, 2]),  # fld tbyte
        ([12, 3], [0, 1], [12, 3]),  # in one access
        ([24, 8, 24, 10, 8, 10], [4, 5, 4, 6, 5, 6], [16, 4, 8, 8, 4, 2]),  # two instructions' loads and stores
        ([9, 9, 9, 9], [0, 0, 0, 0], [3, 3, 3, 3]),  # more accesses than such parts
        ([], [], []),
    ],
)
def test_an_instructions_bytes_are_spread_over_its_accesses(size, owner, wanted):
    assert shares(np.array(size, np.int64), np.array(owner, np.int64)).tolist() == wanted


def test_files_below_a_sysroot_come_first(tmp_path):
    """A program's loader and libraries, and relative to its folder what is not there."""
    program = Path(shutil.which("true"))
    interpreter = AddressSpace(program, "x86-64", Path()).loader.path
    root = tmp_path / "root"
    own = root / str(interpreter).lstrip("/")
    own.parent.mkdir(parents=True)
    shutil.copy(interpreter, own)
    space = AddressSpace(program, "x86-64", tmp_path, str(root))
    assert space.loader.path == own
    space.map(str(interpreter), 0x1000_0000)
    shutil.copy(interpreter, tmp_path / "library.so")
    space.map("library.so", 0x2000_0000)
    space.map("/no/such.so", 0x3000_0000)
    assert [image.path for image, _ in space.placed[1:]] == [own, tmp_path / "library.so"]
