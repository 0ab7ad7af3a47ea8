"""The machine that stock gem5 simulates for a given one, and what is different there."""

from __future__ import annotations

import hashlib
from typing import Any

from support.errors import InputError
from uarch.configuration import Machine, SimpleMemory, configuration_key, flatten, machine_from_dict, replace_field
from uarch.constraints import LRU, NO_PREDICTOR, STREAM, TAGGED
from uarch.formula import is_power_of_two
from uarch.gem5.table import (
    CORE,
    ISAS,
    bandwidth_gbs,
    frequency_ghz,
    latency_ps,
    period_ps,
    predictor_of,
    ticks_per_byte,
)


def predicts(machine: Machine, isa: str) -> bool:
    """Return whether gem5 consults a branch predictor: v24's MinorCPU never does for X86, whose macro-operations carry
    no control flag.
    """
    return machine.core == "out-of-order" or isa != "x86-64"


_NOT_IN_GEM5 = {
    "microcode": "gem5 has micro-operations of its own",
    "branch_predictor.indirect": "gem5's table of indirect targets takes its place",
    "tlb": "misses cost nothing in gem5's system-call emulation",
    "frames": "gem5 hands out its pages in order",
    "first_touch": "a page of gem5's is in memory",
    "indirect_delay": "gem5 finds all targets at once",
    "call_delay": "gem5 fetches calls and returns as other branches",
    "taken_branches": "gem5 ends a group of fetch with a taken branch",
    "store_lines": "gem5 writes stores of x86 one at a time",
    "store_refetch": "a store of gem5's asks for its line when it is written",
    "forward_latency": "gem5 forwards in 2 cycles",
    "memory_renaming": "gem5 loads from stores through its queue alone",
    "system_calls": "gem5 emulates system calls in no time",
    **{
        f"{level}.{field}": "a cache of gem5's is filled every cycle"
        for level in ("l1i", "l1d", "l2", "l3")
        for field in ("fill_cycles", "set_fill_cycles")
    },
}


def _shown(value: Any) -> str:
    return ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else str(value)


def as_simulated(machine: Machine, isa: str = "x86-64") -> tuple[Machine, list[str]]:
    """The machine that stock gem5 simulates for `machine`, and one line for each thing that is different there.
    Raises InputError where gem5 cannot run it at all.
    """
    if isa not in ISAS:
        raise InputError(f"isa = {isa} must be one of {', '.join(ISAS)}")
    simulated, notes = machine, []

    def change(field: str, old: Any, new: Any, why: str) -> None:
        nonlocal simulated
        if old != new:
            simulated = replace_field(simulated, field, new)
            notes.append(f"{field} = {old} becomes {new}: {why}")

    values = machine.to_dict()
    for field, why in _NOT_IN_GEM5.items():
        section, _, name = field.rpartition(".")
        fields = (values[section] or {}) if section else values  # there may be no L3
        if name in fields:
            notes.append(f"{field} = {_shown(fields.pop(name))} is left out: {why}")
    simulated = machine_from_dict(values)

    pipeline = values["pipeline"]
    for parameter in CORE[machine.core]:
        old = pipeline.get(parameter.field.partition(".")[2])
        if parameter.most is not None:
            change(
                parameter.field, old, min(old, parameter.most), f"stock gem5 is compiled for {parameter.most} at most"
            )
    if machine.core == "in-order":
        for port in ("load_ports", "store_ports"):
            change(
                f"functional_units.{port}", getattr(machine.functional_units, port), 1, "MinorCPU has one memory unit"
            )
    for field in [
        field for field, value in flatten(values).items() if field.endswith(".prefetcher") and value == STREAM
    ]:
        change(field, STREAM, TAGGED, "gem5 has no prefetcher of streams by page")
    for level in ("l1i", "l1d", "l2", "l3"):
        cache = getattr(machine, level)
        if cache is not None and cache.replacement == "tree-plru" and not is_power_of_two(cache.associativity):
            why = f"gem5's tree takes no {cache.associativity} ways, only powers of two"
            change(f"{level}.replacement", cache.replacement, LRU, why)
    predictor = machine.branch_predictor
    if not predicts(machine, isa):
        if predictor.kind != "none":
            values = simulated.to_dict()
            values["branch_predictor"] = NO_PREDICTOR
            simulated = machine_from_dict(values)
            why = "gem5's MinorCPU consults no predictor for X86"
            notes.append(f"branch_predictor.kind = {predictor.kind} becomes none: {why}")
    elif predictor.kind == "none":
        raise InputError(
            f"machine {machine.name}: branch_predictor.kind = none cannot be run on {isa}, where gem5's MinorCPU "
            "always predicts; give it a predictor"
        )
    else:
        found = predictor_of(predictor.kind, predictor.entries)
        if not found.sizes:
            why = f"gem5's {found.gem5} has one size"
            change("branch_predictor.entries", predictor.entries, found.nominal, why)
    return simulated, notes


def as_read_back(machine: Machine, isa: str = "x86-64") -> Machine:
    """Return what `uarch.gem5.config` reads from a run of `machine`'s script: the simulated machine, with frequency,
    latency and bandwidth as whole picoseconds give them back. Raises InputError.
    """
    simulated, _ = as_simulated(machine, isa)
    values = simulated.to_dict()
    values["frequency_ghz"] = frequency_ghz(period_ps(simulated.frequency_ghz))
    values["functional_units"]["div_latency"] = simulated.functional_units.int_div_latency(isa)
    values["functional_units"].pop("div_step_latency", None)
    if isinstance(simulated.memory, SimpleMemory):
        values["memory"]["latency_ns"] = latency_ps(simulated.memory.latency_ns) / 1000
        values["memory"]["bandwidth_gbs"] = bandwidth_gbs(max(ticks_per_byte(simulated.memory.bandwidth_gbs), 1))
    return machine_from_dict(values)


def digest(machine: Machine) -> str:
    """SHA-256 of the machine's fields as JSON with sorted keys, its name left out: equal machines, equal digests."""
    return hashlib.sha256(configuration_key(machine).encode()).hexdigest()
