"""The scripts of examples/ run from start to end on real programs, and are short."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
# What each says at the end, on its default program; of the longest a shorter run.
TOLD = {
    "cache_study": (["seq", "2000"], r"best time x .*: an L2 of \d+ KiB[^$]*cycles compared with zen4"),
    "compiler_diff": (
        [],
        r"zen4: -O3 saves \d\d\.\d% of the cycles; \S+:\d+ changed most: [a-zA-Z].*\n"
        r"cortex-a53: -O3 saves \d\d\.\d% of the cycles; \S+:\d+ changed",
    ),
    "hot_spots": (["seq", "300"], r"hottest loop: .*% of the cycles[^$]*the ideal machine itself"),
    "new_architecture": (["4"], r"base .* cycles predicted .* simulated\nzen4 "),
    "new_predictor": ([], r"gshare +\d+\.\d\d[^$]*tage +\d+\.\d\d[^$]*branch misprediction"),
}


def test_there_are_five_short_ones():
    scripts = {path.stem: path for path in EXAMPLES.glob("*.py")}
    assert set(scripts) == set(TOLD)
    for path in scripts.values():
        assert len(path.read_text().splitlines()) <= 60
        assert max(map(len, path.read_text().splitlines())) <= 120


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD)
def test_an_example_runs(name, tmp_path):
    arguments, told = TOLD[name]
    path = os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(told, done.stdout), done.stdout
