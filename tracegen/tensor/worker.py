"""A process that does one kind of work, on one core, and may crash or hang without harm.

`Worker` is the caller's end: it sends a request, polls for the reply, and kills and restarts a process that died or ran
past its limit. What is asked of it is `work`'s.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import RLock
from typing import Any

from tqdm import tqdm

_PR_SET_PDEATHSIG = 1
Work = Callable[[dict[str, Any]], Any]


class Failure(Exception):
    """The request failed: `error` is one of "failed", "crashed", "timeout"; the message says more."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


class Worker:
    """A process that answers requests by `work`, a function of a module, pinned to the core `cpu` where given."""

    def __init__(self, work: Work, cpu: int | None = None) -> None:
        self._work, self._cpu = work, cpu
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["tracegen.tensor.preload"])
        self.served = 0  # requests since its start
        self._start()
        self._deadline: float | None = None

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(self._work, self._cpu, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.connection: Connection = ours

    @property
    def busy(self) -> bool:
        """Return whether a reply is awaited."""
        return self._deadline is not None

    @property
    def seconds_left(self) -> float:
        """Seconds until the limit of the request in progress."""
        return max(0.0, self._deadline - time.monotonic()) if self._deadline is not None else float("inf")

    def send(self, request: dict[str, Any], limit_s: float) -> None:
        """Hand over a request; the reply must come within `limit_s`."""
        self._deadline = time.monotonic() + limit_s
        self.served += 1
        with contextlib.suppress(OSError):  # a process that died meanwhile shows at the reply
            self.connection.send(request)

    def reply(self) -> Any:
        """The reply, or None while it is not there; Failure where there will be none."""
        if self._deadline is None:
            return None
        try:
            if self.connection.poll():
                kind, content = self.connection.recv()
            elif time.monotonic() < self._deadline:
                return None
            else:
                self.restart()
                raise Failure("timeout", "killed at the time limit")
        except (EOFError, OSError) as error:
            self._process.join(5)
            code = self._process.exitcode
            how = signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"
            self.restart()
            raise Failure("crashed", f"the process ended by {how}") from error
        self._deadline = None
        if kind == "failed":
            raise Failure("failed", content)
        return content

    def call(self, request: dict[str, Any], limit_s: float) -> Any:
        """`send` and wait for the `reply`."""
        self.send(request, limit_s)
        while (answer := self.reply()) is None:
            self.connection.poll(min(self.seconds_left, 1.0))
        return answer

    def restart(self) -> None:
        """A new process in place of the old one."""
        self.close()
        self.served = 0
        self._start()
        self._deadline = None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(work: Work, cpu: int | None, connection: Connection) -> None:
    """Answer requests until the other end is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # TVM's warnings; errors come back as replies
    os.environ |= {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    tqdm.set_lock(RLock())  # its own is a semaphore, which a killed process leaves behind
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = ("done", work(request))
        except Exception as error:  # anything that TVM raises for a candidate is that candidate's failure
            answer = ("failed", f"{type(error).__name__}: {' '.join(str(error).split())[-400:]}")
        connection.send(answer)
