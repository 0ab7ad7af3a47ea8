"""Budgets: what they simulate and correct, of programs whose cycles on any machine are a known function."""

import math

import numpy as np
import pytest

from analysis.budget import budget
from analysis.budget.coordinates import MODEL, coordinates
from analysis.budget.corrected import monotone
from analysis.budget.gaussian_process import GaussianProcess
from analysis.designs.design import first_points, grid_design, space_design
from analysis.programs.changes import half_widths
from analysis.programs.kept import Kept
from analysis.programs.simulable import Estimates, SimulableTrace
from uarch.columns import Columns
from uarch.configuration import replace_field
from uarch.machine_files import load_machine

GRID = {
    "l1d.size_kib": [8, 16, 32, 64, 128],
    "l2.latency": [6, 10, 14, 20],
    "pipeline.issue_width": [2, 3, 4, 6, 8],
    "branch_predictor.kind": ["local", "bimode", "tage", "tage-sc-l"],
    "l2.size_kib": [256, 512, 1024, 2048],
}

FREQUENCIES = [1.0, 1.2, 1.5, 1.8, 2.0, 2.2, 2.5, 2.8, 3.0, 3.2, 3.5, 3.8, 4.0, 4.5, 5.0]


def cycles_of(machine):
    """A bottleneck, a cache that fits from 64 KiB on, and a predictor, which act on one another."""
    misses = {8: 9.0, 16: 6.0, 32: 5.0, 64: 1.0, 128: 0.9}[machine.l1d.size_kib]
    wrong = {"local": 3.0, "bimode": 2.0, "tage": 1.0, "tage-sc-l": 0.9}[machine.branch_predictor.kind]
    width = min(machine.pipeline.issue_width, 4)
    return 1e6 * (1 / width + 0.02 * misses * machine.l2.latency / 10 + 0.1 * wrong)


class Known:
    """Takes no time, unless `seconds` says what a machine takes."""

    name, isa, identity, instructions, work = "known", "x86-64", "0", 1_000_000, 1_000_000

    def __init__(self, work=1_000_000, of=cycles_of):
        self.work, self.asked, self._of = work, [], of

    def prepare(self):
        pass

    def simulate(self, machines, threads=None):
        self.asked += machines
        cycles = np.array([self._of(machine) for machine in machines])
        return Estimates.exact(cycles)


def refused():
    raise AssertionError("the model was not needed")


@pytest.fixture(scope="module")
def design():
    return grid_design(load_machine("base"), GRID)


def truth(design):
    rows = range(design.columns.count)
    return np.array([cycles_of(design.columns.machine(row, f"{row}")) for row in rows])


@pytest.mark.slow
def test_all_points_are_simulated_where_the_budget_allows_it(design):
    few = design.columns.rows(slice(0, 40))
    for seconds in (60.0, math.inf):
        known = Known()
        found = budget.answer(known, few, seconds, refused, progress=False)
        assert set(found.sources) == {"simulated"}
        assert len(known.asked) == len(set(known.asked)) == 40
        assert np.array_equal(found.cycles, truth(design)[:40])
        assert np.array_equal(found.low, found.high)


@pytest.mark.slow
def test_the_rest_is_corrected_and_its_intervals_cover(design, monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(64 - self.count, 0))
    found = budget.answer(
        Known(),
        design.columns,
        60.0,
        refused,
        first=first_points(design, load_machine("base")),
        level=0.95,
        progress=False,
    )
    expected = truth(design)
    others = found.sources == "corrected"
    assert found.simulated == 64
    assert np.array_equal(found.cycles[~others], expected[~others])
    error = np.abs(found.cycles / expected - 1)[others]
    assert error.mean() < 0.01
    inside = (found.low <= expected) & (expected <= found.high)
    assert inside[others].mean() > 0.9


