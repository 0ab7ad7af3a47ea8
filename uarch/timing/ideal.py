"""Machines of which a part never costs anything: what a CPI stack's components are checked with.

`branches`, `instructions` and `data` are made ideal by the core; the others are machines with other fields.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

from support.errors import InputError
from uarch.configuration import Machine
from uarch.constraints import GEM5

# What can be ideal → what that means.
IDEAL = MappingProxyType(
    {
        "branches": "every branch goes as expected",
        "instructions": "all code is in L1I",
        "data": "all data is in L1D",
        "execution": "every operation of which the machine has a latency takes a cycle",
        "ports": "units and ports for everything that issues",
        "windows": "reorder buffer, queues and registers eight times as large",
    }
)
_UNITS = ("int_alu", "int_mul", "fp_add", "fp_mul", "simd", "load_ports", "store_ports")
_LATENCIES = ("mul_latency", "div_latency", "fp_add_latency", "fp_mul_latency", "fp_div_latency")
_WINDOW_SUFFIXES = ("_entries", "_registers", "_buffer", "_in_flight")  # of fields
_MANY_UNITS = 32
_LARGER = 8


def idealised(machine: Machine, ideal: Collection[str]) -> Machine:
    """Return `machine` with ideal `execution`, `ports` and `windows` where they are among `ideal`.

    Raises InputError for a name that is not in IDEAL, and for `execution` and `ports` of native micro-operations: their
    latencies and ports are measured ones.
    """
    unknown = sorted(set(ideal) - set(IDEAL))
    if unknown:
        raise InputError(f"{unknown[0]!r} cannot be ideal; choose among {', '.join(IDEAL)}")
    measured = {"execution": "latencies", "ports": "ports"}
    for name in measured:
        if name in ideal and machine.microcode != GEM5:
            what = f"the {measured[name]} of {machine.microcode}"
            raise InputError(f"{machine.name}: {what} cannot be ideal; leave {name!r} out")
    units, pipeline = machine.functional_units, machine.pipeline
    if "execution" in ideal:
        step = None if units.div_step_latency is None else 1  # which bounds the steps that a trace tells
        units = replace(units, **dict.fromkeys(_LATENCIES, 1), div_step_latency=step)
    if "ports" in ideal:
        units = replace(units, **{name: max(_MANY_UNITS, getattr(units, name)) for name in _UNITS})
    if "windows" in ideal:
        windows = [name for name in vars(pipeline) if name.endswith(_WINDOW_SUFFIXES)]
        pipeline = replace(pipeline, **{name: _LARGER * getattr(pipeline, name) for name in windows})
    return replace(machine, functional_units=units, pipeline=pipeline)
