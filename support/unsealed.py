"""Files without a seal: refused, or tried in a process of its own where the user trusts them.

HDF5's library may crash, hang or fill the memory where a file is damaged. So all of an unsealed file is read once by a
child with limits on processor time and memory; only what it could read is opened here, where the readers check it as
any other. Time on the clock is not limited: it would refuse good files on a busy machine, and a regular file never
blocks.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from support.errors import InputError

if TYPE_CHECKING:
    import h5py  # the command line reads ALLOWED alone, and starts faster without

ALLOWED = "PERFVEC_UNSEALED"  # environment variable; the option --unsealed sets it, for workers too
_MEMORY = 1 << 30
CPU_S = 2  # a good file of a few MB takes a hundredth of it
_BYTES_PER_S = 20 << 20  # of a large file
CHILD = "import sys; sys.path[:] = sys.argv[3:]; from support.unsealed import child; child(*sys.argv[1:3])"
_BLOCK = 1 << 22  # elements


def require_readable(path: Path, what: str) -> None:
    """Raise InputError unless unsealed files are allowed and a child could read this one."""
    if not os.environ.get(ALLOWED):
        raise InputError(
            f"{path}: has no seal as {what} files have, so that damage in it cannot be told; add --unsealed "
            f"(in Python: set {ALLOWED}=1) if you trust who made it"
        )
    status = path.stat()
    if reason := _reason(str(path.absolute()), status.st_ino, status.st_size, status.st_mtime_ns):
        raise InputError(f"{path}: cannot be read as HDF5 ({reason}); expected a {what} file")


@cache
def _reason(path: str, _inode: int, size: int, _changed: int) -> str:
    """Return why a child could not read the file; empty where it could."""
    status, said = ended(path, CPU_S + size // _BYTES_PER_S)
    if status == -signal.SIGXCPU:
        return "it takes too long"
    if status < 0:
        return f"its library ends by signal {-status}"
    return " ".join(said.split())[:160] or f"status {status}" if status else ""


def ended(path: str, cpu_s: int) -> tuple[int, str]:
    """Status of a child that read the file within so much processor time, and what it said."""
    command = [sys.executable, "-c", CHILD, path, str(cpu_s), *sys.path]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # each thread would reserve memory
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout


def read_all(path: str) -> None:
    """Read every attribute and dataset of a file."""
    import h5py

    from support.stored import require_stored

    def read(item: h5py.Dataset | h5py.Group) -> None:
        for name in item.attrs:
            item.attrs[name]
        if isinstance(item, h5py.Dataset) and item.shape:
            require_stored(item)
            step = max(1, _BLOCK // max(1, item.size // max(1, len(item))))
            for begin in range(0, len(item), step):
                item[begin : begin + step]

    with h5py.File(path, "r", locking=False) as file:
        read(file)
        file.visititems(lambda _, item: read(item))


def child(path: str, cpu_s: str) -> None:
    """Read all of the file within the limits; end with status 1, and the reason on standard output, where it fails."""
    import h5py  # noqa: F401  # before the limits, which are for the file

    limit = math.ceil(time.process_time()) + int(cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))  # SIGXCPU, and a second later SIGKILL
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        read_all(path)
    except Exception as error:  # h5py's of all kinds
        print(str(error) or type(error).__name__)
        sys.exit(1)