@pytest.mark.slow
def test_a_larger_cache_is_not_shown_as_slower(design, monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(24 - self.count, 0))
    found = budget.answer(Known(), design.columns, 60.0, refused, progress=False)
    cycles = np.where(found.sources == "simulated", np.nan, found.cycles).reshape([len(v) for v in GRID.values()])
    for axis in (0, 4):
        change = np.diff(cycles, axis=axis)
        assert not (change > 1e-9 * np.nanmax(cycles)).any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("limit", [4, 9, 20])
def test_points_that_are_equal_but_for_a_few_have_finite_intervals(limit):
    points = grid_design(
        load_machine("base"), {"l2.size_kib": [256, 512, 1024, 2048], "l2.latency": [8, 12, 16, 20, 24, 28]}
    )

    def a_cliff(machine):
        return 3e6 if machine.l2.size_kib == 256 and machine.l2.latency > 20 else 1e6

    found = budget.answer(
        Known(of=a_cliff), points.columns, math.inf, refused, least=2, limit=limit, threads=1, progress=False
    )
    assert found.simulated == limit
    assert np.isfinite(found.high).all() and (found.low > 0).all()


def test_intervals_hold_where_larger_caches_are_slower():
    """No surface shows that: its intervals are as much wider as it was moved."""
    grid = {"l2.size_kib": [256, 512, 1024, 2048], "l2.latency": [8, 12, 16, 20, 24, 28]}
    points = grid_design(load_machine("base"), grid).columns
    known = Known(of=lambda machine: 1e6 * (machine.l2.size_kib / 256) ** 0.5 * (machine.l2.latency / 8) ** 0.1)
    found = budget.answer(known, points, math.inf, refused, limit=12, threads=1, progress=False)
    expected = np.array([known.simulate([points.machine(row, "point")]).cycles[0] for row in range(points.count)])
    others = found.sources == "corrected"
    assert others.sum() == 12 and (np.abs(found.cycles / expected - 1)[others] > 0.1).any()
    assert ((found.low <= expected) & (expected <= found.high))[others].all()


def test_a_budget_for_no_point_is_told_and_the_model_answers(capsys):
    points = space_design("default", 30).columns
    found = budget.answer(Known(10**12), points, 5.0, lambda: np.full(30, 7.0), progress=False)
    assert set(found.sources) == {"zero-shot"} and set(found.cycles) == {7.0}
    (line,) = capsys.readouterr().err.splitlines()
    assert "not one point" in line


def test_too_few_points_for_a_surface_leave_the_others_to_the_model(monkeypatch, capsys):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(3 - self.count, 0))
    points = space_design("default", 30).columns
    found = budget.answer(Known(of=lambda machine: 5.0), points, 5.0, lambda: np.full(30, 7.0), progress=False)
    assert sorted(set(found.sources)) == ["simulated", "zero-shot"]
    assert (found.cycles == np.where(found.sources == "simulated", 5.0, 7.0)).all()
    assert "only 3 of 30 points were simulated in time; the model answers for the others (" in capsys.readouterr().err


def test_points_that_are_ranked_are_scaled_to_the_few_that_were_simulated(monkeypatch, capsys):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(3 - self.count, 0))
    points = space_design("default", 30).columns
    model = np.linspace(7.0, 9.0, 30)
    found = budget.answer(
        Known(of=lambda machine: 5.0), points, 5.0, lambda: model, score=lambda cycles: cycles, progress=False
    )
    own = found.sources == "simulated"
    assert own.sum() == 3 and set(found.sources[~own]) == {"scaled"} and np.isnan(found.low[~own]).all()
    ratio = np.prod(5.0 / model[own]) ** (1 / 3)
    assert found.cycles[~own] == pytest.approx(ratio * model[~own]) and (found.cycles[own] == 5.0).all()
    assert "scaled to these" in capsys.readouterr().err


