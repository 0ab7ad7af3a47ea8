"""The Explore page in a real browser: its numbers are the commands', whatever the hand does."""

import random
from dataclasses import replace

import numpy as np
import pytest
import yaml
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from analysis import api
from analysis.budget.budget import SOURCES, Answer
from analysis.designs.design import first_points, grid_design
from analysis.designs.sweep import answered
from analysis.programs.simulable import Estimates, SimulableTrace
from analysis.programs.targets import Target, target_of_vector
from analysis.questions import attribute
from analysis.questions.explore import contents, explore, ideal_groups, starts, stops
from analysis.questions.explored import Explored, around, ask, to_page
from analysis.questions.predict import predict
from perfvec.machines.encoder import MachineEncoder
from support.errors import InputError
from tests.analysis.vectors import program, shipped
from uarch.columns import of_machine, of_machines, possible
from uarch.configuration import machine_from_dict, replace_field
from uarch.constraints import RULES, Rule
from uarch.formula import evaluate
from uarch.machine_files import load_machine
from uarch.space import sample

PROGRAMS = (program("first", 1), program("second", 2))
SHOWN = "return document.documentElement.dataset.shown"


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    path = explore(tmp_path_factory.mktemp("explore") / "e.html", shipped(), PROGRAMS, [load_machine("zen4")])
    browser.open(path)
    return path


def after(browser, action, *arguments):
    """Do something in the page and wait until it has answered."""
    before = browser.js(SHOWN)
    browser.js(action, *arguments)
    browser.wait(f"{SHOWN} !== arguments[0]", before)


def begin_at(browser, name):
    after(
        browser,
        "const start = document.getElementById('start');"
        "start.value = [...start.options].find(o => o.text === arguments[0]).value;"
        "start.dispatchEvent(new Event('input'))",
        name,
    )


def put(browser, field, value):
    """A value into a field's box or menu, as if by hand."""
    after(
        browser,
        "const box = document.getElementById('field-' + arguments[0]); box.value = arguments[1];"
        "box.dispatchEvent(new Event('input'))",
        field,
        value,
    )


def put_all(browser, values):
    """Values into several fields' boxes and menus; the page answers once, in the next frame."""
    after(
        browser,
        "for (const [field, value] of Object.entries(arguments[0])) {"
        "const box = document.getElementById('field-' + field); box.value = value;"
        "box.dispatchEvent(new Event('input')) }",
        values,
    )


def build(browser, machine):
    """Every field of a machine by its control, from the preset of its core."""
    begin_at(browser, "base" if machine.core == "out-of-order" else "cortex-a53")
    present = machine.l3 is not None
    if browser.js("return document.getElementById('has-l3').checked") != present:
        after(browser, "document.getElementById('has-l3').click()")
    fields = of_machine(machine)
    put(browser, "memory.model", fields["memory.model"])
    browser.js(
        "for (const [field, value] of Object.entries(arguments[0])) {"
        "const box = document.getElementById('field-' + field); box.value = value;"
        "box.dispatchEvent(new Event('input')) }",
        {field: value for field, value in fields.items() if field not in ("core", "memory.model")},
    )
    browser.wait(
        "return +document.getElementById('field-frequency_ghz').value === arguments[0]", fields["frequency_ghz"]
    )
    settle(browser)


def sampled(n, seed):
    """Machines of the space, with a step of divisions, as those that the page begins at have: no control removes it."""
    return [replace_field(machine, "functional_units.div_step_latency", 3) for machine in sample(n, seed)]


def settle(browser):
    """Wait until the frame after the last change is drawn."""
    browser.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def numbers(browser):
    """[P, columns] of the table of predictions."""
    return np.array(
        browser.js(
            "return [...document.querySelectorAll('#predictions tbody tr')].map("
            "row => [...row.querySelectorAll('td:not(.text, .within)')].map(cell => +cell.dataset.value))"
        ),
        float,
    )


def told(browser):
    return browser.js("return document.getElementById('told').textContent")


def test_random_machines_are_predicted_as_the_command_does(browser, page):
    for machine in sampled(6, 11):  # of both cores, with and without L3, with named and simple memory
        build(browser, machine)
        frame = predict(shipped(), PROGRAMS, [machine])
        found = numbers(browser)
        np.testing.assert_allclose(found[:, 0], frame["seconds"] * 1e3, rtol=1e-3)
        np.testing.assert_allclose(found[:, 1], frame["cycles"], rtol=1e-3)
        np.testing.assert_allclose(found[:, 2], frame["cpi"], rtol=1e-3)
    browser.quiet()


