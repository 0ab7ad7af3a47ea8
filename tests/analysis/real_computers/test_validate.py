"""Programs timed on this computer beside their simulation."""

import json
import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.real_computers import validate as validation
from analysis.real_computers.validation_result import result
from analysis.results.headline import percent
from support.errors import InputError
from tests.command import perfvec
from tracegen.live_points.live_points import load
from tracegen.suite.host_cpu import matched
from tracegen.suite.host_time import HostTime
from tracegen.suite.inputs import compile_c
from tracegen.suite.whole_run import Disturbed, Timed, WholeRun, of_times, others_busy, recorded, require_names, timed
from tracegen.suite.workloads import Workload, select
from uarch.configuration import replace_fields
from uarch.host.counters import Event
from uarch.host.told import Told, told
from uarch.machine_files import load_machine
from uarch.stated_error import StatedError, stated_error_yaml, stated_errors

ZEN3 = Told("AuthenticAMD", "AMD EPYC", "zen3", "zen2", {}, frozenset(("avx2", "fma", "sha_ni")), (25, 1, 1), True, 2)
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the probes are of x86-64")


def test_a_time_is_user_modes_share_of_the_lower_quartile():
    found = of_times("p", HostTime(user=(0.9, 0.9, 0.9, 0.9, 1.0), system=(0.1, 0.1, 0.1, 0.1, 0.0)))
    assert found == Timed(pytest.approx(1.0 * (1 - 0.4 / 5.0)), 0.0, pytest.approx(0.08), 5)


def test_times_that_are_not_the_instructions_are_refused():
    with pytest.raises(InputError, match="in the kernel for 80%"):
        of_times("p", HostTime(user=(0.2,) * 5, system=(0.8,) * 5))
    with pytest.raises(InputError, match="the computer is busy"):
        of_times("p", HostTime(user=(1.0, 1.5, 1.5, 1.5, 1.5), system=(0.0,) * 5))


def test_children_and_short_runs_are_refused():
    cpu = matched(ZEN3)
    spin = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    with pytest.raises(InputError, match="starts others"):
        timed(WholeRun("p", ("sh", "-c", f"(:); {spin}")), cpu)
    with pytest.raises(InputError, match="too short to time"):
        timed(WholeRun("p", ("/bin/true",)), cpu)


@pytest.mark.slow
def test_threads_are_refused(tmp_path):
    source, program = tmp_path / "t.c", tmp_path / "t"
    source.write_text(
        "#include <pthread.h>\n"
        "static void *spin(void *x) { for (volatile long i = 0; i < 150000000; i++); return x; }\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, spin, 0); spin(0); pthread_join(t, 0); return 0; }\n"
    )
    compile_c(source, program, ["-pthread"])
    with pytest.raises(InputError, match="has 2 threads"):
        timed(WholeRun("p", (str(program),)), matched(ZEN3))


@x86
def test_qemu_is_the_processor_of_this_computer():
    cpu = matched(ZEN3)
    assert "vendor=AuthenticAMD,family=25,model=1" in cpu.emulated["QEMU_CPU"]
    assert "avx2=off" not in cpu.emulated["QEMU_CPU"]
    assert "bmi2=off" in cpu.emulated["QEMU_CPU"]  # the processor lacks it
    assert cpu.lacking == ("sha_ni",)
    assert cpu.here["OPENSSL_ia32cap"] == cpu.emulated["OPENSSL_ia32cap"]


@x86
def test_what_qemu_lacks_of_avx512_is_kept_from_programs_here():
    cpu = matched(replace(ZEN3, features=ZEN3.features | {"avx512f"}))
    assert "-AVX512F" in cpu.here["GLIBC_TUNABLES"]
    assert int(cpu.here["OPENSSL_ia32cap"].removeprefix(":~"), 16) >> 16 & 1
    assert cpu.emulated["OPENSSL_ia32cap"] == matched(ZEN3).emulated["OPENSSL_ia32cap"]  # so recordings are found again


@pytest.mark.slow
@x86
def test_programs_choose_in_qemu_as_here():
    """The C library sees the same vendor, and AVX2 where this computer has it."""
    known = told()
    cpu = matched(known)
    loader = "/lib64/ld-linux-x86-64.so.2"
    seen = subprocess.run(
        ["qemu-x86_64", loader, "--list-diagnostics"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **cpu.emulated},
    ).stdout
    here = subprocess.run([loader, "--list-diagnostics"], capture_output=True, text=True, check=True).stdout
    for name in ("basic.kind", "basic.family", "basic.model", "preferred", "non_temporal_threshold"):
        lines = [[line for line in text.splitlines() if f"x86.cpu_features.{name}" in line] for text in (here, seen)]
        assert lines[0] == lines[1]


