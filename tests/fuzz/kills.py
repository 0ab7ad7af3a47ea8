"""Commands that are killed at any moment: every output is absent or whole, and nothing is left beside it.

python -m tests.fuzz.kills [--kills 100] [--seed 1]
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
_MEMORY = Path("/dev/shm")


def commands(folder: Path) -> dict[str, list[str]]:
    """Outputs of a folder, each with the command that makes it."""
    trace, program = str(folder / "given" / "sort.trace.h5"), ["--", "sort", "--version"]
    return {
        "sort.trace.h5": ["trace", "-o", str(folder / "sort.trace.h5"), *program],
        "sort.latency.h5": ["label", trace, "-o", str(folder), "--uarch", "base", "--uarch", "cortex-a53"],
        "sort.features.h5": ["features", trace, "-o", str(folder)],
        "sort.vector.npz": ["represent", trace, "-o", str(folder / "sort.vector.npz")],
        "report.html": ["report", trace, "-o", str(folder / "report.html"), "--uarch", "base", "--budget", "0"],
    }


def _run(words: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "perfvec", *words]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, cwd=_ROOT, start_new_session=True)


def _whole(path: Path) -> str:
    return repr(next(read for suffix, read in _READ.items() if path.name.endswith(suffix))(path))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    before = set(_MEMORY.glob("perfvec-*"))
    with tempfile.TemporaryDirectory(prefix="perfvec-kills-") as name:
        folder = Path(name)
        (folder / "given").mkdir()
        words = commands(folder / "given")["sort.trace.h5"]
        assert _run(words).wait() == 0
        expected, seconds = {}, {}
        for output, words in commands(folder).items():
            began = time.monotonic()
            assert _run(words).wait() == 0, output
            expected[output], seconds[output] = _whole(folder / output), time.monotonic() - began
            (folder / output).unlink()
        found = {"killed": 0, "ended before": 0, "there and whole": 0}
        for number in range(given.kills):
            output, words = list(commands(folder).items())[number % 5]
            process = _run(words)
            time.sleep(dice.random() * seconds[output] * 1.1)
            found["ended before" if process.poll() is not None else "killed"] += 1
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (folder / output).exists():
                assert _whole(folder / output) == expected[output], f"{output} after kill {number}"
                found["there and whole"] += 1
                (folder / output).unlink()
        for output, words in commands(folder).items():  # what comes next takes away what was left
            assert _run(words).wait() == 0, output
            assert _whole(folder / output) == expected[output], output
        left = [one.name for one in folder.rglob("*") if one.is_file() and one.name not in expected]
        assert left == [], left
    orphans = [one for one in set(_MEMORY.glob("perfvec-*")) - before if _owner_is_gone(one)]
    assert orphans == [], orphans
    print(", ".join(f"{name}: {count}" for name, count in found.items()), "; nothing lost, nothing left", sep="")


def _owner_is_gone(records: Path) -> bool:
    return not Path("/proc", records.name.split("-")[1]).exists() and records.stat().st_uid == os.getuid()


if __name__ == "__main__":
    main()
