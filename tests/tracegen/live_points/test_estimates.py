"""Estimates from live-points, against the simulation of every instruction."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from analysis.parts import simulated_parts
from support.errors import InputError
from tests.command import perfvec, succeeding
from tests.tracegen.live_points.example import MACHINES, cycles_of, execution, traced_c
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT, load, save
from tracegen.live_points.record import of_stream, of_trace
from tracegen.live_points.simulate import LivePointsSimulator
from tracegen.qemu import Execution, stream, trace
from tracegen.suite.inputs import compile_c
from uarch.configuration import replace_field
from uarch.instructions import Flag
from uarch.machine_files import load_machine
from uarch.timing.simulations import simulated_cycles


@pytest.fixture(scope="module")
def truth(traced):
    return cycles_of(traced, [load_machine(name) for name in MACHINES])


@pytest.mark.slow
@pytest.mark.parametrize("instructions", [200 * UNIT, 19 * UNIT + 544, 2 * UNIT - 1, UNIT, 700, 1])
def test_a_short_run_is_whole_and_exact_to_its_last_instruction(traced, tmp_path, instructions):
    save(of_trace(traced, units=100_000, max_instructions=instructions, progress=False), tmp_path / "x.livepoints.h5")
    whole = load(tmp_path / "x.livepoints.h5")
    assert whole.whole and len(whole.pieces.static_id) == instructions
    machines = [load_machine(name) for name in MACHINES]
    simulator = LivePointsSimulator(whole)
    found = simulator.simulate(machines, 1, stacks=True)
    with Trace(traced) as opened:
        static, chunks = decode(opened.address, opened.code, opened.isa), list(opened.chunks(stop=instructions))
    assert np.array_equal(found.cycles, simulated_cycles(machines, static, chunks))
    assert not found.half_width.any() and found.deviations.shape == (len(found.cycles), 0)
    assert found.stacks.sum(axis=1) == pytest.approx(found.cycles)
    stacks, times = simulator.by_instruction(machines)
    assert stacks.sum(axis=(1, 2)) == pytest.approx(found.cycles)
    assert np.array_equal(
        times, np.bincount(np.concatenate([chunk.static_id for chunk in chunks]), minlength=len(static))
    )


@pytest.mark.slow
def test_estimates_hold_against_the_simulation_of_every_instruction(points, truth):
    assert not points.whole
    found = LivePointsSimulator(points).simulate([load_machine(name) for name in MACHINES], 2, stacks=True)
    error = found.cycles / truth - 1
    assert np.all(np.abs(error) <= 0.06), error  # most where TAGE-SC-L learns a long pattern
    assert np.mean(np.abs(error)) <= 0.03
    assert np.all(found.half_width / found.cycles <= 0.05)
    exact = points.sample.deviations(found.units) * points.instructions_per_unit / found.cycles[:, None]
    apart = found.deviations - found.deviations[0]
    kinds = np.array([load_machine(name).branch_predictor.kind for name in MACHINES])
    variance = ((exact - exact[0]) ** 2).sum(axis=1) + np.where(kinds == kinds[0], 0, 0.01**2)
    assert np.sqrt((apart**2).sum(axis=1)) == pytest.approx(np.sqrt(variance), rel=0.3)  # projected
    assert np.allclose(found.stacks.sum(axis=1), found.cycles, rtol=1e-3)


@pytest.mark.slow
def test_changes_are_nearer_than_levels(points, traced):
    base = load_machine("base")
    machines = [base, replace_field(base, "l1d.size_kib", 8), replace_field(base, "pipeline.rob_entries", 96)]
    found = LivePointsSimulator(points).simulate(machines, 1).cycles
    cycles = cycles_of(traced, machines)
    change, true = found[1:] / found[0] - 1, cycles[1:] / cycles[0] - 1
    assert np.all(np.abs(change - true) <= 0.01), (change, true)


# Every 160 instructions a read of memory, which everything behind it depends on.
READS = """
volatile int memory[1 << 24];
int main(void) {
    unsigned long state = 1;
    for (int k = 0; k < 30000; ++k) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        state += memory[state >> 40];
        for (int n = 0; n < 30; ++n) state = state * 5 + n;
    }
    return state == 0;
}
"""


@pytest.mark.slow
def test_refreshes_are_no_part_of_changes(tmp_path):
    """A DRAM's refresh costs a thousand cycles in whichever of the units it falls. Mean of four samples."""
    path = traced_c(tmp_path / "reads", READS)
    base = load_machine("base")
    fields = {"functional_units.mul_latency": 5, "pipeline.issue_width": 2, "pipeline.rob_entries": 96}
    machines = [base, *(replace_field(base, field, value) for field, value in fields.items())]
    samples = [of_trace(path, units=128, seed=seed, progress=False) for seed in range(4)]
    found = np.array([LivePointsSimulator(points).simulate(machines, 1).cycles for points in samples])
    cycles = cycles_of(path, machines)
    # A sample's standard deviation is 0.65 %, whichever units the program's place in memory puts into it.
    assert np.all(np.abs(found / cycles - 1) <= 4 * 0.0065)
    assert np.all(np.abs((found / cycles - 1).mean(axis=0)) <= 4 * 0.0065 / 2)
    changes = found[:, 1:] / found[:, :1] - cycles[1:] / cycles[0]
    assert np.all(np.abs(changes.mean(axis=0)) <= 0.005)


