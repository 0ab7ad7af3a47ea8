"""System calls by kind: a program that makes known numbers of each, traced, streamed, sampled and simulated."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.digests import trace_digest
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import load, save
from tracegen.live_points.record import of_stream, of_trace
from tracegen.live_points.simulate import LivePointsSimulator
from tracegen.qemu import Execution, stream, trace
from uarch.configuration import replace_fields
from uarch.instructions import Flag
from uarch.machine_files import load_machine
from uarch.system_calls import UNKNOWN, cycles_by_number
from uarch.timing.simulations import simulated_cycles

FLAGS = ("-nostdlib", "-static", "-fno-stack-protector", "-ffreestanding")
CALLS = {"x86-64": {0: 400, 1: 200, 12: 100, 110: 50, 60: 1}}
CALLS["aarch64"] = CALLS["riscv64"] = {63: 400, 64: 200, 214: 100, 173: 50, 93: 1}
COSTS = {"default": 70, "read": 1000, "write": 300, "brk": 0}
KERNEL = 400 * 1000 + 200 * 300 + 51 * 70
MACHINES = ("cortex-a53", "base", "zen4")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def traced(build, tmp_path_factory):
    path = tmp_path_factory.mktemp("calls") / "calls.trace.h5"
    trace(Execution([str(build("calls", *FLAGS))]), path, progress=False)
    return path


def numbers(chunks, instructions):
    """The numbers of all calls, which must be those of the instructions that make calls."""
    found = []
    for chunk in chunks:
        makes_call = (instructions().flags[chunk.static_id] & Flag.SYSCALL) != 0
        assert np.array_equal(np.flatnonzero(makes_call) + chunk.start, chunk.call_instruction)
        found += chunk.call_number.tolist()
    return found


@pytest.mark.parametrize("isa", CALLS)
def test_each_call_is_recorded_with_its_number(build, tmp_path, isa):
    path = tmp_path / "calls.trace.h5"
    trace(Execution([str(build("calls", *FLAGS, isa=isa))]), path, progress=False)
    with Trace(path) as opened:
        assert opened.digest == trace_digest(opened.path)
        static = decode(opened.address, opened.code, opened.isa)
        whole = numbers(opened.chunks(), lambda: static)
        assert Counter(whole) == CALLS[isa]
        assert numbers(opened.chunks(777), lambda: static) == whole
        begin, end = 40_000, len(opened) - 1
        part = numbers(opened.chunks(777, begin, end), lambda: static)
    assert whole[-len(part) - 1 : -1] == part
    cycles = cycles_by_number(replace_fields(load_machine("base"), with_(COSTS)).system_calls, isa)
    assert sum(times * cycles[min(number, len(cycles) - 1)] for number, times in CALLS[isa].items()) == KERNEL


@pytest.mark.parametrize("options", [{}, {"skip": 20_001, "max_instructions": 60_000}])
def test_a_stream_has_the_calls_of_its_trace(build, tmp_path, options):
    command, path = [str(build("calls", *FLAGS))], tmp_path / "calls.trace.h5"
    execution = Execution(command, **options)
    trace(execution, path, progress=False)
    with Trace(path) as opened, stream(execution) as running:
        static = decode(opened.address, opened.code, opened.isa)
        expected = numbers(opened.chunks(), lambda: static)
        assert numbers(running.chunks(5000), lambda: running.instructions) == expected
        assert len(expected) > 100


def with_(costs):
    return {f"system_calls.{kind}": cycles for kind, cycles in costs.items()}


def machines():
    """Each without times of system calls, and with."""
    plain = [load_machine(name) for name in MACHINES]
    return plain, [replace_fields(machine, {"name": f"{machine.name}+"} | with_(COSTS)) for machine in plain]


def test_a_machine_takes_for_each_call_what_its_kind_takes(traced):
    plain, kernel = machines()
    with Trace(traced) as opened:
        static = decode(opened.address, opened.code, opened.isa)
        cycles = simulated_cycles([*plain, *kernel], static, opened.chunks()).reshape(2, -1)
    assert np.abs(cycles[1] - cycles[0] - KERNEL).max() < KERNEL * 1e-3  # other work goes on in the kernel's time


def test_live_points_count_the_calls_of_the_whole_run(build, traced, tmp_path):
    plain, kernel = machines()
    points = of_trace(traced, units=64, progress=False)
    assert not points.whole
    save(points, tmp_path / "calls.livepoints.h5")
    with stream(Execution([str(build("calls", *FLAGS))])) as running:
        streamed = of_stream(running, units=64, progress=False)
    for each in (points, load(tmp_path / "calls.livepoints.h5"), streamed):
        calls = each.system_calls
        assert dict(zip(calls.number.tolist(), calls.count.tolist(), strict=True)) == CALLS["x86-64"]
        assert np.all(each.static.flags[calls.static_id] & Flag.SYSCALL)
        found = LivePointsSimulator(each).simulate([*plain, *kernel], stacks=True)
        cycles = found.cycles.reshape(2, -1)
        assert cycles[1] - cycles[0] == pytest.approx(KERNEL)
        assert found.half_width[:3] == pytest.approx(found.half_width[3:])
        assert found.stacks.sum(axis=1) == pytest.approx(found.cycles)
        assert found.counts[3]["cycles"] - found.counts[0]["cycles"] == pytest.approx(KERNEL)
    stacks, _ = LivePointsSimulator(points).by_instruction([*plain, *kernel])
    added = (stacks[3:] - stacks[:3]).sum(axis=2)
    makes_call = np.zeros(added.shape[1], bool)
    makes_call[points.system_calls.static_id] = True
    assert added[:, makes_call].sum(axis=1) == pytest.approx(KERNEL) and not added[:, ~makes_call].any()


def test_calls_that_no_source_tells_are_of_the_default_kind(traced):
    points = of_trace(traced, units=64, progress=False)
    unknown = np.full_like(points.system_calls.number, UNKNOWN)
    calls = type(points.system_calls)(points.system_calls.static_id, unknown, points.system_calls.count)
    assert calls.cycles(machines()[1][0], "x86-64").sum() == 751 * COSTS["default"]
