"""A machine as a value: frozen dataclasses, validation, and reading or replacing one field by its dotted name.

The field names are those of the latency files (`uarch` there); `Machine.to_dict` gives back exactly what
`machine_from_dict` read. What a field may hold is in `uarch.constraints`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from support.errors import InputError
from support.text import name_of, nearest, show
from uarch.constraints import (
    FIELDS,
    FIXED,
    GEM5,
    LRU,
    MEMORY,
    RELATIONS,
    RULES,
    SMALL_PAGE,
    TARGET_TABLE,
    VIRTUAL,
    Rule,
    memory_models,
    rules_of,
)
from uarch.formula import is_power_of_two


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass, in its order."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _value(held: Any) -> Any:
    """The value of a field of a machine; of a section a mapping."""
    if held is None or isinstance(held, str | int | float):
        return held
    return {name: getattr(held, name) for name in _names(held.__class__)}


@dataclass(frozen=True)
class OutOfOrderPipeline:
    """Widths in micro-operations a cycle, delays in stages, queue sizes in entries."""

    fetch_width: int
    decode_width: int
    rename_width: int
    issue_width: int
    commit_width: int
    frontend_delay: int  # fetch to decode
    dispatch_delay: int  # rename to issue queue
    rob_entries: int
    issue_queue_entries: int
    load_queue_entries: int
    store_queue_entries: int
    int_registers: int
    fp_registers: int


@dataclass(frozen=True)
class InOrderPipeline:
    width: int
    frontend_delay: int
    memory_width: int  # memory instructions issued a cycle
    store_buffer: int
    memory_in_flight: int


@dataclass(frozen=True)
class FunctionalUnits:
    """Number of units of each kind, and latencies in cycles.

    `div_latency` is that of gem5's IntDiv: a whole division of AArch64 and RISC-V, but one step of the seven and more
    that its microcode takes for a division of x86-64. `div_step_latency`, which a machine need not have, is such a
    step's own, so that a machine divides in as many cycles as its silicon whatever the instruction set; its steps are
    then those that are assumed, whatever a trace tells.
    """

    int_alu: int
    int_mul: int
    fp_add: int
    fp_mul: int
    simd: int
    load_ports: int
    store_ports: int
    mul_latency: int
    div_latency: int
    fp_add_latency: int
    fp_mul_latency: int
    fp_div_latency: int
    div_step_latency: int | None = None

    def int_div_latency(self, isa: str) -> int:
        """Cycles of gem5's IntDiv for programs of an instruction set."""
        return self.div_step_latency if isa == "x86-64" and self.div_step_latency is not None else self.div_latency


@dataclass(frozen=True)
class BranchPredictor:
    kind: str
    entries: int
    btb_entries: int
    ras_entries: int
    indirect: str = TARGET_TABLE  # what predicts the targets of indirect jumps and calls


@dataclass(frozen=True)
class Cache:
    size_kib: int
    associativity: int
    latency: int  # cycles of a hit in this level alone
    mshrs: int  # outstanding misses
    prefetcher: str
    replacement: str = LRU
    fill_cycles: int = 1  # from one line that comes into it to the next, at least
    set_fill_cycles: int = 1  # the same, of lines of one set


@dataclass(frozen=True)
class Tlb:
    """Translation, for data and for instructions each."""

    entries: int
    l2_entries: int
    l2_latency: int  # cycles of a miss that the second level knows
    walk_latency: int  # cycles more where it does not
    page_kib: int = SMALL_PAGE  # of data; code has pages of 4 KiB
    walk: str = FIXED  # caches: the page table is read through them, which takes its time besides walk_latency


@dataclass(frozen=True)
class SystemCalls:
    """Cycles in the kernel of a system call, by its kind (uarch/system_calls.yaml); None: as `default`."""

    default: int = 0
    read: int | None = None
    write: int | None = None
    open: int | None = None
    close: int | None = None
    stat: int | None = None
    getdents: int | None = None
    mmap: int | None = None
    munmap: int | None = None
    mprotect: int | None = None
    brk: int | None = None
    clock: int | None = None


@dataclass(frozen=True)
class SimpleMemory:
    """Fixed latency and bandwidth."""

    latency_ns: float
    bandwidth_gbs: float  # of 2**30 bytes, as gem5's
    model: str = "simple"


