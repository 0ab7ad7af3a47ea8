"""A command that is run under QEMU, and which of its instructions are recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from support.errors import InputError
from tracegen.qemu.region import Region

MOST_INSTRUCTIONS = 10**18  # that the tracer counts to


@dataclass(frozen=True)
class Execution:
    """A command with its standard streams, environment and folder (as of subprocess), and what of it is recorded.

    `skip` instructions are left out at the start, then at most `max_instructions` recorded, or only those of a
    `region`. Only the main thread is recorded unless `threads`; each thread has `skip`, `max_instructions` and
    executions of the region of its own. Raises InputError for what cannot be run or recorded.
    """

    command: Sequence[str | os.PathLike[str]]
    stdin: IO[Any] | int | None = None
    stdout: IO[Any] | int | None = None
    stderr: IO[Any] | int | None = None
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    max_instructions: int | None = None
    skip: int = 0
    threads: bool = False
    region: Region | None = None

    def __post_init__(self) -> None:
        if not self.command:
            raise InputError("no program to trace; give one after '--'")
        if self.max_instructions is not None and not 1 <= self.max_instructions <= MOST_INSTRUCTIONS:
            raise InputError(f"max_instructions is {self.max_instructions}; it must be from 1 to {MOST_INSTRUCTIONS:,}")
        if not 0 <= self.skip <= MOST_INSTRUCTIONS:
            raise InputError(f"skip is {self.skip}; it must be from 0 to {MOST_INSTRUCTIONS:,}")
        if self.skip and self.region is not None:
            raise InputError("skip counts instructions from the program's start; it does not go with a region")
