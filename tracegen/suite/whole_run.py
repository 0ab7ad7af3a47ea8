"""One whole run of a program: timed on this computer, sampled in QEMU.

A time that is not the time of its instructions is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from support.errors import InputError
from tracegen.live_points.live_points import SUFFIX, LivePoints, save
from tracegen.live_points.record import of_stream
from tracegen.qemu import Execution, stream
from tracegen.qemu.stream import ProgramStream
from tracegen.suite.host_cpu import HostCpu
from tracegen.suite.host_time import HostTime, host_time
from tracegen.suite.workloads import Workload
from uarch.host.counters import Event

LEAST_SECONDS = 0.3  # user time of all repeats together
_LEAST_RUN = 0.005  # of one run, beside which the start of a program is little
_LEAST_REPEATS, _MOST_REPEATS = 7, 61
MOST_SPREAD = 0.15  # of the median over the quickest run
_MOST_KERNEL = 0.5
_POLL_S = 0.001
_TICKS = 0.02  # seconds that the kernel's sums by ticks may be off
# Processors that others may keep busy meanwhile. Two of a virtual machine may be threads of one core, untold: then
# what runs on the other takes up to half of this one's units.
_MOST_OTHERS, _TRIES = 0.1, 4


class Disturbed(InputError):
    """A time that others' work disturbed; a later one may be good."""


@dataclass(frozen=True)
class WholeRun:
    """A program with its arguments and surroundings."""

    name: str
    command: tuple[str, ...]
    stdin: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    status: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Timed:
    """`seconds` of one run in user mode: the lower quartile of processor time, as what disturbs only adds, times user
    mode's share of all runs. (Linux knows the sum exactly, and divides it by ticks of 1 to 4 ms.)
    """

    seconds: float
    spread: float
    kernel: float  # share
    repeats: int
    ghz: float = 0.0  # of the core before and after, or cycles counted over seconds; 0 where it was not measured
    between: float = 0.0  # cycles of the slowest pass over those of the quickest, less 1
    counted: float = 0.0  # cycles in user mode, the lower quartile; 0 where the processor does not count them

    @property
    def cycles(self) -> float:
        """Cycles of one run in user mode, counted or by the clock."""
        return self.counted or self.seconds * self.ghz * 1e9


def run_of(workload: Workload, inputs: Path, scratch: Path) -> WholeRun:
    """Return a workload as a run; makes inputs that lack. Raises InputError."""
    command, stdin = workload.prepare(inputs, scratch)
    return WholeRun(workload.name, tuple(command), stdin, workload.env, workload.status)


def timed(run: WholeRun, cpu: HostCpu, least_seconds: float = LEAST_SECONDS, event: Event | None = None) -> Timed:
    """Time a run on this computer, and count an `event` that the kernel counts, its cycles.

    Raises InputError for a time that is not its instructions', saying why: Disturbed where a later one may be.
    """
    environment = {**os.environ, **cpu.here, **run.env}
    if (threads := _threads(run, environment)) > 1:
        raise InputError(f"{run.command[0]} has {threads} threads, of which one is simulated")
    once = host_time(run.command, repeats=1, stdin=run.stdin, env=environment, status=run.status)
    processor = once.user[0] + once.system[0]
    if once.children:
        raise InputError(f"{run.command[0]} starts others, whose time is in its own")
    if processor < _LEAST_RUN:
        raise InputError(f"{run.command[0]} runs {processor * 1e3:.0f} ms, too short to time; give it more work")
    repeats = int(np.clip(np.ceil(least_seconds / processor), _LEAST_REPEATS, _MOST_REPEATS))
    for _ in range(_TRIES):
        begin, wall, own = busy_ticks(), time.perf_counter(), _own_seconds()
        found = host_time(
            run.command, repeats=repeats, stdin=run.stdin, env=environment, status=run.status, event=event
        )
        others = busy_ticks() - begin - (_own_seconds() - own)
        wall = time.perf_counter() - wall
        if others <= _MOST_OTHERS * wall + _TICKS:
            return of_times(run.command[0], found)
    raise Disturbed(f"{run.command[0]}: others kept {others / wall:.1f} processors busy meanwhile; time it again")


