"""Searches: by the shipped model alone, and with a judge that simulates."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis import api
from analysis.budget import budget
from analysis.budget.coordinates import coordinates
from analysis.budget.gaussian_process import GaussianProcess
from analysis.designs import judge, search, sweep
from analysis.designs.design import grid_design, space_design
from analysis.programs.simulable import Estimates
from analysis.programs.targets import Target
from analysis.questions.sweep import SweepQuestion
from perfvec.machines.features import narrowest
from perfvec.representation.library import load_library
from support.errors import InputError
from tests.analysis.vectors import program, shipped
from uarch.columns import concatenate
from uarch.machine_files import load_machine


def test_a_search_finds_the_best_of_a_grid():
    grid = {"l1d.size_kib": [8, 16, 32, 64], "l2.latency": [6, 8, 10], "branch_predictor.kind": ["local", "tage"]}
    over = search.search_grid(load_machine("base"), grid)
    design = search.search(
        shipped(), [program()], over, 60, seed=1, objective="time*(900+l1d.size_kib)", progress=False
    )
    assert not design.fields.duplicated().any()
    found = sweep.run(shipped(), [program()], design, objective="time*(900+l1d.size_kib)")["objective"].min()
    every = sweep.run(
        shipped(), [program()], grid_design(load_machine("base"), grid), objective="time*(900+l1d.size_kib)"
    )
    assert found <= every["objective"].quantile(0.1)


def test_a_search_of_a_space_keeps_its_constraints():
    over = search.search_space("caches", base="zen4")
    design = search.search(shipped(), [program(), program("q", 1)], over, 12, progress=False)
    again = search.search(shipped(), [program(), program("q", 1)], over, 12, progress=False)
    assert design.fields.equals(again.fields)
    machine = design.columns.machine(0, "m")
    assert machine.l2.size_kib >= 2 * machine.l1d.size_kib
    assert machine.pipeline == load_machine("zen4").pipeline


def test_a_program_counts_in_a_search_however_long_it_runs():
    """The geometric mean of two times orders points as before where one of them is a thousand times as long."""
    grid = {"l1d.size_kib": [8, 16, 32, 64], "l2.latency": [6, 8, 10], "frequency_ghz": [1.0, 2.0, 3.0]}
    over, suite = search.search_grid(load_machine("base"), grid), {one.program: one for one in load_library()}
    one, other = suite["sort"], suite["k_stream"]
    longer = replace(other, vector=1000 * other.vector)
    both, again, alone, instead = (
        search.search(shipped(), programs, over, 20, progress=False).fields
        for programs in ([one, other], [one, longer], [one], [longer])
    )
    assert both.equals(again) and not alone.equals(instead)


@pytest.mark.parametrize("grid", [{"l2.size_kib": [512]}, {"l2.size_kib": [256, 512]}])
def test_a_search_that_comes_to_one_point_has_it(grid):
    answer = api.sweep(program(), base="base", vary=grid, search=1, model=shipped())
    assert len(answer.table) == len(answer.best) == 1 and answer.sensitivity.empty
    assert "1 best of 1 points" in answer.text() and "Empty" not in answer.text()


class Contrary:
    """A program whose cycles on any machine are known: slow L2s are fast, which no model would say."""

    name, isa, identity, instructions, work = "contrary", "x86-64", "0", 1_000_000, 1_000_000

    def __init__(self):
        self.asked = []

    def prepare(self):
        pass

    def simulate(self, machines, threads=None):
        self.asked += machines
        cycles = np.array([1e6 * (1 + 12 / one.l2.latency + 0.1 / one.pipeline.issue_width) for one in machines])
        return Estimates.exact(cycles)


GRID = {
    "l2.latency": list(range(6, 25)),
    "pipeline.issue_width": [2, 3, 4, 6, 8],
    "l1d.size_kib": [8, 16, 32, 64, 128],
    "l2.size_kib": [256, 512, 1024, 2048],
    "branch_predictor.kind": ["local", "bimode", "tage", "tage-sc-l"],
}
LEAST = 1e6 * (1 + 12 / 24 + 0.1 / 8)


@pytest.fixture
def ten_points_a_round(monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(10 + self._recalled - self.count, 0))


def searched(targets, seconds):
    question = SweepQuestion(base=load_machine("base"), vary=GRID, search=60, best=3)
    return question.ask(shipped(), targets, seconds, progress=False)


@pytest.mark.slow
def test_a_search_finds_what_the_model_does_not_know(ten_points_a_round):
    by_model = sweep.run(shipped(), [program()], grid_design(load_machine("base"), GRID))
    assert by_model["l2.latency"][by_model["seconds"].idxmin()] < 12
    contrary = Contrary()
    found = searched([Target(contrary, program)], 20.0)
    assert found.table["source"].isin(("simulated", "corrected")).all() and not found.notes
    assert found.table["cycles"].min() <= 1.02 * LEAST and found.best["source"].iloc[0] == "simulated"
    keys = [str(machine.to_dict() | {"name": ""}) for machine in contrary.asked]
    assert len(keys) == len(set(keys)) <= 5 * 12  # of all rounds no machine twice
    assert sum(found.table["source"] == "simulated") == len(keys) - 1  # and the base, which is no point
    assert (found.best["change"] < 0).all() and (found.best["change_low"] <= found.best["change"]).all()


def test_a_search_within_too_short_a_budget_is_the_model_s():
    contrary = Contrary()
    found = searched([Target(contrary, program)], 1e-3)
    assert not contrary.asked and set(found.table["source"]) == {"zero-shot"}
    assert any("simulate the best points" in note for note in found.notes)
    over = search.search_grid(load_machine("base"), GRID)
    assert found.design.fields.equals(search.search(shipped(), [program()], over, 60, progress=False).fields)


class Late:
    """A judge that has no time left, and says nothing."""

    def __call__(self, design):
        return None

    def seconds_to_search(self, share):
        return -1.0


def test_rounds_end_early_where_there_is_no_time_for_them():
    over = search.search_space("default")
    drawn = []

    def columns(points):
        drawn.append(len(points))
        return over.columns(points)

    counted = search.Searchable(over.coordinates, columns, ())
    design = search.search(shipped(), [program()], counted, 60, judge=Late(), progress=False)
    assert len(design.fields) == 60 and len(drawn) == 5 * 2  # of each round the first population and a generation
    search.search(shipped(), [program()], counted, 60, progress=False)
    assert len(drawn) == 5 * 2 + 100


def test_what_searches_take_is_of_the_budget(monkeypatch):
    now, spent = [100.0], []
    monkeypatch.setattr(judge, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(judge, "answered", lambda model, targets, design, seconds, **_: spent.append(seconds) or rest)
    rest = pd.DataFrame({"source": ["zero-shot"]})
    over = judge.Judge(shipped(), [Target(Contrary(), program)], 60, 18.0)
    design = grid_design(load_machine("base"), {"l2.size_kib": [256]})
    assert over.seconds_to_search(0.5) == pytest.approx(18 / 3 / 2)
    for _ in range(4):
        over(design)
    assert spent == pytest.approx([2.0, 2.4, 3.0, 4.0])  # two thirds of 18 s by six shares, by five …
    now[0] += 12
    assert over.last == pytest.approx(6.0)
    now[0] += 12
    assert over.last == pytest.approx(1.8) and over.seconds_to_search(1.0) < 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_search_for_few_points_has_as_many_rounds(ten_points_a_round, count):
    contrary = Contrary()
    question = SweepQuestion(base=load_machine("base"), vary=GRID, search=count, best=1)
    found = question.ask(shipped(), [Target(contrary, program)], 20.0, progress=False)
    assert len(found.table) == count == len(contrary.asked) - 1 and set(found.table["source"]) == {"simulated"}
    assert found.to_html().startswith("<!") and f"1 best of {count} points" in found.text()


def test_points_that_were_simulated_are_not_called_optimistic(monkeypatch):
    monkeypatch.setattr(budget.SimulatedPoints, "affordable", lambda self: max(12 - self.count, 0))
    found = searched([Target(Contrary(), program)], 1.0)  # too short for a judge
    assert set(found.best["source"]) == {"simulated"} and not found.notes


@pytest.mark.slow
def test_a_search_of_two_programs_is_judged_by_both(ten_points_a_round):
    found = searched([Target(Contrary(), program), Target(Contrary(), lambda: program("q", 1), shown="q")], 20.0)
    assert len(found.table) == 2 * len(found.design.fields) and set(found.best["program"]) == {"contrary", "q"}
    assert found.table.groupby("program")["cycles"].min().max() <= 1.05 * LEAST


def test_a_search_lists_different_points_the_best_among_them():
    design = search.search(shipped(), [program()], search.search_space("default"), 30, seed=3, progress=False)
    assert len(design.fields) == design.columns.count == 30 and not design.fields.astype(str).duplicated().any()
    seconds = sweep.run(shipped(), [program()], design)["seconds"]
    sampled = sweep.run(shipped(), [program()], space_design("default", 3000, seed=3))["seconds"]
    assert seconds.idxmin() == 0 and seconds.min() < sampled.min()


def test_a_search_does_not_go_where_the_model_says_what_no_machine_can_do():
    fast = replace(program(), vector=program().vector / 3)  # most predictions are below an instruction a slot
    design = search.search(shipped(), [fast], search.search_space("default"), 2000, seed=3, progress=False)
    cycles = sweep.run(shipped(), [fast], design)["cycles"]
    assert (cycles >= fast.instructions / narrowest(design.columns)).all()
    every = space_design("default", 1000, seed=3)
    assert (sweep.run(shipped(), [fast], every)["cycles"] < fast.instructions / narrowest(every.columns)).mean() > 0.5


def test_other_points_have_the_coordinates_of_a_design():
    points, others = space_design("default", 60, seed=1).columns, space_design("default", 20, seed=2).columns
    every, alone = coordinates(concatenate([points, others]), 60), coordinates(points)
    assert np.array_equal(every.values[:60], alone.values) and every.names == alone.names
    cycles = np.exp(np.random.default_rng(0).normal(12, 1, 80))
    every, alone = every.with_model(cycles, 60), alone.with_model(cycles[:60])
    assert np.array_equal(every.values[:60], alone.values)
    process = GaussianProcess(alone, np.arange(40), np.log(cycles[:40]))
    here, there = process.predict(np.arange(40, 60)), process.predict(np.arange(40, 60), every)
    assert np.array_equal(here[0], there[0]) and np.array_equal(here[1], there[1])
    assert np.isfinite(process.predict(np.arange(60, 80), every)[0]).all()


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"objective": "tiem"}, "no field 'tiem'"),
        ({"cost": "l2.sizekib"}, "l2.size_kib"),
        ({"objective": "time/(l2.size_kib-1024)"}, "no finite number"),
    ],
)
def test_a_wrong_expression_is_one_line(asked, match):
    with pytest.raises(InputError, match=match):
        SweepQuestion(base=load_machine("zen4"), vary={"l2.size_kib": [512, 1024]}, search=2, **asked).ask(
            shipped(), [Target(None, program)], 0.0, progress=False
        )
