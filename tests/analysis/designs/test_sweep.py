"""Sweeps with the shipped model: points, costs, objectives, the search, gem5's scripts and results."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import api
from analysis.designs import confirm, sweep
from analysis.designs.design import fields_of_columns, grid_design, space_design
from analysis.designs.sensitivity import sensitivity
from analysis.designs.table import best, fields_of, pareto_front
from analysis.designs.vary import parse_constraints, parse_vary
from analysis.questions import sweep_figures, sweep_page, sweep_tables
from analysis.questions.sweep import SweepQuestion, gem5_result
from analysis.results.figure import Points, label
from analysis.results.intervals import readable
from perfvec.machines.features import features_of_machines
from support.errors import InputError
from tests.analysis.vectors import program, shipped
from tests.command import perfvec
from tests.tracegen.gem5 import gem5_runs
from uarch.columns import Grid, of_machine
from uarch.configuration import get_field, replace_field
from uarch.gem5.simulated import digest
from uarch.machine_files import load_machine
from uarch.space import sample

GRID = {"l1d.size_kib": [16, 32, 64], "l2.size_kib": [256, 512]}


def test_times_are_those_of_the_encoder():
    frame = sweep.run(shipped(), [program()], grid_design(load_machine("base"), {**GRID, "frequency_ghz": [1.0, 2.5]}))
    columns = grid_design(load_machine("base"), {**GRID, "frequency_ghz": [1.0, 2.5]}).columns
    machines = [columns.machine(row, "point") for row in range(columns.count)]
    vectors = shipped().encoder.encode(np.concatenate([features_of_machines([machine]) for machine in machines]))
    expected = vectors @ program().vector
    assert np.allclose(frame["cycles"], expected, rtol=1e-3)
    assert np.allclose(frame["seconds"], frame["cycles"] / [machine.frequency_ghz * 1e9 for machine in machines])


def test_cost_and_objective_by_hand():
    frame = sweep.run(
        shipped(),
        [program()],
        grid_design(load_machine("base"), GRID),
        cost="2*l1d.size_kib + l2.size_kib",
        objective="time * (1000 + cost) + 0*l1i.size_kib",
    )
    assert frame["cost"].tolist() == [288, 544, 320, 576, 384, 640]
    assert np.allclose(frame["objective"], frame["seconds"] * (1000 + frame["cost"]))
    assert best(frame, 1).index[0] == frame["objective"].idxmin()
    on_front = frame[frame["pareto"]].sort_values("cost")
    assert on_front["cost"].iloc[0] == 288
    assert on_front["seconds"].is_monotonic_decreasing


def test_a_field_that_a_machine_lacks_costs_nothing():
    design = space_design("default", 50, seed=1)
    frame = sweep.run(shipped(), [program()], design, cost="l3.size_kib")
    absent = [machine.l3 is None for machine in sample(50, 1)]
    assert (frame["cost"] == 0).tolist() == absent
    document = sweep_tables.to_json(frame)
    assert [point["uarch"]["l3.size_kib"] is None for point in document["points"]] == absent
    json.dumps(document, allow_nan=False)


def test_points_that_are_no_machine_are_left_out_and_told():
    design = grid_design(load_machine("base"), {"l1d.size_kib": [32, 40], "l2.latency": [8, 9]})
    assert design.fields["l1d.size_kib"].tolist() == [32, 32]
    assert "2 of 4" in design.left_out
    with pytest.raises(InputError, match="empty sweep"):
        grid_design(load_machine("base"), {"l1d.size_kib": [40]})


def test_constraints_take_expressions_and_the_cost():
    text = "2*l1d.size_kib + l2.size_kib"
    grid = {"l1d.size_kib": [16, 32, 64], "l2.size_kib": [256, 512, 1024]}
    base = load_machine("base")
    whole = {(16, 256), (32, 256), (64, 256), (16, 512), (32, 512)}
    for limits in (parse_constraints([f"{text} < 640"]), parse_constraints(["cost < 640"], text)):
        columns = grid_design(base, grid, limits).columns
        points = zip(columns["l1d.size_kib"].tolist(), columns["l2.size_kib"].tolist(), strict=True)
        assert set(points) == whole
    with pytest.raises(InputError, match="what is the cost"):
        parse_constraints(["cost < 640"])
    with pytest.raises(InputError, match=r"did you mean l1d\.size_kib"):
        parse_constraints(["2*l1d.size_kb < 640"])
    # A machine without an L3 has one that costs nothing.
    flat = {"l2.size_kib": 700.0}
    (limit,) = parse_constraints(["cost < 640"], "l2.size_kib + l3.size_kib")
    assert not limit.holds(flat) and limit.holds({"l2.size_kib": 600.0})


def test_constraints_of_the_command_line():
    limits = parse_constraints(["l2.size_kib >= 16 * l1d.size_kib"])
    design = grid_design(load_machine("base"), GRID, limits)
    assert design.fields.to_numpy().tolist() == [[16, 256], [16, 512], [32, 512]]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("l1d.size_kib=8:64:*2", [8, 16, 32, 64]),
        ("l2.latency=4:9:2, 30", [4, 6, 8, 30]),
        ("frequency_ghz=1:2:0.5", [1, 1.5, 2]),
        ("l1d.size_kib=16,16", [16]),
    ],
)
def test_ranges(text, values):
    assert list(parse_vary([text]).values()) == [values]


@pytest.mark.parametrize(
    "text",
    [
        "l2.latency=9:4:1",
        "l2.latency=4:9",
        "l2.latency=4:9:0",
        "l2.latency=4:9:*1",
        "branch_predictor.kind=a:b:1",
        "l2.latency=4:9:x",
        "frequency_ghz=1:inf:*2",
        "frequency_ghz=1:5:inf",
    ],
)
def test_a_wrong_range_is_one_line(text):
    with pytest.raises(InputError, match=r"must rise|must read|holds names"):
        parse_vary([text])


@pytest.mark.parametrize(
    ("cost", "objective", "match"),
    [
        ("l1d.sise_kib", None, "l1d.size_kib"),
        ("branch_predictor.kind", None, "holds a name"),
        ("1/(l1d.size_kib - 16)", None, "no finite number"),
        (None, "cost", "no field 'cost'"),
        (None, "time; 1", "position 5"),
    ],
)
def test_a_wrong_expression_is_one_line(cost, objective, match):
    with pytest.raises(InputError, match=match):
        sweep.run(shipped(), [program()], grid_design(load_machine("base"), GRID), cost=cost, objective=objective)


def test_vectors_of_different_models_are_told():

    other = replace(program("q"), model="other")
    with pytest.raises(InputError, match="different models"):
        sweep.run(shipped(), [program(), other], grid_design(load_machine("base"), GRID))


def test_a_heat_map_has_the_best_of_the_other_fields():
    frame = sweep.run(shipped(), [program()], grid_design(load_machine("base"), {**GRID, "l2.latency": [8, 12]}))
    table = sweep_figures.heat_map(frame, "p", "l1d.size_kib", "l2.size_kib")
    part = frame[(frame["l1d.size_kib"] == 32) & (frame["l2.size_kib"] == 512)]
    assert table.loc[512, 32] == part["seconds"].min()
    assert table.shape == (2, 3)
    with pytest.raises(InputError, match="does not vary"):
        sweep_figures.heat_map(frame, "p", "l1d.size_kib", "l3.size_kib")


def heat_of(*times):
    """The heat maps of programs with these times on a grid of 2 × 2, in ms."""
    frame = pd.DataFrame(
        {
            "program": np.repeat([f"p{number}" for number in range(len(times))], 4),
            "source": "encoder",
            "l1d.size_kib": [16, 32] * 2 * len(times),
            "l2.size_kib": [256, 256, 512, 512] * len(times),
            "cycles": 1.0,
            "seconds": np.ravel(times) / 1e3,
        }
    )
    panels = sweep_figures.plot(frame).panels
    return [panel.title for panel in panels], [panel.marks[0].scale for panel in panels]


def test_colours_of_heat_maps_are_multiples_of_the_least_time_and_titles_say_the_range():
    titles, scales = heat_of([1.0, 1.01, 1.02, 1.02], [2.0, 2.1, 2.2, 2.26])
    assert titles == ["p0: 1 to 1.02 (+2.0%)", "p1: 2 to 2.26 (+13.0%)"]
    assert np.allclose(scales, [(1.0, 1.13), (2.0, 2.26)])  # 2 % looks like 2 beside 13
    assert heat_of([1.0, 1.0, 1.0, 1.0])[1] == [None]
    titles, scales = heat_of([1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 5.0, 8.0])
    assert titles[1] == "p1: 2 to 8 (+300.0%)" and np.allclose(scales, [(1.0, 4.0), (2.0, 8.0)])


def test_the_best_points_times_are_in_a_readable_unit():
    chosen = pd.DataFrame({"program": ["p", "q"], "seconds": [0.002, 0.4], "low": [0.0018, 0.3], "high": [0.0021, 0.5]})
    table = readable(chosen)
    assert list(table.columns) == ["program", "time, ms", "from, ms", "to, ms"]
    assert np.allclose(table.iloc[0, 1:].astype(float), [2.0, 1.8, 2.1])
    simulated = chosen.assign(low=chosen["seconds"], high=chosen["seconds"])
    assert list(readable(simulated).columns) == ["program", "time, ms"]
    assert list(readable(chosen.assign(seconds=3e-10).drop(columns=["low", "high"])).columns) == ["program", "time, ns"]


def test_the_terminal_s_table_fits(capsys):
    frame = sweep.run(shipped(), [program("a-rather-long-name-of-a-program")], space_design("default", 30))
    order = sensitivity(frame, fields_of(frame), "seconds", exact=False)["field"].tolist()
    for table in sweep_tables.terminal_tables(best(frame, 5), order):
        lines = table.to_string(index=False, float_format="{:.4g}".format).splitlines()
        assert len(lines) == 6
        assert max(map(len, lines)) <= 80


def test_the_terminal_has_every_field_of_a_grid():
    grid = GRID | {"pipeline.load_queue_entries": [64, 128], "pipeline.store_queue_entries": [64, 96]}
    answer = api.sweep([program()], base="base", vary=grid, cost="l2.size_kib", model=shipped())
    lines = str(answer).splitlines()
    assert max(map(len, lines)) <= 80
    tables = "\n".join(lines).split("10 best of")[0].split("\n\n")
    assert len(tables) == 2
    found = {}
    for header, *rows in (table.splitlines() for table in tables):
        assert [int(row.split()[0]) for row in rows] == list(range(1, 11))
        for place, name in enumerate(reversed(header.split()), 1):
            found[name] = [row.split()[-place] for row in rows]
    for field in grid:
        assert found[field] == [str(value) for value in answer.best[field]]


def test_the_terminal_has_every_field_of_a_sampled_space_s_best_point():
    answer = api.sweep([program()], space="default", sample=30, base="base", model=shipped())
    assert max(map(len, str(answer).splitlines())) <= 80
    told = " ".join(str(answer).split("best for p: ")[1].split("\n\n")[0].split())
    first, base = answer.best.iloc[0], of_machine(load_machine("base"))
    wanted = [field for field in answer.sensitivity["field"] if first[field] == first[field] != base.get(field)]
    assert len(wanted) > 8
    assert sorted(told.split(", ")) == sorted(f"{field}={label(first[field])}" for field in wanted)


def test_of_many_points_json_lists_the_front_and_the_best(monkeypatch):
    monkeypatch.setattr(sweep_tables, "MOST_LISTED", 10)
    frame = sweep.run(shipped(), [program()], space_design("caches", 40), cost="l2.size_kib")
    document = sweep_tables.to_json(frame, k=3)
    assert document["evaluated"] == 40
    assert len(document["points"]) == len(set(np.flatnonzero(frame["pareto"])) | set(best(frame, 3).index))
    seconds = [document["points"][index]["seconds"] for index in document["best"]]
    assert seconds == sorted(frame["seconds"])[:3]


def test_scripts_for_gem5_and_the_machines_in_them(tmp_path):
    design = grid_design(load_machine("base"), GRID)
    frame = sweep.run(shipped(), [program(), program("q/2", 1)], design)
    exported = confirm.export_gem5(tmp_path, frame, design, 2, {"p": (1000, "x86-64"), "q/2": (1000, "aarch64")})
    assert exported["uarch"].tolist() == ["p-01", "p-02", "q_2-01", "q_2-02"]
    first = best(frame, 1).iloc[0]
    machine = load_machine("base")
    for field in GRID:
        machine = replace_field(machine, field, int(first[field]))
    document = json.loads((tmp_path / confirm.PREDICTIONS).read_text())
    assert document["points"][0]["digest"] == digest(replace_field(machine, "name", "p-01"))
    assert digest(replace_field(machine, "name", "p-01")) in (tmp_path / "p-01.py").read_text()
    with pytest.raises(InputError, match="no results"):
        confirm.gem5_results(tmp_path)


def test_the_machine_of_a_row_and_those_of_the_best_points():
    programs = [program(), program("q/2", 1)]
    answer = api.sweep(programs, base="base", vary=GRID, model=shipped())
    for row in (0, len(answer.table) - 1):
        machine, shown = answer.machine(row), answer.table.iloc[row]
        assert {field: get_field(machine, field) for field in GRID} == {field: shown[field] for field in GRID}
    best_of_q = answer.best[answer.best["program"] == "q/2"].iloc[0]
    found = {machine.name: machine for machine in answer.best_machines()}
    (again,) = api.predict([programs[1]], machines=[found["q_2-01"]], model=shipped()).table["cycles"]
    assert again == pytest.approx(best_of_q["cycles"])
    with pytest.raises(InputError, match="rows 0 to"):
        answer.machine(len(answer.table))


@pytest.mark.parametrize("option", ["--export-machines", "--export-gem5"])
def test_a_folder_that_cannot_be_is_refused_before_the_work(option, tmp_path):
    program().save(tmp_path / "p.vector.npz")
    (tmp_path / "file").write_text("")
    words = ["sweep", tmp_path / "p.vector.npz", "--base", "base", "--vary", "l2.size_kib=256,512"]
    done = perfvec(*words, option, tmp_path / "file")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be a folder (File exists)" in done.stderr


def test_machine_files_of_the_best_points(tmp_path):
    program().save(tmp_path / "p.vector.npz")
    words = ["sweep", tmp_path / "p.vector.npz", "--base", "base", "--vary", "l2.size_kib=256,512", "--best", 1]
    done = perfvec(*words, "--csv", tmp_path / "points.csv", "--export-machines", tmp_path / "best")
    points = pd.read_csv(tmp_path / "points.csv")
    (path,) = (tmp_path / "best").iterdir()
    assert f"--uarch {path}" in done.stderr
    assert load_machine(path).l2.size_kib == points.loc[points["seconds"].idxmin(), "l2.size_kib"]


def predictions(folder, name, key):
    point = {"uarch": name, "program": "touch", "digest": key, "instructions": 933, "cpi": 3.0, "frequency_ghz": 1.8}
    folder.mkdir(exist_ok=True)
    (folder / confirm.PREDICTIONS).write_text(json.dumps({"format": "perfvec-confirm/1", "points": [point]}))


def test_gem5_s_result_beside_the_prediction(tmp_path):
    predictions(tmp_path / "x", "cortex-a72", digest(gem5_runs.machine_that_ran("o3")))
    shutil.copytree(gem5_runs.DATA / "o3", tmp_path / "x" / "run")
    (row,) = confirm.gem5_results(tmp_path / "x").to_dict(orient="records")
    assert row["gem5_cpi"] == pytest.approx(2734 / 933)
    assert row["error"] == pytest.approx(3.0 * 933 / 2734 - 1)
    assert row["gem5_ns"] == pytest.approx(2734 / 933 / 1.8)


def test_a_run_of_another_machine_is_told(tmp_path):
    predictions(tmp_path / "x", "cortex-a72", "0" * 64)
    shutil.copytree(gem5_runs.DATA / "o3", tmp_path / "x" / "run")
    with pytest.raises(InputError, match="not the exported one"):
        confirm.gem5_results(tmp_path / "x")
    (tmp_path / "x" / confirm.PREDICTIONS).write_text("{")
    with pytest.raises(InputError, match="damaged"):
        confirm.gem5_results(tmp_path / "x")


def test_the_page_tells_points_by_their_fields_and_draws_the_front_over_the_one_that_matters():
    answer = api.sweep([program(), program("q", 1)], base="base", vary=GRID, model=shipped())
    sections = {section.title: section for section in answer.sections()}
    assert list(sections["Best points"].table.columns[:3]) == ["program", *GRID]
    (panel,) = sections["Pareto front"].figure.panels
    assert panel.x.title == answer.sensitivity.groupby("field")["first_order"].mean().idxmax()
    front = answer.table[answer.table["pareto"]]
    drawn = np.concatenate([mark.y for mark in panel.marks if isinstance(mark, Points)])
    assert np.allclose(np.sort(drawn) / drawn.min(), np.sort(front["seconds"]) / front["seconds"].min())


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ([2.0, 1.0, 1.0], "l2.size_kib 512 is the best of 3 points for p; base is as fast."),
        ([2.0, 3.0, 1.0], "l2.size_kib 1024 is the best of 3 points for p; base is this point."),
        ([2.0, 1.0, 4.0], "l2.size_kib 512 is the best of 3 points for p, 75.0 % below base."),
    ],
)
def test_the_base_is_the_best_point_only_if_it_is(seconds, told):
    frame = pd.DataFrame(
        {"program": "p", "l2.size_kib": [256, 512, 1024], "seconds": seconds, "source": "simulated", "pareto": False}
    )
    base = replace_field(load_machine("base"), "l2.size_kib", 1024)
    importance = pd.DataFrame({"field": ["l2.size_kib"], "first_order": [1.0]})
    assert sweep_page.headline(frame, best(frame, 1), importance, base).sentence == told


def test_objectives_that_are_not_above_0_have_no_range():
    answer = api.sweep(program(), base="base", vary=GRID, objective="l2.size_kib-512", model=shipped())
    assert answer.sensitivity["range"].isna().any()
    assert any(row["range"] is None for row in json.loads(json.dumps(answer.json, allow_nan=False))["sensitivity"])


def test_long_names_differ_in_the_terminal_s_table():
    programs = [program(f"experiments_long_folder_{word}/gz") for word in ("one", "two")]
    answer = api.sweep(programs, base="base", vary=GRID, model=shipped())
    assert "…g_folder_one/gz" in answer.text() and "…g_folder_two/gz" in answer.text()


def test_machines_of_programs_whose_names_are_alike_but_for_signs_have_their_own(tmp_path):
    programs = [program("n1/gz"), program("n1_gz", 1)]
    answer = api.sweep(programs, base="base", vary=GRID, best=1, model=shipped())
    assert answer.export_gem5(tmp_path)["uarch"].tolist() == ["n1_gz-01", "n1_gz_-01"]
    assert len(list(tmp_path.glob("*.py"))) == 2


def test_a_point_without_a_part_beats_those_with_it():
    frame = pd.DataFrame(
        {
            "l2.size_kib": [512, 512, 256, 512, 512],
            "l3.size_kib": [np.nan, 4096, 4096, 8192, np.nan],
            "l3.latency": [np.nan, 30, 30, 30, np.nan],
            "l3.prefetcher": pd.Categorical([None, "none", "none", "tagged", None]),
            "seconds": [2.0, 2.1, 2.2, 1.9, 2.0],
        }
    )
    fields = [column for column in frame if column != "seconds"]
    assert pareto_front(frame, fields).tolist() == [True, False, True, True, False]
    assert pareto_front(frame[["l3.size_kib", "seconds"]], ["l3.size_kib"]).tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_what_no_machine_has_does_not_vary():
    grid = Grid(load_machine("base"), {"l3": [None], "l2.size_kib": [256, 512]})
    assert list(fields_of_columns(grid.columns(grid.every()))) == ["l2.size_kib"]


def test_a_wrong_heat_map_is_refused_before_the_work():
    for heat in ("nonsense,l2.size_kib", "l2.size_kib", "l2.latency,l2.size_kib"):
        with pytest.raises(InputError, match=r"does not vary|must read FIELD,FIELD"):
            SweepQuestion(base=load_machine("base"), vary=GRID, heat=heat)


def test_ranks_are_among_all_exported_points(tmp_path):
    key = digest(gem5_runs.machine_that_ran("o3"))
    predictions(tmp_path / "x", "cortex-a72", key)
    document = json.loads((tmp_path / "x" / confirm.PREDICTIONS).read_text())
    document["points"].append({**document["points"][0], "uarch": "faster", "cpi": 2.0})
    (tmp_path / "x" / confirm.PREDICTIONS).write_text(json.dumps(document))
    shutil.copytree(gem5_runs.DATA / "o3", tmp_path / "x" / "run")
    (row,) = confirm.gem5_results(tmp_path / "x").to_dict(orient="records")
    assert (row["rank"], row["gem5_rank"]) == (2, 1)
    assert "was not run" in gem5_result(tmp_path / "x").headline().sentence


@pytest.mark.parametrize("text", ["l2.size_kib=1:1000000:0.001", "memory.latency_ns=1:1000:*1.00001"])
def test_a_range_of_too_many_values_is_one_line(text):
    with pytest.raises(InputError, match="more than 100,000 values"):
        parse_vary([text])


def test_a_single_point_has_a_figure():
    found = sweep.run(shipped(), [program()], space_design("default", 1, seed=1))
    figure = sweep_figures.plot(found)
    assert figure.panels[0].marks[0].value == pytest.approx([found["seconds"].iloc[0] * 1e9], rel=1e-9)
