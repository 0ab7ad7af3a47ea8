"""gem5's text of AArch64 and RISC-V programs → trace, latencies: against its statistics, QEMU, a plain reading."""

import gzip
import json
import os
import re
import shutil
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.digests import trace_digest
from tests.tracegen.gem5 import gem5_runs
from tracegen.decode import decode, disassemble
from tracegen.features import get_schema
from tracegen.features.file import extract
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.gem5.reader import import_gem5
from tracegen.gem5.run_se import script
from tracegen.gem5.statistics import memory_references, read_statistics
from tracegen.label import label
from tracegen.qemu import Execution
from tracegen.qemu import trace as trace_by_qemu
from uarch.gem5.config import import_config
from uarch.gem5.script import gem5_script
from uarch.instructions import Flag
from uarch.machine_files import load_machine

ISAS = gem5_runs.OTHER_ISAS
PRESETS = gem5_runs.PRESETS
PERIOD = {"o3": 556, "minor": 714}  # picoseconds: 1.8 and 1.4 GHz
INSTRUCTIONS = {"aarch64": 510, "riscv64": 422}
ACCESSES = {"aarch64": 174, "riscv64": 128}
ATOMIC = {"aarch64": 8, "riscv64": 5}  # accesses twice: a load and a store, one reference for gem5
QEMU = {"aarch64": "max,sve128=on", "riscv64": "rv64"}


def data(isa) -> Path:
    return gem5_runs.DATA / isa


def imported(isa, core, tmp_path):
    """(report, trace, latencies [n]) of one of the runs."""
    done = import_gem5(
        [data(isa) / core],
        tmp_path / "t.trace.h5",
        latency=tmp_path / "t.latency.h5",
        program=data(isa) / "touch",
        progress=False,
    )
    with LatencyFile(tmp_path / "t.latency.h5") as file:
        return done, Trace(tmp_path / "t.trace.h5"), file.read(0, len(file))[0].astype(int)


