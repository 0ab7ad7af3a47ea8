"""Times of whole programs as a user measured them: the file, and what it says to a fit."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfvec.machines.posterior import Observations
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from support.text import nearest, parse_json, show
from tracegen.formats.trace import Trace

_AGREE = 0.1  # by what fraction times of one program may differ and still be repetitions of one measurement


@dataclass(frozen=True)
class Time:
    """A line of a times file: what was run, and how long it took."""

    target: str  # a trace or a vector
    value: float  # seconds or cycles
    deviation: float  # of the value; 0 where not given
    trace: str = ""  # the trace that a vector was made of, to be checked
    line: int = 0


_COLUMNS = ("program", "target", "seconds", "cycles", "uncertainty", "trace")


def read_times(path: str | os.PathLike[str]) -> tuple[str, list[Time]]:
    """(`seconds` or `cycles`, the lines) of a CSV with a header or a JSON list of objects.

    Columns: `target` (or `program`), a trace or vector file; `seconds` or `cycles`; optional `uncertainty`, a standard
    deviation in the same unit; optional `trace`, the trace that a vector must have been made of. Files are looked for
    in the current folder, then beside the times file. Raises InputError.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected times as CSV or JSON")
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = parse_json(text) if path.suffix == ".json" else list(csv.DictReader(io.StringIO(text)))
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path}: neither CSV nor JSON ({' '.join(str(error).split())[:80]})") from error
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: holds no times; expected lines of target,seconds (or a JSON list of such objects)")
    given = {str(name) for row in rows for name in row}
    for name in sorted(given - set(_COLUMNS)):
        hint = nearest(name, _COLUMNS) or f" (valid: {', '.join(_COLUMNS)})"
        raise InputError(f"{path}: unknown column {name[:60]!r}{hint}")
    for one, other in (("program", "target"), ("seconds", "cycles")):
        if len(given & {one, other}) != 1:
            raise InputError(f"{path}: needs one of the columns {one!r} and {other!r}, and not both")
    unit = "seconds" if "seconds" in given else "cycles"
    name = "target" if "target" in given else "program"
    first = 1 if path.suffix == ".json" else 2  # lines of a CSV after its header
    return unit, [_time(path, row, name, unit, line) for line, row in enumerate(rows, first)]


def _time(path: Path, row: dict[str, Any], name: str, unit: str, line: int) -> Time:
    where = f"{path}: entry {line}" if path.suffix == ".json" else f"{path}: line {line}"
    target = row.get(name)
    if not isinstance(target, str) or not target.strip():
        raise InputError(f"{where}: {name} is missing; a trace or vector file is expected")
    value = _number(where, unit, row.get(unit))
    if value <= 0:
        raise InputError(f"{where}: {unit} = {show(row[unit])} must be positive")
    blank = row.get("uncertainty") in (None, "")
    deviation = 0.0 if blank else _number(where, "uncertainty", row["uncertainty"])
    if deviation < 0:
        raise InputError(f"{where}: uncertainty = {show(row['uncertainty'])} must not be negative")
    trace = str(row.get("trace") or "").strip()
    return Time(_find(path, target.strip()), value, deviation, _find(path, trace) if trace else "", line)


def _number(where: str, field: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise InputError(f"{where}: {field} = {show(value)} must be a finite number")
    return number


def _find(times: Path, name: str) -> str:
    beside = times.parent / name
    try:
        return str(beside) if not Path(name).exists() and beside.exists() else name
    except (OSError, ValueError) as error:  # too long, or with a zero byte, where pathlib does not say no
        raise InputError(f"{times}: {show(name)} cannot be a file's name") from error


def gather(
    times: Sequence[Time], vectors: Sequence[ProgramVector], cycles_per_unit: float
) -> tuple[Observations, list[str]]:
    """The observations, a program once, and the programs' names; `vectors[k]` is of `times[k]`.

    Repetitions of a program are averaged and their spread is its uncertainty. Raises InputError where a vector was not
    made of the trace named beside it, or the times of one program contradict each other.
    """
    by_digest: dict[tuple[str, int], list[tuple[Time, ProgramVector]]] = {}
    for time, vector in zip(times, vectors, strict=True):
        if time.trace:
            with Trace(time.trace) as trace:
                if trace.digest != vector.trace_digest:
                    raise InputError(
                        f"{time.target}: made of a trace {vector.trace_digest[:12]}…, not of {time.trace} "
                        f"({trace.digest[:12]}…)"
                    )
        by_digest.setdefault((vector.trace_digest, vector.instructions), []).append((time, vector))
    rows, names = [], []
    for same in by_digest.values():
        values = np.array([time.value for time, _ in same])
        deviations = np.array([time.deviation for time, _ in same])
        mean = float(values.mean())
        if np.ptp(values) > max(_AGREE * mean, 3.0 * float(np.hypot(deviations.max(), deviations.min()))):
            raise InputError(
                f"{same[0][0].target}: given twice with contradictory times, {values.min():g} and {values.max():g}"
            )
        spread = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
        deviation = max(spread, float(np.sqrt((deviations**2).sum()) / len(values)))
        rows.append((same[0][1].vector, mean * cycles_per_unit, deviation / mean))
        names.append(same[0][1].program)
    stacked = [np.array(column) for column in zip(*rows, strict=True)]
    return Observations(stacked[0], stacked[1], np.arange(len(rows)), stacked[2]), names
