"""Machines by name and in files: presets, and one or several machines in YAML or JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from support.errors import InputError
from support.text import nearest
from support.yaml_files import read_yaml
from uarch.configuration import Machine, flatten, machine_from_dict, replace_fields
from uarch.constraints import ITTAGE, STREAM, TAGGED

PRESETS = Path(__file__).parent / "presets"
# Presets that there is also as silicon: with a real family's micro-operations, for programs of its instruction set, and
# histories of indirect jumps (docs/explanation/real-computers.md).
_FAMILIES = {
    "cortex-a53": "cortex-a53",
    "cortex-a72": "cortex-a72",
    "golden-cove": "golden-cove",
    "haswell": "haswell",
    "neoverse-n1": "neoverse-n1",
    "skylake-sp": "skylake",
    "zen2": "zen2",
    "zen4": "zen4",
}
_NATIVE = "-native"
# What a family does that gem5 does not: of Zen 4 as loops tell (benchmarks/uarch/host_loops.py, `perfvec uarch host`;
# a misprediction costs 20 cycles, a line read in order from L2 or L3 2.0 or 2.4).
_NATIVE_FIELDS: dict[str, dict[str, Any]] = {
    "zen4": {
        "pipeline.fetch_width": 9,  # from the operation cache (zen4.yaml)
        "pipeline.frontend_delay": 10,
        "forward_latency": 5,
        "call_delay": 1,
        "memory_renaming": 16,
        "l1d.fill_cycles": 2,
        "l2.fill_cycles": 2,
        # As on Zen 5: no loop of Zen 4 has told yet.
        "l1d.set_fill_cycles": 7,
        "store_refetch": 34,
    }
}


def preset_names() -> list[str]:
    return [name for name in _preset_files() if not name.endswith(_NATIVE)]


def native_names() -> list[str]:
    """The presets with a real family's micro-operations in place of gem5's, `zen4-native` and others; `zen5-native`
    has a file of its own, without a preset of gem5's.
    """
    files = [name for name in _preset_files() if name.endswith(_NATIVE)]
    return sorted([*(name + _NATIVE for name in _FAMILIES), *files])


def _preset_files() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def native_family(preset: str) -> str | None:
    """Return the family whose micro-operations a preset's silicon has; None where there are no tables of it."""
    return _FAMILIES.get(preset)


def load_machine(name_or_path: str | Path) -> Machine:
    """A preset by its name (`native_names` too), or a .yaml, .yml or .json file of one machine. `FILE:NAME` picks one
    of a list in a file. Raises InputError.
    """
    text = str(name_or_path)
    if text in _preset_files():
        return machine_from_dict(read_yaml(PRESETS / f"{text}.yaml", "machine file"))
    if text in native_names():
        preset = text.removesuffix(_NATIVE)
        machine = load_machine(preset)
        native = {"name": text, "microcode": _FAMILIES[preset], "branch_predictor.indirect": ITTAGE}
        native |= {
            field: STREAM
            for field, value in flatten(machine.to_dict()).items()
            if field.endswith(".prefetcher") and value == TAGGED
        }
        return replace_fields(machine, native | _NATIVE_FIELDS.get(preset, {}))
    path, wanted = Path(text), None
    if ":" in text and not _exists(path):
        file, _, wanted = text.rpartition(":")
        path = Path(file)
    if path.suffix not in (".yaml", ".yml", ".json"):
        known = [*preset_names(), *native_names()]
        own = text + _NATIVE
        hint = f" (did you mean {own}?)" if own in known else nearest(text, known)
        hint = hint or f" (presets: {', '.join(known)})"
        raise InputError(f"{text} is neither a preset nor a .yaml, .yml or .json file{hint}")
    machines = load_machines(path)
    if wanted is not None:
        found = [machine for machine in machines if machine.name == wanted]
        if not found:
            raise InputError(f"{path} has no machine {wanted}{nearest(wanted, [m.name for m in machines])}")
        return found[0]
    if len(machines) != 1:
        raise InputError(f"{path} holds {len(machines)} machines: name one, as {path}:{machines[0].name}")
    return machines[0]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def load_machines(path: str | Path) -> list[Machine]:
    """Every machine of a file, which holds one or a list. Raises InputError."""
    content = read_yaml(Path(path), "machine file")
    content = content if isinstance(content, list) else [content]
    if not content:
        raise InputError(f"{path} holds no machine")
    try:
        return [machine_from_dict(values) for values in content]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def machine_yaml(machine: Machine) -> str:
    """The machine as a YAML file holds it."""
    return yaml.safe_dump(machine.to_dict(), sort_keys=False, allow_unicode=True)


def save_machines(machines: Iterable[Machine], folder: str | Path) -> list[Path]:
    """One YAML a machine, named after it, in `folder`, which is made where it is not there. Raises InputError."""
    from support.files import write_text

    every = list(machines)
    paths = [Path(folder) / f"{machine.name.replace('/', '_')}.yaml" for machine in every]
    if twice := {path for path in paths if paths.count(path) > 1}:
        raise InputError(f"{min(twice)}: two machines would have this file; give them other names")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for machine, path in zip(every, paths, strict=True):
            write_text(path, machine_yaml(machine))
    except OSError as error:
        raise InputError(f"cannot write machines to {folder}: {error.strerror}") from None
    return paths
