"""Reports in a real browser: drawn whole, offline, with the frame's numbers, in light and dark; figures as files."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from scipy.cluster.hierarchy import linkage

from analysis.cli.output import require_outputs
from analysis.designs import sweep
from analysis.designs.design import grid_design
from analysis.designs.sensitivity import sensitivity
from analysis.designs.table import best, fields_of
from analysis.parts.costs import predicted
from analysis.parts.flame import section as flame_section
from analysis.parts.simulated_parts import collect as simulate_parts
from analysis.programs.simulable import SimulableTrace
from analysis.programs.targets import Target, target_of, target_of_vector
from analysis.questions import attribute, compare, difference, predict, profile, report, subset, sweep_page
from analysis.results.figure import (
    Axis,
    Bars,
    Dendrogram,
    Figure,
    FloatingBars,
    HeatMap,
    Lines,
    Panel,
    Points,
    ReferenceLine,
    distinct,
)
from analysis.results.figure_plotly import document
from analysis.results.headline import time_unit
from analysis.results.page import MOST_ROWS, Section, table, to_script, write_page
from perfvec.intervals.calibration import LEVELS, Calibration, Scale, WayCalibration
from support.errors import InputError
from tests.analysis.vectors import program, shipped
from uarch.machine_files import load_machine
from uarch.timing.stack import GROUPS

EVERYTHING = Figure(
    [
        Panel(
            [
                Lines("line", [1, 2, 3], [1.0, 4.0, 9.0], low=[0, 3, 7], high=[2, 5, 11], points=True),
                Points("dots", [1.5, 2.5], [3.0, np.nan], text=["<one>", "two"], labelled=True),
                ReferenceLine("limit", y=5.0),
            ],
            "lines",
            Axis("n", log=True),
            Axis("t", zero=True, unit="ms"),
        ),
        Panel(
            [Bars("a", ["p", "q"], [1.0, -2.0]), Bars("b", ["q", "r"], [3.0, 4.0], low=[2, 3], high=[4, 5])],
            x=Axis("cycles"),
            stacked=True,
            sideways=True,
        ),
        Panel([HeatMap([16, 32, 64], ["x", "y"], [[1.0, 2.0, np.nan], [-1.0, 0.0, 1.0]], "ms", True, True)], "heat"),
        Panel([Dendrogram(["c", "d", "e"], linkage([[0.0], [1.0], [5.0]], "average"))], x=Axis("distance")),
        Panel(
            [FloatingBars("line", [0, 20], [10, 30], "first"), FloatingBars("phase", [10], [20], "second")],
            x=Axis("time"),
        ),
    ],
    columns=2,
    width=10,
    height=9,
)


def test_labels_of_points_stay_in_the_panel_and_off_one_another():
    x, y = [0.0, 50.0, 51.0, 100.0], [0.0, 10.0, 10.0, 20.0]
    points = Points("", x, y, ["first", "one of two", "the other", "the last"], labelled=True)
    panel = Panel([points], x=Axis("n", zero=True), y=Axis("t", zero=True))
    places = document(Figure([panel]))["data"][0]["textposition"]
    assert places == ["top right", "top right", "bottom right", "top left"]


@pytest.mark.parametrize(("most", "ticks"), [(4.0, "D1"), (100.0, "D2"), (1e4, 1)])
def test_a_logarithmic_axis_has_the_ticks_that_there_is_room_for(most, ticks):
    """4 / 1 are 0.6 decades; 10⁻⁴ is a power, not 100µ, whose unit would be another than the title's."""
    panel = Panel([Lines("l", [1.0, most], [0.0, 1.0])], x=Axis("n", log=True))
    axis = document(Figure([panel]))["layout"]["xaxis"]
    assert (axis["dtick"], axis["exponentformat"]) == (ticks, "power")


def test_a_table_leaves_what_is_missing_blank_and_sorts_the_rest_as_numbers():
    shown = table(pd.DataFrame({"half": [None, 0.5, None], "model": ["a", None, "b"]}, dtype=object))
    assert "None" not in shown
    assert '<td data-value="0.5">0.5</td>' in shown
    assert '<td class="text"></td>' in shown


