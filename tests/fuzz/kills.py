"""Commands that are killed at any moment: every output is absent or whole, and no file or process is left.

python -m tests.fuzz.kills [--kills 100] [--seed 1]

Half of the kills are spread evenly over the processor time of a run, which does not depend on how busy the machine is.
The others come while an output is being written, which is a small part of a run and where most could be lost.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.readers import features_content, latency_content, trace_content, vector_content

_ROOT = Path(__file__).parents[2]
_READ = {
    ".trace.h5": trace_content,
    ".latency.h5": latency_content,
    ".features.h5": features_content,
    ".vector.npz": vector_content,
    ".html": Path.read_text,
}
_PROGRAM = ["--", "sort", "--version"]
_FEW = [
    "--max-instructions",
    "20000",
]  # of the trace that others read: a run is then little more than its start and end
_MEMORY = Path("/dev/shm")
_POLL_S = 0.001
_END_S = 600  # until the processes of a killed command have ended too, on a machine that may be busy
_WRITING_S = 0.05  # at most so long after an output is begun: most take less to write


def commands(folder: Path) -> dict[str, list[str]]:
    """Outputs of a folder, each with the command that makes it."""
    trace = str(folder / "given" / "sort.trace.h5")
    return {
        "sort.trace.h5": ["trace", "-o", str(folder / "sort.trace.h5"), *_PROGRAM],
        "sort.latency.h5": ["label", trace, "-o", str(folder), "--uarch", "base", "--uarch", "cortex-a53"],
        "sort.features.h5": ["features", trace, "-o", str(folder)],
        "sort.vector.npz": ["represent", trace, "-o", str(folder / "sort.vector.npz")],
        "report.html": ["report", trace, "-o", str(folder / "report.html"), "--uarch", "base", "--budget", "0"],
    }


class _Killed:
    """A command in a session of its own, and how much processor time it and its ended children took."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self._folder, self._before = folder, set(folder.glob(".*.part"))
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "given" / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every run would compile all modules
        command = [sys.executable, "-m", "perfvec", *words]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, cwd=_ROOT, env=environment, start_new_session=True
        )
        self._stat = Path(f"/proc/{self._process.pid}/stat")

    def seconds(self) -> float:
        """Return the processor time so far."""
        fields = self._stat.read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def whole_run(self) -> float:
        """Let it end; return its processor time."""
        most = 0.0
        while self._process.poll() is None:
            most = max(most, self.seconds())
            time.sleep(0.01)
        assert self._process.returncode == 0, self._process.args
        return most

    def at(self, seconds: float) -> bool:
        """Kill it when it has taken so much processor time; return whether it still ran."""
        while self._process.poll() is None and self.seconds() < seconds:
            time.sleep(_POLL_S)
        return self._kill()

    def while_writing(self, delay: float) -> bool:
        """Kill it so many seconds after it began to write an output; return whether it still ran."""
        while self._process.poll() is None and not set(self._folder.glob(".*.part")) - self._before:
            time.sleep(_POLL_S)
        time.sleep(delay)
        return self._kill()

    def _kill(self) -> bool:
        ran = self._process.poll() is None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + _END_S
        while left := _of_session(self._process.pid):
            assert time.monotonic() < deadline, f"left running: {left}"
            time.sleep(0.01)
        return ran


def _of_session(session: int) -> list[str]:
    """Processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = stat.read_text().rpartition(")")
        except OSError:
            continue  # ended meanwhile
        state, _, _, of = fields.split()[:4]
        if int(of) == session and state not in "ZX":
            found.append(name)
    return found


def _whole(path: Path) -> str:
    return repr(next(read for suffix, read in _READ.items() if path.name.endswith(suffix))(path))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    dice, found = random.Random(given.seed), Counter[str]()
    before = set(_MEMORY.glob("perfvec-*"))
    with tempfile.TemporaryDirectory(prefix="perfvec-kills-") as name:
        folder = Path(name)
        (folder / "given").mkdir()
        _Killed(["trace", "-o", str(folder / "given" / "sort.trace.h5"), *_FEW, *_PROGRAM], folder).whole_run()
        expected, seconds = {}, {}
        for output, words in commands(folder).items():
            seconds[output] = _Killed(words, folder).whole_run()
            expected[output] = _whole(folder / output)
            (folder / output).unlink()
        outputs = list(commands(folder))
        for number in range(given.kills):
            output, turn = outputs[number % len(outputs)], number // len(outputs)
            run = _Killed(commands(folder)[output], folder)
            if turn % 2:
                killed = run.while_writing(dice.random() * _WRITING_S)
            else:  # evenly, by the turns of the same command
                turns = -(-given.kills // len(outputs) // 2)
                killed = run.at((turn // 2 + dice.random()) / turns * seconds[output])
            found["killed" if killed else "ended before"] += 1
            if (folder / output).exists():
                assert _whole(folder / output) == expected[output], f"{output} after kill {number}"
                found["there and whole"] += 1
                (folder / output).unlink()
            print(f"\r{number + 1} of {given.kills}", end="", file=sys.stderr, flush=True)
        for output, words in commands(folder).items():  # what comes next takes away what was left
            _Killed(words, folder).whole_run()
            assert _whole(folder / output) == expected[output], output
        given_files = set((folder / "given").rglob("*"))
        left = [one.name for one in folder.rglob("*") if one.is_file() and one not in given_files]
        assert sorted(left) == sorted(expected), left
    orphans = [one for one in set(_MEMORY.glob("perfvec-*")) - before if _owner_is_gone(one)]
    assert orphans == [], orphans
    print(", ".join(f"{name}: {count}" for name, count in found.items()), "; nothing lost, nothing left", sep="")


def _owner_is_gone(records: Path) -> bool:
    return not Path("/proc", records.name.split("-")[1]).exists() and records.stat().st_uid == os.getuid()


if __name__ == "__main__":
    main()
