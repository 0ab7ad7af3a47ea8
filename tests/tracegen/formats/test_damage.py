"""Hostile files, and damaged records of the plugin: one clear line or the right content. (Mutated files: test_fuzz.)"""

from __future__ import annotations

import random
import resource
import shutil

import h5py
import numpy as np
import pytest

from support import unsealed
from support.errors import InputError
from support.seal import seal
from support.unsealed import ALLOWED
from tests.fuzz import CASES, readers
from tests.fuzz.forked import Forked
from tests.fuzz.mutate import mutated
from tracegen.formats.trace import Trace
from tracegen.qemu.blocks import BlockTable
from tracegen.qemu.execution import Execution
from tracegen.qemu.interruption import WHOLE, Interruptions
from tracegen.qemu.replay import Replay, expand
from tracegen.qemu.ring import SLOT_WORDS, Ring
from tracegen.qemu.run import Run


@pytest.fixture(scope="module")
def trace_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "t.trace.h5"
    readers.trace(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def latency_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "t.latency.h5"
    readers.latency(path)
    return path.read_bytes()


def replace(file, name, **options):
    """The dataset again, with other options."""
    options = {"shape": file[name].shape, "dtype": file[name].dtype, **options}
    del file[name]
    file.create_dataset(name, **options)


def _with_a_two(file):
    values = file["memory/is_store"][:]
    values[999] = 2
    return values


HUGE = 10**15
HOSTILE_TRACES = {
    "a length that nothing is stored for": lambda f: f["dynamic/static_id"].resize(HUGE, axis=0),
    "static instructions without end": lambda f: replace(f, "static/address", shape=(HUGE,), chunks=(1024,)),
    "code without end": lambda f: replace(f, "static/code", shape=(HUGE, 16), chunks=(64, 16)),
    "a chunk of many gigabytes": lambda f: replace(f, "dynamic/static_id", shape=(1 << 29,), chunks=(1 << 29,)),
    "symbols without end": lambda f: replace(f, "symbols/address", shape=(HUGE,), chunks=(1024,)),
    "names without end": lambda f: replace(f, "symbols/name", shape=(HUGE,), chunks=(1024,)),
    "names that are numbers": lambda f: replace(f, "symbols/name", dtype="<u8"),
    "lines of files that are not there": lambda f: f["lines/file"].__setitem__(0, 9),
    "symbols out of order": lambda f: f["symbols/address"].__setitem__(0, 99),
    "another type": lambda f: replace(f, "memory/address", dtype="<f8"),
    "another byte order": lambda f: replace(f, "memory/address", dtype=">u8"),
    "more dimensions": lambda f: replace(f, "memory/size", shape=(2000, 1)),
    "a scalar": lambda f: replace(f, "memory/size", shape=()),
    "a group in a dataset's place": lambda f: (f.__delitem__("memory/size"), f.create_group("memory/size")),
    "a link to another file": lambda f: (
        f.__delitem__("static"),
        f.__setitem__("static", h5py.ExternalLink("other.h5", "static")),
    ),
    "a link to itself": lambda f: (f.__delitem__("static"), f.__setitem__("static", h5py.SoftLink("/static"))),
    "data in another file": lambda f: replace(
        f, "memory/size", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)], chunks=None
    ),
    "a command that is no list": lambda f: f.attrs.__setitem__("command", "{}"),
    "a command of numbers": lambda f: f.attrs.__setitem__("command", "[1]"),
    "a command that is no JSON": lambda f: f.attrs.__setitem__("command", "[" * 100_000),
    "a number for a text": lambda f: f.attrs.__setitem__("digest", 5),
    "a version of many": lambda f: f.attrs.__setitem__("version", [1, 2]),
    "no digest": lambda f: f.attrs.__delitem__("digest"),
    "accesses after the end": lambda f: f["memory/instruction"].__setitem__(1999, readers.INSTRUCTIONS + 7),
    # Which a core would wait for without end.
    "an access that is neither a load nor a store": lambda f: replace(f, "memory/is_store", data=_with_a_two(f)),
    "system calls after the end": lambda f: f["system_calls/instruction"].__setitem__(29, readers.INSTRUCTIONS),
    "system calls out of order": lambda f: f["system_calls/instruction"].__setitem__(5, 3),
    "two system calls of one instruction": lambda f: f["system_calls/instruction"].__setitem__(5, 405),
    "system calls without numbers": lambda f: f.__delitem__("system_calls/number"),
    "fewer numbers than system calls": lambda f: f["system_calls/number"].resize(20, axis=0),
    "divisions after the end": lambda f: f["divisions/instruction"].__setitem__(29, readers.INSTRUCTIONS),
    "divisions out of order": lambda f: f["divisions/instruction"].__setitem__(5, 3),
    "two divisions of one instruction": lambda f: f["divisions/instruction"].__setitem__(5, 407),
    "divisions without steps": lambda f: f.__delitem__("divisions/steps"),
    "fewer steps than divisions": lambda f: f["divisions/steps"].resize(20, axis=0),
    "a division of no step": lambda f: f["divisions/steps"].write_direct(np.zeros(len(f["divisions/steps"]), np.uint8)),
    "more steps than there are": lambda f: f["divisions/steps"].write_direct(
        np.full(len(f["divisions/steps"]), 68, np.uint8)
    ),
    "accesses out of order": lambda f: f["memory/instruction"].__setitem__(1000, 0),
}
HOSTILE_LATENCIES = {
    "a length that nothing is stored for": lambda f: f["latency"].resize(HUGE, axis=1),
    "machines without end": lambda f: replace(f, "uarch", shape=(HUGE,), chunks=(1024,)),
    "machines that are no JSON": lambda f: f["uarch"].__setitem__(0, "{"),
    "machines that are none": lambda f: f["uarch"].__setitem__(0, "[1, 2]"),
    "a machine of nonsense": lambda f: f["uarch"].__setitem__(1, '{"name": "x", "core": 5}'),
    "a start before the trace": lambda f: f.attrs.__setitem__("start", -1),
    "a start that is a text": lambda f: f.attrs.__setitem__("start", "x"),
    "a row too few": lambda f: replace(f, "latency", shape=(1, 2000)),
    "another type": lambda f: replace(f, "latency", dtype="<f4"),
    "no simulator": lambda f: f.attrs.__delitem__("simulator"),
}