def test_panels_with_names_are_below_one_another_where_two_are_too_wide(browser, tmp_path):
    bars = [
        Panel([Bars("", ["a kernel of a long name"], [1.0])], f"panel {k}", Axis("ms"), sideways=True) for k in (1, 2)
    ]
    lines = [Panel([Lines("", [1, 2], [1.0, 2.0])], f"line {k}", Axis("n")) for k in (1, 2)]
    page = write_page(
        tmp_path / "r.html", "T", [Section(n, figure=Figure(p, 2)) for n, p in (("b", bars), ("l", lines))]
    )
    tops = "return [...document.querySelectorAll('figure')].map(f => [...f.querySelectorAll('.annotation-text')]"
    tops += ".map(t => Math.round(t.getBoundingClientRect().top)))"
    offsets = (
        "return [...document.querySelectorAll('figure')].flatMap(f => [...f.querySelectorAll('.annotation-text')]"
        ".map((t, k) => { const a = t.getBoundingClientRect(), b = f.querySelectorAll('.bglayer .bg')[k]?."
        "getBoundingClientRect(); return b ? Math.abs(a.left + a.right - b.left - b.right) / 2 : 0 }))"
    )
    for width, stacked in ((1300, False), (800, True)):
        with browser.window(width):
            browser.open(page)
            (first, second), (left, right) = browser.js(tops)
            assert (first != second) == stacked, width
            assert left == right
            assert max(browser.js(offsets)) < 3  # a title is over its panel


def traces(browser, figure=0):
    """Return what plotly.js drew: by trace its type, name, x, y and z."""
    return browser.js(
        "const place = document.querySelectorAll('[data-figure]')[arguments[0]];"
        "return place._fullData.map(t => ({type: t.type, name: t.name, x: t.x && Array.from(t.x), "
        "y: t.y && Array.from(t.y), z: t.z && t.z.map(row => Array.from(row)), visible: t.visible}))",
        figure,
    )


def test_plotly_knows_every_property():
    go.Figure(document(EVERYTHING))  # raises for a property or a value that plotly.js would pass over


def test_marks_of_one_name_have_one_colour_in_all_panels():
    drawn = {(t["type"], t["name"]): t for t in document(EVERYTHING)["data"]}
    assert drawn["scatter", "line"]["line"]["color"] == drawn["bar", "line"]["marker"]["color"]
    shown = [trace["name"] for trace in document(EVERYTHING)["data"] if trace["showlegend"]]
    assert sorted(shown) == ["a", "b", "dots", "line", "phase"]


def test_matplotlib_draws_the_same_numbers():
    from analysis.results.figure_matplotlib import canvas  # imported by every process of the tests otherwise

    axes = canvas(EVERYTHING).axes
    assert axes[0].lines[0].get_ydata().tolist() == [1.0, 4.0, 9.0]
    assert axes[0].get_xscale() == "log"
    bars = [(bar.get_x(), bar.get_width()) for bar in axes[1].patches]
    assert bars == [(0, 1.0), (0, -2.0), (0, 3.0), (0, 4.0)]  # above and below 0 each stack by themselves
    leaves = document(EVERYTHING)["layout"]["yaxis4"]["ticktext"]
    assert [text.get_text() for text in axes[4].get_yticklabels()] == leaves  # 3 is the colour scale


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_have_the_format_of_their_name(tmp_path, suffix, begins):
    from analysis.results.figure_matplotlib import write_picture

    assert write_picture(tmp_path / f"d.{suffix}", EVERYTHING).read_bytes().startswith(begins)


def test_a_picture_of_another_kind_is_told_before_the_work(tmp_path):
    with pytest.raises(InputError, match=r"\.svg"):
        require_outputs({"--picture": tmp_path / "d.bmp"})
    with pytest.raises(InputError, match="none"):
        require_outputs({"--html": tmp_path / "none" / "d.html"})


def test_repeated_names_are_numbered():
    assert distinct(["a", "b", "a"]) == ["a#1", "b", "a#2"]


def test_a_long_table_is_cut_and_says_so():
    text = table(pd.DataFrame({"n": np.arange(MOST_ROWS + 5), "what": "<b>"}))
    assert text.count("<tr>") == MOST_ROWS + 1
    assert f"The first {MOST_ROWS:,} of {MOST_ROWS + 5:,} rows" in text
    assert "<b>" not in text


