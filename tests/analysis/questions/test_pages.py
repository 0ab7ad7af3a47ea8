"""Every page: the answer first, with its source; on a phone, in the dark, by the keyboard, on paper."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from analysis import api
from analysis.parts.costs import predicted
from analysis.questions import profile
from analysis.questions.explore import explore
from analysis.results.headline import count, duration, interval, joined, percent
from analysis.results.result import Result
from perfvec.representation.live_points import live_points_of_trace
from tests.analysis.vectors import program, shipped
from tracegen.live_points.live_points import save
from uarch.machine_files import load_machine

GRID = {"l1d.size_kib": [16, 32, 64], "l2.size_kib": [256, 512], "branch_predictor.kind": ["bimode", "tage"]}
COST = "2*l1d.size_kib + l2.size_kib"
PAGES = (
    "predict",
    "sweep",
    "sweep-cost",
    "sweep-curve",
    "space",
    "compare",
    "subset",
    "attribute",
    "simulate",
    "profile",
    "profile-two",
    "profile-sampled",
    "diff",
    "phases",
    "characterise",
    "report",
    "explore",
)
# Whether every label of every figure lies within its figure, and which do not.
CLIPPED = (
    "return [...document.querySelectorAll('figure')].filter(f => f.checkVisibility()).flatMap(figure => {"
    "const b = figure.getBoundingClientRect();"
    "return [...figure.querySelectorAll('.xtick text, .ytick text, .xtitle, .ytitle, .legendtext, .annotation-text,"
    " .scatterlayer text')]"
    ".filter(t => { const a = t.getBoundingClientRect();"
    "return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1 })"
    ".map(t => t.textContent) })"
)
# Pairs of titles that lie on one another.
OVERLAPPING = (
    "return [...document.querySelectorAll('figure')].flatMap(figure => {"
    "const all = [...figure.querySelectorAll('.xtitle, .ytitle, .annotation-text, .cbtitle text, .legendtext')]"
    ".map(one => [one.textContent, one.getBoundingClientRect()]).filter(([, a]) => a.width);"
    "return all.flatMap(([text, a], k) => all.slice(k + 1).filter(([, b]) => a.left < b.right - 1"
    " && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1).map(([other]) => [text, other])) })"
)
# The contrast of an element's text with what is behind it (WCAG 2.1).
CONTRAST = (
    "const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255)"
    ".map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b };"
    "return [...document.querySelectorAll(arguments[0])].map(one => { let under = one;"
    "while (/, 0\\)$/.test(getComputedStyle(under).backgroundColor)) under = under.parentElement;"
    "const a = light(getComputedStyle(one).color), b = light(getComputedStyle(under).backgroundColor);"
    "return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) })"
)


@pytest.fixture(scope="module")
def result(request):
    """A function from a page's name to its answer, asked once."""
    first, second, third = (program(name, seed, 1_000_000) for seed, name in enumerate(("first", "second", "third")))
    machines = [load_machine("base"), load_machine("cortex-a53")]
    model = shipped()

    def traces() -> tuple[Path, Path]:
        return request.getfixturevalue("traces")

    def predicted_parts() -> Result:
        small = request.getfixturevalue("small_model")
        return profile.result(request.getfixturevalue("both")[0], predicted(small, machines))

    def sampled_parts() -> Result:
        path = request.getfixturevalue("tmp_path_factory").mktemp("points") / "p.livepoints.h5"
        save(live_points_of_trace(request.getfixturevalue("small_model"), traces()[0], units=64, progress=False), path)
        return api.profile(path, "base", simulate=True)

    def report() -> Result:
        small = request.getfixturevalue("small_model")
        return api.report([str(path) for path in traces()], ["base"], budget=3, model=small)

    questions: dict[str, Callable[[], Result]] = {
        "predict": lambda: api.predict([first, second], ["zen4", "cortex-a53", "base"], model=model),
        "sweep": lambda: api.sweep([first], base="base", vary=GRID, model=model),
        "sweep-cost": lambda: api.sweep([first, second], base="base", vary=GRID, cost=COST, model=model),
        "sweep-curve": lambda: api.sweep([first], base="base", vary={"l2.size_kib": [256, 512, 1024]}, model=model),
        "space": lambda: api.sweep([first], space="default", sample=300, model=model),
        "compare": lambda: api.compare([first, second, third], library="suite", model=model),
        "subset": lambda: api.subset([first, second, third], 2, sample=20, model=model),
        "attribute": lambda: api.attribute([first], "base", model=model),
        "simulate": lambda: api.simulate(traces(), ["base", "cortex-a53"]),
        "profile": lambda: api.profile(traces()[0], "base", simulate=True),
        "profile-two": predicted_parts,
        "profile-sampled": sampled_parts,
        "diff": lambda: api.diff(*traces(), "base", simulate=True),
        "phases": lambda: api.phases(traces()[0], interval=5000),
        "characterise": lambda: api.characterise(traces()[0]),
        "report": report,
    }

    @cache
    def asked(name: str) -> Result:
        return questions[name]()

    return asked


