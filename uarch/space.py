"""A design space as data (`uarch/spaces/*.yaml`) and machines sampled from it.

Points come from a scrambled Sobol sequence (Sobol' 1967; scrambling after Owen), which covers many dimensions more
evenly than independent draws, or from Latin hypercubes (McKay, Beckman & Conover, Technometrics 1979), which cover each
single dimension evenly; each dimension of the file uses one coordinate. The head of `spaces/default.yaml` says what a
file holds.
"""

from __future__ import annotations

import math
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from support.errors import InputError
from support.text import nearest, show
from support.yaml_files import read_yaml
from uarch.configuration import Machine, RelationError, check_value, flatten, machine_from_dict
from uarch.constraints import CORES, FIELDS, NO_PREDICTOR, Rule, rules_of
from uarch.expression import Expression, parse
from uarch.machine_files import load_machine

SPACES = Path(__file__).parent / "spaces"
METHODS = ("sobol", "lhs")
_SHARES = ("in_order_share", "l3_share", "simple_memory_share")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Constraint:
    """A comparison that every machine of a space meets. Machines without one of its fields meet it, unless it is of a
    cost, to which such a field adds nothing.
    """

    text: str
    left: Expression
    comparison: str
    right: Expression
    of_cost: bool = False

    @property
    def names(self) -> list[str]:
        """The fields that it compares."""
        return list(dict.fromkeys(self.left.names + self.right.names))

    def holds(self, machine: Mapping[str, Any]) -> Any:
        """Return whether the constraint holds for a machine as a flat mapping of dotted names to values, or of many as
        columns.
        """
        if not self.of_cost and any(name not in machine for name in self.names):
            return True
        values = {name: np.asarray(machine.get(name, np.nan), np.float64) for name in self.names}
        if self.of_cost:
            values = {name: np.nan_to_num(value) for name, value in values.items()}
        left, right = self.left.value(values), self.right.value(values)
        return np.logical_or(np.isnan(left + right), _COMPARISONS[self.comparison](left, right))