def test_the_page_draws_every_mark(browser, tmp_path):
    sections = [
        Section("All <of> it", "Text & more", EVERYTHING, pd.DataFrame({"n": [3, 1, 2], "s": ["</script>", "b", "a"]})),
        Section("Later", figure=EVERYTHING, closed=True),
    ]
    browser.open(write_page(tmp_path / "r.html", "T <i>", sections, "under & it"))
    assert browser.js("return document.querySelector('h1').textContent") == "T <i>"
    found = traces(browser)
    expected = document(EVERYTHING)["data"]
    assert [t["type"] for t in found] == [t["type"] for t in expected]
    for drawn, meant in zip(found, expected, strict=True):
        assert drawn["x"] == meant["x"]
        assert drawn["y"] == meant["y"]
        assert drawn["z"] == meant.get("z")
    # svg elements, not only data: 4 bars of values and 3 floating ones, 2 labelled points of which one has no value
    count = "return document.querySelector('[data-figure]').querySelectorAll(arguments[0]).length"
    assert browser.js(count, ".bars .point") == 7
    assert browser.js(count, ".heatmaplayer image") == 1
    assert browser.js(count, ".scatterlayer .textpoint") == 1


@pytest.mark.parametrize("symbol", ["<!--<script>", "</script><b>", "]]><!--"])
def test_names_cannot_leave_the_script_that_holds_them(browser, tmp_path, symbol):
    assert "<" not in to_script({symbol: symbol})
    figure = Figure([Panel([Bars("cycles", [symbol, "main"], [2.0, 1.0])])])
    section = Section(symbol, symbol, figure, pd.DataFrame({symbol: [symbol]}))
    path = write_page(tmp_path / "p.html", symbol, [section])
    browser.open(path)  # is drawn, and silent on the console
    assert [t["type"] for t in traces(browser)] == ["bar"]
    assert browser.js("return document.querySelector('h2').textContent") == symbol
    assert len(browser.js("return JSON.parse(document.getElementById('figures').textContent)")) == 1


def test_a_closed_section_is_drawn_when_it_opens(browser, tmp_path):
    sections = [Section("Open", figure=EVERYTHING), Section("Later", figure=EVERYTHING, closed=True)]
    page = write_page(tmp_path / "r.html", "T", sections)
    browser.open(page)
    drawn = "[...document.querySelectorAll('[data-figure]')].map(p => !!p.querySelector('svg') && p.checkVisibility())"
    assert browser.js(f"return {drawn}") == [True, False]
    browser.js("document.querySelectorAll('summary')[0].click(); document.querySelectorAll('summary')[1].click()")
    browser.wait(f"return {drawn}.join() === 'false,true'")
    browser.quiet()


def test_the_pointer_shows_the_numbers(browser, tmp_path):
    machines = [load_machine("zen4"), load_machine("cortex-a53")]
    frame = predict.predict(shipped(), [program("first", 1), program("second", 2)], machines)
    browser.open(write_page(tmp_path / "r.html", "T", predict.sections(frame)))
    found = {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in traces(browser)}
    for row in frame.itertuples():
        assert found[row.program][row.uarch] == pytest.approx(row.cpi, rel=1e-7)
    text = browser.js(
        "const place = document.querySelector('[data-figure]');"
        "Plotly.Fx.hover(place, [{curveNumber: 0, pointNumber: 0}]);"
        "return place.querySelector('.hoverlayer').textContent"
    )
    machine = traces(browser)[0]["y"][0]
    cpi = frame.set_index(["program", "uarch"])["cpi"]["first", machine]
    assert machine in text
    shown = re.search(r"per instruction ([\d.]+)", text.replace(",", ""))
    assert shown and float(shown[1]) == pytest.approx(cpi, rel=1e-3)


