"""Devices that run tensor programs: hardware parameters of CPUs and GPUs, a commented YAML file each.

They are the hardware features of Verma et al. ("Cross-Feature Transfer Learning for Efficient Tensor Program
Generation", Table 2): cores, clock, vector width, caches, memory, and for GPUs multiprocessor limits. A parameter that
is not known is null, never a guess; `host` in a file is read from this computer. A machine of `uarch/` is a device too,
of one core, with what its configuration says.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.text import nearest, show
from support.yaml_files import read_yaml
from uarch.configuration import Machine, SimpleMemory
from uarch.machine_files import load_machine, native_names, preset_names

DEVICES = Path(__file__).parent / "devices"


@dataclass(frozen=True)
class Device:
    """A core is a CPU's core or a GPU's multiprocessor; caches are those that one core reaches; None is unknown."""

    name: str
    kind: str  # cpu or gpu
    isa: str | None = None
    cores: int | None = None
    clock_ghz: float | None = None
    vector_bytes: int | None = None  # widest register (CPU) or load of a thread (GPU)
    cache_line_bytes: int | None = None
    l1_kib: float | None = None  # data; of a GPU together with shared memory
    l2_kib: float | None = None
    l3_kib: float | None = None
    memory_gib: float | None = None
    bandwidth_gbs: float | None = None  # of memory, 1e9 bytes a second
    peak_gflops: float | None = None  # single precision, all cores
    lanes_per_core: int | None = None  # single-precision lanes of a multiprocessor
    warp_size: int | None = None
    max_threads_per_block: int | None = None
    max_warps_per_core: int | None = None
    registers_per_core: int | None = None  # of 32 bits
    shared_kib_per_core: float | None = None
    shared_kib_per_block: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every parameter, unknown ones None; without the name."""
        values = dataclasses.asdict(self)
        del values["name"]
        return values


NUMBERS = tuple(field.name for field in dataclasses.fields(Device) if field.name not in ("name", "kind", "isa"))
KINDS = ("cpu", "gpu")


def numbers(parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    """[len(NUMBERS)] base-2 logarithms of a device's parameters (as `Device.to_dict` gives them), NaN where unknown."""
    values = [parameters.get(name) for name in NUMBERS]
    return np.array([math.log2(float(value)) if _is_positive(value) else math.nan for value in values])


def _is_positive(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def device_names() -> list[str]:
    """The devices that come with the toolkit; every machine preset is one beside them."""
    return sorted(path.stem for path in DEVICES.glob("*.yaml"))


def is_host(name: str) -> bool:
    """Return whether a device's file says that it is this computer."""
    return "host" in read_yaml(DEVICES / f"{name}.yaml", "device file").values()


def load_device(name_or_path: str | Path) -> Device:
    """A device by its name, a .yaml file of one, or a machine (preset or file) as a device. Raises InputError."""
    text = str(name_or_path)
    if text in device_names():
        return _device(DEVICES / f"{text}.yaml")
    presets = [*preset_names(), *native_names()]
    if text in presets or not text.endswith((".yaml", ".yml")):
        if text not in presets and not text.endswith(".json") and ":" not in text:
            names = [*device_names(), *presets]
            raise InputError(
                f"unknown device {text}{nearest(text, names)} (devices: {', '.join(names)}; or a .yaml file)"
            )
        return machine_device(load_machine(text))
    path = Path(text)
    content = read_yaml(path, "device file")
    if isinstance(content, Mapping) and "pipeline" in content:
        return machine_device(load_machine(path))
    return _device(path)


def machine_device(machine: Machine) -> Device:
    """A machine of `uarch/` as a device: one core; what its configuration does not say is unknown."""
    memory = machine.memory
    return Device(
        name=machine.name,
        kind="cpu",
        cores=1,
        clock_ghz=machine.frequency_ghz,
        cache_line_bytes=64,
        l1_kib=machine.l1d.size_kib,
        l2_kib=machine.l2.size_kib,
        l3_kib=None if machine.l3 is None else machine.l3.size_kib,
        bandwidth_gbs=memory.bandwidth_gbs * 2**30 / 1e9 if isinstance(memory, SimpleMemory) else None,
    )


def _device(path: Path) -> Device:
    content = read_yaml(path, "device file")
    if not isinstance(content, Mapping) or content.get("kind") not in KINDS or not isinstance(content.get("name"), str):
        raise InputError(f"{path} is not a device: `name` must be a text and `kind` one of {', '.join(KINDS)}")
    known = {field.name for field in dataclasses.fields(Device)}
    values = dict(content)
    for name, value in content.items():
        if name not in known:
            raise InputError(f"{path}: unknown parameter {name!r}{nearest(str(name), known)}")
        if value == "host":
            if name not in _HOST:
                raise InputError(f"{path}: {name} cannot be read from the host (these can: {', '.join(_HOST)})")
            values[name] = _HOST[name]()
        elif name in NUMBERS and value is not None and not _is_positive(value):
            raise InputError(f"{path}: {name} is {show(value)}; expected a positive number, or null if unknown")
    return Device(**values)


def _cache_kib(level: int) -> float | None:
    """Size of the host's data or unified cache of a level, as Linux tells it."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if int((index / "level").read_text()) == level and (index / "type").read_text().strip() != "Instruction":
                found = re.fullmatch(r"(\d+)([KM]?)", (index / "size").read_text().strip())
                return int(found[1]) * {"": 1 / 1024, "K": 1, "M": 1024}[found[2]] if found else None
        except (OSError, ValueError):
            continue
    return None


def _line_bytes() -> int | None:
    try:
        return int(Path("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size").read_text())
    except (OSError, ValueError):
        return None


def _clock_ghz() -> float | None:
    """The highest clock, or where the system does not tell that (virtual machines) the constant one that it shows."""
    try:
        return int(Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").read_text()) / 1e6
    except (OSError, ValueError):
        pass
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    found = re.search(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)
    return round(float(found[1]) / 1000, 1) if found else None


def _memory_gib() -> float | None:
    try:
        found = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    return round(int(found[1]) / (1 << 20), 1) if found else None


_HOST: dict[str, Callable[[], int | float | None]] = {
    "cores": os.cpu_count,
    "clock_ghz": _clock_ghz,
    "cache_line_bytes": _line_bytes,
    "l1_kib": lambda: _cache_kib(1),
    "l2_kib": lambda: _cache_kib(2),
    "l3_kib": lambda: _cache_kib(3),
    "memory_gib": _memory_gib,
}