def executed(trace):
    """Addresses [n]; static ids [n]; for each instruction its accesses: (address, size, is a store)."""
    (chunk,) = trace.chunks(size=1 << 20)
    rows = list(zip(chunk.address.tolist(), chunk.size.tolist(), chunk.is_store.tolist(), strict=True))
    offsets = chunk.access_offset.tolist()
    return trace.address[chunk.static_id], chunk.static_id, [rows[a:b] for a, b in pairwise(offsets)]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_counts_agree_with_gem5s_statistics(isa, core, tmp_path):
    """O3 leaves the 3 system calls out of numInsts; Minor counts again what the first touch of a page repeats (4)."""
    done, trace, latency = imported(isa, core, tmp_path)
    statistics = read_statistics(data(isa) / core / "stats.txt")
    assert done.checked
    assert len(trace) == done.instructions == done.labelled == len(latency) == INSTRUCTIONS[isa]
    counted = statistics["system.cpu.commitStats0.numInsts"]
    assert counted == INSTRUCTIONS[isa] + {"o3": -3, "minor": 4}[core]
    assert done.accesses == memory_references(statistics, "system.cpu") - {"o3": 0, "minor": 4}[core]
    (chunk,) = trace.chunks(size=1 << 20)
    assert len(chunk.address) == ACCESSES[isa] == done.accesses + ATOMIC[isa]
    assert latency.sum() == statistics["simTicks"] / PERIOD[core]
    assert statistics["system.cpu.numCycles"] - latency.sum() == {"o3": 1, "minor": 0}[core]  # O3 ticks at 0, too
    assert trace.digest == trace_digest(trace.path)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_instructions_accesses_and_latencies_are_those_of_a_plain_reading(isa, core, tmp_path):
    _, trace, latency = imported(isa, core, tmp_path)
    wanted = gem5_runs.reference(core, data(isa))
    address, _, accesses = executed(trace)
    assert address.tolist() == wanted.address
    assert [(i, a, bool(s)) for i, rows in enumerate(accesses) for a, _, s in rows] == wanted.accesses
    retired = np.cumsum(latency) * PERIOD[core]
    told = [(i, tick) for i, tick in enumerate(wanted.retired) if tick is not None]
    assert [int(retired[i]) for i, _ in told] == [tick for _, tick in told]
    assert len(told) >= INSTRUCTIONS[isa] - {"o3": 3 + 3, "minor": 0}[core]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_the_trace_is_that_of_qemu(isa, core, tmp_path, monkeypatch):
    """Same instructions, and each accesses the same bytes at the same place, in fewer parts; the stack and what mmap
    gave lie elsewhere. QEMU does not tell of what SVE accesses, nor the plugin, so early, of `dc zva`.
    """
    if shutil.which(f"qemu-{isa}") is None:
        pytest.skip("qemu-user is not installed")
    _, trace, _ = imported(isa, core, tmp_path)
    monkeypatch.setenv("QEMU_CPU", QEMU[isa])
    trace_by_qemu(Execution([str(data(isa) / "touch")], stdout=2), tmp_path / "q.trace.h5", progress=False)
    with Trace(tmp_path / "q.trace.h5") as other:
        np.testing.assert_array_equal(trace.address, other.address)
        np.testing.assert_array_equal(trace.code, other.code)
        (addresses, static, ours), (others, _, theirs) = executed(trace), executed(other)
    np.testing.assert_array_equal(addresses, others)
    names = disassemble(trace.address, trace.code, isa)
    apart, moved = [], set()
    for which, mine, its in zip(static, ours, theirs, strict=True):
        for way in (0, 1):
            size, its_size = (sum(bytes for _, bytes, w in rows if w == way) for rows in (mine, its))
            if size != its_size:
                apart.append((names[which].split()[0], way, size, its_size))
            elif size:
                moved.add(min(a for a, _, w in mine if w == way) - min(a for a, _, w in its if w == way))
    assert (
        sorted(apart)
        == {
            "aarch64": [
                ("dc", 1, 64, 0),
                ("ld1b", 0, 16, 0),
                ("ld1sh", 0, 4, 0),
                ("ld2w", 0, 32, 0),
                ("st1w", 1, 16, 0),
            ],
            "riscv64": [],
        }[isa]
    )
    assert len(moved) == 3  # the program's data, the stack, mmap


def test_sizes_and_places_of_aarch64s_accesses(tmp_path):
    """Every access is (distance from the first, bytes), as gem5 splits them."""
    _, trace, _ = imported("aarch64", "o3", tmp_path)
    _, static, accesses = executed(trace)
    names = disassemble(trace.address, trace.code, "aarch64")
    found = {}
    for which, rows in zip(static, accesses, strict=True):
        found.setdefault(names[which].split("[")[0].strip(", "), [(a - rows[0][0], n) for a, n, _ in rows])
    wanted = {
        "ldp x9, x10": [(0, 16)],
        "stp x10, x9": [(0, 8), (8, 8)],
        "ldp w9, w10": [(0, 8)],
        "ldpsw x9, x10": [(0, 8)],
        "ldr q0": [(0, 16)],
        "ldp q1, q2": [(0, 16), (16, 16)],
        "stp d1, d2": [(0, 8), (8, 8)],
        "ldrsb w9": [(0, 1)],
        "ldrh w10": [(0, 2)],
        "ld1 {v0.4s, v1.4s, v2.4s, v3.4s}": [(0, 16), (16, 16), (32, 16), (48, 16)],
        "ld3 {v0.8b, v1.8b, v2.8b}": [(0, 16), (16, 8)],
        "st4 {v0.4h, v1.4h, v2.4h, v3.4h}": [(0, 16), (16, 16)],
        "ld1r {v3.2d}": [(0, 8)],
        "ld1 {v2.s}": [(0, 4)],
        "st2 {v2.b, v3.b}": [(0, 2)],
        "prfm pldl1keep": [(0, 1)],
        "ldaxr x2": [(0, 8)],
        "stlxr w3, x2": [(0, 8)],
        "ldxp x2, x9": [(0, 16)],
        "swpb w20, w2": [(0, 1), (0, 1)],
        "ldsmaxh w20, w2": [(0, 2), (0, 2)],
        "ldaddal w20, w2": [(0, 4), (0, 4)],
        "casp x10, x11, x10, x11": [(0, 16), (0, 16)],
        "dc zva, x1": [(0, 64)],
        "ld1b {z1.b}, p0/z": [(0, 16)],
        "ld1sh {z2.d}, p0/z": [(0, 4)],
        "ld2w {z0.s, z1.s}, p0/z": [(0, 16), (16, 16)],
        "ld1rw {z3.s}, p0/z": [(0, 4)],
        "str z3": [(0, 16)],
    }
    assert {name: found.get(name) for name in wanted} == wanted