def test_the_page_draws_a_predictions_interval(browser, tmp_path):
    """Error bars of the calibrated width, and the numbers in the table; an uncalibrated model's page says so."""
    machines = [shipped().machines[0], load_machine("zen4")]
    way = WayCalibration(Scale(0.0, 1.0), np.full(len(LEVELS), 0.3), 20, 20, 400)
    bare = replace(shipped(), calibration=None)
    calibrated = replace(bare, calibration=Calibration({"table": way, "fitted": way}))
    frame = predict.predict(calibrated, [program("first", 1)], machines)
    browser.open(write_page(tmp_path / "r.html", "T", predict.sections(frame)))
    (bars,) = [trace for trace in traces(browser) if trace["type"] == "bar"]
    drawn = browser.js("return document.querySelector('[data-figure]').data[0].error_x")
    for place, machine in enumerate(bars["y"]):
        cpi = frame.set_index("uarch")["cpi"][machine]
        assert drawn["array"][place] == pytest.approx(cpi * math.expm1(0.3), rel=1e-6)
        assert drawn["arrayminus"][place] == pytest.approx(-cpi * math.expm1(-0.3), rel=1e-6)
    assert browser.js("return document.querySelector('[data-figure]').querySelectorAll('.xerror').length") == 2
    told = browser.js("return document.body.textContent")
    assert "90% intervals, for the model's errors on unseen programs and machines." in told
    assert "90% intervals" in browser.js("return document.body.textContent")
    assert "interval_of" in browser.js("return document.querySelector('thead').textContent")
    without = predict.predict(bare, [program("first", 1)], machines)
    browser.open(write_page(tmp_path / "r.html", "T", predict.sections(without)))
    assert "has no calibration" in browser.js("return document.body.textContent")


def test_dark_and_light(browser, tmp_path):
    page = write_page(tmp_path / "r.html", "T", [Section("s", figure=EVERYTHING)])
    font = "return document.querySelector('[data-figure]')._fullLayout.font.color"
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.open(page)
    light = browser.js(font), browser.js(ground)
    browser.dark(True)
    try:
        browser.wait(f"return ({font.removeprefix('return ')}) !== arguments[0]", light[0])
        assert browser.js(ground) != light[1]
    finally:
        browser.dark(False)
    browser.wait(f"return ({font.removeprefix('return ')}) === arguments[0]", light[0])


def test_a_click_on_a_heading_sorts(browser, tmp_path):
    frame = pd.DataFrame({"n": [3, 1, 20], "s": ["x", "z", "y"]})
    browser.open(write_page(tmp_path / "r.html", "T", [Section("s", table=frame)]))
    column = "return [...document.querySelectorAll('tbody tr')].map(row => row.cells[arguments[0]].textContent)"
    browser.js("document.querySelectorAll('th')[0].click()")
    assert browser.js(column, 0) == ["20", "3", "1"]  # by the number, not by the letters
    browser.js("document.querySelectorAll('th')[0].click()")
    assert browser.js(column, 0) == ["1", "3", "20"]


def test_changes_are_sorted_by_their_numbers_and_blanks_come_last(browser, tmp_path):
    frame = pd.DataFrame({"change": ["-0.4%", None, "-10.1% ±0.5", "+0.0%", "-2.2% ±0.3"], "n": [5, None, -3, 2, 1]})
    browser.open(write_page(tmp_path / "r.html", "T", [Section("s", table=frame)]))
    column = "return [...document.querySelectorAll('tbody tr')].map(row => row.cells[arguments[0]].textContent)"
    for clicks, expected in enumerate((["+0.0%", "-0.4%", "-2.2% ±0.3", "-10.1% ±0.5", ""],) * 2):
        browser.js("document.querySelectorAll('th')[0].click()")
        assert browser.js(column, 0) == [*(expected[:-1] if clicks == 0 else expected[-2::-1]), ""]
    browser.js("document.querySelectorAll('th')[1].click()")
    assert browser.js(column, 1) == ["5", "2", "1", "-3", ""]
    browser.quiet()


NAMES = ["<I as Iterator>::next", "<S as Write>::write", "a$_$b", "_start", 'x&y "z"']


def test_names_are_drawn_as_they_are(browser, tmp_path):
    bars = [Bars(name, NAMES, np.arange(1.0, 6.0)) for name in NAMES]
    figure = Figure([Panel(bars, "cost$1%$ of <b>", Axis("n"), sideways=True)])
    browser.open(write_page(tmp_path / "r.html", "T", [Section("s", figure=figure)]))
    drawn = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)"
    assert set(browser.js(drawn, ".ytick text")) == set(NAMES)
    assert browser.js(drawn, ".legendtext") == NAMES
    assert browser.js(drawn, ".annotation-text") == ["cost$1%$ of <b>"]
    from analysis.results.figure_matplotlib import canvas

    found = canvas(figure)
    assert [text.get_text().strip().replace("\\$", "$") for text in found.legends[0].get_texts()] == NAMES
    found.savefig(tmp_path / "f.png")  # a formula that is none would end it


