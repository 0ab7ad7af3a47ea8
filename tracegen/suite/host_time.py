"""Run times of programs on this computer: processor time in user mode, which is what a trace holds the instructions of.

Wall time has other programs and the disk in it. User time is what the kernel charges the process (getrusage of the
ended child; its children that it waited for are in it). Nothing is subtracted: loading and start-up are in it, as they
are in a trace of the whole run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support.errors import InputError
from uarch.host.counters import Counter, Event


@dataclass(frozen=True)
class HostTime:
    """Runs of one program: seconds of each, in user and in kernel mode; whether it waited for processes of its own
    making, whose time is in these; what was counted of each, where an event was.
    """

    user: tuple[float, ...]
    system: tuple[float, ...]
    children: bool = False
    counted: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """Median of the user times."""
        return float(np.median(self.user))

    @property
    def uncertainty(self) -> float:
        """Standard error of the median: 1.2533 σ / √n of normally distributed times, σ from the quartiles (which single
        disturbed runs do not move)."""
        low, high = np.percentile(self.user, [25, 75])
        return float(1.2533 * (high - low) / 1.349 / np.sqrt(len(self.user)))


def host_time(
    command: Sequence[str],
    *,
    repeats: int = 5,
    stdin: Path | None = None,
    env: Mapping[str, str] | None = None,
    status: Sequence[int] = (0,),
    event: Event | None = None,
) -> HostTime:
    """Run `command` once unmeasured, so that files are in memory, then `repeats` times. What it prints is dropped. An
    `event` that the kernel counts is counted, too.

    Raises InputError where it cannot run or ends with another status than these.
    """
    if repeats < 1:
        raise InputError(f"repeats = {repeats} must be at least 1")
    user, system, counted, children = [], [], [], False
    for number in range(repeats + 1):
        with nullcontext() if event is None else Counter(event) as counter:
            usage, parent = _run(command, stdin, env, status)
            children |= parent
            if number:
                user.append(usage.ru_utime)
                system.append(usage.ru_stime)
                counted += [] if counter is None else [counter.read()]
    return HostTime(tuple(user), tuple(system), children, tuple(counted))


def _run(
    command: Sequence[str], stdin: Path | None, env: Mapping[str, str] | None, status: Sequence[int]
) -> tuple[os.struct_rusage, bool]:  # type: ignore[name-defined]
    """Run a command and return the time it used, and whether it waited for others."""
    with Path(stdin or os.devnull).open("rb") as given:
        try:
            process = subprocess.Popen(
                list(command), stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
            )
        except OSError as error:
            raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # Of proc(5)'s fields, after the name in parentheses: the page faults of children that it waited for.
        faults = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        _, ended, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(ended)  # Popen must not wait for it again
    if process.returncode not in status:
        raise InputError(f"{command[0]} ended with status {process.returncode}, not {', '.join(map(str, status))}")
    return usage, int(faults.split()[8]) > 0
