"""Models and machines as callers name them: a preset, a file, or the object; all presets where there is no machine.

Modules that are heavy are imported by the function that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from support.errors import InputError as Error

if TYPE_CHECKING:
    from perfvec.machines.machine_vector import MachineVector
    from perfvec.model import Model
    from uarch.configuration import Machine

    Named = str | os.PathLike[str] | Machine | MachineVector
    Machines = Named | Iterable[Named] | None
    Models = str | os.PathLike[str] | Model | None

_AnyMachine = TypeVar("_AnyMachine", bound="Machine | MachineVector")


def loaded_model(model: Models) -> Model:
    """Return the model: read from its file, the one that ships where none is named, or as it is. Raises Error."""
    from perfvec.model import Model, load_model

    return model if isinstance(model, Model) else load_model(model)


def predictable(model: Models, machines: Machines) -> list[Machine | MachineVector]:
    """Return machines by their names (all presets where there are none), fitted vectors too.

    A file whose machine has the name of another is named after the file. Raises Error where two still have one name.
    """
    from perfvec.machines.machine_vector import MachineVector, load_machine_vector

    def resolved(one: Named) -> Machine | MachineVector:
        if isinstance(one, MachineVector):
            return one
        if isinstance(one, str | os.PathLike) and os.fspath(one).endswith(".npz"):
            return load_machine_vector(one, loaded)
        return configured(one)

    loaded = loaded_model(model)
    return _told_apart(listed(machines), resolved)


def simulable(machines: Machines) -> list[Machine]:
    """Return machines by their names, all presets where there are none; names as of `predictable`.

    Raises Error for a machine that is known as a vector alone, and where two have one name.
    """
    return _told_apart(listed(machines), configured)


def _told_apart(given: Sequence[Named], load: Callable[[Named], _AnyMachine]) -> list[_AnyMachine]:
    """The machines under different names: a file's own where its machine repeats another's. Raises Error."""
    from analysis.parts.costs import require_names

    found = [load(one) for one in given]
    names = [machine.name for machine in found]
    for place, one in enumerate(given):
        if names.count(names[place]) > 1 and isinstance(one, str | os.PathLike) and Path(one).suffix:
            found[place] = replace(found[place], name=Path(one).stem)
    require_names([machine.name for machine in found])
    return found


def required(machines: Machines) -> list[Named]:
    """Return the machines as a list. Raises Error where none is named."""
    if machines is None:
        raise Error("say on which machine: --uarch A, and --uarch B to compare")
    return listed(machines)


def configured(one: Named) -> Machine:
    """Return a machine's configuration. Raises Error for one that is known as a vector alone."""
    from uarch.configuration import Machine
    from uarch.machine_files import load_machine

    if isinstance(one, Machine):
        return one
    if not isinstance(one, str | os.PathLike) or is_fitted(one):
        fitted = isinstance(one, str | os.PathLike) or hasattr(one, "vector")
        why = "a fitted vector cannot be simulated" if fitted else "is no machine"
        raise Error(f"{_told(one)}: {why}; name a preset or a YAML/JSON file")
    return load_machine(os.fspath(one))


def is_fitted(one: Named) -> bool:
    """Tell whether a machine is known as a vector alone."""
    from uarch.configuration import Machine

    return os.fspath(one).endswith(".npz") if isinstance(one, str | os.PathLike) else not isinstance(one, Machine)


def _told(one: Named) -> str:
    return os.fspath(one) if isinstance(one, str | os.PathLike) else getattr(one, "name", repr(one))


def values_of(field: str, values: Any) -> list[Any]:
    """Return the values of a varied field as a list of Python's own. Raises Error for what is no list."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise Error(f"vary: {field} = {values!r} must be a list of values, as [{values!r}]")
    return [value.item() if hasattr(value, "item") else value for value in values]


def listed(machines: Machines) -> list[Named]:
    """Return the machines as a list, all presets for None. Raises Error for a list of none."""
    if machines is None:
        from uarch.machine_files import preset_names

        return list(preset_names())
    found = list(machines) if isinstance(machines, Iterable) and not isinstance(machines, str) else [machines]
    if not found:
        raise Error("no machine: name one or more, or None for all presets")
    return found


def require_at_least(low: int, **given: int | None) -> None:
    """Raise Error unless each of these numbers is a whole one of at least `low`; None is no number."""
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise Error(f"{name} = {value!r} must be a whole number")
        if value < low:
            raise Error(f"{name} = {value} must be at least {low}")