def test_an_interval_may_end_at_its_value_but_for_rounding(tmp_path):
    from analysis.results.figure_matplotlib import canvas

    bars = Bars("", ["a"], [1.0], low=[1.0 + 1e-12], high=[2.0])
    canvas(Figure([Panel([bars], sideways=True)])).savefig(tmp_path / "f.png")


@pytest.fixture(scope="module")
def swept():
    grid = {"l1d.size_kib": [16, 32, 64], "l2.size_kib": [256, 512]}
    cost = "2*l1d.size_kib + l2.size_kib"
    return sweep.run(shipped(), [program("a", 1), program("b", 2)], grid_design(load_machine("base"), grid), cost=cost)


def test_a_sweep_has_its_cells_front_and_sensitivity(browser, swept, tmp_path):
    importance = sensitivity(swept, fields_of(swept), "seconds", exact=True)
    browser.open(write_page(tmp_path / "r.html", "T", sweep_page.sections(swept, best(swept, 3), importance)))
    first, second = (trace for trace in traces(browser, 0))
    _, factor = time_unit(swept["seconds"].min())
    part = swept[swept["program"] == "b"].set_index(["l2.size_kib", "l1d.size_kib"])["seconds"].unstack() * factor
    assert second["type"] == "heatmap"
    np.testing.assert_allclose(second["z"], part, rtol=1e-7)
    assert first["x"] == ["16", "32", "64"]
    front = {trace["name"]: len(trace["x"]) for trace in traces(browser, 2) if trace["x"]}
    assert front == swept[swept["pareto"]].groupby("program").size().to_dict()  # the later of a name: the line
    assert {trace["name"]: sorted(trace["x"]) for trace in traces(browser, 1)} == {
        name: pytest.approx(sorted(rows["first_order"])) for name, rows in importance.groupby("program")
    }


def test_programs_as_a_tree_a_map_and_a_matrix(browser, tmp_path):
    programs = [replace(program(f"p{k}", k), trace_digest=str(k)) for k in range(4)]
    distance, place = compare.compare(programs), compare.plane(programs)
    browser.open(write_page(tmp_path / "r.html", "T", compare.sections(distance, place, None)))
    (tree,) = traces(browser, 0)
    assert sum(value is None for value in tree["x"]) == 3  # joins
    (points,) = traces(browser, 1)
    np.testing.assert_allclose(points["x"], place["x"], rtol=1e-6, atol=1e-9)
    (cells,) = traces(browser, 2)
    np.testing.assert_allclose(cells["z"], distance.loc[cells["y"], cells["x"]], rtol=1e-6, atol=1e-9)
    found = subset.subset(shipped(), programs, 2, machines=20)
    browser.open(write_page(tmp_path / "s.html", "T", subset.sections(found)))
    assert sum(traces(browser, 0)[0]["x"]) == pytest.approx(100)


def test_attribution_adds_up_in_the_picture(browser, tmp_path):
    frame = attribute.answered(shipped(), [target_of_vector(shipped(), program("a", 1))], load_machine("zen4"), 0.0)
    browser.open(write_page(tmp_path / "r.html", "T", attribute.sections(frame)))
    bars = traces(browser)
    assert len(bars) == len(frame)
    assert sum(bar["x"][0] for bar in bars) == pytest.approx(frame["encoded"].iloc[0])


