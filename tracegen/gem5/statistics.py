"""gem5's `stats.txt`: its first section, and whether imported text agrees with it."""

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
    """Scalars of the first section by their names. Raises InputError for what is no statistics of gem5."""
    found: dict[str, float] = {}
    begun = False
    try:
        with path.open(errors="replace") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(_LONGEST), "")):
                if number > _MOST:
                    raise InputError(f"{path}: more than {_MOST:,} lines; no statistics of one gem5 core are so long")
                if line.startswith(_BEGIN):
                    begun = True
                elif line.startswith(_END) and begun:
                    return found
                elif begun and (parts := _LINE.match(line)):
                    found[parts.group(1)] = float(parts.group(2))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if not begun:
        raise InputError(f"{path}: no statistics of gem5 (no line {_BEGIN!r})")
    raise InputError(f"{path}: its first section has no end; gem5 did not finish, or the file is cut")


def memory_references(statistics: dict[str, float], core: str) -> float | None:
    """Loads and stores that a core committed: O3 counts them, Minor only by the class of operation."""
    if references := statistics.get(f"{core}.commitStats0.numMemRefs"):
        return references
    classes = [statistics.get(f"{core}.commitStats0.committedInstType::{name}") for name in _MEMORY_CLASSES]
    return sum(value for value in classes if value is not None) if any(v is not None for v in classes) else None
