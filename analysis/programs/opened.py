"""Traces that a question takes apart: opened where they are files, and refused where they are not whole; of a program,
made now.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import LivePoints, is_live_points
from tracegen.qemu import Execution, runner


@contextmanager
def opened(trace: Trace | LivePoints | str | os.PathLike[str]) -> Iterator[Trace]:
    """The trace, opened where it is a path. Raises InputError for a vector, which cannot be taken apart."""
    if isinstance(trace, Trace):
        yield trace
        return
    if not isinstance(trace, LivePoints) and Path(trace).name.endswith(".npz"):
        raise InputError(f"{trace}: a vector is a sum that cannot be taken apart; give the trace (*.trace.h5)")
    if isinstance(trace, LivePoints) or is_live_points(trace):
        name = trace.name if isinstance(trace, LivePoints) else trace
        raise InputError(
            f"{name}: live-points are simulated (--budget above 0); for the model give the trace (*.trace.h5)"
        )
    with Trace(trace) as file:
        yield file


@contextmanager
def traced(command: Sequence[str], *, max_instructions: int | None = None) -> Iterator[Path]:
    """A program's trace, made now in a temporary folder; what it prints goes to stderr, beside the progress."""
    with tempfile.TemporaryDirectory(prefix="perfvec-") as folder:
        path = Path(folder) / f"{Path(command[0]).name}.trace.h5"
        made = runner.trace(Execution(command, stdout=2, max_instructions=max_instructions), path)
        for line in made.unrecorded:
            print(f"perfvec: {line}", file=sys.stderr)
        yield path