def test_sliders_move_their_fields(browser, page):
    draw = random.Random(3)
    begin_at(browser, "zen4")
    machine = load_machine("zen4")
    fields = {entry["field"]: entry for entry in contents(shipped(), PROGRAMS)["fields"]}
    for field in ("l1d.size_kib", "l2.latency", "pipeline.rob_entries", "frequency_ghz", "functional_units.simd"):
        values = fields[field]["stops"]
        if field == "l1d.size_kib":
            values = [8, 16, 32, 64, 128]  # of a power of two of sets of 8 lines: the slider passes over the others
        if field == "pipeline.rob_entries":
            values = [value for value in values if value >= machine.pipeline.issue_queue_entries]
        value = draw.choice(values)
        after(
            browser,
            "const slider = document.querySelector(`input[type=range][aria-label='${arguments[0]}']`);"
            "slider.value = arguments[1]; slider.dispatchEvent(new Event('input'))",
            field,
            fields[field]["stops"].index(value),
        )
        machine = replace_field(machine, field, value)
        shown = browser.js("return +document.getElementById('field-' + arguments[0]).value", field)
        assert shown == value
        np.testing.assert_allclose(numbers(browser)[:, 1], predict(shipped(), PROGRAMS, [machine])["cycles"], rtol=1e-3)


def test_a_slider_passes_over_what_cannot_be(browser, page):
    begin_at(browser, "zen4")
    after(
        browser,
        "const slider = document.querySelector(`input[type=range][aria-label='l1d.size_kib']`);"
        "slider.value = 3; slider.dispatchEvent(new Event('input'))",  # 24 KiB of 8 ways: 48 sets
    )
    assert browser.js("return document.getElementById('field-l1d.size_kib').value") in ("16", "32")
    assert "Invalid machine" not in told(browser)


def test_presets_are_what_predict_says(browser, page):
    for name in ("zen4", "cortex-a53"):
        begin_at(browser, name)
        frame = predict(shipped(), PROGRAMS, [load_machine(name)])
        assert set(frame["machine_vector"]) <= {"table", "fitted"}
        np.testing.assert_allclose(numbers(browser)[:, 4], frame["cycles"], rtol=1e-6)
        assert f"vector of {name}" in told(browser)


@pytest.mark.parametrize("machine", sampled(3, 5), ids=lambda machine: machine.core)
def test_attribution_is_the_commands(browser, page, machine):
    build(browser, machine)
    frame = attribute.answered(shipped(), [target_of_vector(shipped(), PROGRAMS[0])], machine, 0.0)
    found = browser.js(
        "const bars = document.getElementById('attribution').data[0]; return [Array.from(bars.y), Array.from(bars.x)]"
    )
    values = dict(zip(*found, strict=True))
    for row in frame.itertuples():
        assert values[row.group] == pytest.approx(row.cycles, abs=1e-3 * frame["encoded"].iloc[0])


def test_the_heat_map_holds_times_of_machines(browser, page):
    begin_at(browser, "base")
    put(browser, "l2.associativity", 8)
    after(
        browser,
        "const list = document.getElementById('program'); list.value = 1; list.dispatchEvent(new Event('input'))",
    )
    trace = browser.js(
        "const cells = document.getElementById('heat').data[0];"
        "return {x: Array.from(cells.x), y: Array.from(cells.y), z: cells.z.map(row => Array.from(row))}"
    )
    base = replace_field(load_machine("base"), "l2.associativity", 8)
    for row, column in ((0, 0), (1, 2), (-1, -1)):
        machine = replace_field(base, "l1d.size_kib", int(trace["x"][column]))
        machine = replace_field(machine, "l2.size_kib", int(trace["y"][row]))
        (seconds,) = predict(shipped(), PROGRAMS[1:], [machine])["seconds"]
        assert trace["z"][row][column] == pytest.approx(seconds * 1e3, rel=1e-3)


