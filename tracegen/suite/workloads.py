"""Workloads that can be traced: the entries of `workloads.yaml` (the set `default`) and of the other sets' files."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from support.errors import InputError
from support.files import write_text
from tracegen.suite import random_loops, random_phases
from tracegen.suite.inputs import compile_c, input_file

_GENERATED = {"loops": random_loops.source, "phases": random_phases.source, "long_phases": random_phases.long_source}
_FOLDER = Path(__file__).parent
_SETS = {
    "default": "workloads.yaml",
    "debian": "debian.yaml",
    "mix": "mix.yaml",
    "loops": "loops.yaml",
    "laps": "laps.yaml",
    "phases": "phases.yaml",
    "long-phases": "long-phases.yaml",
    "validate": "validate.yaml",
}


@dataclass(frozen=True)
class Workload:
    """One program with its arguments; the YAML files describe the fields."""

    name: str
    group: str
    command: tuple[str, ...]
    set: str
    package: str = ""  # Debian's, empty for a kernel of our own
    kernel: str = ""  # a C file of our own, empty for the system's programs
    loops: int = 0  # or the seed of a kernel of random loops
    phases: int = 0  # or of random phases,
    long_phases: int = 0  # or of long ones
    optimise: int = 2  # the level that a kernel is compiled with
    stdin: str | None = None
    program: str = ""
    skip: int = 0
    status: tuple[int, ...] = (0,)  # exit statuses of a run that went well
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def available(self) -> bool:
        """Return whether this machine has the program."""
        return bool(self.kernel or self.generated) or shutil.which(self.command[0]) is not None

    @property
    def generated(self) -> tuple[str, int] | None:
        """Return the generator's name and the seed; None of a program that is not generated."""
        return next(((kind, seed) for kind in _GENERATED if (seed := getattr(self, kind))), None)

    def prepare(self, inputs: Path, scratch: Path) -> tuple[list[str], Path | None]:
        """The command with its placeholders filled, and the file on its standard input; makes inputs that lack."""

        def fill(match: re.Match[str]) -> str:
            return self._placeholder(match[1], inputs, scratch)

        words = [re.sub(r"^\{(\w+)\}(?=$|/)", fill, word) for word in self.command]
        if self.program == "cc1":  # the compiler proper, not its driver, which only starts it
            words = _compiler_proper(words)
        return words, input_file(self.stdin, inputs) if self.stdin else None

    def _placeholder(self, name: str, inputs: Path, scratch: Path) -> str:
        if name == "scratch":
            return str(scratch)
        if name != "kernel":
            return str(input_file(name, inputs))
        kind, seed = self.generated or ("", 0)
        kernel = self.kernel or f"{kind}-{seed}"
        path = inputs / f"kernel-{kernel}{f'-O{self.optimise}' if self.optimise != 2 else ''}"
        if not path.exists():
            inputs.mkdir(parents=True, exist_ok=True)
            text = _FOLDER / "kernels" / f"{kernel}.c"
            if not self.kernel:
                text = inputs / f"{kernel}.c"
                write_text(text, _GENERATED[kind](seed))
            compile_c(text, path, [f"-O{self.optimise}"])
        return str(path)


def _compiler_proper(words: list[str]) -> list[str]:
    found = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=False).stdout.strip()
    if not Path(found).exists():
        raise InputError("the workload needs GCC's cc1; install gcc")
    optimise = ["-E"] if words[0] == "cpp" else ["-O2"]
    return [found, "-quiet", *optimise, words[-1], "-o", "/dev/null"]


def catalogue() -> dict[str, Workload]:
    """All workloads by name."""
    workloads = {}
    for set_name, file in _SETS.items():
        for name, entry in yaml.safe_load((_FOLDER / file).read_text()).items():
            command = tuple(str(word) for word in entry.pop("command"))  # YAML reads -6 as a number
            if command[0] == "{kernel}" and not entry.keys() & _GENERATED.keys():
                entry.setdefault("kernel", name.removeprefix("k_"))
            status = entry.pop("status", 0)
            statuses = tuple(status) if isinstance(status, list) else (status,)
            workloads[name] = Workload(name=name, command=command, set=set_name, status=statuses, **entry)
    return workloads


def select(names: Sequence[str] = (), set_name: str | None = None) -> list[Workload]:
    """These workloads, or all of a set (or of all sets) that the machine has."""
    known = catalogue()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"unknown workload {unknown[0]!r}; `perfvec suite list` shows the {len(known)} there are")
    if set_name is not None and set_name not in _SETS:
        raise InputError(f"unknown set {set_name!r}; one of {', '.join(_SETS)}")
    if names:
        return [known[name] for name in names]
    return [w for w in known.values() if w.available and set_name in (None, w.set)]


def packages_missing(workloads: Iterable[Workload]) -> list[str]:
    """Debian packages that bring those of the programs that are not on this machine."""
    return sorted({workload.package for workload in workloads if not workload.available})
