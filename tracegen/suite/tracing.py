"""Tracing workloads side by side, each in a process of its own, so that one that fails stops no other.

What a workload writes before its trace is complete lies in `.NAME.work` in the traces' folder; a run that was killed
leaves that behind, and the next one removes it and goes on with what is missing.
"""

from __future__ import annotations

import fcntl
import os
import select as polling
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from tqdm import tqdm

from tracegen.qemu.runner import TraceResult, trace
from tracegen.suite.workloads import Workload, select
from tracegen.trace import Trace
from uarch.errors import InputError

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
    progress: bool = True,
) -> Traced:
    """Trace these workloads (all of the set that the machine has where empty) into `folder`, at most `max_instructions`
    each.

    A trace that is there already stays, so a run that was stopped continues. Raises InputError for unknown names and
    for a folder that another run is at work in.
    """
    chosen = select(names, set_name)
    folder.mkdir(parents=True, exist_ok=True)
    instructions: dict[str, int] = {}
    failures: dict[str, str] = {}
    with _alone(folder), tqdm(total=len(chosen), desc="trace", disable=None if progress else True) as bar:
        for left in folder.glob(f".*{_WORK}"):
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
        with ThreadPoolExecutor(workers) as pool:
            futures = {pool.submit(_in_process, workload, folder, max_instructions): workload for workload in missing}
            try:
                for future in as_completed(futures):
                    name, outcome = futures[future].name, future.result()
                    if isinstance(outcome, int):
                        instructions[name] = outcome
                    else:
                        failures[name] = outcome
                    bar.update()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    order = {workload.name: place for place, workload in enumerate(chosen)}
    return Traced(*(dict(sorted(d.items(), key=lambda item: order[item[0]])) for d in (instructions, failures)))  # type: ignore[arg-type]


def _trace_file(folder: Path, workload: Workload) -> Path:
    return folder / f"{workload.name}.trace.h5"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder; the lock goes with the process, however that ends."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder}: another suite run is at work here; wait for it or choose another folder"
            ) from error
        yield


def _in_process(workload: Workload, folder: Path, max_instructions: int) -> int | str:
    """Instructions of the workload's new trace, or why there is none."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tracegen.suite.tracing"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_trace_one, args=(workload, folder, max_instructions, sender))
    process.start()
    sender.close()
    try:
        outcome: int | str = receiver.recv()
    except EOFError:
        process.join()
        outcome = f"its tracing ended with status {process.exitcode}"
    process.join()
    return outcome


def _trace_one(workload: Workload, folder: Path, max_instructions: int, answer: Connection) -> None:
    Thread(target=_end_with_reader, args=(answer,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no trace of half a program after Ctrl-C
    work = folder / f".{workload.name}{_WORK}"
    work.mkdir()
    try:
        answer.send(_trace_in(work, workload, folder, max_instructions))
    except InputError as error:
        answer.send(str(error))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _end_with_reader(answer: Connection) -> None:
    """A run that is killed takes its workloads along: nobody holds the pipe's other end then."""
    waiting = polling.poll()
    waiting.register(answer.fileno(), polling.POLLERR)
    waiting.poll()
    os._exit(1)


def _trace_in(work: Path, workload: Workload, folder: Path, max_instructions: int) -> int:
    command, stdin = workload.prepare(folder / "inputs", work)
    output, messages = work / f"{workload.name}.trace.h5", work / "messages"
    with (
        Path(stdin or os.devnull).open("rb") as given,
        Path(os.devnull).open("wb") as unheard,
        messages.open("wb") as said,
    ):
        result = trace(
            command, output, stdin=given, stdout=unheard, stderr=said, env={**os.environ, **workload.env},
            max_instructions=max_instructions, skip=workload.skip, progress=False,
        )  # fmt: skip
    _require_well_run(workload, result, messages)
    output.replace(_trace_file(folder, workload))
    return result.instructions


def _require_well_run(workload: Workload, result: TraceResult, messages: Path) -> None:
    if result.stopped or result.exit_status in workload.status:
        return
    ended = f"status {result.exit_status}" if result.signal is None else f"signal {result.signal}"
    lines = messages.read_text(errors="replace").strip().splitlines()
    raise InputError(f"the program ended with {ended}{': ' + lines[-1][:200] if lines else ''}")
