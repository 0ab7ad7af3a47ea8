"""Counters by perf_event_open: what the kernel counts is read, and what it refuses is said."""

import resource
import subprocess
import sys

import numpy as np
import pytest

from analysis.real_computers import validate as validation
from tests.uarch.host.test_describe import ZEN3, made_up
from tracegen.suite.host_time import HostTime, host_time
from tracegen.suite.whole_run import WholeRun, of_times
from uarch.constraints import SYSTEM_CALLS
from uarch.host.counters import BRANCH_MISSES, CYCLES, Counter, Event, refusal
from uarch.host.describe import COUNTED, MEASURED, describe
from uarch.host.machine_file import machine_file, origins
from uarch.host.probe import Probe
from uarch.host.told import told

NONE_SUCH = Event(0, 99)  # no processor counts it
SPIN = ("sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done")
TASK_CLOCK = Event(1, 1)  # PERF_TYPE_SOFTWARE: nanoseconds
software = pytest.mark.skipif(bool(refusal(TASK_CLOCK)), reason="the kernel counts nothing here")


def test_a_refusal_is_a_word():
    assert refusal(NONE_SUCH) in ("ENOENT", "EINVAL", "EOPNOTSUPP", "EACCES", "EPERM", "ENOSYS")
    for event in (CYCLES, BRANCH_MISSES):
        assert " " not in refusal(event)
    with pytest.raises(OSError):
        Counter(NONE_SUCH)


@software
def test_a_program_is_counted_from_its_start_and_not_this_one():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Counter(TASK_CLOCK) as counter:
        sum(range(1_000_000))
        assert counter.read() == 0
        subprocess.run(SPIN, check=True)
        found = counter.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert found / 1e9 == pytest.approx(used, rel=0.1, abs=0.02)


OWN_COUNT = """
import os, sys, time
count = lambda: int.from_bytes(os.read(int(sys.argv[1]), 8), "little")
for _ in range(11):
    around, first, within = time.monotonic_ns(), count(), time.process_time_ns()
    while count() < first + 50_000_000: pass
    within = time.process_time_ns() - within
    counted = count() - first
    print(within, counted, time.monotonic_ns() - around)
"""


@software
def test_a_program_reads_its_own_count():
    """It waits until its counter says 50 ms more, eleven times.

    Its own clock, read within, says no more than the counter: it lacks what a hypervisor stole. The wall's, read
    around it, says no less.
    """
    with Counter(TASK_CLOCK) as counter:
        command = [sys.executable, "-c", OWN_COUNT, str(counter.descriptor)]
        run = subprocess.run(command, pass_fds=[counter.descriptor], capture_output=True, text=True, check=True)
    within, counted, around = np.array(run.stdout.split(), float).reshape(-1, 3).T
    assert np.all(counted >= 50_000_000)
    # The clocks' rates differ by less than 0.001. Medians: where the kernel switches programs, one stops first.
    assert 0.5 < np.median(within / counted) < 1.001
    assert np.median(counted / around) < 1.001


@software
def test_times_have_what_was_counted():
    found = host_time(SPIN, repeats=3, event=TASK_CLOCK)
    assert len(found.counted) == 3
    for user, system, counted in zip(found.user, found.system, found.counted, strict=True):
        assert counted / 1e9 == pytest.approx(user + system, rel=0.1, abs=0.02)
    assert host_time(SPIN, repeats=1).counted == ()


def test_counted_cycles_need_no_clock():
    found = of_times("p", HostTime((0.9,) * 5, (0.1,) * 5, counted=(27, 20, 20, 20, 20)))
    assert found.cycles == found.counted == 20
    assert found.ghz == pytest.approx(20 / found.seconds / 1e9)


@software
@pytest.mark.parametrize("event", [TASK_CLOCK, NONE_SUCH])
def test_programs_are_timed_by_what_is_counted_else_by_the_clock(monkeypatch, event):
    monkeypatch.setattr(validation, "others_busy", lambda: 0.0)
    monkeypatch.setattr("tracegen.suite.whole_run.busy_ticks", lambda: 0.0)
    monkeypatch.setattr("tracegen.suite.whole_run.MOST_SPREAD", 100.0)
    monkeypatch.setattr(validation.Clock, "ghz", lambda self, repeats=1: 3.0)
    left_out: dict[str, str] = {}
    times, _ = validation.timed_runs([WholeRun("p", SPIN)], ZEN3, 0.0, 1, left_out, False, event)
    assert not left_out
    found = times["p"]
    assert found.ghz == (3.0 if event == NONE_SUCH else pytest.approx(1, rel=0.2))  # nanoseconds a nanosecond
    assert found.cycles == pytest.approx(found.seconds * found.ghz * 1e9)
    assert bool(found.counted) is (event == TASK_CLOCK)


@pytest.mark.parametrize(("counted", "origin"), [(True, COUNTED), (False, MEASURED)])
def test_the_machine_file_says_which_way_fields_were_measured(counted, origin):
    found = made_up()
    found.counted, found.refusal = counted, "" if counted else "ENOENT"
    text = machine_file(describe(ZEN3, found, "2026-11-26"))
    assert ("Measured by time: no counter of cycles (ENOENT)" in text) is not counted
    assert origins(text)["functional_units.int_alu"].origin == origin
    assert f"{origin}: " in text and {COUNTED: MEASURED, MEASURED: COUNTED}[origin] + ": " not in text


def test_system_calls_are_measured_by_time_beside_counted_fields():
    found = made_up()
    found.counted, found.system_calls = True, dict.fromkeys(SYSTEM_CALLS, 900.0)
    fields = describe(ZEN3, found, "2026-11-26").fields
    assert {fields[f"system_calls.{kind}"].origin for kind in SYSTEM_CALLS} == {MEASURED}
    assert fields["functional_units.int_alu"].origin == COUNTED


@pytest.mark.slow
@software
def test_probes_answer_what_is_counted():
    """Nanoseconds, as the event is a clock: as many as cycles by time at the clock measured there."""
    with Probe(told().features, repeats=5) as probe:
        cycle, product = probe.ask("clock", 5), probe.cycles("latency multiply")
        call = probe.ask("syscall", 0, 31)
    with Probe(told().features, repeats=5, event=TASK_CLOCK) as probe:
        assert 0.7 < probe.ask("clock", 5) < 1.1  # this clock also runs while it is read
        assert probe.cycles("latency multiply") == pytest.approx(product * cycle, rel=0.25)
        assert probe.ask("syscall", 0, 31) > call * cycle / 3  # by time, over the event's clock