@dataclass(frozen=True)
class DramMemory:
    """A named DRAM of `uarch/dram.yaml`."""

    model: str


@dataclass(frozen=True)
class Machine:
    """A machine: the fields of a configuration file, under the same names (docs/reference/configuration.md).

    >>> import perfvec as pv
    >>> machine = pv.machine("zen4")
    >>> machine.l2.size_kib, machine.with_(l2__size_kib=2048).l2.size_kib
    (1024, 2048)
    """

    name: str
    core: str
    frequency_ghz: float
    pipeline: OutOfOrderPipeline | InOrderPipeline
    functional_units: FunctionalUnits
    branch_predictor: BranchPredictor
    l1i: Cache
    l1d: Cache
    l2: Cache
    l3: Cache | None
    memory: SimpleMemory | DramMemory
    microcode: str = GEM5  # whose micro-operations: gem5's, or a real family's (tracegen/decode/native)
    tlb: Tlb | None = None  # None: 64 entries, whose misses cost nothing
    frames: str = VIRTUAL  # the physical pages that caches see: the virtual ones, or as the kernel hands them out
    first_touch: str = MEMORY  # where a store finds a page never touched before; cache: the kernel has just zeroed it
    indirect_delay: int | None = None  # cycles until the target of a return or of a retargeted jump is known; None: 0
    call_delay: int | None = None  # cycles by which a call and a return put fetch off; None: a return `indirect_delay`
    taken_branches: int | None = None  # that fetch follows in a cycle, out of order; None: 1
    store_lines: int | None = None  # that stores of a real family go to in a cycle; None: 1
    store_refetch: int | None = None  # cycles of a store whose line has left L1D before it was written; None: 0
    forward_latency: int | None = None  # cycles from a store's data to the load that waits for them; None: gem5's
    memory_renaming: int | None = None  # of so many last stores loads take the register; None: of none
    system_calls: SystemCalls | None = None  # None: they take no time in the kernel

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as in the latency files."""
        # Thousands of machines are made so; dataclasses.asdict, which copies every number, takes ten times as long.
        values = {name: _value(getattr(self, name)) for name in _names(Machine)}
        values["memory"] = {"model": self.memory.model} | values["memory"]
        for field in OPTIONAL:  # those of a section before the section itself
            section, _, name = field.rpartition(".")
            holder = values[section] if section else values
            if holder is not None and holder[name] == getattr(_SECTIONS[section] if section else Machine, name):
                del holder[name]
        return values

    def with_(self, **fields: Any) -> Machine:
        """Return the machine with other values of these fields; `__` stands for the dot of a name.

        `machine.with_(l2__size_kib=1024, frequency_ghz=3.0)`. Unless `name` is among them, the changed fields become
        part of the name. Raises InputError for an unknown field or an impossible value.
        """
        plain = {name: value.item() if hasattr(value, "item") else value for name, value in fields.items()}  # NumPy's
        given = {name.replace("__", "."): value for name, value in plain.items()}
        told = ", ".join(f"{field}={value}" for field, value in given.items())
        return replace_fields(self, {"name": f"{self.name}, {told}" if given else self.name} | given)


class RelationError(InputError):
    """Every field may hold its value, but not together with another's."""


# Fields that a machine may be without.
_OPTIONAL_FIELDS = (
    "microcode",
    "frames",
    "first_touch",
    "indirect_delay",
    "call_delay",
    "taken_branches",
    "store_lines",
    "store_refetch",
    "forward_latency",
    "memory_renaming",
)
_OPTIONAL_OF_CACHES = ("replacement", "fill_cycles", "set_fill_cycles")
OPTIONAL = (
    "functional_units.div_step_latency",
    "branch_predictor.indirect",
    *(f"{level}.{field}" for level in ("l1i", "l1d", "l2", "l3") for field in _OPTIONAL_OF_CACHES),
    "tlb.page_kib",
    "tlb.walk",
    "tlb",
    *(f"system_calls.{kind}" for kind in _names(SystemCalls)),
    "system_calls",
    *_OPTIONAL_FIELDS,
)
_SECTIONS: dict[str, type] = {
    "functional_units": FunctionalUnits,
    "branch_predictor": BranchPredictor,
    "l1i": Cache,
    "l1d": Cache,
    "l2": Cache,
    "l3": Cache,
    "tlb": Tlb,
    "system_calls": SystemCalls,
}
_NULLABLE = ("l3", "tlb", "system_calls")
_PIPELINES: dict[str, type] = {"out-of-order": OutOfOrderPipeline, "in-order": InOrderPipeline}