@pytest.fixture(scope="module")
def forked():
    """The children of all these files: forks of one process that has h5py, with the same limits."""
    made = Forked()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "unsealed"])
@pytest.mark.parametrize(
    ("kind", "what"),
    [*(("trace", what) for what in HOSTILE_TRACES), *(("latency", what) for what in HOSTILE_LATENCIES)],
)
def test_a_hostile_file_is_refused_in_little_memory(
    kind, what, sealed, trace_bytes, latency_bytes, tmp_path, monkeypatch, forked
):
    data, content, change = {
        "trace": (trace_bytes, readers.trace_content, HOSTILE_TRACES.get(what)),
        "latency": (latency_bytes, readers.latency_content, HOSTILE_LATENCIES.get(what)),
    }[kind]
    path = tmp_path / f"t.{kind}.h5"
    path.write_bytes(data)
    with h5py.File(path, "r+") as file:
        change(file)
    if sealed:
        seal(path)
    else:  # as another program would write it: without a user block
        path.write_bytes(data)
        unwrapped = tmp_path / "plain.h5"
        with h5py.File(path) as source, h5py.File(unwrapped, "w") as target:
            for name in source:
                source.copy(name, target)
            target.attrs.update(source.attrs)
            change(target)
        path = unwrapped
        with pytest.raises(InputError, match=r"has no seal .*--unsealed"):
            content(path)
        monkeypatch.setenv(ALLOWED, "1")
        monkeypatch.setattr(unsealed, "ended", forked)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError) as error:
        content(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # KiB


def test_an_unsealed_file_is_read_where_that_is_allowed(trace_bytes, tmp_path, monkeypatch):
    path = tmp_path / "t.trace.h5"
    path.write_bytes(trace_bytes)
    expected = readers.trace_content(path)
    with h5py.File(tmp_path / "plain.h5", "w") as target, h5py.File(tmp_path / "t.trace.h5") as source:
        for name in source:
            source.copy(name, target)
        target.attrs.update(source.attrs)
    monkeypatch.setenv(ALLOWED, "1")
    assert readers.trace_content(tmp_path / "plain.h5") == expected


def _child_that(does: str) -> str:
    """The program of a child that does this in place of reading its file."""
    return (
        "import sys; sys.path[:] = sys.argv[3:]; from support import unsealed\n"
        f"def read(path):\n    {does}\nunsealed.read_all = read; unsealed.child(*sys.argv[1:3])"
    )


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("import os; os.abort()", "its library ends by signal 6"),
        ("while True: pass", "it takes too long"),
        ("x = bytearray(2 << 30)", "MemoryError"),
        ("raise OSError('two\\nlines')", "two lines"),
    ],
    ids=["crash", "endless", "memory", "error"],
)
def test_what_the_library_cannot_read_ends_only_a_child(tmp_path, monkeypatch, does, reason):
    monkeypatch.setattr(unsealed, "CPU_S", 1)
    monkeypatch.setattr(unsealed, "CHILD", _child_that(does))
    monkeypatch.setenv(ALLOWED, "1")
    path = tmp_path / "t.trace.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(InputError) as raised:
        Trace(path)
    assert str(raised.value) == f"{path}: cannot be read as HDF5 ({reason}); expected a perfvec-trace file"


