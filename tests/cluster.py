"""A Dask cluster as on several machines: a scheduler and workers, processes of their own, started by their commands."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

# A worker is a fork of a process that has imported what most tasks need: each that is killed would import it again.
_FORKED = """
from multiprocessing import set_forkserver_preload
from distributed.utils import get_mp_context
get_mp_context()  # has a list of its own
set_forkserver_preload(
    ["distributed", "tracegen.label", "tracegen.suite.tracing", "perfvec.representation.distributed"]
)
"""


@contextmanager
def workers(count: int) -> Iterator[str]:
    """Address of a scheduler with so many workers of one thread; their nannies start them again where they die."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",  # a task ends two workers, not four
        "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    scheduler = f"scheduler --host 127.0.0.1 --port {port} --no-dashboard --no-show".split()
    worker = f"worker {address} --nworkers {count} --nthreads 1 --no-dashboard --local-directory /tmp".split()
    processes = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{command}", *options], **quiet)
        for command, *options in (scheduler, [*worker, "--preload-nanny", _FORKED])
    ]
    try:
        from distributed import Client

        with Client(address, timeout=60) as client:
            client.wait_for_workers(count, timeout=120)
        yield address
    finally:
        for process in reversed(processes):  # the workers first: those whose scheduler goes wait for it
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:  # a nanny that was at starting a worker again
                process.kill()
                process.wait()


@contextmanager
def one_killed(address: str, when: Callable[[], object]) -> Iterator[list[int]]:
    """SIGKILL to a worker that is at work as soon as `when` is true; its process id, on the way out."""
    from distributed import Client

    killed: list[int] = []

    def watch() -> None:
        with Client(address, timeout=60) as client:
            process = client.run(os.getpid)
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and not killed:
                if when():
                    for worker in [worker for worker, tasks in client.processing().items() if tasks][:1]:
                        if worker not in process:  # one that took the place of another
                            process = client.run(os.getpid)
                        os.kill(process[worker], signal.SIGKILL)
                        killed.append(process[worker])
                time.sleep(0.002)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        watcher.join()
