"""The command line in this process: what a test asks that is not about the process itself."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, NamedTuple

from analysis.cli.main import main

INSTALLED = [sys.executable, "-m", "perfvec"]  # the command in a process of its own


class Done(NamedTuple):
    """Exit status, and what went to standard output and standard error, also from programs that were started."""

    returncode: int
    stdout: str
    stderr: str


def perfvec(*words: object) -> Done:
    """Run `perfvec WORDS…` here; imports and compiled code are there already."""
    status: object = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with _descriptor(1, out), _descriptor(2, err), redirect_stdout(out), redirect_stderr(err):
            try:
                main([os.fspath(word) if isinstance(word, Path) else str(word) for word in words])
            except SystemExit as ended:
                status = ended.code
        return Done(int(str(status or 0)), _text(out), _text(err))


def succeeding(*words: object) -> str:
    """Run a command that has to succeed; its standard output."""
    done = perfvec(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _descriptor(number: int, file: IO[str]) -> Iterator[None]:
    """Let programs that are started write to the file too."""
    kept = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        file.flush()
        os.dup2(kept, number)
        os.close(kept)


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
