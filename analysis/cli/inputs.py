"""Arguments of the command line: programs, models, machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from support.errors import InputError

if TYPE_CHECKING:
    from analysis.costs import Costs
    from analysis.simulate import Span
    from analysis.targets import Target
    from perfvec.model import Model
    from perfvec.representation.vector import ProgramVector
    from uarch.configuration import Machine


def resolve_targets(
    context: typer.Context, targets: Sequence[str] | None, model_file: Path | None, limit: int | None
) -> tuple[Model, list[ProgramVector]]:
    from analysis.targets import resolve
    from perfvec.model import load_model

    model = load_model(model_file)
    return model, resolve(model, targets or [], context.obj, max_instructions=limit)


@contextmanager
def opened_targets(
    context: typer.Context, targets: Sequence[str] | None, model_file: Path | None, limit: int | None,
    span: Span | None = None,
) -> Iterator[tuple[Model, list[Target]]]:  # fmt: skip
    """The model and the programs (`analysis.targets`); the trace of one that is traced now is there meanwhile."""
    from analysis.targets import targets_of
    from perfvec.model import load_model

    model = load_model(model_file)
    with targets_of(model, targets or [], context.obj, max_instructions=limit, span=span) as found:
        yield model, found


def machines_named(names: Sequence[str] | None) -> list[Machine]:
    from uarch.configuration import load_machine, preset_names

    return [load_machine(name) for name in (names or preset_names())]


def predictable_machines(names: Sequence[str] | None, model_file: Path | None) -> tuple[Model, Costs]:
    """The model, and what it predicts for machines that must be named: presets, files or fitted vectors."""
    from analysis.costs import predicted
    from perfvec.machines.machine_vector import load_predictable
    from perfvec.model import load_model

    if not names:
        raise InputError("say on which machine: --uarch A, and --uarch B to compare")
    model = load_model(model_file)
    machines = load_predictable(names, model)
    return model, predicted(model, machines)  # before the work, since a machine may be refused


def simulable_machines(names: Sequence[str] | None) -> list[Machine]:
    """Machines that must be named and have different names: presets or files.

    Raises InputError for a machine that is known as a vector alone.
    """
    from analysis.costs import require_names

    for name in names or []:
        if name.endswith(".npz"):
            raise InputError(f"{name}: a fitted vector cannot be simulated; name a preset or a YAML/JSON file")
    if not names:
        raise InputError("say on which machine: --uarch A, and --uarch B to compare")
    machines = machines_named(names)
    require_names([machine.name for machine in machines])
    return machines


def given(machine: Machine | None) -> Machine:
    assert machine is not None
    return machine
