"""Changes of a time, and their intervals: known answers, and as they come out of live-points."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

import perfvec as pv
from analysis.budget.budget import SimulatedPoints
from analysis.programs.changes import half_widths
from analysis.programs.simulable import Estimates, SimulableLivePoints, SimulableTrace
from analysis.programs.targets import Target
from analysis.questions.sweep import SweepQuestion
from tests.analysis.vectors import program, shipped
from tracegen.live_points.live_points import save
from tracegen.live_points.record import of_trace
from tracegen.qemu import Execution, trace
from tracegen.suite.inputs import compile_c
from uarch.columns import of_machines
from uarch.configuration import replace_field
from uarch.machine_files import load_machine, preset_names, save_machines

QUANTILE = t.ppf(0.975, 30)


def test_what_deviates_alike_is_no_error_of_a_change():
    own = np.array([0.01, -0.02, 0.005])
    log = np.array([0.0, 0.2, 5.0])
    found = half_widths(log, np.stack([own] * 3), own, 0.95)
    assert found == pytest.approx([0.003, 0.003 + 0.02, 0.003 + 0.03])
    apart = half_widths(np.zeros(1), own + np.array([[0.003, 0, 0.004]]), own, 0.95)
    assert apart == pytest.approx([np.hypot(0.003, 0.005 * QUANTILE)])


def test_a_lower_level_is_narrower_by_students_quantiles():
    wide, narrow = (half_widths(np.array([0.1]), np.array([[0.02]]), np.zeros(1), level) for level in (0.95, 0.5))
    assert narrow / wide == pytest.approx(t.ppf(0.75, 30) / QUANTILE)


def test_where_every_instruction_is_simulated_a_change_is_exact():
    assert half_widths(np.array([0.3, 0.0]), np.zeros((2, 0)), np.zeros(0), 0.9).tolist() == [0.0, 0.0]


class Known:
    """Has cycles by the size of L1D, and takes no time."""

    name, isa, identity, instructions, work = "known", "x86-64", "0", 1_000_000, 1_000_000

    def prepare(self):
        pass

    def simulate(self, machines, threads=None):
        cycles = np.array([1e6 + 1e6 / machine.l1d.size_kib for machine in machines])
        return Estimates(cycles, 0.97 * cycles, 1.03 * cycles, np.zeros((len(cycles), 1)))


def test_changes_are_left_out_where_there_is_no_time_for_the_base(monkeypatch):
    for seconds, known in ((2, False), (3, True)):
        monkeypatch.setattr(SimulatedPoints, "time_for", lambda self, most=seconds: most - self.count)
        question = SweepQuestion(base=load_machine("base"), vary={"l1d.size_kib": [8, 64]})
        found = question.ask(shipped(), [Target(Known(), program)], 20.0, progress=False)
        assert set(found.table["source"]) == {"simulated"}
        assert found.table["change"].notna().all() == ("change" in str(found)) == known
        point = json.loads(found.to_json())["points"][0]
        assert (point["change"] is None, point["change_interval"] is None) == (not known, not known)
        assert found.to_html().startswith("<!")


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_that_is_a_point_is_not_simulated_again(name):
    """A point's numbers may be of another type than the machine's."""
    machine = load_machine(name)
    assert of_machines([machine]).machine(0, name) == machine


# Phases of unlike code, so that a sample of them is not exact.
SOURCE = """
static unsigned table[1 << 16];
int main(void) {
    unsigned state = 1;
    for (int phase = 0; phase < 24; ++phase) {
        for (int k = 0; k < 12000 + 3000 * (phase % 5); ++k) {
            state = state * 1664525 + 1013904223;
            if (phase % 3 == 0) table[(k * 16) & 0xffff] = state;
            else if (phase % 3 == 1) state += (state >> 7) % 3 ? table[k & 1023] : k / ((state & 7) + 1);
            else state ^= table[(k * 48) & 0xffff];
        }
    }
    return state == 0;
}
"""
CHANGES = {"l2.latency": 24, "l1d.size_kib": 16, "l2.size_kib": 256, "pipeline.issue_width": 2}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changes")
    (folder / "phases.c").write_text(SOURCE)
    compile_c(folder / "phases.c", folder / "phases", ["-O1", "-static"])
    trace(Execution([str(folder / "phases")]), folder / "phases.trace.h5", progress=False)
    return folder / "phases.trace.h5"


@pytest.fixture(scope="module")
def sampled(traced):
    path = traced.with_name("phases.livepoints.h5")
    save(of_trace(traced, units=96, progress=False), path)
    return path


def machines():
    base = load_machine("base")
    return [base, *(replace_field(base, field, value) for field, value in CHANGES.items())]


@pytest.mark.slow
def test_on_live_points_changes_are_known_better_than_times(traced, sampled):
    found, true = (one.simulate(machines(), 1) for one in (SimulableLivePoints(sampled), SimulableTrace(traced)))
    assert true.deviations.shape == (len(CHANGES) + 1, 0)
    log = np.log(found.cycles / found.cycles[0])[1:]
    half = half_widths(log, found.deviations[1:], found.deviations[0], 0.95)
    of_time = np.log(found.high / found.cycles)[1:]
    assert (np.abs(log - np.log(true.cycles / true.cycles[0])[1:]) <= half).all()
    assert half[np.abs(log) < 0.3] == pytest.approx(0.003, abs=0.002)
    assert (of_time > np.log1p(0.03)).all() and (half < np.hypot(of_time, of_time)).all()  # 3 %: cold state


@pytest.mark.slow
def test_predict_and_sweep_tell_changes_with_their_intervals(sampled, tmp_path):
    (small,) = save_machines([replace(machines()[2], name="small")], tmp_path)
    predicted = pv.predict(sampled, ["base", small], budget=60)
    first, second = predicted.table.to_dict(orient="records")
    assert first["change"] == 0
    assert second["change"] == pytest.approx(second["seconds"] / first["seconds"] - 1)
    assert second["change_low"] < second["change"] < second["change_high"]
    width = (second["high_cycles"] - second["low_cycles"]) / second["cycles"]
    assert second["change_high"] - second["change_low"] < width
    assert "time against base" in str(predicted)
    told = predicted.json["predictions"]
    assert told[0]["change"] == 0
    assert told[1]["change_interval"] == [second["change_low"], second["change_high"]]

    swept = pv.sweep(sampled, base="base", vary={"l1d.size_kib": [8, 16]}, budget=60)  # the base itself is no point
    point = swept.table[swept.table["l1d.size_kib"] == 16].iloc[0]
    names = ["change", "change_low", "change_high"]
    assert point[names].tolist() == pytest.approx([second[name] for name in names])
    assert "change: of the time, against base" in str(swept)
    listed = swept.json["points"][1]
    assert listed["change"] == point["change"] and listed["change_interval"] == point[names[1:]].tolist()
    assert "change" in swept.to_html()
