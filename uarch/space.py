"""A design space as data (`uarch/spaces/*.yaml`) and machines sampled from it.

Points come from a scrambled Sobol sequence (Sobol' 1967; scrambling after Owen), which covers many dimensions more
evenly than independent draws; each dimension of the file uses one coordinate. The file's head says what a dimension
can be.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.stats import qmc

from uarch.configuration import Machine, machine_from_dict, nearest
from uarch.errors import InputError

SPACES = Path(__file__).parent / "spaces"
CORES = ("out-of-order", "in-order")


def space_names() -> list[str]:
    return sorted(path.stem for path in SPACES.glob("*.yaml"))


def load_space(name_or_path: str | Path) -> dict[str, Any]:
    """The content of a named space or of a YAML file. Raises InputError."""
    text = str(name_or_path)
    path = SPACES / f"{text}.yaml" if text in space_names() else Path(text)
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(
            f"unknown design space {text}{nearest(text, space_names())} (valid: {', '.join(space_names())})"
        )
    try:
        space = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"cannot read design space {path}: {' '.join(str(error).split())}") from None
    if not isinstance(space, dict) or not isinstance(space.get("fields"), dict):
        raise InputError(f"{path} is not a design space: it has no mapping `fields`")
    return space


def sample(n: int, seed: int = 0, space: str | Path = "default") -> list[Machine]:
    """`n` valid machines, named `s<seed>-000` on; the same for the same arguments, and a prefix of those for a larger
    `n`. Raises InputError.
    """
    if n < 0:
        raise InputError(f"number of machines = {n} must be at least 0")
    content = load_space(space)
    dimensions = 3 + max(sum(1 for _ in _dimensions(content, core)) for core in CORES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # balance properties want a power of two; any n is fine here
        points = qmc.Sobol(dimensions, scramble=True, seed=seed).random(n) if n else np.empty((0, dimensions))
    return [_machine(content, f"s{seed}-{k:03d}", point) for k, point in enumerate(points)]


def _dimensions(space: Mapping[str, Any], core: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    fields = space["fields"]
    for name, dimension in fields.items():
        if name not in (*CORES, "any"):
            yield name, dimension
    yield from fields.get(core, {}).items()
    yield from fields.get("any", {}).items()


def _machine(space: Mapping[str, Any], name: str, point: np.ndarray) -> Machine:
    core = "in-order" if point[0] < float(space.get("in_order_share", 0)) else "out-of-order"
    values: dict[str, Any] = {}
    for (field, dimension), coordinate in zip(_dimensions(space, core), point[3:], strict=False):
        try:
            values[field] = _value(field, dimension, float(coordinate), values)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"design space: dimension {field} is not understood ({type(error).__name__}: {error})"
            ) from None
    nested: dict[str, Any] = {"name": name, "core": core}
    for field, value in values.items():
        section, _, last = field.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[last] = value
    if point[1] >= float(space.get("l3_share", 1)):
        nested["l3"] = None
    if point[2] < float(space.get("simple_memory_share", 0)):
        nested["memory"] = nested["memory"] | {"model": "simple"}
    else:
        nested["memory"] = {"model": nested["memory"]["model"]}
    if nested["branch_predictor"]["kind"] == "none":
        nested["branch_predictor"] = {"kind": "none", "entries": 0, "btb_entries": 0, "ras_entries": 0}
    if nested["l3"] is not None and nested["l3"]["size_kib"] < nested["l2"]["size_kib"]:
        nested["l3"] = None  # a last level smaller than the one before it holds nothing of use
    return machine_from_dict(nested)


def _value(field: str, dimension: Mapping[str, Any], coordinate: float, values: Mapping[str, Any]) -> Any:
    """What `coordinate` in [0, 1) stands for."""
    if "choices" in dimension:
        choices = dimension["choices"]
        return choices[min(int(coordinate * len(choices)), len(choices) - 1)]
    low, high = float(dimension["low"]), float(dimension["high"])
    if "of" in dimension:
        whole = values[dimension["of"]]
        value = round((low + (high - low) * coordinate) * whole)
        return int(min(max(value, dimension.get("at_least", 1)), dimension.get("at_most", math.inf)))
    if dimension["scale"] == "log":
        number = low * (high / low) ** coordinate
        value = round(number)
    else:
        number = low + (high - low + 1) * coordinate  # whole steps of equal share
        value = min(int(number), int(high))
    rounding = dimension.get("round")
    if rounding == "power_of_two":
        return 1 << round(math.log2(number))
    if rounding == "sets":
        return _whole_sets(number, values[field.rpartition(".")[0] + ".associativity"])
    return value


def _whole_sets(size_kib: float, ways: int) -> int:
    """The nearest size of a whole number of KiB with a power of two of sets."""
    log_sets = round(math.log2(size_kib * 16 / ways))
    return max(ways * (1 << max(log_sets, 4)) // 16, 1)