def test_summaries_by_hand():
    table = pd.DataFrame(
        {
            "program": ["a_O1", "a_O3", "b"],
            "cycles": [200.0, 100.0, 100.0],
            "cpi": [2.0, 1.0, 0.5],
            "cycles.m": [220.0, 100.0, 70.0],
            "cpi.m": [2.2, 1.0, 0.35],
            "error.m": [0.1, 0.0, -0.3],
        }
    )
    found = validation.Validation(table, {}, ("m",), {}, ZEN3, 3.0, "2026-11-25")
    (summary,) = found.summary()
    assert summary["median"] == pytest.approx(0.1)
    assert summary["mean"] == pytest.approx(0.4 / 3)
    assert summary["bias"] == 0
    assert summary["rank"] == pytest.approx(1)
    assert found.ratios()["measured"].tolist() == [2.0]
    assert found.ratios()["error.m"].tolist() == [pytest.approx(0.1)]
    assert summary["builds"] == 1


def test_stated_errors_are_files(tmp_path, monkeypatch):
    stated = StatedError("zen2", "AMD EPYC", "zen3", "2026-11-25", 0.1, 0.2, 0.9, {"gzip": -0.1})
    (tmp_path / "one.yaml").write_text(stated_error_yaml(stated))
    monkeypatch.setattr("uarch.stated_error.ERRORS", tmp_path)
    assert stated_errors("zen2") == [stated]
    assert stated_errors("zen4") == []
    assert "1 programs: median 10%, mean 20%, rank correlation 0.90" in str(stated)
    (tmp_path / "two.yaml").write_text("wrong: 1\n")
    with pytest.raises(InputError, match="not a stated error"):
        stated_errors("zen2")


def test_two_programs_of_one_name_are_refused():
    with pytest.raises(InputError, match="two programs are named p"):
        require_names([WholeRun("p", ("a",)), WholeRun("p", ("b",))])


@x86
def test_a_run_is_found_again_wherever_its_files_are_and_not_where_they_differ(tmp_path, monkeypatch):
    cpu, names = matched(told()), []
    for folder, text in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "text").write_text(text)
        run = WholeRun("cat", ("cat", str(tmp_path / folder / "text")))
        names.append(recorded(run, cpu, tmp_path / folder / "v").name)
    monkeypatch.chdir(tmp_path / "a")
    assert names[0] == names[1] != names[2]
    assert recorded(WholeRun("cat", ("cat", "text")), cpu, Path("v")).name == names[0]


def test_the_set_has_fifteen_programs_in_two_builds():
    names = [workload.name for workload in select((), "validate")]
    assert sum(name.endswith("_O1") for name in names) == sum(name.endswith("_O3") for name in names) == 15
    assert others_busy(0.05) >= 0


@pytest.mark.slow
@x86
def test_a_program_is_timed_simulated_and_shown(tmp_path):
    source, program = tmp_path / "sum.c", tmp_path / "sum"
    source.write_text("int main(void) { volatile long s = 0; for (long i = 0; i < 24000000; i++) s += i; return 0; }\n")
    compile_c(source, program, ["-O1"])
    zen2, small = load_machine("zen2"), load_machine("cortex-a53")
    try:
        found = validation.validate([zen2, small], (), [str(program)], folder=tmp_path / "v", progress=False)
    except InputError as error:  # the suite may run beside other work
        assert "busy" in str(error)
        return
    points = load(recorded(WholeRun("sum", (str(program),)), matched(told()), tmp_path / "v"))
    row = found.table.iloc[0]
    assert row["instructions"] == points.instructions
    assert row["cycles"] == pytest.approx(row["seconds"] * found.ghz * 1e9)
    assert 0.2 < row["cycles.zen2"] / row["cycles"] < 5
    assert sum(found.stacks["sum", "zen2"].values()) == pytest.approx(row["cpi.zen2"], rel=1e-6)
    answer = result(found)
    first = answer.headline()
    assert first.number == percent(abs(row["error.zen2"])) and "sum is off by" in first.sentence
    assert "; cortex-a53 " in first.sentence and "beside times" in first.source
    assert max(map(len, str(answer).splitlines())) <= 80
    assert json.loads(answer.to_json())["programs"][0]["program"] == "sum"
    assert "Measured and simulated" in answer.to_html()
    assert validation.stated(found, "zen2").programs == {"sum": pytest.approx(row["error.zen2"], abs=1e-3)}