def machine_from_dict(values: Mapping[str, Any]) -> Machine:
    """A validated machine from the nested mapping of the latency files. Raises InputError."""
    if not isinstance(values, Mapping):
        raise InputError(f"a machine is a mapping of fields, not {show(values)}")
    where = f"machine {name_of(values.get('name', '(unnamed)'))}"
    _refuse_unknown(where, values)
    _match_names(where, "", values, _names(Machine))
    for field in ("name", "core", "frequency_ghz", *_OPTIONAL_FIELDS):
        if field in values:
            check_value(where, field, values[field], RULES[field])
    pipeline = _section(where, "pipeline", values, _PIPELINES[values["core"]], values["core"])
    sections: dict[str, Any] = {
        name: None if name in _NULLABLE and values.get(name) is None else _section(where, name, values, kind, name)
        for name, kind in _SECTIONS.items()
    }
    machine = Machine(
        name=values["name"],
        core=values["core"],
        frequency_ghz=values["frequency_ghz"],
        pipeline=pipeline,
        memory=_memory(where, values["memory"]),
        **{field: values[field] for field in _OPTIONAL_FIELDS if field in values},
        **sections,
    )
    flat = flatten(machine.to_dict())
    for relation in RELATIONS:
        if not relation.holds(flat):
            bound = relation.bound
            for name, value in flat.items():
                bound = bound.replace("{" + name + "}", str(value))
            raise RelationError(f"{where}: {relation.field} = {show(flat[relation.field])} must be {bound}")
    return machine


def _refuse_unknown(where: str, values: Mapping[str, Any]) -> None:
    """Raise InputError for a name that no machine has, in any section: it tells more than a missing one does."""
    core = str(values.get("core"))
    kinds: dict[str, list[type]] = {"": [Machine], **{name: [kind] for name, kind in _SECTIONS.items()}}
    kinds["pipeline"] = [_PIPELINES[core]] if core in _PIPELINES else list(_PIPELINES.values())
    for name, possible in kinds.items():
        section = values.get(name) if name else values
        if isinstance(section, Mapping):
            known = dict.fromkeys(name for kind in possible for name in _names(kind))
            _known_names(where, f"{name}." if name else "", section, list(known))


def _known_names(where: str, prefix: str, values: Mapping[str, Any], expected: Sequence[str]) -> None:
    for name in values:
        if name not in expected:
            hint = nearest(name, expected) or f" (valid: {', '.join(expected)})"
            raise InputError(f"{where}: unknown field {prefix}{name_of(name)} = {show(values[name])}{hint}")


def _match_names(where: str, prefix: str, values: Mapping[str, Any], expected: Sequence[str]) -> None:
    _known_names(where, prefix, values, expected)
    for name in expected:
        if name not in values and prefix + name not in OPTIONAL:
            raise InputError(f"{where}: field {prefix}{name} is missing")


def _section(where: str, name: str, values: Mapping[str, Any], kind: type, rules: str) -> Any:
    section = values[name]
    if not isinstance(section, Mapping):
        raise InputError(f"{where}: {name} must be a mapping of fields, not {show(section)}")
    _match_names(where, f"{name}.", section, _names(kind))
    for field in section:
        check_value(where, f"{name}.{field}", section[field], RULES[f"{rules}.{field}"])
    return kind(**section)


def _memory(where: str, memory: Any) -> SimpleMemory | DramMemory:
    if isinstance(memory, str):
        memory = {"model": memory}
    if not isinstance(memory, Mapping):
        raise InputError(f"{where}: memory must be a DRAM name or a mapping of fields, not {show(memory)}")
    if "model" not in memory:
        raise InputError(f"{where}: field memory.model is missing (one of {', '.join(memory_models())})")
    check_value(where, "memory.model", memory["model"], RULES["memory.model"])
    simple = memory["model"] == "simple"
    names = ["model", "latency_ns", "bandwidth_gbs"] if simple else ["model"]
    _match_names(where, "memory.", memory, names)
    for field in names:
        check_value(where, f"memory.{field}", memory[field], RULES[f"memory.{field}"])
    return SimpleMemory(**memory) if simple else DramMemory(memory["model"])


