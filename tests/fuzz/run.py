"""Mutated files of every kind, read in processes with limits on time and memory; what came of them, as a table.

    python -m tests.fuzz.run [--cases 10000] [--seed 1] [READER …]

Case k of a seed is always the same file: `--keep FOLDER` keeps those that are not as
promised (docs/reference/trust.md).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.reader import Reader
from tests.fuzz.selftest import SELFTEST

GOOD = ("refused", "same", "other")  # one line; the content before; other content, of files without a digest
BAD = ("silent", "unclear", "traceback", "crash", "hang", "memory")
CPU_S = 5.0  # of a case
MEMORY = 1 << 30  # bytes, besides what the process takes before
_POLL_S = 0.2
_POLLS = int(30 * CPU_S / _POLL_S)  # without an answer, on a machine that is busy
_ROOT = Path(__file__).parents[2]


@dataclass
class Worst:
    """The most that a case took: CPU time in s, and resident memory in bytes besides what the process had before."""

    seconds: float = 0.0
    memory: int = 0

    def take(self, seconds: float, memory: int) -> None:
        self.seconds, self.memory = max(self.seconds, seconds), max(self.memory, memory)


def fuzz(
    names: Sequence[str],
    cases: int,
    seed: int,
    folder: Path,
    keep: Path | None = None,
    worst: Worst | None = None,
    cpu_s: float = CPU_S,
) -> tuple[Counter[str], list[str]]:
    """Return what came of the cases of readers, one after another in turn, and a line for each that is bad."""
    worst = worst or Worst()
    found: Counter[str] = Counter()
    told = []
    begin = 0
    while begin < cases:
        for case, outcome, message in _batch(names, seed, begin, cases, folder, worst, cpu_s):
            name = names[case % len(names)]
            found[outcome] += 1
            if outcome in BAD:
                told.append(f"{name} {seed}:{case} {outcome}: {message}")
                if keep is not None:
                    (keep / f"{seed}-{case}-{name}").write_bytes(_case(name, seed, case, folder))
            begin = case + 1
    return found, told


def _batch(
    names: Sequence[str], seed: int, begin: int, end: int, folder: Path, worst: Worst, cpu_s: float
) -> Iterator[tuple[int, str, str]]:
    """Cases from `begin` on, to the end or to one that ends the process."""
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.run",
        "--worker",
        ",".join(names),
        str(seed),
        str(begin),
        str(end),
        str(folder),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=_ROOT) as worker:
        assert worker.stdout is not None and worker.stderr is not None
        case, begun, rest, waiting = begin - 1, False, b"", _Waiting(worker.pid, cpu_s)
        try:
            while True:
                if not select.select([worker.stdout], [], [], _POLL_S)[0]:
                    if case >= begin and waiting.too_long():
                        if begun:  # a process that is slow to end has answered already
                            yield case, "hang", f"more than {cpu_s:.0f} s"
                        return
                    continue
                more = os.read(worker.stdout.fileno(), 1 << 16)
                if not more:
                    break
                *lines, rest = (rest + more).split(b"\n")
                for line in lines:
                    number, outcome, seconds, memory, message = line.decode().split("\t", 4)
                    case, begun, waiting = int(number), not outcome, _Waiting(worker.pid, cpu_s)
                    if not begun:
                        worst.take(float(seconds), int(memory))
                        yield case, outcome, message
            status = worker.wait()
            if status:
                assert case >= begin, worker.stderr.read().decode(errors="replace")
                yield case, "crash", f"status {status}"
        finally:
            worker.kill()


def _case(name: str, seed: int, case: int, folder: Path) -> bytes:
    reader, path = _reader(name), folder / f"again-{name}"
    reader.make(path)
    return reader.mutated(path.read_bytes(), random.Random(f"{name} {seed} {case}"))


def _reader(name: str) -> Reader:
    """The reader of that name; only for others than the self-test's all the toolkit is imported."""
    if name == SELFTEST.name:
        return SELFTEST
    from tests.fuzz.readers import READERS

    return READERS[name]


