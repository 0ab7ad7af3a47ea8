"""gem5's `stats.txt`: what its sections say of the whole run, to compare imported text with."""

from __future__ import annotations

import re
from pathlib import Path

from support.errors import InputError

_LINE = re.compile(r"([\w.:|]+)\s+(-?[\d.]+(?:e[+-]?\d+)?)\s")
_BEGIN, _END = "---------- Begin Simulation Statistics", "---------- End Simulation Statistics"
_LONGEST = 1 << 16
_MOST = 1 << 18
_VECTOR_CLASSES = ("UnitStride", "UnitStrideMask", "Strided", "Indexed", "WholeRegister", "UnitStrideSegmented")
_MEMORY_CLASSES = (  # Simd… of RISC-V's vectors are Vector… in v23
    "MemRead",
    "MemWrite",
    "FloatMemRead",
    "FloatMemWrite",
    "SimdUnitStrideFaultOnlyFirstLoad",
    "VectorUnitStrideFaultOnlyFirstLoad",
    *(f"{kind}{name}{way}" for kind in ("Simd", "Vector") for name in _VECTOR_CLASSES for way in ("Load", "Store")),
)


def read_statistics(path: Path) -> dict[str, float]:
    """Scalars by their names, of the run from its last reset on, or of all of it.

    A script may dump several sections: those that follow resets are added up where they are the whole run; where none
    was reset, the last one has everything. Raises InputError for what is no statistics of gem5.
    """
    sections: list[dict[str, float]] = []
    begun = False
    try:
        with path.open(errors="replace") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(_LONGEST), "")):
                if number > _MOST * max(len(sections), 1):
                    raise InputError(f"{path}: more than {_MOST:,} lines; no statistics of one gem5 core are so long")
                if line.startswith(_BEGIN):
                    begun = True
                    sections.append({})
                elif line.startswith(_END):
                    begun = False
                elif begun and (parts := _LINE.match(line)):
                    sections[-1][parts.group(1)] = float(parts.group(2))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if not sections:
        raise InputError(f"{path}: no statistics of gem5 (no line {_BEGIN!r})")
    if begun:
        raise InputError(f"{path}: its last section has no end; gem5 did not finish, or the file is cut")
    last = sections[-1]
    final = last.get("finalTick")
    if last.get("simTicks") == final or sum(one.get("simTicks", 0.0) for one in sections) != final:
        return last
    names = dict.fromkeys(name for one in sections for name in one)
    return {name: sum(one.get(name, 0.0) for one in sections) for name in names} | {"finalTick": final}


def memory_references(statistics: dict[str, float], core: str) -> float | None:
    """Loads and stores that a core committed: O3 counts them, Minor only by the class of operation."""
    if references := statistics.get(f"{core}.commitStats0.numMemRefs"):
        return references
    classes = [statistics.get(f"{core}.commitStats0.committedInstType::{name}") for name in _MEMORY_CLASSES]
    return sum(value for value in classes if value is not None) if any(v is not None for v in classes) else None
