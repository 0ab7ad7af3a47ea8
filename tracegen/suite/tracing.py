"""Tracing workloads side by side, each in a process of its own, so that one that fails stops no other; or on a cluster.

What a workload writes before its trace is complete lies in `.NAME.work` in the traces' folder; a run that was killed
leaves that behind, and the next one removes it and goes on with what is missing. A cluster's worker may outlive its
run: it holds `.NAME.work.lock`, so another one waits for it.
"""

from __future__ import annotations

import fcntl
import os
import select as polling
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from tqdm import tqdm

from support.ending import orderly_end
from support.errors import InputError
from support.executor import Executor, Local
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, TraceResult, trace
from tracegen.suite.workloads import Workload, select

_WORK = ".work"


@dataclass(frozen=True)
class Traced:
    """Instructions by workload, and why others have no trace."""

    instructions: dict[str, int]
    failures: dict[str, str]


def run(
    names: Sequence[str],
    folder: Path,
    max_instructions: int,
    *,
    set_name: str | None = None,
    workers: int = 2,
    cluster: Executor | None = None,
    progress: bool = True,
) -> Traced:
    """Trace these workloads (all of the set that the machine has where empty) into `folder`, at most `max_instructions`
    each, so many `workers` side by side here, or on a `cluster` whose machines have the same programs.

    A trace that is there already stays, so a run that was stopped continues. Raises InputError for unknown names and
    for a folder that another run is at work in.
    """
    chosen = select(names, set_name)
    folder.mkdir(parents=True, exist_ok=True)
    instructions: dict[str, int] = {}
    failures: dict[str, str] = {}
    with alone(folder), tqdm(total=len(chosen), desc="trace", disable=None if progress else True) as bar:
        for left in folder.glob(f".*{_WORK}"):
            with at_work(left, wait=False) as ours:
                if ours:  # no worker of a run that was stopped is still at it
                    shutil.rmtree(left)
        missing = []
        for workload in chosen:
            try:
                if _trace_file(folder, workload).exists():
                    with Trace(_trace_file(folder, workload)) as made:
                        instructions[workload.name] = len(made)
                    bar.update()
                    continue
                workload.prepare(folder / "inputs", folder)  # inputs are shared: made before the processes start
                missing.append(workload)
            except InputError as error:
                failures[workload.name] = str(error)
                bar.update()
        given = [
            _Given(workload, folder.absolute(), max_instructions, dict(os.environ), Path.cwd()) for workload in missing
        ]
        executor, function = (Local(workers, threads=True), _in_process) if cluster is None else (cluster, _on_worker)
        for number, outcome in executor.map(
            function, given, lambda item: [item.folder, item.folder / "inputs", item.cwd]
        ):
            name = missing[number].name
            if isinstance(outcome, int):
                instructions[name] = outcome
            else:
                failures[name] = outcome
            bar.update()
    order = {workload.name: place for place, workload in enumerate(chosen)}
    return Traced(*(dict(sorted(d.items(), key=lambda item: order[item[0]])) for d in (instructions, failures)))  # type: ignore[arg-type]


def _trace_file(folder: Path, workload: Workload) -> Path:
    return folder / f"{workload.name}.trace.h5"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder; the lock goes with the process, however that ends."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder}: another suite run is at work here; wait for it or choose another folder"
            ) from error
        yield


@dataclass(frozen=True)
class _Given:
    """A workload to trace, and the surroundings that it would have on the caller's machine."""

    workload: Workload
    folder: Path
    max_instructions: int
    environment: dict[str, str]
    cwd: Path


def _in_process(given: _Given) -> int | str:
    """Instructions of the workload's new trace, or why there is none."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tracegen.suite.tracing"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_trace_one, args=(given, sender))
    process.start()
    sender.close()
    try:
        outcome: int | str = receiver.recv()
    except EOFError:
        process.join()
        outcome = f"its tracing ended with status {process.exitcode}"
    process.join()
    return outcome


def _trace_one(given: _Given, answer: Connection) -> None:
    Thread(target=_end_with_reader, args=(answer,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no trace of half a program after Ctrl-C
    with orderly_end():
        answer.send(_on_worker(given))


def _on_worker(given: _Given) -> int | str:
    """Do what `_in_process` does, in this process: a worker of a cluster is one already."""
    work = given.folder / f".{given.workload.name}{_WORK}"
    with at_work(work):
        shutil.rmtree(work, ignore_errors=True)  # of a worker that died
        made = _trace_file(given.folder, given.workload)
        try:
            if made.exists():  # by a worker of a run that was stopped, which no scheduler interrupts
                with Trace(made) as found:
                    return len(found)
            work.mkdir()
            return _trace_in(work, given)
        except (InputError, OSError) as error:
            return str(error)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def at_work(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a workload's folder, on any machine; False where another does, unless that is waited for."""
    path = folder.with_name(f"{folder.name}.lock")
    while True:
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            if not os.fstat(lock.fileno()).st_nlink:  # removed by who held it before
                continue
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
            return


def _end_with_reader(answer: Connection) -> None:
    """A run that is killed takes its workloads along: nobody holds the pipe's other end then."""
    waiting = polling.poll()
    waiting.register(answer.fileno(), polling.POLLERR)
    waiting.poll()
    os._exit(1)


def _trace_in(work: Path, given: _Given) -> int:
    workload = given.workload
    command, stdin = workload.prepare(given.folder / "inputs", work)
    output, messages = work / f"{workload.name}.trace.h5", work / "messages"
    with (
        Path(stdin or os.devnull).open("rb") as on_stdin,
        Path(os.devnull).open("wb") as unheard,
        messages.open("wb") as said,
    ):
        execution = Execution(
            command,
            stdin=on_stdin,
            stdout=unheard,
            stderr=said,
            env={**given.environment, **workload.env},
            cwd=given.cwd,
            max_instructions=given.max_instructions,
            skip=workload.skip,
        )
        result = trace(execution, output, progress=False)
    _require_well_run(workload, result, messages)
    output.replace(_trace_file(given.folder, workload))
    return result.instructions


def _require_well_run(workload: Workload, result: TraceResult, messages: Path) -> None:
    if result.stopped or result.exit_status in workload.status:
        return
    ended = f"status {result.exit_status}" if result.signal is None else f"signal {result.signal}"
    lines = messages.read_text(errors="replace").strip().splitlines()
    raise InputError(f"the program ended with {ended}{': ' + lines[-1][:200] if lines else ''}")