def test_of_few_points_those_that_look_best_are_simulated(monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(5 - self.count, 0))
    points = space_design("default", 30).columns
    model = np.where(np.isin(np.arange(30), [11, 20, 25]), 1.0, 9.0)
    found = budget.answer(
        Known(of=lambda machine: 5.0), points, 5.0, lambda: model, score=lambda cycles: cycles, best=2, progress=False
    )
    assert found.simulated == 5 and (found.sources[[11, 20, 25]] == "simulated").all()


def test_a_slow_first_point_does_not_keep_the_others_from_a_surface(design, monkeypatch):
    """At first there seems to be time for three points more, then for sixty."""
    seemed = iter([3] * 12)

    def left(run):
        return max(min(next(seemed, 60), 60 - run.count), 0)

    monkeypatch.setattr(budget.SimulatedPoints, "affordable", left)
    model = np.linspace(1e6, 2e6, design.columns.count)
    found = budget.answer(
        Known(),
        design.columns,
        60.0,
        lambda: model,
        score=lambda cycles: cycles.copy(),
        best=2,
        threads=1,
        progress=False,
    )
    assert found.simulated > 40 and set(found.sources) == {"simulated", "corrected"}


def test_points_that_are_kept_answer_where_there_is_no_time(monkeypatch, capsys):
    points = space_design("default", 30).columns
    kept = Kept(Known(of=lambda machine: 5.0))
    kept.simulate([points.machine(row, "point") for row in (3, 4)])
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: 0)
    found = budget.answer(kept, points, 5.0, lambda: np.full(30, 7.0), score=lambda cycles: cycles, progress=False)
    assert np.flatnonzero(found.sources == "simulated").tolist() == [3, 4] and set(found.cycles.round(9)) == {5.0}
    assert "only 2 of 30 points" in capsys.readouterr().err


def test_scaled_points_are_no_slower_with_larger_caches(monkeypatch):
    """The model has larger caches slower, and a simulated one is as fast as the others."""
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(2 - self.count, 0))
    sizes = [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    points = grid_design(load_machine("base"), {"l2.size_kib": sizes}).columns
    model = np.array([9.0, 8.0, 8.5, 8.0, 7.0, 7.5, 7.6, -1.0])
    found = budget.answer(
        Known(of=lambda machine: 5.0), points, 5.0, lambda: model, score=lambda cycles: cycles, progress=False
    )
    assert "scaled" in found.sources and (np.diff(found.cycles) <= 1e-9).all() and (found.cycles > 0).all()


def test_few_points_vary_every_field(design, monkeypatch):
    """Eight points, where the base and the ends of each field were eleven."""
    first = first_points(design, load_machine("base"))
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(8 - self.count, 0))
    found = budget.answer(
        Known(), design.columns, 60.0, refused, score=lambda cycles: cycles.copy(), first=first, progress=False
    )
    assert len(first) > found.simulated == 8
    assert (design.fields[found.sources == "simulated"].nunique() > 1).all()


def test_a_field_that_no_simulated_point_varies_is_left_to_the_model(design, monkeypatch, capsys):
    """The base and other values of one field alone are many enough for a surface, which would call the other idle."""
    first = first_points(design, load_machine("base"))
    _, other = design.columns.varied[:2]
    values = np.asarray(design.columns[other])
    same = [row for row in range(design.columns.count) if values[row] == values[first[0]]][:12]
    monkeypatch.setattr(budget.GaussianProcess, "most_informative", lambda self, rows, count: np.array(same[:count]))
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(12 - self.count, 0))
    monkeypatch.setattr(budget.SimulatedPoints, "within", lambda self, rows: np.array(same, np.int64))
    found = budget.answer(
        Known(),
        design.columns,
        60.0,
        lambda: np.full(design.columns.count, 7.0),
        score=lambda cycles: cycles.copy(),
        first=first,
        threads=1,
        progress=False,
    )
    assert set(found.sources) == {"simulated", "scaled"} and np.isnan(found.low[found.sources == "scaled"]).all()
    assert f"none with another {other}" in capsys.readouterr().err