def test_a_narrow_range_of_times_has_colours_that_are_alike(browser, page):
    begin_at(browser, "base")
    look = "const cells = document.getElementById('heat').data[0]; return [cells.zmin, cells.zmax, cells.z.flat()]"
    for across, narrow in (("l1i.mshrs", True), ("frequency_ghz", False)):
        after(
            browser,
            "const list = document.getElementById('across'); list.value = arguments[0];"
            "list.dispatchEvent(new Event('input'))",
            across,
        )
        low, high, values = browser.js(look)
        times = [value for value in values if value is not None]
        assert low == min(times) and high == pytest.approx(max(max(times), 1.5 * low))
        assert (max(times) < 1.5 * low) == narrow
        told_range = browser.js("return document.getElementById('range').textContent")
        assert f"up to {100 * (max(times) / low - 1):.1f} % above the least" in told_range
    after(
        browser,
        "const list = document.getElementById('across'); list.value = 'l1d.size_kib';"
        "list.dispatchEvent(new Event('input'))",
    )


# Whether what stands beside the bars lies within the figure.
INSIDE = (
    "return [...document.querySelectorAll('#attribution .bartext')].every(one => {"
    "const a = one.getBoundingClientRect(), b = one.closest('figure').getBoundingClientRect();"
    "return a.width > 0 && a.left >= b.left - 1 && a.right <= b.right + 1 })"
)


def test_on_a_telephone_the_prediction_stays_beside_the_sliders(browser, page):
    begin_at(browser, "zen4")
    with browser.phone():
        settle(browser)
        assert browser.js("return document.documentElement.scrollWidth") <= 390
        for field in ("pipeline.rob_entries", "l2.latency", "l1d.size_kib"):
            row = browser.driver.find_element(By.CSS_SELECTOR, f"input[type=range][aria-label='{field}']")
            browser.js("arguments[0].closest('.row').scrollIntoView()", row)
            browser.wait(
                "const box = one => one.getBoundingClientRect();"
                "const table = box(document.getElementById('predictions')), slider = box(arguments[0]);"
                "const middle = [(slider.left + slider.right) / 2, (slider.top + slider.bottom) / 2];"
                "const hit = document.elementFromPoint(...middle);"
                "return table.top >= 0 && table.bottom <= innerHeight / 2 && hit === arguments[0]",
                row,
            )
        assert browser.js(
            "return [...document.querySelectorAll('.row label')].every(o => o.scrollWidth <= o.clientWidth)"
        )
        browser.wait(INSIDE)
    browser.wait(INSIDE)
    browser.quiet()


def test_every_group_of_fields_has_a_title_and_a_field(browser, page):
    begin_at(browser, "zen4")
    shown = browser.js(
        "return [...document.querySelectorAll('#controls .section')].filter(one => one.getClientRects().length)"
        ".map(one => [one.querySelector('h2').textContent, one.querySelectorAll('.row:not([hidden])').length])"
    )
    assert len(shown) >= 8
    assert all(title and title != "undefined" and fields > 0 for title, fields in shown), shown
    browser.quiet()


def test_what_is_no_machine_is_told_as_the_command_does(browser, page):
    begin_at(browser, "zen4")
    machine = load_machine("zen4")
    put(browser, "pipeline.issue_queue_entries", 400)
    with pytest.raises(InputError) as error:
        replace_field(machine, "pipeline.issue_queue_entries", 400)
    assert str(error.value).removeprefix("machine zen4: ") in told(browser)
    assert np.isnan(numbers(browser)).all()
    put(browser, "pipeline.issue_queue_entries", 216)
    put(browser, "l1d.size_kib", 33)
    assert "l1d.size_kib = 33 must be a whole power of two of sets of l1d.associativity = 8" in told(browser)
    put(browser, "l1d.size_kib", 1.5)
    assert f"l1d.size_kib = 1.5 must be {RULES['l1d.size_kib'].describe()}" in told(browser)


def test_beyond_the_training_is_told_as_the_command_does(browser, page):
    begin_at(browser, "zen4")
    put(browser, "l3.latency", 90)
    machine = replace_field(load_machine("zen4"), "l3.latency", 90)
    (said,) = shipped().encoder.outside(machine)
    assert said in told(browser)


def test_the_yaml_is_the_machine(browser, page):
    for machine in (*sample(2, 23), load_machine("sifive-u74")):
        build(browser, machine)
        read = machine_from_dict(yaml.safe_load(browser.js("return document.getElementById('yaml').textContent")))
        assert {**of_machine(read), **of_machine(machine)} == of_machine(read)  # and what the form does not hold


