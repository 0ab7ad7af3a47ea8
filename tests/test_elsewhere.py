"""Runs where nothing but the output can be written, and as another user than the one who installed the toolkit."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from perfvec.model import load_model
from tests.analysis.vectors import program
from tracegen.qemu import Execution, trace

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
NOBODY = 65534
COMMANDS = [
    ["uarch", "show", "zen4"],
    ["predict", "{folder}/p.vector.npz", "--uarch", "base"],
    ["trace", "-o", "{folder}/t.trace.h5", "--", "true"],
    ["characterise", "{folder}/given.trace.h5"],
]


# Reads all, as the interpreter and the checkout may lie in root's home, and writes what is nobody's.
AS_NOBODY = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
AS_NOBODY += ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]


def elsewhere(folder, words, before=()):
    command = [*before, sys.executable, "-m", "perfvec", *(word.format(folder=folder) for word in words)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/proc"}
    environment |= {"XDG_CACHE_HOME": "/proc/none", "TMPDIR": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/", check=False)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("given")
    replace(program("p"), model=load_model().digest).save(folder / "p.vector.npz")
    trace(Execution(["true"], max_instructions=20_000), folder / "given.trace.h5", progress=False)
    return folder


@pytest.fixture
def folder(given):
    """Outside of pytest's folder, which is closed to others."""
    with tempfile.TemporaryDirectory(prefix="perfvec-test-") as name:
        shutil.copytree(given, name, dirs_exist_ok=True)
        yield Path(name)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_home_that_cannot_be_written(folder, words):
    done = elsewhere(folder, words)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.skipif(os.getuid() != 0 or which("setpriv") is None, reason="only root, by setpriv, can be another user")
@pytest.mark.parametrize("words", COMMANDS[:3], ids=lambda words: words[0])  # each compiles anew
def test_another_user(folder, words):
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    done = elsewhere(folder, words, before=AS_NOBODY)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert len([line for line in done.stderr.splitlines() if "compiled code cannot be kept" in line]) <= 1
    assert {path.stat().st_uid for path in folder.iterdir()} == {NOBODY}


@pytest.mark.skipif(os.getuid() != 0 or which("setpriv") is None, reason="only root, by setpriv, can be another user")
def test_another_users_folder_is_one_line(folder):
    folder.chmod(0o755)
    done = elsewhere(folder, COMMANDS[2], before=AS_NOBODY)
    assert done.returncode == 2 and done.stderr.splitlines()[-1].endswith("is not writable"), done.stderr