def _own_seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _threads(run: WholeRun, environment: Mapping[str, str]) -> int:
    """Threads that a run was seen to have at a time, looked at every millisecond."""
    most = 1
    with Path(run.stdin or os.devnull).open("rb") as given:
        try:
            process = subprocess.Popen(
                list(run.command), stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            raise InputError(f"cannot run {run.command[0]}: {error.strerror}") from None
        while process.poll() is None:
            try:
                most = max(most, sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir()))
            except OSError:
                break
            time.sleep(_POLL_S)
        process.wait()
    return most


def of_times(program: str, found: HostTime) -> Timed:
    """Judge the times of the runs. Raises InputError where they are mostly the kernel's, Disturbed where they are
    too far apart.
    """
    user, system = np.array(found.user), np.array(found.system)
    both = user + system
    kernel = float(system.sum() / both.sum())
    if kernel > _MOST_KERNEL:
        raise InputError(f"{program} is in the kernel for {kernel:.0%} of its time, which its instructions are not")
    least, low, middle = np.percentile(both, [0, 25, 50])
    spread = float((middle - least) / least)
    if spread > MOST_SPREAD:
        raise Disturbed(f"{program}: times differ by {spread:.0%}: the computer is busy; time it again")
    seconds = float(low) * (1 - kernel)
    counted = float(np.percentile(found.counted, 25)) if found.counted else 0.0
    return Timed(seconds, spread, kernel, len(both), counted / seconds / 1e9, counted=counted)


def recorded(
    run: WholeRun,
    cpu: HostCpu,
    folder: Path,
    *,
    sample: Callable[[ProgramStream], LivePoints] = partial(of_stream, progress=False),
    usable: Callable[[Path], bool] = Path.exists,
) -> Path:
    """The run's live-points in `folder`, recorded in QEMU by `sample` where no `usable` ones are there yet.

    A file is found again by the command and its surroundings, and by the bytes of the program and of files that the
    command names. Raises InputError where the run fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.name}-{_digest(run, cpu)}{SUFFIX}"
    if path.exists() and usable(path):
        return path
    environment = {**os.environ, **cpu.emulated, **run.env}
    with (
        Path(run.stdin or os.devnull).open("rb") as given,
        Path(os.devnull).open("wb") as unheard,
        stream(Execution(run.command, stdin=given, stdout=unheard, stderr=unheard, env=environment)) as running,
    ):
        points = sample(running)
    outcome = running.outcome
    if outcome is None:
        raise KeyboardInterrupt
    if outcome.replaced_by is not None:
        raise InputError(f"{run.command[0]} becomes {outcome.replaced_by}; give that program")
    if outcome.exit_status not in run.status:
        raise InputError(f"{run.command[0]} ended with status {outcome.exit_status} in QEMU")
    save(points, path)
    return path


def _digest(run: WholeRun, cpu: HostCpu) -> str:
    import shutil

    program = shutil.which(run.command[0])
    key = hashlib.sha256()
    scratch = tempfile.gettempdir()  # folders there have another name each time
    named = [word for word in dict.fromkeys(run.command[1:]) if _is_file(word)]
    places = {run.command[0], *named}  # a file's bytes count, not where it is
    words = [
        "(scratch)" if word.startswith(f"{scratch}/perfvec-") else Path(word).name if word in places else word
        for word in run.command
    ]
    key.update(json.dumps([words, sorted(run.env.items()), sorted(cpu.emulated.items())]).encode())
    for path in (Path(program) if program else None, run.stdin, *map(Path, named)):
        if path is not None:
            key.update(path.read_bytes())
    return key.hexdigest()[:12]


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # a name too long: a script, say
        return False


def others_busy(seconds: float = 0.5) -> float:
    """Processors that others keep busy now, on average over so many seconds (/proc/stat); 0 where it is not known."""
    try:
        first, begin = busy_ticks(), time.perf_counter()
        time.sleep(seconds)
        return max(busy_ticks() - first, 0.0) / (time.perf_counter() - begin)
    except (OSError, ValueError, IndexError):
        return 0.0


def busy_ticks() -> float:
    """Seconds of all processors in user mode, kernel, interrupts."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system = (int(word) for word in words[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def require_names(runs: Sequence[WholeRun]) -> None:
    """Raise InputError where two runs have one name."""
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two programs are named {name}")
