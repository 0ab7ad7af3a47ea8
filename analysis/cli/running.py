"""Programs that a command runs: their surroundings, the region of interest, how they ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from support.errors import InputError

if TYPE_CHECKING:
    from tracegen.qemu import Region, TraceResult
    from tracegen.qemu.run import Outcome


@contextmanager
def surroundings(stdin: Path | None, cwd: Path | None, env: list[str] | None) -> Iterator[dict[str, Any]]:
    """Standard input, folder and environment of a program that is run."""
    import os

    wrong = [item for item in env or [] if "=" not in item]
    if wrong:
        raise InputError(f"--env {wrong[0]!r} must read NAME=VALUE")
    environment = {**os.environ, **dict(item.split("=", 1) for item in env)} if env else None
    if stdin is None:
        yield {"cwd": cwd, "env": environment}
        return
    if not stdin.is_file():
        raise InputError(f"{stdin}: no such file for --stdin")
    with stdin.open("rb") as given:
        yield {"stdin": given, "cwd": cwd, "env": environment}


def region_of(function: str | None, start: str | None, stop: str | None, times: int | None) -> Region | None:
    from tracegen.qemu import Region, parse_place

    if function is None and start is None and stop is None:
        if times is not None:
            raise InputError("--times counts executions of a region; give --region, or --from and --to")
        return None
    if function is not None and (start is not None or stop is not None):
        raise InputError("--region is a function, from its entry to its return; it does not go with --from or --to")
    first = function or start
    return Region(
        start=parse_place(first) if first else None,
        stop=parse_place(stop) if stop else None,
        returns=function is not None,
        times=times,
    )


def leave_as(result: TraceResult | Outcome) -> None:
    """Exit as the traced program did."""
    if result.replaced_by is not None:
        print(f"the program became {result.replaced_by} (exec), which is not traced: trace that one", file=sys.stderr)
    if result.stopped:
        print("the program had not ended: what was asked for is recorded, and it was stopped", file=sys.stderr)
    if result.interrupted:
        raise typer.Exit(130)
    if result.signal is not None and not result.stopped:
        raise typer.Exit(128 + result.signal)
    raise typer.Exit(result.exit_status or 0)