# Adds at random places, one in 262,144, so that a load rarely reads what a store in flight writes; once it has, it
# waits for every store of the loop.
HISTOGRAM = """
static unsigned counts[1 << 18];
int main(void) {
    unsigned state = 1;
    for (int k = 0; k < 300000; ++k) {
        state = state * 1664525 + 1013904223;
        counts[state >> 14] += state;
    }
    return state == 0;
}
"""


@pytest.mark.slow
def test_a_load_that_rarely_reads_from_a_near_store_waits_for_it_as_in_the_whole_run(tmp_path):
    """Half of the samples have no such read, from which they could know."""
    path = traced_c(tmp_path / "histogram", HISTOGRAM)
    base = replace_field(load_machine("base"), "l2.size_kib", 2048)
    machines = [base, replace_field(base, "l2.latency", 24)]
    cycles = cycles_of(path, machines)
    assert cycles[1] > 1.3 * cycles[0]  # for loads wait for L2, one after another
    for seed in range(12):
        points = of_trace(path, units=64, seed=seed, progress=False)
        nothing = np.zeros_like(points.pieces.near_times)
        without = replace(points, pieces=replace(points.pieces, near_times=nothing, near_same_bytes=nothing))
        found, unknown = (LivePointsSimulator(one).simulate(machines, 1).cycles for one in (points, without))
        assert np.all(np.abs(found / cycles - 1) <= 0.15), (found, cycles)
        if unknown[0] < 0.7 * cycles[0]:
            break
    else:
        pytest.fail("every sample knew by itself")


@pytest.mark.slow
def test_a_stream_gives_what_its_trace_does(program, points):
    with stream(execution(program)) as running:
        streamed = of_stream(running, units=256, progress=False)
    assert streamed.instructions == points.instructions
    machines = [load_machine("base")]
    one, other = (LivePointsSimulator(each).simulate(machines) for each in (streamed, points))
    # Static instructions are numbered in another order, so other units are alike.
    assert abs(one.cycles - other.cycles) <= one.half_width + other.half_width
    for each in (streamed, points):
        flags, pieces = each.static.flags, each.pieces
        assert np.all(flags[pieces.miss] & (Flag.LOAD | Flag.STORE)) and np.all(flags[pieces.near_load] & Flag.LOAD)
        assert len(pieces.miss) and len(pieces.near_load) and np.all(flags[pieces.near_store] & Flag.STORE)
        assert (pieces.near_same_bytes <= pieces.near_times).all()


