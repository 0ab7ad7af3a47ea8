"""Branches ahead of a simulation: outcomes by predictors alone, against those of a core."""

from __future__ import annotations

import numpy as np
import pytest

from tests.uarch.programs import Instruction, Program, mixed
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT
from tracegen.live_points.record import of_trace
from tracegen.live_points.simulate import MEASURED_ON, LivePointsSimulator
from uarch.configuration import replace_field
from uarch.instructions import Flag, Operation
from uarch.machine_files import load_machine
from uarch.timing import _core as timing
from uarch.timing.simulation import Simulation


def test_branches_without_a_core_are_those_of_a_front_end_with_the_same_times():
    run = mixed(7, 20_000)
    static, whole = run.static(), run.chunk()
    branch = np.flatnonzero(static.flags[whole.static_id] & Flag.BRANCH)[:-1]
    ids, following = whole.static_id[branch], whole.next_static_id[branch]
    steps = np.diff(branch, prepend=-1).astype(np.uint16)
    branches = timing.TimelessBranches(
        kind="ltage", entries=4096, btb_entries=1024, ras_entries=16, indirect="target-table", window=40
    )
    found = branches.outcomes(static.address, static.length, static.flags, ids, following, steps)
    unit, now, retired, random, expected = timing.parts.BranchUnit("ltage", 4096, 1024, 16), 0, 0, 0x2545F491, []
    in_flight, before = [], 0
    for row, after, step in zip(ids.tolist(), following.tolist(), steps.tolist(), strict=True):
        pc = int(static.address[row])
        now += 64 * step
        in_flight = [one for one in in_flight if one >= now]
        before += len(in_flight)
        random ^= random << 13 & 0x7FFFFFFF  # Marsaglia's xorshift of 31 bits, as predictors draw
        random ^= random >> 17
        random ^= random << 5 & 0x7FFFFFFF
        retired = max(retired, now + 64 * 36 + random % (2 * 64 * 4 + 1))  # the window of 40, up to 10 % more or less
        redirect = unit.fetch(
            pc, pc + int(static.length[row]), int(static.address[after]), int(static.flags[row]), now, retired
        )
        in_flight.append(retired)
        expected.append(list(timing.parts.Redirect.__members__.values()).index(redirect))
        now += (retired - now) * 80 // 100 if redirect == timing.parts.Redirect.EXECUTE else 0
    assert (found & 3).tolist() == expected
    assert 2 in expected
    assert branches.in_flight_before == before > len(ids)


def test_branches_in_flight_are_counted_where_outcomes_were_found_beforehand():
    """A loop that is predicted takes the same times, and so has as many branches in flight, as one told that it is."""
    body = [Instruction(Operation.INT_ALU, destinations=(1,), sources=(1,), length=4) for _ in range(7)]
    run = Program([*body, Instruction(Operation.BRANCH, flags=Flag.BRANCH | Flag.CONDITIONAL, length=4)])
    for _ in range(300):
        for row in range(8):
            run.execute(row)
    found = []
    for outcomes in (None, np.zeros(300, np.uint8)):
        simulation = Simulation(load_machine("base"), run.static())
        simulation.run(run.chunk())
        before, mispredicted = simulation.in_flight_before, simulation.statistics["mispredictions"]
        simulation.run(run.chunk(), outcomes)
        assert simulation.statistics["mispredictions"] - mispredicted <= 1  # the loop's end
        found.append(simulation.in_flight_before - before)
    assert found[0] == pytest.approx(found[1], rel=0.02) and min(found) > 300


@pytest.mark.slow
def test_so_many_are_in_flight_that_as_many_branches_are_as_in_a_core(points, traced):
    again = LivePointsSimulator(points).in_flight(load_machine(MEASURED_ON))
    assert again == pytest.approx(points.in_flight, rel=0.1) and points.in_flight > 8
    assert of_trace(traced, units=100_000, max_instructions=20 * UNIT, progress=False).in_flight == 0  # all units


def test_a_branch_in_no_steps_is_in_the_target_buffer_alone():
    address, length, flags = np.array([0x1000, 0x2000], np.uint64), np.array([4, 4], np.uint8), np.array([0, 0], "<u2")
    flags[0] = Flag.BRANCH
    columns = [np.array(one, np.uint32) for one in ([0, 0], [1, 1])]
    for first, expected in ((1, [1, 0]), (0, [0, 0])):  # decode finds where it goes; then that is known
        branches = timing.TimelessBranches(
            kind="ltage", entries=4096, btb_entries=1024, ras_entries=16, indirect="target-table", window=40
        )
        found = branches.outcomes(address, length, flags, *columns, np.array([first, 1], np.uint16))
        assert (found & 3).tolist() == expected


def test_machines_whose_branches_are_about_as_late_share_outcomes(points):
    simulator = LivePointsSimulator(points)

    def shared(kind, before, after):
        base = replace_field(load_machine("base"), "branch_predictor.kind", kind)
        first, second = (replace_field(base, "pipeline.rob_entries", entries) for entries in (before, after))
        return simulator.outcomes(first) is simulator.outcomes(second)

    assert shared("ltage", 192, 256) and not shared("ltage", 192, 192 * 8)  # 1.06 and 1.5 times as many in flight
    assert shared("tage-sc-l", 192, 224) and not shared("tage-sc-l", 192, 320)  # 1.03, 1.11
    assert shared("bimode", 192, 192 * 8)


@pytest.mark.parametrize(("name", "rel"), [("zen4-native", 0.15), ("cortex-a55", 0.6)])
def test_branches_that_teach_at_once_are_mispredicted_as_in_the_whole_run(traced, name, rel):
    """A real family's histories move with fetch, those of all in order too: moved late, twice as many are missed.

    With 1,024 units the sampling error is 4 %; with 256 one trace in sixty is 15 % off.
    """
    machine, points = load_machine(name), of_trace(traced, units=1024, progress=False)
    with Trace(traced) as opened:
        static = decode(opened.address, opened.code, opened.isa)
        whole = Simulation(machine, static)
        for chunk in opened.chunks():
            whole.run(chunk)
    (counts,) = LivePointsSimulator(points).simulate([machine]).counts
    assert counts["mispredictions"] == pytest.approx(whole.counters["mispredictions"], rel=rel)