def test_sizes_of_riscvs_accesses(tmp_path):
    _, trace, _ = imported("riscv64", "o3", tmp_path)
    _, static, accesses = executed(trace)
    names = disassemble(trace.address, trace.code, "riscv64")
    found = {names[which].split()[0]: [n for _, n, _ in rows] for which, rows in zip(static, accesses, strict=True)}
    wanted = {
        "amoadd.d": [8, 8],
        "amoadd.w.aqrl": [4, 4],
        "amoswap.d.aq": [8, 8],
        "amomax.w.rl": [4, 4],
        "amoor.d": [8, 8],
        "lr.d": [8],
        "sc.d": [8],
        "lr.w.aq": [4],
        "sc.w.rl": [4],
        "lb": [1],
        "lhu": [2],
        "lwu": [4],
        "sh": [2],
        "c.lw": [4],
        "c.sw": [4],
        "c.ld": [8],
        "c.sd": [8],
        "c.fld": [8],
        "c.fsd": [8],
        "flw": [4],
        "fsw": [4],
        "c.sdsp": [8],
        "fence": [],
    }
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_decoded_loads_and_stores_are_those_that_gem5_made(isa, core, tmp_path):
    """Every instruction that is decoded as a load or a store makes one, and no other does (dc zva: its store is not
    decoded) but prefetches, which read.
    """
    _, trace, _ = imported(isa, core, tmp_path)
    _, static, accesses = executed(trace)
    flags = decode(trace.address, trace.code, isa).flags
    names = disassemble(trace.address, trace.code, isa)
    for which, rows in zip(static, accesses, strict=True):
        made = {bool(way) for _, _, way in rows}
        wanted = {way for way, flag in ((False, Flag.LOAD), (True, Flag.STORE)) if flags[which] & flag}
        wanted |= {False} if names[which].startswith("prfm") else set()
        assert made == wanted or names[which].startswith("dc zva"), names[which]


@pytest.mark.parametrize("isa", ISAS)
def test_decoded_micro_operations_are_those_that_gem5_made(isa, tmp_path):
    """Their number, but for atomic accesses (one or two to gem5) and SVE; and a floating-point operation's unit."""
    _, trace, _ = imported(isa, "minor", tmp_path)
    made: dict[int, dict[int, str]] = {}
    for line in gzip.decompress((data(isa) / "minor" / "trace.out.gz").read_bytes()).decode().splitlines():
        if told := re.search(r" T0 : 0x([0-9a-f]+)[^:]*?(?:\. *(\d+))? *: .*: (\w+) :.*FetchSeq", line):
            made.setdefault(int(told[1], 16), {})[int(told[2] or 0)] = told[3]
    decoded = decode(trace.address, trace.code, isa)
    names = disassemble(trace.address, trace.code, isa)
    compared, kinds = 0, set()
    for row, (address, name) in enumerate(zip(trace.address.tolist(), names, strict=True)):
        atomic = decoded.flags[row] & Flag.ATOMIC or name.startswith(("sc.", "lr."))
        if not atomic and not re.search(r"\bz\d", name):
            assert decoded.micro_operations[row] == len(made[address]), name
            compared += 1
        kind = made[address].get(0, "")
        if kind.startswith("Float") and "Mem" not in kind:
            kinds.add(kind)
            assert bool(decoded.float_move[row]) == (kind == "FloatMisc"), name
            assert not decoded.vector_unit[row], name
    assert compared > 130
    assert kinds == {"FloatCvt", "FloatDiv", *({"FloatMisc", "FloatMult"} if isa == "aarch64" else {"FloatAdd"})}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_the_machine_is_the_one_that_was_asked_for(isa, core, tmp_path):
    done, trace, _ = imported(isa, core, tmp_path)
    assert done.machine == gem5_runs.machine_that_ran(core)
    assert (trace.source, trace.isa, trace.command) == ("gem5", isa, ["./touch"])
    machine, notes = import_config(data(isa) / core / "config.json", name=PRESETS[core])
    assert machine == gem5_runs.machine_that_ran(core)
    assert [note.split(" = ")[0] for note in notes] == {"o3": ["branch_predictor.entries"], "minor": []}[core]