def test_the_yaml_of_a_machine_with_optional_fields_has_them_all(browser, tmp_path):
    tlb = {"entries": 64, "l2_entries": 2048, "l2_latency": 7, "walk_latency": 50}
    machines = [load_machine("zen5-native"), machine_from_dict(load_machine("cortex-a53").to_dict() | {"tlb": tlb})]
    machines[1] = replace_field(machines[1], "name", "with-tlb")
    browser.open(explore(tmp_path / "e.html", shipped(), PROGRAMS, machines))
    for machine in machines:
        begin_at(browser, machine.name)
        read = machine_from_dict(yaml.safe_load(browser.js("return document.getElementById('yaml').textContent")))
        assert read == machine
        told_here = shipped().encoder.outside(machine)
        assert len(told_here) >= 1 and all(one in told(browser) for one in told_here if "no input" in one)
    browser.quiet()


def test_a_step_of_divisions_that_a_machine_lacks_is_not_attributed(browser, tmp_path):
    values = load_machine("zen4").to_dict()
    del values["functional_units"]["div_step_latency"]
    machine = machine_from_dict(values)
    browser.open(explore(tmp_path / "e.html", shipped(), PROGRAMS, [replace_field(machine, "name", "without")]))
    frame = attribute.answered(shipped(), [target_of_vector(shipped(), PROGRAMS[0])], machine, 0.0)
    values = dict(
        browser.js(
            "const bars = document.getElementById('attribution').data[0];"
            "return Array.from(bars.y).map((name, k) => [name, bars.x[k]])"
        )
    )
    for row in frame.itertuples():
        assert values[row.group] == pytest.approx(row.cycles, abs=1e-3 * frame["encoded"].iloc[0])


def test_a_map_over_cores_is_of_machines(browser, page):
    begin_at(browser, "base")
    cells = (
        "for (const [id, value] of [['across', 'core'], ['up', arguments[0]]]) {"
        "const list = document.getElementById(id); list.value = value; list.dispatchEvent(new Event('input')) }"
    )
    read = (
        "const cells = document.getElementById('heat').data[0];"
        "return [Array.from(cells.x), cells.z.map(row => Array.from(row))]"
    )
    after(browser, cells, "l2.latency")
    cores, times = browser.js(read)
    assert cores == ["out-of-order", "in-order"] or cores == ["in-order", "out-of-order"]
    shown_at = browser.js("return Array.from(document.getElementById('heat').data[0].y)")
    row = shown_at.index(str(load_machine("base").l2.latency))
    put(browser, "core", "in-order")
    assert times[row][cores.index("in-order")] == pytest.approx(numbers(browser)[0, 0], rel=1e-6)
    begin_at(browser, "base")
    after(browser, cells, "pipeline.rob_entries")
    assert browser.js(read)[0] == ["out-of-order"]
    after(
        browser,
        "for (const [id, value] of [['across', 'l1d.size_kib'], ['up', 'l2.size_kib']]) {"
        "const list = document.getElementById(id); list.value = value; list.dispatchEvent(new Event('input')) }",
    )


def test_another_core_has_other_fields(browser, page):
    begin_at(browser, "zen4")
    put(browser, "core", "in-order")
    visible = "return [...document.querySelectorAll('.row:not([hidden])')].map(row => row.title)"
    assert "pipeline.width" in browser.js(visible)
    assert "pipeline.rob_entries" not in browser.js(visible)
    assert not np.isnan(numbers(browser)).any()
    after(browser, "document.getElementById('reset').click()")
    assert browser.js("return document.querySelectorAll('.row.changed').length") == 0


def test_a_typed_number_is_taken_as_it_is_typed(browser, page):
    begin_at(browser, "zen4")
    box = browser.driver.find_element(By.ID, "field-pipeline.rob_entries")
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("333")
    settle(browser)
    assert box.get_attribute("value") == "333"
    machine = replace_field(load_machine("zen4"), "pipeline.rob_entries", 333)
    np.testing.assert_allclose(numbers(browser)[:, 1], predict(shipped(), PROGRAMS, [machine])["cycles"], rtol=1e-3)


def test_every_field_that_the_encoder_reads_has_a_control(browser, page):
    ids = set(browser.js("return [...document.querySelectorAll('[id^=field-]')].map(one => one.id.slice(6))"))
    machines = [load_machine("zen4"), *sample(20, 1)]
    assert {field for machine in machines for field in of_machine(machine)} <= ids


