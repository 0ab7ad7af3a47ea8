"""Arguments of the command line: programs, models, machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from analysis.programs.span import Span
    from analysis.programs.targets import Target
    from perfvec.model import Model
    from uarch.configuration import Machine


@contextmanager
def opened_targets(
    context: typer.Context, targets: Sequence[str] | None, model: Model, limit: int | None, span: Span | None = None
) -> Iterator[list[Target]]:
    """The programs (`analysis.programs.targets`); the trace of one that is traced now is there meanwhile."""
    from analysis.programs.targets import targets_of

    with targets_of(model, targets or [], context.obj, max_instructions=limit, span=span) as found:
        yield found


def machines_named(names: Sequence[str]) -> list[Machine]:
    from uarch.machine_files import load_machine

    return [load_machine(name) for name in names]
