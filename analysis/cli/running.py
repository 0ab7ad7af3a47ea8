"""Programs that a command runs: their surroundings, the region of interest, how they ended."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import typer

from analysis.cli.options import (
    Cwd,
    Env,
    MaxInstructions,
    RegionFunction,
    RegionStart,
    RegionStop,
    RegionTimes,
    Skip,
    Stdin,
)
from support.errors import InputError

if TYPE_CHECKING:
    from tracegen.qemu import Execution, Region
    from tracegen.qemu.run import RunEnd


@dataclass(frozen=True)
class ProgramOptions:
    """The options of a program that a command runs."""

    max_instructions: MaxInstructions = None
    skip: Skip = 0
    region: RegionFunction = None
    start: RegionStart = None
    stop: RegionStop = None
    times: RegionTimes = None
    stdin: Stdin = None
    cwd: Cwd = None
    env: Env = None

    @contextmanager
    def execution(self, command: Sequence[str], *, threads: bool = False) -> Iterator[Execution]:
        """The command with these options, its standard input open. Raises InputError where they do not fit."""
        from tracegen.qemu import Execution

        wrong = [item for item in self.env or [] if "=" not in item]
        if wrong:
            raise InputError(f"--env {wrong[0]!r} must read NAME=VALUE")
        environment = {**os.environ, **dict(item.split("=", 1) for item in self.env)} if self.env else None
        if self.stdin is not None and not self.stdin.is_file():
            raise InputError(f"{self.stdin}: no such file for --stdin")
        with nullcontext() if self.stdin is None else self.stdin.open("rb") as given:
            yield Execution(
                command,
                stdin=given,
                env=environment,
                cwd=self.cwd,
                max_instructions=self.max_instructions,
                skip=self.skip,
                threads=threads,
                region=self._region(),
            )

    def _region(self) -> Region | None:
        from tracegen.qemu import Region, parse_place

        function, start, stop, times = self.region, self.start, self.stop, self.times
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


def runs_program(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a program, which its argument `program` takes."""
    own = inspect.signature(ProgramOptions, eval_str=True).parameters
    others = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "program"]
    parameters = [*others, *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.values())]

    @wraps(command)
    def with_program(*arguments: Any, **options: Any) -> None:
        command(*arguments, program=ProgramOptions(**{name: options.pop(name) for name in own}), **options)

    with_program.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_program.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_program


def leave_as(result: RunEnd | None, cut_short: str) -> None:
    """Exit as the traced program did, which `cut_short` tells of where a signal ended it; None: it was interrupted."""
    for line in result.lost if result is not None else ():
        print(line, file=sys.stderr)
    if result is None or result.interrupted:
        print("interrupted: what the program executed until then is recorded", file=sys.stderr)
        raise typer.Exit(130)
    if result.stopped:
        print("the program had not ended: what was asked for is recorded, and it was stopped", file=sys.stderr)
    if cut_short:
        print(cut_short, file=sys.stderr)
    if result.signal is not None and not result.stopped:
        raise typer.Exit(128 + result.signal)
    raise typer.Exit(result.exit_status or 0)