def test_stops_of_sliders():
    assert stops(Rule(int, 1, 100), 2, 5) == [2, 3, 4, 5]
    assert stops(Rule(int, 0, 64, power_of_two=True), 0, 16) == [0, 1, 2, 4, 8, 16]
    assert stops(Rule(int, 1, 4096), 10, 100) == [10, 12, 16, 24, 32, 48, 64, 96, 100]
    found = stops(Rule(float, 0.1, 10), 1, 4)
    assert (found[0], found[-1]) == (1, 4)
    assert np.allclose(np.diff(np.log(found)), np.log(4) / (len(found) - 1), atol=0.01)  # but for rounding
    assert stops(Rule(int, 1, 4), np.inf, -np.inf) == [1, 2, 3, 4]  # never seen: what the rule allows


def test_formulas_by_hand():
    fields = {"a": 6.0, "b": 1.5, "kind": "x"}
    for formula, value in (
        (("+", "a", "b", 1), 8.5),
        (("-", 1, "a"), -5),
        (("/", "a", "b"), 4),
        (("min", "a", "none", "b"), 1.5),
        (("is", "kind", "x"), 1),
        (("is", "none", "x"), 0),
        (("has", "none"), 0),
        (("else", "none", 3), 3),
        (("choose", "kind", ("w", "x"), (1, 2), "a"), 2),
        (("choose", "kind", ("w",), (1,), "a"), 6),
        (("not", (">", "a", "none")), 1),
        (("power of two", ("/", "a", "b")), 1),
        (("power of two", "b"), 0),
    ):
        assert float(evaluate(formula, fields)) == value


def test_relations_hold_of_machines_and_of_columns():
    machines = sample(30, 2)
    assert possible(of_machines(machines))[0].all()


def test_a_model_of_an_older_release_is_predicted_as_the_command_does(browser, tmp_path):
    model = replace(shipped(), encoder=_without_costs(shipped().encoder))
    browser.open(explore(tmp_path / "e.html", model, PROGRAMS, []))
    for machine in sampled(2, 5):
        build(browser, machine)
        cycles = predict(model, PROGRAMS, [machine])["cycles"]
        np.testing.assert_allclose(numbers(browser)[:, 1], cycles, rtol=1e-3)
        assert (np.abs(cycles / predict(shipped(), PROGRAMS, [machine])["cycles"] - 1) > 0.01).any()


def _without_costs(encoder):
    """The encoder as older ones were: a pace and a direction."""
    state = dict(encoder.state_dict())
    outputs = 1 + len(state["basis"])
    assert len(state.pop("cost_basis")) == len(state["linear.weight"]) - outputs > 0
    for name in ("linear.weight", "linear.bias", "correction.4.weight", "correction.4.bias"):
        state[name] = state[name][:outputs]
    found = MachineEncoder(1)
    found.load_state_dict(state)
    return found


def test_a_model_without_an_encoder_is_told(tmp_path):
    with pytest.raises(InputError, match="no machine encoder"):
        explore(tmp_path / "e.html", replace(shipped(), encoder=None), PROGRAMS)


VARY = {
    "l1d.size_kib": [16, 32, 64, 128],
    "l2.size_kib": [128, 512, 1024, 2048],
    "pipeline.rob_entries": [96, 192, 384],
    "branch_predictor.kind": ["ltage", "bimode", "tage"],
    "l2.latency": [5, 7, 10],
}


@pytest.fixture(scope="module")
def explored_page(browser, traces, tmp_path_factory):
    """A page of a program that was simulated, one of which there is only a vector, and what a sweep says."""
    targets = [Target(SimulableTrace(traces[0]), lambda: PROGRAMS[0]), Target(None, lambda: PROGRAMS[1])]
    machines = [load_machine("base")]
    with pytest.MonkeyPatch.context() as patch:  # so many points, however fast the machine is
        patch.setattr("analysis.budget.budget.SimulatedPoints.affordable", lambda run: max(48 - run.count, 0))
        found = ask(shipped().encoder, targets, machines[0], starts(machines), 60.0, vary=VARY, progress=False)
        design = grid_design(machines[0], VARY)
        table = answered(shipped(), targets[:1], design, 60.0, base=machines[0], best=10, progress=False)
    path = explore(tmp_path_factory.mktemp("explored") / "e.html", shipped(), PROGRAMS, machines, explored=found)
    return path, found, table