def check_value(where: str, field: str, value: Any, rule: Rule) -> None:
    """Raise InputError, whose line begins with `where`, unless the rule allows the value of the field."""
    if rule.type is str:
        good = isinstance(value, str) and value.strip() != "" and value.isprintable()
        hint = ""
        if good and rule.names is not None and value not in rule.names():
            good, hint = False, nearest(value, rule.names())
    else:
        kinds = (int,) if rule.type is int else (int, float)
        good = isinstance(value, kinds) and not isinstance(value, bool)
        good = good and rule.low <= value <= rule.high  # false for NaN
        good = good and (not rule.power_of_two or value == 0 or is_power_of_two(value))
        hint = ""
    if not good:
        raise InputError(f"{where}: {field} = {show(value)} must be {rule.describe()}{hint}")


def configuration_key(machine: Machine) -> str:
    """Identifies a machine by what it is, not by its name, whether a number is written as 3 or as 3.0."""
    values = machine.to_dict()
    values.pop("name")
    return json.dumps(_shortest(values), sort_keys=True)


def _shortest(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortest(held) for name, held in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping as one of dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def field_names(machine: Machine) -> list[str]:
    """Dotted names of every field that `machine` has, in the order of the latency files."""
    return list(flatten(machine.to_dict()))


def get_field(machine: Machine, field: str) -> Any:
    """The value of a dotted name; a section (`l1d`) gives its mapping. Raises InputError for an unknown name."""
    value: Any = machine.to_dict()
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise InputError(_unknown(machine, field))
        value = value[part]
    return value


def _unknown(machine: Machine, field: str) -> str:
    if machine.l3 is None and field.startswith("l3."):
        return f"machine {machine.name}: {field} cannot be used: the machine has no l3 (l3 = null)"
    names = field_names(machine)
    hint = nearest(field, names)
    if not hint:
        same_end = [name for name in names if name.split(".")[-1] == field.split(".")[-1]]
        hint = f" (did you mean {' or '.join(same_end)}?)" if same_end else f" (valid: {', '.join(names)})"
    return f"machine {machine.name}: unknown field {field}{hint}"


def replace_field(machine: Machine, field: str, value: Any) -> Machine:
    """`machine` with one field changed, validated. `memory` and `memory.model` accept the name of a DRAM; `l3` accepts
    null or a mapping. Raises InputError.
    """
    return replace_fields(machine, {field: value})


def replace_fields(machine: Machine, fields: Mapping[str, Any]) -> Machine:
    """`machine` with these fields changed, validated together; as `replace_field`."""
    values = machine.to_dict()
    for field, value in fields.items():
        _replace(machine, values, field, value)
    return machine_from_dict(values)


def _replace(machine: Machine, values: dict[str, Any], field: str, value: Any) -> None:
    """Put a value into the machine's mapping. Raises InputError for a field that the machine does not have."""
    if field == "memory.model" and value != "simple":
        values["memory"] = {"model": value}
        return
    if field in ("memory.latency_ns", "memory.bandwidth_gbs") and machine.memory.model != "simple":
        raise InputError(
            f"machine {machine.name}: {field} = {show(value)} needs memory.model = simple, "
            f"this machine has {machine.memory.model}"
        )
    *sections, last = field.split(".")
    if field != "l3" and (field not in OPTIONAL or (sections == ["l3"] and machine.l3 is None)):
        get_field(machine, field)
    target = values
    for section in sections:
        target = target.setdefault(section, {})
    target[last] = value


def parse_value(field: str, text: str) -> Any:
    """Return the value that `text` means for the dotted name `field`: a number, a name, or null. Raises InputError."""
    if field in ("memory", "core", "name"):
        return text
    if field == "l3":
        if text.lower() in ("none", "null"):
            return None
        raise InputError(f"l3 = {show(text)} must be none, or vary its fields (l3.size_kib, ...)")
    rules = rules_of(field)
    if not rules:
        raise InputError(f"unknown field {field}{nearest(field, FIELDS) or f' (valid: {chr(44).join(FIELDS)})'}")
    if rules[0].type is str:
        return text
    try:
        return int(text) if rules[0].type is int else _number(text)
    except ValueError:
        raise InputError(f"{field} = {show(text)} must be {rules[0].describe()}") from None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