def test_parts_of_a_program_and_its_flame_graph(browser, small_model, both, tmp_path):
    machines = [load_machine("base"), load_machine("cortex-a53")]
    costs = predicted(small_model, machines)
    sections = [flame_section(both[0], costs)]
    for by in ("function", "interval"):
        frame = profile.profile(both[0], costs, by)
        sections.append(Section(by, figure=profile.plot(frame, costs, by), table=frame))
    browser.open(write_page(tmp_path / "r.html", "T", sections))
    outermost = "return document.querySelector('.flame button').title"
    frame = profile.profile(both[0], costs)
    said = browser.js(outermost)
    assert said.startswith(f"old: {frame['instructions'].sum():,} instructions; base ")
    for machine in machines:
        (number,) = re.findall(rf"{machine.name} ([-\d,]+) cycles, 100.0 %", said)
        # The sum is shown in whole cycles, and each of the few stacks that it is of was rounded to a tenth.
        assert int(number.replace(",", "")) == pytest.approx(frame[f"cycles.{machine.name}"].sum(), abs=1)
    assert [trace["name"] for trace in traces(browser, 0)] == ["base", "cortex-a53"]
    for trace in traces(browser, 1):
        assert trace["x"][:-1] == [k * both[0].interval for k in range(len(both[0].intervals.instructions))]
    browser.js("const find = document.querySelector('.find'); find.value = 'old'; find.oninput()")
    assert browser.js("return document.querySelectorAll('.flame button.found').length") == 1


def test_a_flame_graph_of_simulated_time_is_coloured_by_cause(browser, request, tmp_path):
    parts, costs = simulate_parts(request.getfixturevalue("traces")[0], [load_machine("base")], progress=False)
    browser.open(write_page(tmp_path / "r.html", "T", [flame_section(parts, costs)]))
    assert browser.js("return document.querySelector('.kind').textContent") == "simulated"
    assert browser.js("return document.querySelector('.by-cause').hidden") is False
    keys = browser.js("return [...document.querySelectorAll('.keys .key')].map(k => k.textContent)")
    assert {"retiring", "loads", "instruction fetch"} <= set(keys) <= set(GROUPS)
    said = browser.js("return document.querySelector('.flame button').title")
    shares = [int(share) for share in re.findall(r" (\d+) %", said.split("(")[1])]
    assert 95 <= sum(shares) <= 105
    colour = "return document.querySelector('.flame button').style.background"
    by_cause = browser.js(colour)
    browser.js("const c = document.querySelector('.colours'); c.value = 'name'; c.onchange()")
    assert browser.js(colour) != by_cause


def test_differences_add_up_in_the_picture(browser, small_model, both, tmp_path):
    costs = predicted(small_model, [load_machine("base")])
    frame = difference.diff(*both, costs)
    browser.open(write_page(tmp_path / "r.html", "T", difference.sections(frame, *both, costs, "function")))
    before, after = traces(browser, 0)
    assert after["x"][0] - before["x"][0] == pytest.approx(frame["difference.base"].sum(), rel=1e-4, abs=1e-4)
    np.testing.assert_allclose(traces(browser, 1)[0]["x"], frame["difference.base"].head(20), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_the_first_part_of_a_trace_has_no_phases_on_a_page(small_model, request):
    files = request.getfixturevalue("traces")  # (here `traces` is what plotly.js drew)
    half = SimulableTrace(files[0]).instructions // 2
    target = replace(target_of(small_model, files[0], half, progress=False), shown="folder/p")
    machines = [load_machine("golden-cove")]  # 12 ways of 48 KiB: no multiple of 8 KiB
    titles = [section.title for section in report.ask(small_model, [target], machines).sections()]
    assert "folder/p: flame graph" in titles and not any("phases" in title for title in titles)
    assert any(title.startswith("golden-cove with other caches") for title in titles)


@pytest.mark.slow
def test_one_page_has_everything(browser, small_model, wholes, request, tmp_path):
    files = request.getfixturevalue("traces")  # (here `traces` is what plotly.js drew)
    machines = [load_machine("base"), load_machine("cortex-a53")]
    runs = [SimulableTrace(files[0]), None]
    targets = [Target(run, lambda whole=whole: whole) for run, whole in zip(runs, wholes, strict=True)]
    sections = report.ask(small_model, targets, machines).sections()
    titles = " ".join(section.title for section in sections)
    for part in (
        "Cycles per instruction",
        "Cycles by part of the machine",
        "flame graph",
        "phases",
        "alike",
        "base with",
    ):
        assert part in titles
    browser.open(write_page(tmp_path / "r.html", "T", sections))
    places = "[...document.querySelectorAll('[data-figure]')]"
    assert browser.js(f"return {places}.filter(place => !place.querySelector('svg')).length") == 0