def source(browser):
    """Source and the interval's ends of each program."""
    return browser.js(
        "return [...document.querySelectorAll('#predictions tbody .source')].map("
        "cell => [cell.textContent, +cell.dataset.low, +cell.dataset.high])"
    )


@pytest.mark.slow
def test_the_grid_is_what_a_sweep_says_with_source_and_interval(browser, explored_page):
    path, _, table = explored_page
    browser.open(path)
    assert set(table["source"]) == {"simulated", "corrected"}
    corrected = table[table["source"] == "corrected"].sample(6, random_state=1)
    simulated = table[table["source"] == "simulated"].sample(3, random_state=1)
    for row in (*corrected.to_dict(orient="records"), *simulated.to_dict(orient="records")):
        begin_at(browser, "base")
        put_all(browser, {field: row[field] for field in VARY})
        assert numbers(browser)[0, 1] == pytest.approx(row["cycles"], rel=1e-12)
        (told, low, high), (other, _, _) = source(browser)
        assert (told, other) == (row["source"], "zero-shot")
        head = browser.js("return ['sentence', 'source'].map(id => document.getElementById(id).textContent)")
        assert f"{row['cycles'] / PROGRAMS[0].instructions:.3f} cycles per instruction" in head[0]
        assert head[1].startswith(f"Source: {row['source']}")
        if told == "corrected":
            assert [low / 3e9, high / 3e9] == pytest.approx([row["low"], row["high"]], rel=1e-6)
    browser.quiet()


@pytest.mark.slow
def test_a_change_against_the_grids_middle_has_its_interval(browser, explored_page):
    path, _, table = explored_page
    browser.open(path)
    cells = table[table["source"] == "corrected"].sample(3, random_state=2)
    for row in cells.to_dict(orient="records"):
        begin_at(browser, "base")
        for field in VARY:
            put(browser, field, row[field])
        sentence = browser.js("return document.getElementById('sentence').textContent")
        ends = [1 + row[name] for name in ("change", "change_low", "change_high")]
        assert "{:.3f} ({:.3f} to {:.3f}) times what it takes on base".format(*ends) in sentence
    begin_at(browser, "zen4")  # of another start nothing is known
    put(browser, "pipeline.rob_entries", 96)
    assert " to " not in browser.js("return document.getElementById('sentence').textContent")
    browser.quiet()


@pytest.mark.slow
def test_a_larger_cache_between_the_grids_values_is_not_slower(browser, explored_page):
    """Unless the simulator says so, of the grid's points on either side."""
    path, found, table = explored_page
    rest = {field: found.base.to_dict() for field in VARY if field not in ("pipeline.rob_entries", "l2.size_kib")}
    for field, value in rest.items():
        for part in field.split("."):
            value = value[part]
        table = table[table[field] == value]
    browser.open(path)
    begin_at(browser, "base")
    put(browser, "pipeline.rob_entries", 250)
    before, size_before = np.inf, 128
    for size in (128, 256, 512, 1024, 2048):
        put(browser, "l2.size_kib", size)
        assert source(browser)[0][0] == "corrected"
        cycles = numbers(browser)[0, 1]
        on_grid = VARY["l2.size_kib"]
        smaller = table[table["l2.size_kib"] == max(value for value in on_grid if value <= size_before)]
        larger = table[table["l2.size_kib"] == min(value for value in on_grid if value >= size)]
        both = smaller.merge(larger, on="pipeline.rob_entries")
        assert len(both) == len(VARY["pipeline.rob_entries"])
        simulated = (both["source_x"] == "simulated") | (both["source_y"] == "simulated")
        says_so = simulated & (both["cycles_y"] > both["cycles_x"])
        assert cycles <= before * (1 + 1e-12) or says_so.any()
        before, size_before = cycles, size
    put(browser, "l2.size_kib", 4096)  # beyond the grid
    assert source(browser)[0][0] == "zero-shot"
    assert "the model answers alone" in told(browser)
    assert found.starts[1] is None


@pytest.mark.slow
def test_where_the_page_begins_is_simulated(browser, explored_page):
    path, found, _ = explored_page
    browser.open(path)
    for number, machine in enumerate(starts([load_machine("base")])[:4]):
        begin_at(browser, machine.name)
        assert source(browser)[0][0] == "simulated"
        assert numbers(browser)[0, 1] == found.starts[0].cycles[number]