@pytest.mark.slow
def test_a_string_operation_over_megabytes_is_in_every_sample(tmp_path):
    loop = "for (int k = 0; k < 300000; ++k) sum = sum * 31 + k;"
    clear = (
        "void *at = area; unsigned long n = sizeof area;"
        'asm volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(1) : "memory");'
    )
    source = f"static char area[1 << 20]; int main(void) {{ unsigned sum = 1; {loop} {clear} {loop} return sum == 1; }}"
    (tmp_path / "clear.c").write_text(source)
    compile_c(tmp_path / "clear.c", tmp_path / "clear", ["-O1", "-static"])
    trace(Execution([str(tmp_path / "clear")]), tmp_path / "clear.trace.h5", progress=False)
    machines = [load_machine("base"), load_machine("cortex-a53")]
    save(of_trace(tmp_path / "clear.trace.h5", units=256, progress=False), tmp_path / "clear.livepoints.h5")
    points = load(tmp_path / "clear.livepoints.h5")
    assert not points.sample.signature.any(axis=1).all()  # of the unit that is taken
    found = LivePointsSimulator(points).simulate(machines)
    with Trace(tmp_path / "clear.trace.h5") as opened:
        instructions = decode(opened.address, opened.code, opened.isa)
        cycles = simulated_cycles(machines, instructions, opened.chunks())
    assert (np.abs(found.cycles / cycles - 1) < 0.02).all()


@pytest.mark.slow
def test_parts_from_the_file_alone_add_up_to_the_whole(points, traced):
    machines = [load_machine("base"), load_machine("cortex-a53")]
    parts, costs = simulated_parts.sampled(points, machines, progress=False)
    whole = LivePointsSimulator(points).simulate(machines)
    exact, exact_costs = simulated_parts.collect(traced, machines, progress=False)
    for by in ("function", "line", "loop", "class", "instruction"):
        cycles = costs.cycles(parts.by(by).sums)
        assert np.allclose(cycles.sum(axis=0), whole.cycles)
    own, true = (
        dict(zip(p.by("function").labels["name"], c.cycles(p.by("function").sums), strict=True))
        for p, c in ((parts, costs), (exact, exact_costs))
    )
    for name in ("main", "compare"):  # most of the time
        assert np.allclose(own[name], true[name], rtol=0.25), (name, own[name], true[name])
    for by in ("context", "interval", "phase"):
        with pytest.raises(InputError, match=f"no part of the run by {by}"):
            parts.by(by)


def test_executions_in_a_unit_count_as_often_as_the_unit(points):
    weight = np.ones(len(points.sample.weight))
    weight[-1] = 3.0
    points = replace(points, sample=replace(points.sample, weight=weight))
    _, times = LivePointsSimulator(points).by_instruction([load_machine("cortex-a53")])
    ids = points.pieces.static_id.reshape(-1, UNIT)[points.pieces.counted]
    expected = np.bincount(np.concatenate([ids.ravel(), ids[-1], ids[-1]]), minlength=len(points.static))
    assert times == pytest.approx(expected * points.instructions_per_unit)


def test_the_perceptron_has_wider_intervals_out_of_order(points):
    base = load_machine("base")
    machines = [base, replace_field(base, "branch_predictor.kind", "perceptron"), load_machine("cortex-a55")]
    found = LivePointsSimulator(points).simulate(machines)
    plain, wide, in_order = found.half_width / found.cycles
    assert wide > 0.07 > max(plain, in_order)


def test_a_machine_with_more_cache_than_lines_are_known_of_is_refused(points):
    base = load_machine("base")
    huge = replace(base, name="huge", l3=replace(base.l3, size_kib=1 << 21))
    with pytest.raises(InputError, match=r"huge: l3\.size_kib"):
        LivePointsSimulator(points).simulate([huge])


@pytest.mark.slow
def test_the_commands(program, tmp_path):
    path = tmp_path / "x.livepoints.h5"
    made = perfvec("live-points", "-o", path, "--units", 128, "--max-instructions", 400_000, "--", program)
    assert "x.livepoints.h5: mixture" in made.stderr
    [row] = json.loads(succeeding("simulate", path, "--uarch", "base", "--json"))["simulations"]
    assert row["interval"][0] < row["cycles"] < row["interval"][1]
    assert sum(row["stack"].values()) == pytest.approx(row["cycles"])
    wrong = perfvec("simulate", path, "--uarch", "base", "--start", 5)
    assert wrong.returncode == 2 and "leave --start" in wrong.stderr
