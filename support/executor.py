"""Executors of tasks: side by side on this machine, or on the workers of a Dask cluster (docs/how-to/cluster.md).

A task is a function of a module and one item; on other processes and machines both arrive pickled. Tasks write what is
large into files and return what is small.

Ours, around `concurrent.futures` and Dask, since neither these nor joblib give all of it: one interface for processes,
threads and clusters, results as they finish, and workers that end when their parent is killed.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tqdm import tqdm

from support.ending import end_in_order
from support.errors import InputError
from support.files import remove_left
from support.release import release
from support.text import show
from support.yaml_files import read_yaml

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
CONNECT_S = 10
NO_WORKER_S = 10.0
_CLUSTERS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "moab": "MoabCluster",
    "htcondor": "HTCondorCluster",
}


class Executor(Protocol):
    """Runs tasks."""

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        needs: Callable[[Item], Sequence[Path]] = lambda item: (),
    ) -> Iterator[tuple[int, Result]]:
        """(number of the item, `function(item)`) of all `items`, in the order in which they finish.

        `needs` gives the files and folders that a task must find where it runs. The first exception of a task is
        raised here; tasks that have not begun are then dropped, as they are where the caller stops.
        """
        ...


@dataclass(frozen=True)
class Local:
    """Processes of this machine, or threads for tasks that start processes of their own."""

    workers: int
    threads: bool = False

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        needs: Callable[[Item], Sequence[Path]] = lambda item: (),
    ) -> Iterator[tuple[int, Result]]:
        """Run the tasks, as of Executor."""
        count = max(1, min(self.workers, len(items)))
        pool: futures.Executor = (
            futures.ThreadPoolExecutor(count)
            if self.threads
            else futures.ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_end_with_parent)
        )
        with pool:
            running = {pool.submit(function, item): number for number, item in enumerate(items)}
            try:
                for future in futures.as_completed(running):
                    yield running[future], future.result()
            except BrokenProcessPool:
                raise InputError(
                    "a worker process was killed, perhaps for want of memory; use fewer --workers (what is done stays)"
                ) from None
            except BaseException:
                pool.shutdown(cancel_futures=True)  # and wait: Python may write an error if it ends before a pool does
                raise


def _end_with_parent() -> None:
    """Let a worker end when its parent does, however that does (SIGKILL): it would wait for work without end."""
    end_in_order()
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class _Needed:
    """A path that the caller sees, and its size where it is a file."""

    path: str
    size: int | None

    @classmethod
    def of(cls, path: Path) -> _Needed:
        path = path.absolute()
        return cls(str(path), path.stat().st_size if path.is_file() else None)

    def require(self) -> None:
        path, who = Path(self.path), f"worker {_worker()}"
        if not path.exists():
            raise InputError(
                f"{who} does not see {path}; traces and outputs must lie in a folder that all machines share"
            )
        if self.size is not None and path.stat().st_size != self.size:
            raise InputError(f"{who} sees another file at {path} ({path.stat().st_size:,} bytes, not {self.size:,})")


def _worker() -> str:
    from distributed import get_worker

    return f"{get_worker().address} on {socket.gethostname()}"


def _task(function: Callable[[Any], Any], item: Any, needed: Sequence[_Needed], wanted: str) -> Any:
    if wanted != release():
        raise InputError(f"worker {_worker()} has release {release()}, the caller {wanted}; install the same one")
    for need in needed:
        need.require()
    return function(item)


def settle(path: Path) -> None:
    """Check that the caller sees what a task has written atomically, and remove what a worker that died left of it."""
    remove_left(path)
    if not path.exists():
        raise InputError(f"{path}: a worker wrote it and it is not here; all machines must share that folder")


class Dask:
    """The workers of a Dask cluster. A task whose worker dies runs again on another one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def workers(self) -> int:
        """Return how many tasks run side by side now."""
        return int(sum(self._client.nthreads().values()))

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        needs: Callable[[Item], Sequence[Path]] = lambda item: (),
    ) -> Iterator[tuple[int, Result]]:
        """Run the tasks, as of Executor. Raises InputError where a worker does not see what a task needs, where a task
        ended several workers, and where the scheduler goes away.
        """
        from distributed import as_completed
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        needed = [[_Needed.of(path) for path in needs(item)] for item in items]
        tasks = self._client.map(_task, [function] * len(items), items, needed, [release()] * len(items), pure=False)
        number = {task.key: k for k, task in enumerate(tasks)}
        ended = Event()
        Thread(target=self._tell_of_no_worker, args=(ended,), daemon=True).start()
        try:
            for task in as_completed(tasks):
                yield number[task.key], task.result()
                task.release()
        except KilledWorker as error:
            raise InputError(f"a task ended every worker that it ran on (memory?): {error.last_worker}") from error
        except (FutureCancelledError, CommClosedError) as error:
            raise InputError("the Dask scheduler is gone; run the command again: what is finished is kept") from error
        finally:
            ended.set()
            if self._client.status == "running":
                self._client.cancel(tasks)

    def _tell_of_no_worker(self, ended: Event) -> None:
        """Say it on stderr when the cluster has had no worker for a while: what it waits for may never come."""
        told = False
        while not ended.wait(NO_WORKER_S):
            try:
                workers = self._client.scheduler_info()["workers"]
            except (OSError, RuntimeError):  # the scheduler is gone, which `map` tells
                return
            if workers:
                told = False
            elif not told and self._client.status == "running":
                told = True
                tqdm.write(
                    "the cluster has no worker; waiting for one (a worker that ended says why in its log)", sys.stderr
                )


