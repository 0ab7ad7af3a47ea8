"""A process that does one kind of work, on one core, and may crash or hang without harm.

`Worker` is the caller's end: it sends a request, polls for the reply, and kills and restarts a process that died or ran
past its limit. Work is a function of this module, so that the process needs nothing of its maker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

if TYPE_CHECKING:
    from tvm.runtime import Tensor

    from tracegen.tensor.layout import Layout
    from tracegen.tensor.reference import Reference

_PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """The request failed: `error` is one of "failed", "crashed", "timeout"; the message says more."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


class Worker:
    """A process for the work called `name` (a key of WORK), pinned to the core `cpu` where given."""

    def __init__(self, name: str, cpu: int | None = None) -> None:
        self._name, self._cpu = name, cpu
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["tracegen.tensor.preload"])
        self.served = 0  # requests since its start
        self._start()
        self._deadline: float | None = None

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(self._name, self._cpu, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.connection: Connection = ours

    @property
    def busy(self) -> bool:
        """Whether a reply is awaited."""
        return self._deadline is not None

    @property
    def seconds_left(self) -> float:
        """Until the limit of the request in progress."""
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


def _serve(name: str, cpu: int | None, connection: Connection) -> None:
    """Answer requests until the other end is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # TVM's warnings; errors come back as replies
    os.environ |= {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    tqdm.set_lock(RLock())  # its own is a semaphore, which a killed process leaves behind
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    work = WORK[name]
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


def _tasks(request: dict[str, Any]) -> Any:
    import torch

    from tracegen.tensor.tasks import network_tasks

    torch.set_num_threads(1)
    return network_tasks(request["network"])


def _operators(request: dict[str, Any]) -> Any:
    from tracegen.tensor.operators import operator_tasks

    return operator_tasks(request["operator"])


def _sample(request: dict[str, Any]) -> Any:
    from tracegen.tensor.candidates import sample

    return sample(**request)


def _build(request: dict[str, Any]) -> Any:
    from tracegen.tensor.build import shared_object
    from tracegen.tensor.candidates import scheduled
    from tracegen.tensor.layout import layouts_of

    module = scheduled(request["task"], request["trace"])
    shared_object(module, request["target"], Path(request["path"]))
    return layouts_of(module)


def _reference(request: dict[str, Any]) -> Any:
    from tracegen.tensor.reference import computed

    computed(request["task"]).save(Path(request["path"]))
    return request["path"]


def _simulate(request: dict[str, Any]) -> Any:
    from tracegen.tensor.candidates import scheduled
    from tracegen.tensor.simulated import simulate

    module = scheduled(request["task"], request["trace"])
    return simulate(
        module, request["task"], request["machines"], reference=_expected(request["reference"]), isa=request["isa"],
        max_instructions=request["max_instructions"],
    )  # fmt: skip


def _measure(request: dict[str, Any]) -> Any:
    from tracegen.tensor.measure import measure

    tensors = _tensors(request["arguments"], request.get("layouts", ()))
    reference = _expected(request.get("reference"))
    if reference is not None:
        reference.spoil(tensors)
    measured = measure(request["path"], tensors, slow_s=request["slow_s"], budget_s=request["budget_s"])
    if reference is None:
        return measured
    return replace(measured, deviation=reference.deviation({at: tensors[at].numpy() for at in reference.outputs}))


@lru_cache(maxsize=2)
def _tensors(specification: tuple[tuple[str, tuple[int, ...]], ...], layouts: tuple[Layout, ...]) -> list[Tensor]:
    import tvm

    from tracegen.tensor.layout import rearranged
    from tracegen.tensor.measure import arguments

    return [tvm.runtime.tensor(array) for array in rearranged(arguments(specification), layouts)]


@lru_cache(maxsize=2)
def _expected(path: str | None) -> Reference | None:
    from tracegen.tensor.reference import Reference

    return None if path is None else Reference.load(Path(path))


_BUILDER: dict[str, Callable[[dict[str, Any]], Any]] = {
    "tasks": _tasks, "operators": _operators, "sample": _sample, "reference": _reference, "build": _build,
    "simulate": _simulate,
}  # fmt: skip


def _builder(request: dict[str, Any]) -> Any:
    return _BUILDER[request.pop("do")](request)


WORK: dict[str, Callable[[dict[str, Any]], Any]] = {"builder": _builder, "runner": _measure}

__all__ = ["WORK", "Failure", "Worker"]