def test_sampled_points_pass_their_error_on(design, monkeypatch):
    class Sampled(Known):
        def simulate(self, machines, threads=None):
            found = super().simulate(machines, threads)
            return Estimates(found.cycles, found.cycles / 1.03, found.cycles * 1.03, np.zeros((len(found.cycles), 1)))

    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(24 - self.count, 0))
    exact, sampled = (
        budget.answer(one, design.columns, 60.0, refused, threads=1, progress=False) for one in (Known(), Sampled())
    )
    others = exact.sources == "corrected"
    half, wider = (np.log(found.high[others] / found.cycles[others]) for found in (exact, sampled))
    assert wider == pytest.approx(np.hypot(half, np.log(1.03)), rel=0.02) and (wider > np.log(1.03)).all()


BASE = replace_field(load_machine("base"), "branch_predictor.kind", "tage")


class Deviating(Known):
    """A known program with intervals, whose deviations differ by the size of L1D alone."""

    def simulate(self, machines, threads=None):
        cycles = super().simulate(machines, threads).cycles
        deviations = np.array([[0.01 if machine.l1d.size_kib == 8 else 0.0] for machine in machines])
        return Estimates(cycles, cycles / 1.03, cycles * 1.03, deviations)


@pytest.mark.parametrize("width", [8, 5])  # the base is a point, or none: then it is simulated, too
def test_changes_are_told_against_the_base_with_intervals_of_their_own(width):
    base = replace_field(BASE, "pipeline.issue_width", width)
    design = grid_design(base, {"l1d.size_kib": [8, 32], "pipeline.issue_width": [4, 8]})
    program = Deviating()
    first = first_points(design, base)
    found = budget.answer(
        program, design.columns, math.inf, refused, first=first, base=base, level=0.95, threads=1, progress=False
    )
    assert len(program.asked) == (4 if width == 8 else 5) and found.simulated == 4
    assert found.base == cycles_of(base)
    half = half_widths(np.log(found.cycles / found.base), np.array([[0.01], [0.01], [0.0], [0.0]]), np.zeros(1), 0.95)
    half[3] *= width != 8  # the base itself
    assert found.apart == pytest.approx(half) and half[0] > 5 * half[2]


def test_without_time_for_the_base_changes_have_no_interval():
    base = replace_field(BASE, "pipeline.issue_width", 5)
    design = grid_design(base, {"l1d.size_kib": [8, 32], "pipeline.issue_width": [4, 8]})
    found = budget.answer(
        Known(10**12), design.columns, 1.0, lambda: np.full(4, 7.0), base=base, told=False, progress=False
    )
    assert np.isnan(found.base) and np.isnan(found.apart).all()


def test_corrected_changes_have_the_surface_s_error_and_that_of_changes(design, monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(24 - self.count, 0))
    exact, sampled = (
        budget.answer(one, design.columns, 60.0, refused, base=BASE, threads=1, progress=False)
        for one in (Known(), Deviating())
    )
    others = exact.sources == "corrected"
    assert exact.apart[~others] == pytest.approx(0)
    assert exact.apart[others] == pytest.approx(np.log(exact.high / exact.cycles)[others])
    simulated = np.sqrt(np.mean(sampled.apart[~others] ** 2))
    assert sampled.apart[others] == pytest.approx(np.hypot(exact.apart[others], simulated), rel=0.02)


def test_what_is_made_once_is_not_in_the_rate(monkeypatch):
    now = [0.0]

    class Slow(Known):
        def prepare(self):
            now[0] += 15

        def simulate(self, machines, threads=None):
            now[0] += 0.1 * len(machines)
            return super().simulate(machines, threads)

    monkeypatch.setattr(budget.time, "perf_counter", lambda: now[0])
    found = budget.answer(
        Slow(of=lambda machine: 5.0), space_design("default", 30).columns, 20.0, refused, progress=False
    )
    assert found.simulated == 30