@pytest.mark.slow
def test_the_heat_map_tells_the_sources_of_its_cells(browser, tmp_path):
    machine = load_machine("base")
    design = grid_design(machine, VARY)
    count = design.columns.count
    for others, says in (("scaled", "simulated and scaled"), ("corrected", "simulated and corrected")):
        source = np.full(count, SOURCES.index(others), np.int8)
        source[: count // 2] = SOURCES.index("simulated")
        nothing = np.full(count, np.nan)
        answer = Answer(np.linspace(5e6, 6e6, count), nothing, nothing, source, nothing)
        found = Explored(machine, design, [answer, None], [None, None])
        browser.open(explore(tmp_path / "e.html", shipped(), PROGRAMS, [machine], explored=found))
        assert f"Source: {says}." in browser.js("return document.getElementById('range').textContent")


@pytest.mark.slow
def test_a_sampled_program_has_its_interval_and_a_bare_vector_what_predict_says(browser, tmp_path):
    machine = load_machine("base")
    sampled = Estimates(*(np.array([cycles]) for cycles in (5e6, 4.8e6, 5.2e6)), np.zeros((1, 1)))
    found = Explored(machine, grid_design(machine, VARY), [None, None], [sampled, None])
    browser.open(explore(tmp_path / "e.html", shipped(), PROGRAMS, [machine], explored=found))
    assert source(browser) == [["simulated", 4.8e6, 5.2e6], ["zero-shot", None, None]]
    text = browser.js("return document.getElementById('source').textContent")
    assert text == "Source: simulated by a sample, 90 % interval −4 % to +4 %"
    known = predict(shipped(), PROGRAMS[1:], [machine])["cycles"].iloc[0]
    assert numbers(browser)[:, 4] == pytest.approx([np.nan, known], nan_ok=True)


def test_a_grid_around_each_preset_can_be():
    for machine in starts([]):
        design = grid_design(machine, around(machine))
        assert 1_000 < design.columns.count < 20_000
        assert of_machine(design.columns.machine(first_points(design, machine)[0], "x")) == of_machine(machine)


def test_what_no_page_can_have_is_refused_before_anything_is_simulated(data):
    trace = data.traces / "qsort.trace.h5"
    with pytest.raises(InputError, match=r"a probability from 0\.5"):
        api.explore(trace, "never.html", "zen4", level=2.0)
    with pytest.raises(InputError, match=r"has 70,001 values; a page holds up to 65,536"):
        api.explore(trace, "never.html", "zen4", vary={"memory.latency_ns": [k / 100 for k in range(1000, 71_001)]})


def test_a_field_of_one_value_is_that_of_the_grid(traces):
    """Not the value of the machine around which the grid is."""
    base, target = load_machine("base"), Target(SimulableTrace(traces[0]), lambda: PROGRAMS[0])
    vary = {"l1d.size_kib": [64], "l2.size_kib": [256, 512]}
    assert base.l1d.size_kib != 64
    found = to_page(ask(shipped().encoder, [target], base, [], 60.0, vary=vary, progress=False))
    assert found["fields"] == ["l2.size_kib"] and found["fixed"]["l1d.size_kib"] == 64
    without = to_page(
        ask(shipped().encoder, [target], base, [], 60.0, vary={"l3": [None], "l2.latency": [8, 9]}, progress=False)
    )
    assert not [field for field in without["fixed"] if field.startswith("l3")]


def test_an_ideal_machine_may_be_meant_for_one_core(tmp_path):
    (tmp_path / "ideal.yaml").write_text("window: {pipeline.rob_entries: 640}\n")
    found = ideal_groups(tmp_path / "ideal.yaml")
    assert found["out-of-order"] == [{"name": "window", "fields": {"pipeline.rob_entries": 640}}]
    assert found["in-order"] == [{"name": "window", "fields": {}}]
    (tmp_path / "wrong.yaml").write_text("window: {memory.latency_ns: 1}\n")
    with pytest.raises(InputError, match=r"unknown field 'memory\.latency_ns'"):  # of the whole memory, if at all
        ideal_groups(tmp_path / "wrong.yaml")
    (tmp_path / "wrong.yaml").write_text("window: {pipeline.rob: 640}\n")
    with pytest.raises(InputError, match=r"unknown field 'pipeline\.rob'"):
        ideal_groups(tmp_path / "wrong.yaml")
