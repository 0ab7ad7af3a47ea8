"""Signals that end perfvec end the traced program too, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracegen.qemu.run import remove_orphans

# nohup and background jobs, as which the tests may run, ignore signals, and so would what they start.
_COMMAND = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from analysis.cli.main import main
main()
"""
_LIMIT_S = 120


@pytest.fixture
def tracing(build, tmp_path):
    """`perfvec trace` of a program that does not end by itself, in a session of its own, once it writes its trace."""
    words = [sys.executable, "-c", _COMMAND, "trace", "-o", str(tmp_path / "t.trace.h5"), "--", str(build("behave"))]
    with subprocess.Popen([*words, "wait"], start_new_session=True, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: list(tmp_path.glob(".*.part")))
        assert process.poll() is None and spool(process)
        yield process
        for pid in of_session(process.pid):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition):
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def of_session(session):
    """Processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # ended meanwhile
        if int(of) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def spool(process):
    return list(Path("/dev/shm").glob(f"perfvec-{process.pid}-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_program_and_leaves_nothing(tracing, tmp_path, number):
    tracing.send_signal(number)
    assert tracing.wait(_LIMIT_S) == 128 + number
    assert not of_session(tracing.pid) and not spool(tracing) and not list(tmp_path.iterdir())


def test_the_program_ends_with_a_reader_that_is_killed(tracing):
    tracing.kill()
    tracing.wait(_LIMIT_S)
    wait_until(lambda: not of_session(tracing.pid))
    remove_orphans()  # as the next trace does
    assert not spool(tracing)