def test_points_that_are_all_simulated_need_no_model(monkeypatch, capsys):
    """The first batch is so slow that the others do not seem to fit, but they do."""
    now = [0.0]

    class SlowAtFirst(Known):
        def simulate(self, machines, threads=None):
            now[0] += 0.05 if self.asked else 1.2
            return super().simulate(machines, threads)

    monkeypatch.setattr(budget.time, "perf_counter", lambda: now[0])
    base = load_machine("base")
    points = grid_design(base, {"l2.size_kib": [256, 512, 1024, 2048, 4096]})
    found = budget.answer(
        SlowAtFirst(of=lambda machine: 1e6 + machine.l2.size_kib),
        points.columns,
        2.5,
        refused,
        score=lambda cycles: cycles.copy(),
        first=first_points(points, base),
        progress=False,
    )
    assert (found.sources == "simulated").all() and not capsys.readouterr().err


def test_few_points_are_not_all_kept_for_the_end(design, monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(11 - self.count, 0))
    found = budget.answer(
        Known(), design.columns, 60.0, refused, score=lambda cycles: cycles.copy(), best=10, progress=False
    )
    assert found.simulated == 11
    assert set(found.sources) == {"simulated", "corrected"}


@pytest.mark.slow
def test_the_best_points_are_simulated(design, monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(80 - self.count, 0))
    found = budget.answer(Known(), design.columns, 60.0, refused, score=lambda cycles: cycles.copy(), progress=False)
    best = int(found.cycles.argmin())
    assert found.sources[best] == "simulated"
    assert found.cycles[best] == pytest.approx(truth(design).min(), rel=0.01)


