"""MetaSchedule's JSON databases: workloads and tuning records of TVM's own tuner.

`database_workload.json` has a line `[structural hash, module]` for each workload; the module is base64 of the length
(8 bytes) and the text of TVM's JSON of it. `database_tuning_record.json` has a line `[workload index, [[instructions,
decisions], run_secs, target, args_info]]` for each record; a candidate that failed is stored with 1e10 seconds.

Traces, times, targets and argument shapes are read without TVM. The modules are only decoded where TVM is asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from support.errors import InputError
from tracegen.tensor.dataset import Outcome
from tracegen.tensor.lines import Problem, RecordError, document, is_number, read_lines, short
from tracegen.tensor.primitives import Primitive, StepError, from_metaschedule

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
_MAX_WORKLOAD = 256 << 20  # bytes of a line; constants of a network may be in it
_FAILED_S = 1e9


@dataclass(frozen=True)
class Workload:
    """A line of the workloads: its structural hash, and its module as TVM's JSON in base64."""

    key: str
    module: str

    def json(self) -> str:
        """TVM's JSON of the module, for `tvm.ir.load_json`. Raises InputError."""
        try:
            content = base64.b64decode(self.module, validate=True)
            if int.from_bytes(content[:8], "little") != len(content) - 8:  # TVM writes a text's length before it
                raise ValueError("its length is not the one that it begins with")
            return content[8:].decode()
        except ValueError as error:
            raise InputError(f"the module of workload {self.key} is damaged ({short(error)})") from error

    @property
    def identity(self) -> str:
        """The structural hash as `tracegen.tensor.tasks` writes it, so that a collected task is the same task."""
        return (
            f"{int(self.key):016x}" if self.key.isascii() and self.key.isdigit() and len(self.key) <= 20 else self.key
        )


@dataclass(frozen=True)
class Record:
    """One measurement. `costs`: seconds of each repeat, empty where the candidate failed; `shape`: its arguments."""

    workload: int
    trace: list[Any]
    primitives: list[Primitive]
    costs: tuple[float, ...]
    outcome: Outcome
    target: Mapping[str, Any]
    shape: list[Any]  # [[type, [extent, …]], …] of the arguments


def is_database(folder: Path) -> bool:
    return (folder / RECORDS).is_file() and (folder / WORKLOADS).is_file()


def read_workloads(folder: Path) -> list[Workload]:
    """All workloads of a database. Raises InputError where one is damaged: the records' numbers count on all."""
    found = []
    for line, workload in read_lines(folder / WORKLOADS, _workload, _MAX_WORKLOAD):
        if isinstance(workload, Problem):
            raise InputError(f"{folder / WORKLOADS}:{line}: {workload.detail}")
        found.append(workload)
    return found


def _workload(line: bytes) -> Workload:
    found = document(line)
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(part, str) for part in found):
        raise RecordError("no workload", "no workload; [structural hash, module] is expected")
    return Workload(*found)


def read_records(folder: Path, workloads: int) -> Iterator[tuple[int, Record | Problem]]:
    """(line, record or problem) of a database with so many workloads. Memory: one line. Raises InputError."""
    return read_lines(folder / RECORDS, partial(parse, workloads=workloads))


def parse(line: str | bytes, workloads: int) -> Record:
    """The record of a line. Raises RecordError."""
    found = document(line)
    if (
        not isinstance(found, list)
        or len(found) != 2
        or type(found[0]) is not int
        or not isinstance(found[1], list)
        or len(found[1]) != 4
    ):
        raise RecordError("no record", "no record; [workload, [trace, run_secs, target, args_info]] is expected")
    index, (trace, seconds, target, arguments) = found
    if not 0 <= index < workloads:
        raise RecordError("workload", f"workload {index} is named; there are {workloads}")
    try:
        primitives = from_metaschedule(trace)
    except StepError as error:
        raise RecordError(f"instruction {error.step}", str(error)) from error
    costs, outcome = _costs(seconds)
    return Record(index, trace, primitives, costs, outcome, _target(target), _shape(arguments))


def _costs(seconds: Any) -> tuple[tuple[float, ...], Outcome]:
    if seconds is None or seconds == []:  # a record of a schedule that was not measured
        return (), Outcome.UNKNOWN
    if not isinstance(seconds, list) or not all(is_number(cost) and cost > 0 for cost in seconds):
        raise RecordError("run_secs", f"run_secs is {short(seconds)}; positive seconds are expected")
    if max(seconds) >= _FAILED_S:
        return (), Outcome.UNKNOWN
    return tuple(float(cost) for cost in seconds), Outcome.OK


def _target(target: Any) -> dict[str, Any]:
    if isinstance(target, str):
        return {"kind": target.split()[0] if target.split() else ""}
    if not isinstance(target, dict) or not isinstance(target.get("kind"), str):
        raise RecordError("target", f"the target is {short(target)}; an object with a kind is expected")
    return target


def _shape(arguments: Any) -> list[Any]:
    """[[type, extents], …] of args_info, `[["TENSOR", type, extents], …]`."""
    if not isinstance(arguments, list):
        raise RecordError("args_info", f"args_info is {short(arguments)}; a list is expected")
    shape = []
    for argument in arguments:
        if (
            not isinstance(argument, list)
            or len(argument) != 3
            or not isinstance(argument[1], str)
            or not _is_shape(argument[2])
        ):
            raise RecordError("args_info", f"an argument is {short(argument)}; [kind, type, extents] is expected")
        shape.append([argument[1], argument[2]])
    return shape


def _is_shape(extents: Any) -> bool:
    return isinstance(extents, Sequence) and all(type(x) is int and x >= 0 for x in extents)