@contextmanager
def connect(scheduler: str | None, cluster: Path | None) -> Iterator[Dask | None]:
    """The cluster of the scheduler at an address (`tcp://HOST:PORT`), or one that a YAML file describes and that ends
    with the context; None where neither is given.

    The file has `kind` (slurm, pbs, lsf, sge, oar, moab, htcondor, or local: jobs that are processes of this machine,
    for a trial), `jobs`, and what dask-jobqueue's class of that kind takes (`cores`, `processes`, `memory`,
    `walltime`, `queue`, …). Raises InputError for a scheduler that does not answer, a wrong file, or without Dask.
    """
    if scheduler is None and cluster is None:
        yield None
        return
    if scheduler is not None and cluster is not None:
        raise InputError("--scheduler names a cluster that runs, --cluster starts one; give one of them")
    try:
        from distributed import Client
    except ImportError:
        raise InputError("Dask is not installed; pip install 'perfvec-toolkit[dask]'") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # `Dask.map` says in a line what went wrong
    with ExitStack() as stack:
        address: Any = scheduler if cluster is None else stack.enter_context(start_cluster(cluster))
        try:
            client = stack.enter_context(Client(address, timeout=CONNECT_S))
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {scheduler}; start one with `dask scheduler`") from error
        except (TypeError, RuntimeError, ImportError) as error:  # of a protocol that is not set up, as tls://
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"Dask cannot connect to {scheduler} ({reason}); give tcp://HOST:PORT") from error
        yield Dask(client)


def start_cluster(path: Path) -> Any:
    """The dask-jobqueue cluster that a YAML file describes (as of `connect`), its jobs submitted."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
        from dask_jobqueue.local import LocalCluster
    except ImportError:
        raise InputError("dask-jobqueue is not installed; pip install 'perfvec-toolkit[dask]'") from None
    if on_interrupt is not None:
        signal.signal(signal.SIGINT, on_interrupt)  # its import makes Ctrl-C an exit with status 0

    given = read_yaml(path, "description of a cluster")
    if not isinstance(given, dict):
        raise InputError(f"{path}: holds no mapping; kind, jobs, cores, memory, … are expected")
    options = {"scheduler_options": {"dashboard_address": ":0"}, **given}  # two may run on one machine
    kind, jobs = options.pop("kind", None), options.pop("jobs", 1)
    if kind not in (*_CLUSTERS, "local"):
        raise InputError(f"{path}: kind is {show(kind)}; one of {', '.join(_CLUSTERS)}, local is expected")
    if not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1:
        raise InputError(f"{path}: jobs is {show(jobs)}; a number of jobs, 1 or more, is expected")
    made = LocalCluster if kind == "local" else getattr(dask_jobqueue, _CLUSTERS[kind])
    try:
        cluster = made(**options)
        cluster.scale(jobs=jobs)
    except (TypeError, ValueError, OSError) as error:
        raise InputError(f"{path}: dask-jobqueue refuses it: {' '.join(str(error).split())[:200]}") from error
    return cluster