def test_a_budget_is_shared_by_work():
    assert budget.shares([Known(10**9), None, Known(3 * 10**9)], 8.0) == pytest.approx([2.0, 0.0, 6.0], rel=2e-3)
    assert min(budget.shares([Known(124), Known(5 * 10**6)], 8.0)) > 1  # what comes before the first takes time too
    assert budget.shares([Known(100), None], math.inf) == [math.inf, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_monotone_is_monotone_near_and_leaves_monotone_surfaces_alone(seed):
    generator = np.random.default_rng(seed)
    sizes = np.meshgrid([8, 16, 32], [128, 256, 512, 1024], [1.0, 2.0], indexing="ij")
    names = ("l1d.size_kib", "l2.size_kib", "frequency_ghz")
    points = Columns({n: s.ravel() for n, s in zip(names, sizes, strict=True)}, 24)
    log = generator.normal(size=24)
    found = monotone(points, log, np.zeros(24, bool)).reshape(3, 4, 2)
    assert (np.diff(found, axis=0) <= 1e-12).all() and (np.diff(found, axis=1) <= 1e-12).all()
    assert np.allclose(monotone(points, found.ravel(), np.zeros(24, bool)), found.ravel())
    worst = max(
        log.reshape(3, 4, 2)[a2, b2, c] - log.reshape(3, 4, 2)[a, b, c]
        for c in range(2)
        for a in range(3)
        for b in range(4)
        for a2 in range(a, 3)
        for b2 in range(b, 4)
    )
    assert np.abs(found.ravel() - log).max() == pytest.approx(max(worst, 0) / 2)
    fixed = generator.random(24) < 0.3
    assert np.array_equal(monotone(points, log, fixed)[fixed], log[fixed])
    simulated = np.where(fixed, found.ravel(), log)  # which have no larger cache slower: then no other point has
    whole = monotone(points, simulated, fixed)
    assert np.array_equal(whole[fixed], simulated[fixed])
    whole = whole.reshape(3, 4, 2)
    assert (np.diff(whole, axis=0) <= 1e-12).all() and (np.diff(whole, axis=1) <= 1e-12).all()


def test_coordinates_of_names_steps_and_what_is_lacking(design):
    where = coordinates(design.columns)
    assert np.abs(where.values).max() <= 1
    assert where.fields == len(GRID)
    # of a name one for each, of a number its logarithm and a step at each value but the first
    assert where.values.shape[1] == 4 + sum(len(values) for field, values in GRID.items() if "kind" not in field)
    wide = coordinates(space_design("default", 100).columns)
    assert np.isfinite(wide.values).all() and np.abs(wide.values).max() <= 1 + 1e-6


def test_of_many_values_a_number_is_its_logarithm_alone():
    values = {"l2.latency": list(range(6, 14)), "frequency_ghz": [1.0, 1.2, 1.5, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0]}
    where = coordinates(grid_design(load_machine("cortex-a53"), values).columns)
    assert where.steps.sum() == 7 and where.values.shape[1] == 9  # eight latencies, nine frequencies


@pytest.mark.slow
def test_a_smooth_surface_of_many_values_is_known_from_few_points():
    values = {"l1d.size_kib": [8, 16, 32, 64, 128], "l2.latency": list(range(6, 22)), "frequency_ghz": FREQUENCIES}
    grid = grid_design(load_machine("cortex-a53"), values)

    def cycles(machine):
        misses = {8: 9.0, 16: 6.0, 32: 5.0, 64: 1.0, 128: 0.9}[machine.l1d.size_kib]
        return 1e6 * (1 + 0.005 * misses * machine.l2.latency + 0.01 * misses * machine.frequency_ghz)

    first = first_points(grid, load_machine("cortex-a53"))
    answer = budget.answer(Known(of=cycles), grid.columns, np.inf, refused, first=first, limit=64, progress=False)
    true = np.array([cycles(grid.columns.machine(row, "m")) for row in range(grid.columns.count)])
    off = np.abs(answer.cycles / true - 1)
    assert off.mean() < 0.002
    inside = (answer.low <= true * (1 + 1e-9)) & (true <= answer.high * (1 + 1e-9))
    assert inside.mean() >= 0.95


def test_a_model_is_one_more_coordinate_of_a_wide_design(design):
    wide = coordinates(space_design("default", 100).columns)
    cycles = np.exp(np.random.default_rng(1).normal(10, 0.5, 100))
    found = wide.with_model(cycles)
    assert found.names == (*wide.names, MODEL) and found.fields == wide.fields + 1
    assert not found.steps[-1] and np.array_equal(found.values[:, :-1], wide.values)
    log = np.log(cycles)
    np.testing.assert_allclose(found.values[:, -1], (log - log.mean()) / log.std(), rtol=1e-5)
    assert wide.with_model(np.full(100, 7.0)) is wide  # it tells nothing apart
    narrow = coordinates(design.columns)
    assert narrow.with_model(np.arange(1.0, design.columns.count + 1)) is narrow


@pytest.mark.slow
def test_a_surface_over_a_wide_design_follows_a_model_as_far_as_it_holds():
    points = space_design("default", 400, seed=2).columns
    where, generator = coordinates(points), np.random.default_rng(3)
    log = 0.5 * np.sin(np.arange(400.0)) + generator.normal(0, 0.02, 400)  # of no field
    rows, others = np.arange(60), np.arange(60, 400)

    def error(coordinates):
        return np.abs(GaussianProcess(coordinates, rows, log[rows]).predict(others)[0] - log[others]).mean()

    right = np.exp(log + 9 + generator.normal(0, 0.05, 400))
    wrong = np.exp(generator.normal(9, 0.5, 400))
    assert error(where.with_model(right)) < 0.08 < 0.25 < error(where)
    assert error(where.with_model(wrong)) < 1.15 * error(where)


@pytest.mark.slow
def test_a_process_goes_through_its_points_and_knows_what_it_does_not_know(design):
    where = coordinates(design.columns)
    rows = np.random.default_rng(0).choice(design.columns.count, 60, replace=False)
    targets = np.log(truth(design)[rows])
    process = GaussianProcess(where, rows, targets)
    mean, deviation = process.predict()
    assert np.abs(mean[rows] - targets).max() < 0.02
    assert deviation[rows].mean() < np.delete(deviation, rows).mean()
    chosen = process.most_informative(np.arange(design.columns.count), 5)
    assert len(set(chosen.tolist())) == 5 and not np.isin(chosen, rows).any()


def test_what_scatters_at_one_point_is_not_known_better_for_being_simulated(design):
    rows = np.repeat([0, 1], 10)
    targets = np.tile([-1.0, 1.0], 10)
    process = GaussianProcess(coordinates(design.columns), rows, targets, spread=1.0)
    assert process.predict(rows)[1] == pytest.approx(1.0, abs=0.2)


def test_a_trace_is_simulable(data):
    path = data.traces / "qsort.trace.h5"
    program = SimulableTrace(path)
    machines = [load_machine("base"), load_machine("cortex-a53")]
    found = program.simulate(machines)
    assert program.name == "qsort" and program.work == program.instructions
    from analysis.questions.simulate import simulate

    assert found.cycles.tolist() == simulate([path], machines, progress=False)["cycles"].tolist()


def test_a_sample_s_interval_is_of_the_level_that_is_asked_for(design):
    class Sampled(Known):
        def simulate(self, machines, threads=None):
            found = super().simulate(machines, threads)
            return Estimates(found.cycles, found.cycles * 0.97, found.cycles * 1.03, np.zeros((len(found.cycles), 1)))

    half = {}
    for level in (0.5, 0.9, 0.95, 0.99):
        found = budget.answer(Sampled(), design.columns, math.inf, refused, level=level, threads=1, progress=False)
        assert found.high - found.cycles == pytest.approx(found.cycles - found.low)
        half[level] = float((found.high / found.cycles - 1).mean())
    assert half[0.95] == pytest.approx(0.03)
    assert half[0.5] == pytest.approx(0.03 * 0.683 / 2.042, rel=0.01)  # Student's quantiles, 30 degrees of freedom
    assert half[0.99] == pytest.approx(0.03 * 2.750 / 2.042, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_points_far_from_a_grid_are_monotone_too(seed):
    """The same by brute force over all pairs of 240 points that have few sizes in common; a tenth is simulated."""
    generator = np.random.default_rng(seed)
    names = ("l1i.size_kib", "l1d.size_kib", "l2.size_kib", "l3.size_kib")
    sizes = generator.integers(1, 1000, (240, 4)).astype(float) * [1, 1, 16, 256]
    sizes[::3] = sizes[1::3] * generator.integers(1, 3, (80, 4))
    issue = generator.integers(1, 4, 240).astype(float)
    points = Columns(dict(zip(names, sizes.T, strict=True)) | {"pipeline.issue_width": issue}, 240)
    log, fixed = generator.normal(size=240), generator.random(240) < 0.1
    found = monotone(points, log, fixed)
    larger = (sizes[:, None] <= sizes[None]).all(axis=2) & (issue[:, None] == issue[None])  # [small, large]
    assert larger.sum() > 400

    def bounds(values, known):
        upper = np.where(larger & known[None], values[None], -np.inf).max(axis=1)
        lower = np.where(larger & known[:, None], values[:, None], np.inf).min(axis=0)
        return upper, lower

    low, high = bounds(log, fixed)
    contrary, within = low > high, np.clip(log, low, high)
    within[contrary] = (low[contrary] + high[contrary]) / 2
    upper, lower = bounds(np.where(fixed, log, within), np.ones(240, bool))
    assert np.allclose(found, np.where(fixed, log, (upper + lower) / 2), atol=1e-12)
    alone = monotone(points, log, np.zeros(240, bool))
    assert (np.where(larger, alone[None] - alone[:, None], 0) <= 1e-12).all() and not np.array_equal(alone, log)
