"""The child that reads an unsealed file first (support/unsealed.py), as a fork of a process that has h5py already.

Starting Python for each of ten thousand files would take an hour. Nothing else differs: the same function within the
same limits, in a process that no case shares.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_LONGEST = 1 << 16


class Forked:
    """A stand-in for `support.unsealed.ended`."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.fuzz.forked"]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], env=environment
        )
        self.seconds = 0.0  # of processor time that children took

    def __call__(self, path: str, cpu_s: int) -> tuple[int, str]:
        """Return the child's exit status and its output, as `ended` does."""
        ask, answer = self._server.stdin, self._server.stdout
        assert ask is not None and answer is not None
        ask.write(f"{cpu_s}\t{path}\n".encode())
        ask.flush()
        status, seconds, said = answer.readline().decode(errors="replace").split("\t", 2)
        self.seconds += float(seconds)
        return int(status), said

    def close(self) -> None:
        """End the process that forks."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()


def _serve() -> None:
    import h5py  # noqa: F401  # before the forks

    from support.unsealed import child

    for line in sys.stdin:
        cpu_s, path = line.rstrip("\n").split("\t", 1)
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            status = 70
            try:
                os.dup2(writing, 1)
                os.close(reading)
                child(path, cpu_s)
                status = 0
            except SystemExit as end:
                status = int(str(end.code))
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            said = stream.read(_LONGEST)
        _, ended, took = os.wait4(process, 0)
        words = " ".join(said.decode(errors="replace").split())
        print(os.waitstatus_to_exitcode(ended), took.ru_utime + took.ru_stime, words, sep="\t", flush=True)


if __name__ == "__main__":
    _serve()
