"""Configurations of models and parameters: YAML files, those of `configurations/` by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfvec.tensor.models import MODELS, make
from support.errors import InputError
from support.text import show
from support.yaml_files import read_yaml

FOLDER = Path(__file__).parent / "configurations"
DEFAULT = "two-cores"


@dataclass(frozen=True)
class Tuning:
    """Origin of tuned parameters: all but the test tasks of this split of the data of this digest."""

    data: str
    split: str
    seed: int
    test: float


@dataclass(frozen=True)
class Entry:
    """A model with parameters (those that are not its defaults), under a name of its own."""

    name: str
    model: str
    parameters: dict[str, Any] = field(default_factory=dict)
    tuned: Tuning | None = None


def read_entries(configuration: str | os.PathLike[str] | None = None) -> list[Entry]:
    """The entries of a configuration: a name of `configurations/` (by default `DEFAULT`), or a YAML file of that form.

    Raises InputError for a file that is not of that form, and for models and parameters that there are not.
    """
    configuration = configuration or DEFAULT
    path = FOLDER / f"{configuration}.yaml"
    if not path.is_file():
        path = Path(configuration)
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise InputError(f"{path}: no such configuration; name a YAML file or one of {names}")
    document = read_yaml(path, "configuration")
    models = document.get("models") if isinstance(document, dict) else None
    if not isinstance(models, list) or not models:
        raise InputError(f"{path}: expected a list of entries under 'models'")
    entries = []
    for index, values in enumerate(models):
        where = f"{path}: models[{index}]"
        if not isinstance(values, dict) or not isinstance(values.get("model"), str):
            raise InputError(f"{where}: expected {{name, model, parameters}}")
        unknown = set(values) - {"name", "model", "parameters", "tuned"}
        if unknown:
            field = show(min(unknown, key=str))
            raise InputError(f"{where}: no field {field}; there are name, model, parameters and tuned")
        parameters = values.get("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise InputError(f"{where}: parameters is a table of parameters, not {show(parameters)}")
        name, tuned = str(values.get("name", values["model"])), _tuning(values.get("tuned"), where)
        entry = Entry(name, values["model"], parameters or {}, tuned)
        make(entry.model, entry.parameters, where=where)
        entries.append(entry)
    names_seen = [entry.name for entry in entries]
    for name in names_seen:
        if names_seen.count(name) > 1:
            raise InputError(f"{path}: two entries are named {name!r}; names tell rows of the table apart")
    return entries


def _tuning(values: Any, where: str) -> Tuning | None:
    if values is None:
        return None
    kinds = {"data": str, "split": str, "seed": int, "test": float}
    if not isinstance(values, dict) or {name: type(value) for name, value in values.items()} != kinds:
        raise InputError(f"{where}: tuned is {{data, split, seed, test}}, as perfvec tensor autotune writes it")
    return Tuning(**values)


def choose(entries: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    """The entries with these names, in this order; a model that no entry is named as is that model as by default."""
    known = {entry.name: entry for entry in entries}
    chosen = []
    for name in dict.fromkeys(names):
        if name in known:
            chosen.append(known[name])
        elif name in MODELS:
            chosen.append(Entry(name, name))
        else:
            raise InputError(f"no model {name!r}; there are {', '.join(dict.fromkeys([*known, *MODELS]))}")
    return chosen