@dataclass(frozen=True)
class Space:
    """A checked design space. `dimensions` are by the core that has them (`any`: both), in the file's order."""

    name: str
    description: str
    base: str | None
    shares: Mapping[str, float]
    dimensions: Mapping[str, Mapping[str, Mapping[str, Any]]]
    constraints: tuple[Constraint, ...]

    @property
    def varied(self) -> list[str]:
        """Fields that differ between its machines."""
        named = {name: dimension for group in self.dimensions.values() for name, dimension in group.items()}
        return [name for name, dimension in named.items() if len(set(dimension.get("choices", (0, 1)))) > 1]

    @property
    def keeps_memory(self) -> bool:
        """Tell whether a machine's kind of memory is its base's, simple or a named DRAM."""
        named = any("memory.model" in group for group in self.dimensions.values())
        return not named and "simple_memory_share" not in self.shares

    @property
    def coordinates(self) -> int:
        """Number of coordinates of a point: core, L3 and memory, and the core with more dimensions."""
        return 3 + max(sum(1 for _ in self.of_core(core)) for core in CORES)

    def of_core(self, core: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Field and dimension, in the order of the coordinates."""
        for group in ("every", core, "any"):
            yield from self.dimensions[group].items()


def space_names() -> list[str]:
    return sorted(path.stem for path in SPACES.glob("*.yaml"))


def load_space(name_or_path: str | Path) -> Space:
    """A named space or that of a YAML file, checked. Raises InputError."""
    text = str(name_or_path)
    if text in space_names():
        return _named(text)
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(
            f"unknown design space {text}{nearest(text, space_names())} (valid: {', '.join(space_names())})"
        )
    return _read(path)


@cache  # whoever draws machines for thousands of windows asks for one each time
def _named(name: str) -> Space:
    return _read(SPACES / f"{name}.yaml")


def _read(path: Path) -> Space:
    content = read_yaml(path, "design space")
    if not isinstance(content, Mapping) or not isinstance(content.get("fields"), Mapping):
        raise InputError(f"{path} is not a design space: it has no mapping `fields`")
    return _space(f"design space {path}", path.stem, content)


def sample(
    n: int, seed: int = 0, space: str | Path = "default", method: str = "sobol", base: str | Path | None = None
) -> list[Machine]:
    """`n` valid machines of a space, the same for the same arguments; `base` is the machine for fields that the space
    leaves alone, by default the space's own. Points that break a constraint, or make a machine that cannot exist, are
    passed over and the next ones drawn. With `sobol` a smaller `n` gives a prefix; `lhs` spreads exactly `n` points.
    Raises InputError.
    """
    if n < 0 or seed < 0:
        raise InputError(f"number of machines = {n} and seed = {seed} must be at least 0")
    if method not in METHODS:
        raise InputError(f"method = {method} must be one of {', '.join(METHODS)}{nearest(method, METHODS)}")
    content = load_space(space)
    start = base_of(content, base)
    prefix = "" if content.name == "default" else f"{content.name}-"
    prefix += f"{'s' if method == 'sobol' else 'lhs'}{seed}"
    found: list[Machine] = []
    drawn, reason = 0, ""
    for point in _points(content, n, seed, method):
        if len(found) == n:
            break
        if drawn >= 100 * n + 1000:
            raise InputError(
                f"design space {content.name}: only {len(found)} of {drawn} points make a machine (the last did not: "
                f"{reason}); loosen its constraints"
            )
        drawn += 1
        try:
            machine = _machine(content, f"{prefix}-{len(found):03d}", point, start)
        except RelationError as error:
            reason = str(error)
            continue
        flat = flatten(machine.to_dict())
        broken = next((one for one in content.constraints if not one.holds(flat)), None)
        if broken is None:
            found.append(machine)
        else:
            reason = broken.text
    return found


def sample_pairs(n: int, seed: int = 0, space: str | Path = "default") -> list[Machine]:
    """`n` machines of a space, the same for the same arguments: of each two the second is the first with another value
    of one field, which a third machine of the space has. What a change of one field costs is learned from them. Raises
    InputError.
    """
    drawn = sample(n, seed, space)
    generator = np.random.default_rng(seed)
    fields = load_space(space).varied
    found: list[Machine] = []
    for first in drawn[: -(-n // 2)]:
        found += [first, neighbour(first, drawn, fields, generator)]
    return found[:n]


def neighbour(machine: Machine, others: list[Machine], fields: list[str], generator: np.random.Generator) -> Machine:
    """`machine` with another one's value of a field, both drawn at random until they make a machine."""
    flat = flatten(machine.to_dict())
    for _ in range(1000):
        other = flatten(others[int(generator.integers(len(others)))].to_dict())
        field = fields[int(generator.integers(len(fields)))]
        if field not in flat or other.get("core") != flat["core"] or other.get(field, flat[field]) == flat[field]:
            continue
        values = machine.to_dict() | {"name": f"{machine.name}-{field}"}
        section, _, last = field.rpartition(".")
        if section:
            values[section] = values[section] | {last: other[field]}
        else:
            values[last] = other[field]
        try:
            return machine_from_dict(values)
        except InputError:  # that value does not go with the others
            continue
    raise InputError(f"no machine differs from {machine.name} in one field; sample more machines")


def base_of(space: Space, base: str | Path | Machine | None) -> Machine | None:
    """The machine whose fields a space leaves alone: `base`, else the space's own, else none. Raises InputError."""
    name = base if base is not None else space.base
    start = name if name is None or isinstance(name, Machine) else load_machine(name)
    if start is not None and not any(space.of_core(start.core)):
        raise InputError(f"design space {space.name} varies nothing of {start.name}, whose core is {start.core}")
    return start


def ranges(space: Space, base: str | Path | Machine | None = None) -> dict[str, tuple[float, float]]:
    """The least and the greatest value that each field has on the space's machines, by dotted name; `field = name`, as
    `core = in-order`, is (1, 1) where a machine may hold the name.

    What a machine encoder was trained for is read from here too (`perfvec.machines.encoder`), so that it knows every
    machine that `sample` gives. Bounds by construction: constraints may keep machines from reaching them.
    """
    start = base_of(space, base)
    found: dict[str, tuple[float, float]] = {}

    def add(field: str, *values: Any) -> None:
        for value in values:
            if field == "name" or value is None:
                continue
            name, number = (f"{field} = {value}", 1.0) if isinstance(value, str) else (field, float(value))
            low, high = found.get(name, (number, number))
            found[name] = min(low, number), max(high, number)

    share = space.shares.get("in_order_share", 0)
    cores = [start.core] if start is not None else [CORES[0]] * (share < 1) + [CORES[1]] * (share > 0)
    for core in cores:
        dimensions = dict(space.of_core(core))
        known: dict[str, list[Any]] = {"core": [core]}
        if start is not None:
            known |= {field: [value] for field, value in flatten(start.to_dict()).items()}
        for field, dimension in dimensions.items():
            known[field] = _extremes(field, dimension, known)
        if "none" in known.get("branch_predictor.kind", []):
            for field in ("entries", "btb_entries", "ras_entries"):
                known[f"branch_predictor.{field}"] = [0, *known.get(f"branch_predictor.{field}", [])]
        simple = space.shares.get("simple_memory_share", 0)
        if space.keeps_memory and known.get("memory.model") == ["simple"]:
            simple = 1
        if any(field.startswith("memory.") for field in dimensions):
            known["memory.model"] = [*known.get("memory.model", []) * (simple < 1), *["simple"] * (simple > 0)]
            for field in ("memory.latency_ns", "memory.bandwidth_gbs"):
                known[field] = known.get(field, []) * (simple > 0)
        for field, values in known.items():
            if not (field.startswith("l3.") and space.shares.get("l3_share", 1) == 0):
                add(field, *values)
    return found


def _extremes(field: str, dimension: Mapping[str, Any], known: Mapping[str, list[Any]]) -> list[Any]:
    """Values of a field that no other goes beyond; all of them where it has choices."""
    if "choices" in dimension:
        return list(dimension["choices"])
    others = []  # fields that its own value depends on, each at its extremes
    if "of" in dimension:
        others.append(dimension["of"])
    if dimension.get("round") == "sets":
        others.append(field.rpartition(".")[0] + ".associativity")
    values = [  # a value never falls with its coordinate
        _value(field, dimension, coordinate, dict(zip(others, combination, strict=True)))
        for coordinate in (0.0, math.nextafter(1, 0))
        for combination in product(*(known[other] for other in others))
    ]
    return [min(values), max(values)]


def _points(space: Space, n: int, seed: int, method: str) -> Iterator[np.ndarray]:
    """Points without end, each with one coordinate in [0, 1) for core, L3, memory and every dimension."""
    if n == 0:
        return
    from scipy.stats import qmc  # takes most of a second, which every command would wait for

    dimensions = space.coordinates
    if method == "sobol":
        sequence = qmc.Sobol(dimensions, scramble=True, seed=seed)
    else:
        sequence = qmc.LatinHypercube(dimensions, seed=seed)
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # balance properties want a power of two; any n is fine here
            points = sequence.random(n)
        yield from points


def _machine(space: Space, name: str, point: np.ndarray, base: Machine | None) -> Machine:
    core = "in-order" if point[0] < space.shares.get("in_order_share", 0) else "out-of-order"
    if base is not None:
        core = base.core
    nested: dict[str, Any] = base.to_dict() if base is not None else {}
    known = flatten(nested)
    values: dict[str, Any] = {}
    for (field, dimension), coordinate in zip(space.of_core(core), point[3:], strict=False):
        try:
            values[field] = _value(field, dimension, float(coordinate), known | values)
        except KeyError as error:
            raise InputError(
                f"design space {space.name}: {field} needs {error.args[0]}, which comes later or never"
            ) from None
    nested |= {"name": name, "core": core}
    for field, value in values.items():
        section, _, last = field.rpartition(".")
        if section and not isinstance(nested.get(section), dict):
            nested[section] = {}
        (nested[section] if section else nested)[last] = value
    if point[1] >= space.shares.get("l3_share", 1):
        nested["l3"] = None
    if any(field.startswith("memory.") for field in values):
        kept = space.keeps_memory and nested["memory"].get("model") == "simple"
        if kept or point[2] < space.shares.get("simple_memory_share", 0):
            nested["memory"] = nested["memory"] | {"model": "simple"}
        else:
            nested["memory"] = {"model": nested["memory"].get("model")}
    if nested.get("branch_predictor", {}).get("kind") == "none":
        nested["branch_predictor"] = NO_PREDICTOR
    if nested.get("l3") and "l2" in nested and nested["l3"].get("size_kib", 0) < nested["l2"].get("size_kib", 0):
        nested["l3"] = None  # a last level smaller than the one before it holds nothing of use
    return machine_from_dict(nested)


def _value(field: str, dimension: Mapping[str, Any], coordinate: float, values: Mapping[str, Any]) -> Any:
    """Return the value that `coordinate` in [0, 1) stands for."""
    if "choices" in dimension:
        choices = dimension["choices"]
        return choices[min(int(coordinate * len(choices)), len(choices) - 1)]
    low, high = float(dimension["low"]), float(dimension["high"])
    if "of" in dimension:
        whole = values[dimension["of"]]
        value = round((low + (high - low) * coordinate) * whole)
        return int(min(max(value, dimension.get("at_least", 1)), dimension.get("at_most", math.inf)))
    if "step" in dimension:
        steps = int((high - low) / dimension["step"] + 1e-9) + 1
        stepped = dimension["low"] + min(int(coordinate * steps), steps - 1) * dimension["step"]
        return stepped if isinstance(stepped, int) else round(stepped, 9)
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


# Checks of a file


def _space(where: str, name: str, content: Mapping[str, Any]) -> Space:
    known = ["description", "base", *_SHARES, "constraints", "fields"]
    for key in content:
        if key not in known:
            raise InputError(f"{where}: unknown entry {show(key)}{nearest(key, known) or _valid(known)}")
    description, base = content.get("description", ""), content.get("base")
    for key, value in (("description", description), ("base", base)):
        if not isinstance(value, str) and not (key == "base" and value is None):
            raise InputError(f"{where}: {key} = {show(value)} must be a text")
    shares = {key: _number(where, key, content[key], 0, 1) for key in _SHARES if key in content}
    dimensions: dict[str, dict[str, Mapping[str, Any]]] = {"every": {}, **{core: {} for core in CORES}, "any": {}}
    for field, value in content["fields"].items():
        group = field if field in (*CORES, "any") else "every"
        if group != "every" and not isinstance(value, Mapping):
            raise InputError(f"{where}: fields.{field} = {show(value)} must be a mapping of fields")
        for one, dimension in (value if group != "every" else {field: value}).items():
            _check_dimension(where, one, dimension)
            dimensions[group][one] = dimension
    constraints = content.get("constraints", [])
    if not isinstance(constraints, list):
        raise InputError(f"{where}: constraints = {show(constraints)} must be a list of comparisons")
    parsed = tuple(parse_constraint(where, text) for text in constraints)
    return Space(name, " ".join(description.split()), base, shares, dimensions, parsed)


_KEYS = {
    "choices": ({"choices"}, set()),
    "of": ({"of", "low", "high"}, {"at_least", "at_most"}),
    "scale": ({"scale", "low", "high"}, {"round", "step"}),
}


def _check_dimension(where: str, field: Any, dimension: Any) -> None:
    rule = _rule(where, field)
    if not isinstance(dimension, Mapping):
        raise InputError(f"{where}: {field} = {show(dimension)} must be a mapping with choices, or low and high")
    kind = next((key for key in _KEYS if key in dimension), None)
    if kind is None:
        raise InputError(f"{where}: {field} = {show(dict(dimension))} must have choices, scale or of")
    needed, optional = _KEYS[kind]
    for key in dimension:
        if key not in needed | optional:
            raise InputError(f"{where}: {field}: unknown entry {show(key)}{_valid(sorted(needed | optional))}")
    for key in needed - dimension.keys():
        raise InputError(f"{where}: {field}.{key} is missing")
    if kind == "choices":
        choices = dimension["choices"]
        if not isinstance(choices, list) or not choices:
            raise InputError(f"{where}: {field}.choices = {show(choices)} must be a list of at least one value")
        for one in choices:  # here, as sizes of caches are computed with what is drawn
            check_value(where, f"{field}.choices", one, rule)
        return
    if rule.type is str:
        raise InputError(f"{where}: {field} is a name: give it choices, not a range")
    bounds = (rule.low, rule.high) if kind == "scale" else (-math.inf, math.inf)
    low = _number(where, f"{field}.low", dimension["low"], *bounds)
    high = _number(where, f"{field}.high", dimension["high"], low, bounds[1])
    if kind == "of":
        if _rule(where, dimension["of"]).type is str:
            raise InputError(f"{where}: {field}.of = {dimension['of']} is a name, of which there is no share")
        for key in optional & dimension.keys():
            _number(where, f"{field}.{key}", dimension[key], rule.low, rule.high)
        return
    if dimension["scale"] not in ("log", "linear"):
        raise InputError(f"{where}: {field}.scale = {show(dimension['scale'])} must be log or linear")
    if dimension["scale"] == "log" and low <= 0:
        raise InputError(f"{where}: {field}.low = {low:g} must be above 0 on a log scale")
    if "step" not in dimension and (low % 1 or high % 1):
        raise InputError(
            f"{where}: {field}: without a step its values are whole numbers, which {low:g} to {high:g} is no range of; "
            "give it scale: linear and a step, or choices"
        )
    rounding = dimension.get("round")
    if rounding not in (None, "power_of_two", "sets"):
        raise InputError(f"{where}: {field}.round = {show(rounding)} must be power_of_two or sets")
    if rounding == "sets" and not str(field).endswith(".size_kib"):
        raise InputError(f"{where}: {field}.round = sets is for the size_kib of a cache")
    if rounding is not None and low <= 0:
        raise InputError(f"{where}: {field}.low = {low:g} must be above 0 to be rounded")
    if "step" in dimension:
        if dimension["scale"] != "linear" or rounding is not None:
            raise InputError(f"{where}: {field}.step needs scale: linear and no round")
        step = _number(where, f"{field}.step", dimension["step"])
        if step <= 0 or (high - low) / step > 1e9:
            raise InputError(f"{where}: {field}.step = {show(dimension['step'])} must be above 0, and divide the range")


def _rule(where: str, field: Any) -> Rule:
    """The rule of a dotted field; those of `pipeline` belong to a core."""
    if str(field) not in FIELDS:
        raise InputError(f"{where}: unknown field {show(field)}{nearest(field, FIELDS) or _valid(FIELDS)}")
    return rules_of(str(field))[0]


def _number(where: str, what: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
    if not good or not low <= value <= high:
        bound = f" from {low:g} to {high:g}" if high < math.inf else f" of at least {low:g}" if low > -math.inf else ""
        raise InputError(f"{where}: {what} = {show(value)} must be a number{bound}")
    return value


_COMPARISON = re.compile("(" + "|".join(sorted(_COMPARISONS, key=len, reverse=True)) + ")")


def parse_constraint(where: str, text: Any, cost: Expression | None = None) -> Constraint:
    """`2 * l1d.size_kib + l2.size_kib <= 1200`: arithmetic over fields on both sides, in which `cost` stands for that
    expression where it is given. `where` begins the error's line. Raises InputError.
    """
    parts = _COMPARISON.split(text) if isinstance(text, str) else []
    if len(parts) != 3:
        raise InputError(
            f"{where}: constraint {show(text)} must read EXPRESSION, one of {' '.join(_COMPARISONS)}, EXPRESSION: "
            "l3.size_kib >= 2 * l2.size_kib"
        )
    sides, of_cost = [], False
    for part in (parts[0], parts[2]):
        side = parse(part, f"{where}: constraint {show(text)}")
        of_cost |= "cost" in side.names
        if cost is not None:
            side = side.replaced("cost", cost)
        elif "cost" in side.names:
            raise InputError(f"{where}: constraint {show(text)}: what is the cost? Say it with --cost EXPRESSION")
        for field in side.names:
            if _rule(where, field).type is str:
                raise InputError(f"{where}: constraint {show(text)}: {field} is a name and cannot be compared")
        sides.append(side)
    return Constraint(" ".join(str(text).split()), sides[0], parts[1], sides[1], of_cost)


def _valid(names: Iterable[str]) -> str:
    return f" (valid: {', '.join(names)})"
