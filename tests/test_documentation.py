"""The documentation: links resolve, generated pages are fresh, prose keeps the house style, the site builds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from perfvec.model import load_model
from tests.browser import chromium
from tests.command import succeeding
from tools import check_prose, write_reference

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_COMMAND = re.compile(r"python3? (?:-m )?((?:tests|benchmarks|tools)[\w./]+)")
_CITED = re.compile(r"\bdocs/[\w/.-]+\.md\b")


def _tracked(*patterns: str) -> list[Path]:
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        pytest.skip("not a checkout")
    return [path for line in found.stdout.splitlines() if (path := ROOT / line).is_file()]


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub and MkDocs make of headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def test_relative_links_resolve():
    broken = []
    for page in _tracked("*.md"):
        for target, other in _LINK.findall(_without_code(page.read_text())):
            link = target or other
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists():
                broken.append(f"{page.relative_to(ROOT)}: {link}")
            elif anchor and path.suffix == ".md" and anchor not in _anchors(path):
                broken.append(f"{page.relative_to(ROOT)}: {link} (no such heading)")
    assert not broken, "\n".join(broken)


def test_pages_that_code_cites_are_there():
    files = _tracked("*.py", "*.hpp", "*.cpp", "*.c", "*.yaml", "*.ipynb", "*.sh", "Makefile")
    cited = {(path, name) for path in files for name in _CITED.findall(path.read_text())}
    assert cited
    assert not [f"{path.relative_to(ROOT)}: {name}" for path, name in sorted(cited) if not (ROOT / name).is_file()]


def test_code_does_not_cite_what_is_not_in_the_repository():
    files = _tracked("*.py", "*.hpp", "*.cpp")
    assert not [
        path.relative_to(ROOT)
        for path in files
        if re.search(r"\bDESIGN(\.md)?['’.,;:) ]", path.read_text()) and path != Path(__file__)
    ]


def test_scripts_that_pages_name_are_there():
    missing = []
    for page in _tracked("*.md"):
        for name in _COMMAND.findall(page.read_text()):
            path = ROOT / (name if name.endswith(".py") else name.replace(".", "/") + ".py")
            if not path.is_file() and not (path.with_suffix("") / "__init__.py").is_file():
                missing.append(f"{page.relative_to(ROOT)}: {name}")
    assert not missing, "\n".join(missing)


def test_every_page_is_in_the_site():
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}


def test_generated_pages_are_fresh():
    for name, make in write_reference.PAGES.items():
        assert (write_reference.REFERENCE / name).read_text() == make(), "run python tools/write_reference.py"


def test_the_digest_of_the_model_that_ships_is_shown():
    (shown,) = re.findall(
        r"^ok      model +([0-9a-f]+)…", (ROOT / "docs" / "how-to" / "install.md").read_text(), re.MULTILINE
    )
    assert load_model().digest.startswith(shown)


def test_every_command_has_an_example():
    commands = re.findall(r"^## perfvec (.+)$", (ROOT / "docs" / "reference" / "commands.md").read_text(), re.MULTILINE)
    pages = [page.read_text() for kind in ("how-to", "tutorials") for page in (ROOT / "docs" / kind).glob("*.md")]
    examples = "\n".join(block for page in pages for block in re.findall(r"^```\n(.*?)^```", page, re.DOTALL | re.M))
    missing = [name for name in commands if not re.search(rf"^(\$ )?perfvec {name}(\s|$)", examples, re.MULTILINE)]
    assert len(commands) > 50 and not missing


def test_prose_keeps_the_house_style():
    found = [
        f"{page.relative_to(ROOT)}:{line}: {what}"
        for page in check_prose.texts()
        for line, what in check_prose.findings(page.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("word " * 36 + "end.", "a sentence of 37 words"),
        ("| a | b |\n|---|---|\n| " + "word " * 13 + "| 1 |", "a table's cell of 13 words"),
        ("The figures answer the pointer.", "'answer the pointer'"),
        ("Fine.\n\nAt the end of the day, it is fast.", "cliché"),
        ("The the machine.", "repeated"),
        ("Sort of\nword " * 18 + "end.", "a sentence of"),
    ],
)
def test_prose_outside_the_house_style_is_found(text, what):
    assert any(what in found for _, found in check_prose.findings(text))


def test_what_is_found_stands_at_its_paragraph():
    text = "It is the the first.\n\n## Title\n\nTwo lines,\nand it is a very unique one.\n\nGood.\n\nThe the last.\n"
    assert sorted({line for line, _ in check_prose.findings(text)}) == [1, 5, 10]


def test_code_is_no_prose():
    assert not list(check_prose.findings("```\n" + "word " * 50 + "\n```\n\n    " + "word " * 50 + "\n"))
    assert not list(check_prose.findings("Run `" + "word " * 50 + "` now."))


def test_the_citation_has_the_version_and_the_four_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert f'version = "{citation["version"]}"' in (ROOT / "pyproject.toml").read_text()
    assert [paper["authors"][0]["family-names"] for paper in citation["references"]] == ["Li", "Hu", "Bai", "Verma"]


def test_the_readme_fits_three_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly (with --quiet mkdocs counts no warning)."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_opens_without_an_error_or_a_request(site, tmp_path):
    pages = ["index.html", "reference/commands.html", "reference/api.html", "explanation/how-good-it-is.html"]
    with chromium(tmp_path) as browser:
        for page in pages:
            browser.requests(), browser.driver.get_log("browser")
            browser.driver.get((site / page).as_uri())
            browser.wait("return document.readyState === 'complete'")
            assert browser.js("return document.querySelector('h1').textContent.length > 3"), page
            assert browser.driver.get_log("browser") == [], page
            outside = [url for url in browser.requests() if not url.startswith(("file:", "data:", "blob:", "chrome"))]
            assert outside == [], page


@pytest.mark.slow
def test_the_site_searches_and_fits_a_phone(site, tmp_path):
    with chromium(tmp_path) as browser:
        browser.driver.get((site / "reference" / "configuration.html").as_uri())
        browser.wait("return document.readyState === 'complete'")
        with browser.phone():
            width = "return document.documentElement.scrollWidth <= window.innerWidth + 1"
            browser.wait(width)
        browser.js("document.querySelector('input.md-search__input').value = 'rob_entries'")
        browser.js(
            "const box = document.querySelector('input.md-search__input'); box.focus();"
            "box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}))"
        )
        browser.wait("return document.querySelectorAll('.md-search-result__item').length > 0")


@pytest.mark.parametrize("command", ["uarch list", "uarch show cortex-a53", "uarch diff zen2 zen4"])
def test_machines_are_shown_as_documented(command):
    text = (ROOT / "docs/how-to/machines.md").read_text()
    (documented,) = re.findall(rf"^```\n\$ perfvec {command}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert succeeding(*command.split()) == documented