@pytest.mark.slow
def test_an_unsealed_file_is_read_however_long_the_machine_keeps_its_child_waiting(tmp_path, monkeypatch):
    """Only time on a processor counts: a child that is stopped for longer than its limit still reads its file."""
    stopped = "import time; time.sleep(3)"
    monkeypatch.setattr(unsealed, "CPU_S", 1)
    monkeypatch.setattr(unsealed, "CHILD", _child_that(stopped))
    monkeypatch.setenv(ALLOWED, "1")
    path = tmp_path / "t.trace.h5"
    path.write_bytes(b"x")
    unsealed.require_readable(path, "perfvec-trace")


@pytest.fixture(scope="module")
def records(tmp_path_factory, build):
    """(folder, words): the blocks and the words of a real run."""
    folder = tmp_path_factory.mktemp("records")
    with Run(Execution([str(build("recover")), "5"]), folder) as run:
        for _ in run.rounds():
            run.wait()
        for name in ("blocks", "handlers"):
            shutil.copy(run.folder / name, folder / name)
        ring = Ring(run.ring_of_thread(0))
        words = ring.last_slot().copy()
        ring.close()
    starts = np.flatnonzero(words[:400] >> np.uint64(62) == 1)
    words = np.insert(words[:400], starts[[20, 40, 60]], np.uint64(1 << 59 | 9))  # as if blocks ended in system calls
    starts = np.flatnonzero(words >> np.uint64(62) == 1)
    words = np.insert(words, starts[[30, 50, 70]] + 1, np.uint64(1 << 58 | 7))  # as if others began with divisions
    count = int((words[words >> np.uint64(62) == 1] - np.uint64(1 << 62)).max()) + 1
    rows = int(blocks_of(folder).kernel.begin[count])
    with (folder / "blocks").open("r+b") as file:  # only the blocks that these words name
        file.truncate(16 * count + 24 * rows)
    return folder, words


def blocks_of(folder):
    table = BlockTable(folder, "x86-64")
    table.update()
    return table


def replayed(folder, words):
    """(instructions, static ids, owners of accesses, of system calls, of divisions) of a record, as it is replayed."""
    blocks = BlockTable(folder, "x86-64")
    replay = Replay(blocks, Interruptions(folder, blocks), 10**6)
    state = np.array([0, WHOLE, 0], np.int64)
    rows, (owners, callers, dividers) = [np.empty(0, np.uint32)], ([np.empty(0, np.uint64)] for _ in range(3))
    for parts in (replay.read(words), replay.finish()):
        for sequence, accesses, calls, divisions in parts:
            owners.append(accesses.instruction.copy())
            callers.append(calls.instruction.copy())
            dividers.append(divisions.instruction.copy())
            position = 0
            while position < len(sequence):
                out = np.empty(1 << 14, np.uint32)
                row_id = np.arange(len(blocks.kernel.address), dtype=np.uint32)
                position, filled = expand(sequence, position, state, blocks.kernel, row_id, out, 0)
                rows.append(out[:filled])
    return replay.instructions, *(np.concatenate(parts) for parts in (rows, owners, callers, dividers))


@pytest.mark.slow
def test_damaged_records_are_an_error_or_consistent(records, tmp_path):
    folder, words = records
    shutil.copytree(folder, tmp_path / "r")
    instructions, _, _, callers, dividers = replayed(tmp_path / "r", words)
    assert instructions > 300 and len(callers) == len(dividers) == 3
    blocks = (folder / "blocks").read_bytes()
    dice = random.Random(5)
    refused = 0
    for number in range(CASES):
        damaged = words
        if number % 2:
            damaged = words.copy()
            for _ in range(dice.choice((1, 3, 50))):
                at = dice.randrange(len(words))
                damaged[at] = dice.choice((0, words[dice.randrange(len(words))], dice.getrandbits(64), 1 << 62 | 10**6))
            damaged = damaged[: dice.choice((len(words), dice.randrange(1, len(words))))]
        else:
            (tmp_path / "r" / "blocks").write_bytes(mutated(blocks, dice))
        try:
            count, rows, owners, callers, dividers = replayed(tmp_path / "r", damaged)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert min(len(rows), 10**6) == count
            assert np.all(owners < max(count, 1)) and np.all(callers < max(count, 1))
            assert np.all(callers[1:] > callers[:-1]) and np.all(dividers < max(count, 1))
        finally:
            if number % 2 == 0:
                (tmp_path / "r" / "blocks").write_bytes(blocks)
    assert refused > CASES // 10


def test_a_damaged_ring_is_refused(tmp_path):
    path = tmp_path / "thread.0"
    header = np.zeros(512, "<u8")
    for slots, filled, emptied in ((0, 0, 0), (10**15, 0, 0), (2, 9, 0), (2, 0, 5), (2, 2**63, 0)):
        header[:4] = slots, 1, filled, emptied
        np.concatenate([header, np.zeros(2 * SLOT_WORDS, "<u8")]).tofile(path)
        with pytest.raises(InputError, match="damaged"):
            list(Ring(path).full_slots())