@pytest.fixture(scope="module")
def page(result, tmp_path_factory):
    """A function from a page's name to its file."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def written(name: str) -> Path:
        path = folder / f"{name}.html"
        if name == "explore":
            programs = [program("first", 0, 1_000_000), program("second", 1, 1_000_000)]
            return explore(path, shipped(), programs, [load_machine("base")])
        result(name).to_html(path)
        return path

    return written


@pytest.fixture(scope="module", params=PAGES)
def shown(request, browser, page):
    """The name of the page that the browser shows."""
    browser.open(page(request.param))
    return request.param


def whole(browser) -> None:
    """No label is cut off, once the figures have taken their size."""
    end = time.monotonic() + 5
    while (clipped := browser.js(CLIPPED)) and time.monotonic() < end:
        time.sleep(0.05)
    assert clipped == []


@pytest.mark.slow
def test_the_answer_comes_first_with_its_source(browser, shown):
    number, sentence, source = (
        browser.js(f"return document.getElementById('{name}').textContent") for name in ("big", "sentence", "source")
    )
    assert re.search(r"\d", number)
    assert re.fullmatch(r"[^.].{20,}\.", sentence, re.DOTALL) and "nan" not in sentence
    assert re.fullmatch(r"Source: .{5,}", source)
    places = browser.js(
        "return ['#big', '#sentence', 'main'].map(q => document.querySelector(q).getBoundingClientRect().top)"
    )
    assert places[2] > max(places[:2])
    big = "return parseFloat(getComputedStyle(document.getElementById('big')).fontSize)"
    assert browser.js(big) >= 2 * browser.js(big.replace("'big'", "'sentence'"))
    if shown != "explore":
        without = "[...document.querySelectorAll('details.section')].filter(one => !one.querySelector('p.source'))"
        assert browser.js(f"return {without}.map(one => one.querySelector('h2').textContent)") == []


@pytest.mark.slow
def test_it_fits_a_phone_a_window_and_a_wide_screen(browser, page, shown):
    for width in (1300, 1920):
        with browser.window(width):
            whole(browser)
            assert browser.js("return document.documentElement.scrollWidth") <= width
            used = "return document.querySelector('main').getBoundingClientRect().width"
            assert browser.js(used) >= 0.9 * width
    with browser.phone():
        browser.open(page(shown))
        assert browser.js("return document.documentElement.scrollWidth") <= 390
        whole(browser)
        assert browser.js(OVERLAPPING) == []


@pytest.mark.slow
def test_texts_are_readable_in_light_and_dark(browser, shown):
    texts = "h1, h2, #big, #unit, .sentence, .source, details.section > p, nav a, th, td"
    grounds = []
    try:
        for dark in (False, True):
            browser.dark(dark)
            assert min(browser.js(CONTRAST, texts)) >= 4.5
            grounds.append(browser.js("return getComputedStyle(document.body).backgroundColor"))
    finally:
        browser.dark(False)
    assert grounds[0] != grounds[1]


@pytest.mark.slow
def test_a_sweep_has_best_point_front_sensitivities_and_trends(browser, page, result):
    browser.open(page("sweep"))
    titles = browser.js("return [...document.querySelectorAll('h2')].map(one => one.textContent)")
    assert {"What matters", "Pareto front", "Best points", "Trend of each field"} <= set(titles)
    best = result("sweep").best.iloc[0]
    said = browser.js("return document.getElementById('sentence').textContent")
    assert all(f"{field} {best[field]}" in said for field in GRID)
    assert browser.js("return document.getElementById('big').textContent") == duration(best["seconds"])[0]
    trends = "[...document.querySelectorAll('[data-figure]')].find(one => one.ariaLabel === 'Trend of each field')"
    drawn = browser.js(f"return {trends}.data.map(one => [one.x, Array.from(one.y)])")
    table = result("sweep").table
    for x, y in drawn:
        field = next(
            name for name, values in GRID.items() if [str(v) for v in values] == x or sorted(values) == sorted(x)
        )
        mean = table.groupby(table[field].astype(str))["seconds"].mean() / table["seconds"].min()
        assert y == pytest.approx([mean[value] for value in x], rel=1e-6)
    assert len(drawn) == len(GRID)


@pytest.mark.slow
def test_the_keyboard_sorts_a_table_and_walks_the_flame_graph(browser, page):
    browser.open(page("profile"))
    browser.js("document.querySelectorAll('details.numbers').forEach(one => { one.open = true })")
    heading = browser.driver.find_elements("css selector", "th")[1]
    heading.send_keys(Keys.ENTER)
    assert heading.get_attribute("aria-sort") == "descending"
    tabbed = "return [...document.querySelectorAll('.flame button')].filter(one => one.tabIndex === 0).length"
    assert browser.js(tabbed) == 1
    focused = "return document.activeElement.title"
    browser.js("document.querySelector('.flame button').focus()")
    top = browser.js(focused)
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    below = browser.js(focused)
    assert below != top
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)  # zooms in: the box is as wide as the graph
    assert browser.js(focused) == below
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert browser.js(focused) == top


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report", "sweep", "sweep-cost", "profile", "explore"])
def test_on_paper_it_is_light_and_whole(browser, page, name):
    browser.open(page(name))
    browser.dark(True)
    try:
        browser.js("document.querySelectorAll('details.section').forEach(one => { one.open = false })")
        colour = "getComputedStyle(document.documentElement).getPropertyValue('--text').trim()"
        with browser.paper():
            assert browser.js("return document.querySelectorAll('details.section:not([open])').length") == 0
            assert browser.js(f"return {colour}") == "#1d2127"
            drawn = "[...document.querySelectorAll('figure')]"
            browser.wait(f"return {drawn}.every(one => one._fullLayout?.width === 700)")
            assert browser.js(f"return {drawn}.filter(one => one._fullLayout.font.color !== '#1d2127').length") == 0
            assert browser.js("return document.documentElement.scrollWidth") <= 717
            whole(browser)
            assert browser.js(OVERLAPPING) == []
            for told in (".flame button", ".row:not([hidden]) label"):  # a field without its name tells nothing
                hidden = f"[...document.querySelectorAll('{told}')].filter(one => !one.checkVisibility())"
                assert browser.js(f"return {hidden}.length") == 0
            beyond = (
                "[...document.querySelectorAll('.flame button')].filter(b => b.getBoundingClientRect().right > 717)"
            )
            assert browser.js(f"return {beyond}.length") == 0
            if name == "report":
                printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
                assert base64.b64decode(printed["data"]).startswith(b"%PDF")
        assert browser.js(f"return {colour}") != "#1d2127"
    finally:
        browser.dark(False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (count(4_640_975), "4.64 million"),
        (count(882), "882"),
        (" ".join(duration(0.000928)), "928 µs"),
        (" ".join(duration(12.0)), "12 s"),
        (percent(0.588), "58.8 %"),
        (percent(0.0042), "0.42 %"),
        (interval(100.0, 97.0, 104.0, 0.9), "90 % interval −3.0 % to +4.0 %"),
        (interval(100.0, 100.0, 100.0, 0.9), "no interval"),
        (joined(["a", "b"]), "a and b"),
        (joined(list("abcd")), "4 programs"),
    ],
)
def test_numbers_as_a_page_says_them(text, expected):
    assert text == expected
