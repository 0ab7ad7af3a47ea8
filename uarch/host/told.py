"""Facts that a computer tells of itself: /proc/cpuinfo (which has CPUID's family, model and features) and sysfs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from support.errors import InputError
from support.processors import processors

_LEVELS = {("1", "Instruction"): "l1i", ("1", "Data"): "l1d", ("2", "Unified"): "l2", ("3", "Unified"): "l3"}
_UNITS = {"K": 1, "M": 1024, "G": 1 << 20}


@dataclass(frozen=True)
class ToldCache:
    size_kib: int
    associativity: int
    line: int  # bytes


@dataclass(frozen=True)
class Told:
    """The processor that the kernel sees; `family` is the microarchitecture's name, `preset` the nearest preset's."""

    vendor: str
    model_name: str
    family: str
    preset: str
    caches: Mapping[str, ToldCache]
    features: frozenset[str]
    numbers: tuple[int, int, int]  # CPUID's family, model, stepping
    virtual: bool
    processors: int


def told(root: Path = Path("/")) -> Told:
    """Read what this computer tells. Raises InputError where it tells nothing, or is not an x86-64 one."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise InputError(
            f"this computer cannot be measured: it is {platform.machine()}, there are probes for x86-64 alone"
        )
    try:
        text = (root / "proc/cpuinfo").read_text(errors="replace")
    except OSError as error:
        raise InputError(f"this computer tells nothing of its processor: /proc/cpuinfo: {error.strerror}") from None
    lines = [line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line]
    first = {name.strip(): value.strip() for name, value in lines}
    try:
        numbers = (int(first["cpu family"]), int(first["model"]), int(first["stepping"]))
    except (KeyError, ValueError):
        raise InputError("this computer tells nothing of its processor: no family and model in /proc/cpuinfo") from None
    features = frozenset(first.get("flags", "").split())
    family, preset = microarchitecture(first.get("vendor_id", ""), numbers[0], numbers[1])
    return Told(
        first.get("vendor_id", ""),
        first.get("model name", "unknown processor"),
        family,
        preset,
        _caches(root / "sys/devices/system/cpu/cpu0/cache"),
        features,
        numbers,
        "hypervisor" in features,
        processors(),
    )


def microarchitecture(vendor: str, family: int, model: int) -> tuple[str, str]:
    """The microarchitecture's name by CPUID's numbers, and the nearest preset's (`families.yaml`)."""
    entries = yaml.safe_load(Path(__file__).with_name("families.yaml").read_text())
    for entry in entries:
        if entry["vendor"] == vendor and entry["family"] == family:
            ranges = entry.get("models", [[0, 255]])
            if any(low <= model <= high for low, high in ranges):
                return entry["name"], entry["preset"]
    nearest = {"AuthenticAMD": "zen4", "GenuineIntel": "golden-cove"}.get(vendor, "base")
    return "unknown", nearest


def _caches(folder: Path) -> dict[str, ToldCache]:
    found = {}
    for index in sorted(folder.glob("index*")):
        try:
            said = {name: (index / name).read_text().strip() for name in ("level", "type", "size")}
            ways = int((index / "ways_of_associativity").read_text())
            line = int((index / "coherency_line_size").read_text())
        except (OSError, ValueError):
            continue
        level = _LEVELS.get((said["level"], said["type"]))
        size = said["size"]
        if level and size[-1:] in _UNITS and size[:-1].isdigit() and ways > 0:
            found[level] = ToldCache(int(size[:-1]) * _UNITS[size[-1]], ways, line)
    return found