@pytest.mark.parametrize("isa", ISAS)
def test_the_trace_serves_as_any_other(isa, tmp_path):
    _, trace, _ = imported(isa, "o3", tmp_path)
    for schema in ("default", "timed", "perfvec-51"):
        extract(trace, get_schema(schema), tmp_path / "t.features.h5")


@pytest.mark.parametrize("isa", ISAS)
def test_labels_are_those_of_the_imported_run(isa, tmp_path):
    """A stand-in prints what gem5 printed."""
    replay = shutil.copy(Path(__file__).parent / "gem5_replay.py", tmp_path)
    (tmp_path / "data.json").write_text(json.dumps(str(data(isa))))
    gem5 = tmp_path / "gem5.opt"
    gem5.write_text(f'#!/bin/sh\nexec {sys.executable} {replay} "$@"\n')
    gem5.chmod(0o755)
    run = gem5_runs.copy("o3", tmp_path / "run", data=data(isa))
    for name in ("config.json", "run.json"):
        (run / name).write_text((run / name).read_text().replace("/programs", str(tmp_path)))
    shutil.copy(data(isa) / "touch", tmp_path / "touch")
    import_gem5([run], tmp_path / "touch.trace.h5", latency=tmp_path / "touch.latency.h5", progress=False)
    machines = [load_machine(name) for name in PRESETS.values()]
    (path,) = label(
        [tmp_path / "touch.trace.h5"], machines, tmp_path / "labels", simulator="gem5", gem5=gem5, progress=False
    )
    with LatencyFile(path) as file, LatencyFile(tmp_path / "touch.latency.h5") as own:
        rows = file.read(0, len(file))
        assert rows[0].tolist() == own.read(0, len(own))[0].tolist()
    assert rows[1].sum() == {"aarch64": 2634, "riscv64": 1904}[isa]


@pytest.mark.parametrize("isa", ISAS)
def test_the_script_is_for_the_programs_instruction_set(isa):
    text, _ = script(["--uarch", "cortex-a53", "--", str(data(isa) / "touch")])
    assert text == gem5_script(load_machine("cortex-a53"), isa)


# gem5 itself


@pytest.mark.skipif("GEM5" not in os.environ, reason="the environment's GEM5 names no gem5.opt")
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_gem5_itself_prints_what_was_kept(isa, core, tmp_path):
    """Instructions and sizes; the stack, and with it some cycles, depends on the length of paths."""
    gem5_runs.run_gem5(tmp_path, shutil.copy(data(isa) / "touch", tmp_path / "touch"), PRESETS[core])
    assert (tmp_path / "out").read_text() == "touched\n"
    _, kept, _ = imported(isa, core, tmp_path)
    fresh = import_gem5([tmp_path / "run"], tmp_path / "f.trace.h5", progress=False)
    assert fresh.checked
    with Trace(tmp_path / "f.trace.h5") as trace:
        (addresses, _, ours), (others, _, theirs) = executed(trace), executed(kept)
    np.testing.assert_array_equal(addresses, others)
    assert Counter((n, w) for rows in ours for _, n, w in rows) == Counter(
        (n, w) for rows in theirs for _, n, w in rows
    )
