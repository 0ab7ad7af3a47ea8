"""SIGTERM where work goes on: temporary files go, workers end, and a second signal does not cut that short."""

import os
import signal
import subprocess
import sys

_WORKER = """
import atexit, os, signal, sys, time
from pathlib import Path
from support.ending import orderly_end
from support.executor import Local
from support.files import atomic_path

def work(path):
    with atomic_path(path) as temporary:
        os.write(1, b"writing\\n")  # at once: print writes twice where PYTHONUNBUFFERED is set
        time.sleep(60)

if __name__ == "__main__":
    atexit.register(os.kill, os.getpid(), signal.SIGTERM)  # one that comes last of all
    with orderly_end(), atomic_path(sys.argv[1] + "/own"):
        list(Local(2).map(work, [Path(sys.argv[1], name) for name in ("a", "b")]))
"""


def test_sigterm_ends_workers_and_removes_what_they_write(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "out"
    script.write_text(_WORKER)
    folder.mkdir()
    words = [sys.executable, str(script), str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["writing\n"] * 2
        assert len(list(folder.iterdir())) == 3
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 128 + signal.SIGTERM
        assert not list(folder.iterdir())


_CALLBACK = """
import ctypes, os, signal, sys, time
from support.ending import orderly_end
from support.files import atomic_path

@ctypes.CFUNCTYPE(None)
def callback():
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(0.1)  # the handler raises here, and ctypes swallows it

signal.signal(signal.SIGHUP, signal.SIG_DFL)
with orderly_end(), atomic_path(sys.argv[1] + "/own"):
    callback()
    time.sleep(600)
"""


def test_a_signal_within_a_callback_of_c_is_not_lost(tmp_path):
    words = [sys.executable, "-c", _CALLBACK, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, env=environment, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (128 + signal.SIGHUP, "")
    assert not list(tmp_path.iterdir())
