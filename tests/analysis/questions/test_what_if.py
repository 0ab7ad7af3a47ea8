"""The what-if protocol on programs whose cycles are a known function, and on a trace."""

import json
import re

import numpy as np
import pytest

from analysis.programs.simulable import Estimates
from analysis.questions import what_if
from analysis.questions.what_if import JudgedProgram
from perfvec.model import load_model
from support.errors import InputError
from uarch.machine_files import load_machine


def cycles_of(machine):
    width = getattr(machine.pipeline, "issue_width", None) or machine.pipeline.width
    return 1e6 * (1 / width + 3.0 / machine.l1d.size_kib**0.5 + 0.01 * machine.l2.latency * machine.frequency_ghz)


class Known:
    name, isa, instructions, work = "known", "x86-64", 1_000_000, 1_000_000

    def __init__(self, factor=1.0):
        self._factor = factor

    def prepare(self):
        pass

    def simulate(self, machines, threads=None):
        cycles = self._factor * np.array([cycles_of(machine) for machine in machines])
        return Estimates(cycles, cycles * 0.9, cycles * 1.1, np.zeros((len(cycles), 1)))


def program(by_model):
    return JudgedProgram(Known(), Known(1.05), by_model, False)


def constant(points):
    return np.full(points.count, 5.0)


def test_changes_of_one_field_and_pairs():
    changes, orders = what_if.evaluate([program(constant)], tasks=["one field", "pairs"])
    table = what_if.summary(changes, orders).set_index(["task", "source", "programs"])
    mine = table.loc[("one field", "simulated", "unseen")]
    assert mine["error"] == pytest.approx(0, abs=1e-9) and mine["sign"] == 1 and np.isnan(mine["covered"])
    assert mine["off"] == pytest.approx(0.05) and np.isnan(mine["seconds"])
    nothing = table.loc[("one field", "zero-shot", "all")]
    frequency = nothing["change"] - nothing["error"]  # cycles are constant, so only the frequency changes the time
    assert 0 < frequency < nothing["change"]
    assert table.loc[("pairs", "simulated", "all"), "tau"] == pytest.approx(1)
    assert table.loc[("pairs", "zero-shot", "all"), "tau"] < 0.9
    json.dumps(what_if.to_json(changes, orders), allow_nan=False)
    text = what_if.shown(what_if.summary(changes, orders))
    assert "pairs" in text and max(map(len, text.splitlines())) <= 80
    assert text.endswith("per cent: change, error, sign, false, off")
    assert re.search(r"one field +simulated +all +[\d.]+ +\S+ +1 +100\b", text)


def test_intervals_of_changes_are_judged_by_the_true_change():
    """Changes of 10 and 30 % are told as 11 and 36 %, each with an interval of 2 % to either side."""
    true, told = np.array([1.0, 1.1, 1.3]), np.array([2.0, 2.22, 2.72])
    changes = what_if.Told(true, told, np.array([-1, 0, 0]), apart=np.full(3, np.log(1.02))).changes()
    assert changes["held"].tolist() == [1.0, 0.0]
    assert changes["half"].tolist() == pytest.approx([1.11 * 0.0198, 1.36 * 0.0198], rel=1e-3)
    assert what_if.Told(true, told, np.array([-1, 0, 0])).changes()["held"].isna().all()


def test_pairs_are_close_either_way_round():
    """Times 1 and 1.0999 are within 10 %, whichever comes first."""
    for times in (np.array([1.0, 1.0999, 2.0]), np.array([2.0, 1.0999, 1.0])):
        assert what_if.Told(times, times, np.array([-1, 0, 0])).orders()["close_tau"] == 1.0


def test_pairs_that_hardly_differ_are_not_clear():
    orders = what_if.Told(np.array([1.0, 1.005, 2.0]), np.array([1.005, 1.0, 2.0]), np.array([-1, 0, 0])).orders()
    assert (orders["clear_tau"], orders["close_tau"]) == (1.0, -1.0)
    assert orders["tau"] == pytest.approx(1 / 3)


def test_one_field_differs():
    base = load_machine("base")
    machines = what_if.one_field_changes(base)
    assert machines[0].to_dict() == base.to_dict() | {"name": "base 0"}
    assert len({machine.name for machine in machines}) == len(machines) > 20
    assert any(machine.branch_predictor.kind != base.branch_predictor.kind for machine in machines)
    assert all(what_if.one_field_changes(load_machine(name)) for name in what_if.MACHINES)


def test_grids_are_of_the_size_that_the_protocol_says():
    from analysis.designs.design import grid_design

    for grid in what_if.GRIDS.values():
        assert 7_000 <= grid_design(load_machine(grid.base), grid.values).columns.count <= 11_000
        assert 4 <= len(grid.values) <= 6


@pytest.mark.slow
def test_a_grid_is_corrected(monkeypatch):
    monkeypatch.setattr(what_if, "TRUTHS", 30)
    changes, orders = what_if.evaluate([program(constant)], tasks=["grid in-order"], progress=False)
    table = what_if.summary(changes, orders).set_index(["source", "programs"])
    mine = table.loc[("corrected", "all")]
    assert 0.9 * what_if.FROM_GRID <= mine["simulated"] <= what_if.FROM_GRID
    assert mine["error"] < 0.02 and mine["tau"] > 0.95 and mine["regret"] < 0.005
    assert table.loc[("zero-shot", "all"), "error"] > 0.05


def test_traces_are_looked_at_before_the_work(data, tmp_path):
    path, damaged = data.traces / "qsort.trace.h5", tmp_path / "damaged.trace.h5"
    damaged.write_bytes(path.read_bytes()[:-100])
    model = load_model()
    with pytest.raises(InputError, match=r"damaged\.trace\.h5"):
        next(what_if.programs_of(model, [path, damaged], tmp_path / "work"))
    with pytest.raises(InputError, match="the same trace as"):
        next(what_if.programs_of(model, [path, path], tmp_path / "work"))
    assert not (tmp_path / "work").exists()