class _Waiting:
    """Time that a process has worked since then, and how often it was waited for.

    Not how long by the clock, which goes on where both processes are stopped for a while.
    """

    def __init__(self, pid: int, cpu_s: float) -> None:
        self._most_s = cpu_s
        self._path = Path(f"/proc/{pid}/stat")
        self._polls, self._cpu = 0, self._cpu_s()

    def _cpu_s(self) -> float:
        try:
            fields = self._path.read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its own, and its children's

    def too_long(self) -> bool:
        self._polls += 1
        return self._cpu_s() - self._cpu > self._most_s or self._polls > _POLLS


def _worker(names: Sequence[str], seed: int, begin: int, end: int, folder: Path) -> None:
    from support import unsealed
    from tests.fuzz.forked import Forked

    out = os.dup(1)
    forked = Forked()
    unsealed.ended = forked
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.chdir(folder)
    given = {}
    for name in names:
        reader, path = _reader(name), folder / f"of-{name}" / name
        path.parent.mkdir(exist_ok=True)
        reader.make(path)
        given[name] = reader, path, path.read_bytes(), _content(reader.read(path))
    os.dup2(quiet, 2)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case in range(begin, end):
        name = names[case % len(names)]
        reader, path, data, expected = given[name]
        path.unlink()  # another file each time: what is kept of one by its name is not of this one
        path.write_bytes(reader.mutated(data, random.Random(f"{name} {seed} {case}")))
        os.write(out, f"{case}\t\t\t\t\n".encode())
        seconds, before = _cpu_seconds() + forked.seconds, _resident()
        outcome, message = _outcome(reader, path, expected)
        taken = f"{_cpu_seconds() + forked.seconds - seconds:.3f}\t{max(_resident(peak=True) - before, 0)}"
        message = " ".join(message.split())[:300]
        os.write(out, f"{case}\t{outcome}\t{taken}\t{message}\n".encode(errors="backslashreplace"))


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    took = os.times()
    return took.user + took.system + took.children_user + took.children_system


def _resident(*, peak: bool = False) -> int:
    """Bytes of memory that are resident, or their peak since this was last asked without `peak`."""
    if not peak:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


def _outcome(reader: Reader, path: Path, expected: str) -> tuple[str, str]:
    from support.errors import InputError

    try:
        found = _content(reader.read(path))
    except InputError as error:
        text = str(error)
        clear = "\n" not in text and len(text) < 1000 and (path.name in text or path.parent.name in text)
        return ("refused" if clear else "unclear"), text
    except MemoryError:
        return "memory", "MemoryError"
    except Exception as error:
        ours = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith(str(_ROOT))]
        return "traceback", f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}: {error}"
    if found == expected:
        return "same", ""
    return ("silent" if reader.sealed else "other"), ""


def _content(found: object) -> str:
    return hashlib.sha256(repr(found).encode(errors="backslashreplace")).hexdigest()


def main() -> None:
    """The command."""
    if sys.argv[1:2] == ["--worker"]:
        name, seed, begin, end, folder = sys.argv[2:]
        _worker(name.split(","), int(seed), int(begin), int(end), Path(folder))
        return
    from tests.fuzz.readers import READERS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"by default all of {', '.join(READERS)}")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    columns = ("cases", "s", "worst s", "worst MiB", *GOOD, *BAD)
    print(f"| file | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}", flush=True)
    every = []
    for name in given.readers or READERS:
        began, worst = time.monotonic(), Worst()
        with tempfile.TemporaryDirectory(prefix="perfvec-fuzz-") as folder:
            found, told = fuzz([name], given.cases, given.seed, Path(folder), given.keep, worst)
        every += told
        counts = " | ".join(f"{found[one]:,}" for one in GOOD + BAD)
        most = f"{worst.seconds:.2f} | {worst.memory / 2**20:.0f}"
        print(f"| {name} | {found.total():,} | {time.monotonic() - began:.0f} | {most} | {counts} |", flush=True)
    print("\n".join(every[:200]), file=sys.stderr)
    sys.exit(bool(every))


if __name__ == "__main__":
    main()