@pytest.mark.slow
@x86
def test_on_a_busy_computer_times_that_are_kept_are_judged_and_the_others_named(tmp_path, monkeypatch, small_model):
    workloads = [
        Workload(name, "kernel", ("{kernel}", "6"), "validate", kernel="queens", optimise=level)
        for name, level in (("one_O1", 1), ("one_O3", 3))
    ]
    monkeypatch.setattr(validation, "select", lambda names, set_name: workloads)
    monkeypatch.setattr(validation, "others_busy", lambda: 99.0)
    zen2, folder = load_machine("zen2"), tmp_path / "v"
    with pytest.raises(InputError, match="this computer is busy"):
        validation.validate([zen2], folder=folder, progress=False)
    assert not folder.exists()  # nothing was recorded in vain
    with pytest.raises(InputError, match="this computer is busy"):
        validation.validate([zen2], folder=folder, keep_times=True, progress=False)
    points = next(folder.glob("one_O1-*")).name
    (folder / "times.json").write_text(
        json.dumps({points: {"seconds": 1.0, "spread": 0, "kernel": 0, "repeats": 7, "ghz": 3}})
    )
    found = validation.validate([zen2], folder=folder, keep_times=True, progress=False)
    assert found.table["program"].tolist() == ["one_O1"]
    assert list(found.left_out) == ["one_O3"]
    assert "busy" in found.left_out["one_O3"]
    found = validation.validate([zen2], folder=folder, keep_times=True, model=small_model, progress=False)
    assert found.machines == ("zen2", "model")
    assert found.table["error.model"].notna().all()


@pytest.mark.slow
@x86
def test_system_calls_take_no_time_in_user_mode_and_theirs_beside_the_kernels(tmp_path, monkeypatch):
    workload = Workload("one", "kernel", ("{kernel}", "6"), "validate", kernel="queens", optimise=1)
    monkeypatch.setattr(validation, "select", lambda names, set_name: [workload])
    monkeypatch.setattr(validation, "others_busy", lambda: 0.0)
    monkeypatch.setattr(validation, "timed", lambda run, cpu, least_seconds, event: Timed(3.0, 0.0, 0.25, 7))
    monkeypatch.setattr(validation.Clock, "ghz", lambda self, repeats=1: 3.0)
    zen2 = load_machine("zen2")
    kernel = replace_fields(zen2, {"name": "kernel", "system_calls.default": 1000, "system_calls.mmap": 7000})
    found = validation.validate([zen2, kernel], folder=tmp_path, passes=1, progress=False)
    row = found.table.iloc[0]
    assert row["cycles.zen2"] == row["cycles.kernel"] and "with_kernel.zen2" not in row
    calls = load(next(tmp_path.glob("one-*"))).system_calls
    mapped = int(calls.count[np.isin(calls.number, (9, 25))].sum())
    both = row["cycles.zen2"] + 1000 * int(calls.count.sum()) + 6000 * mapped
    assert mapped and row["with_kernel.kernel"] == pytest.approx(both / (9e9 / 0.75) - 1)
    assert [each["with_kernel"] for each in found.summary()] == [None, abs(row["with_kernel.kernel"])]
    assert "user and kernel time together" in str(result(found))


@pytest.mark.slow
@x86
def test_the_quickest_of_the_passes_counts_and_a_disturbed_one_is_made_up_for(tmp_path, monkeypatch):
    workloads = [
        Workload(name, "kernel", ("{kernel}", "6"), "validate", kernel="queens", optimise=level)
        for name, level in (("one_O1", 1), ("one_O3", 3))
    ]
    answers = {"one_O1": [Disturbed("busy"), 3.0, 2.0], "one_O3": [2.5, InputError("too short")]}

    def answer(run, cpu, least_seconds, event):
        assert event is None  # which no processor counts
        found = answers[run.name].pop(0)
        if isinstance(found, InputError):
            raise found
        return Timed(found, 0.0, 0.0, 7)

    monkeypatch.setattr(validation, "select", lambda names, set_name: workloads)
    monkeypatch.setattr(validation, "others_busy", lambda: 0.0)
    monkeypatch.setattr(validation, "timed", answer)
    monkeypatch.setattr(validation.Clock, "ghz", lambda self, repeats=1: 3.0)
    found = validation.validate(
        [load_machine("zen2")], folder=tmp_path / "v", passes=3, progress=False, event=Event(0, 99)
    )
    assert not found.counted
    assert found.left_out == {"one_O3": "too short"}  # though one pass could time it
    assert found.table["program"].tolist() == ["one_O1"]
    assert found.table["cycles"].tolist() == [pytest.approx(6e9)]
    assert found.table["between"].tolist() == [pytest.approx(0.5)]


def test_machines_of_one_name_are_refused_before_a_program_runs(tmp_path):
    mark = tmp_path / "ran"
    done = perfvec("validate", "--uarch", "zen4", "--uarch", "zen4", "--", "/usr/bin/touch", mark)
    assert done.returncode == 2 and "different names" in done.stderr and not mark.exists()
