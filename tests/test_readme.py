"""First steps of a stranger: the README's commands and script run as they are written, on a program of one's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```\n(\$ .*?)^```", README, re.DOTALL | re.MULTILINE)
SHOWN = [
    found for block in BLOCKS for found in re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", block, re.MULTILINE)
]
SCRIPTS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
CLAIMS = re.findall(r"^\| [^|]+\? \| ([^|]+) \| \[[^]]+\]\(([^)#]+)(#[^)]*)?\) \|$", README, re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A clone, but for what the commands leave in it, with `perfvec` on the PATH."""
    folder = tmp_path_factory.mktemp("stranger")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in {line.partition("/")[0] for line in tracked.splitlines()}:
        (folder / name).symlink_to(ROOT / name)
    command = folder / "bin" / "perfvec"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m analysis.cli "$@"\n')
    command.chmod(0o755)
    return folder


def _run(folder, command, monkeypatch):
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    monkeypatch.setenv("COLUMNS", "80")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_readme_shows_commands_and_a_script():
    assert [command.split()[:2] for command, _ in SHOWN] == [
        ["gcc", "-g"],
        ["perfvec", "trace"],
        ["perfvec", "profile"],
        ["perfvec", "sweep"],
        ["perfvec", "sweep"],
    ]
    assert len(SCRIPTS) == 1
    assert len(CLAIMS) == 3


@pytest.mark.slow
def test_the_example_runs_as_written(folder, monkeypatch):
    """Each command prints what the README shows, on other processors with other numbers."""
    for command, shown in SHOWN:
        done = _run(folder, ["sh", "-c", command], monkeypatch)
        assert done.returncode == 0, done.stderr
        printed, expected = (done.stdout + done.stderr).splitlines(), shown.splitlines()  # as a terminal shows both
        assert len(printed) == len(expected)
        assert max(map(len, printed), default=0) <= 80
        for here, there in zip(printed[:1] + printed[-1:], expected[:1] + expected[-1:], strict=True):
            assert [word for word in here.split() if word.isalpha()] == [w for w in there.split() if w.isalpha()]


@pytest.mark.slow
def test_the_script_runs_as_written(folder, monkeypatch):
    done = _run(folder, [sys.executable, "-c", SCRIPTS[0]], monkeypatch)
    assert done.returncode == 0, done.stderr
    assert "main" in done.stdout
    assert "<html" in (folder / "sweep.html").read_text()


@pytest.mark.parametrize(("answer", "page", "anchor"), CLAIMS)
def test_each_number_is_on_the_page_that_it_cites(answer, page, anchor):
    text = re.sub(r"[*\s]+", " ", (ROOT / page).read_text())
    for number in re.findall(r"\d[\d.,]*\d|\d", answer):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", text), f"{number} is not in {page}"
