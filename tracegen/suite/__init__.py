"""A catalogue of workloads: real programs and small kernels with generated inputs, traced side by side, resumably."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import yaml
from tqdm import tqdm

from tracegen.qemu.runner import trace
from tracegen.suite.inputs import compile_c, input_file
from tracegen.trace import Trace
from uarch.errors import InputError

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Workload:
    """One program with its arguments; `kernel` names a C file of our own, empty for the system's programs."""

    name: str
    group: str
    command: tuple[str, ...]
    stdin: str | None
    kernel: str
    program: str

    @property
    def available(self) -> bool:
        """Whether this machine has the program."""
        return bool(self.kernel) or shutil.which(self.command[0]) is not None


def catalogue() -> dict[str, Workload]:
    """All workloads by name."""
    entries = yaml.safe_load((_FOLDER / "workloads.yaml").read_text())
    workloads = {}
    for name, entry in entries.items():
        command = tuple(str(word) for word in entry["command"])  # YAML reads -6 as a number
        kernel = entry.get("kernel", name.removeprefix("k_")) if command[0] == "{kernel}" else ""
        workloads[name] = Workload(name, entry["group"], command, entry.get("stdin"), kernel, entry.get("program", ""))
    return workloads


def select(names: list[str]) -> list[Workload]:
    """These workloads, or all that the machine has."""
    known = catalogue()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"unknown workload {unknown[0]!r}; `perfvec suite list` shows the {len(known)} there are")
    return [known[name] for name in names] if names else [w for w in known.values() if w.available]


def _prepare(workload: Workload, folder: Path) -> tuple[list[str], Path | None]:
    """The command with its placeholders filled, and the file on its standard input."""

    def fill(match: re.Match[str]) -> str:
        if match[1] == "kernel":
            path = folder / f"kernel-{workload.kernel}"
            if not path.exists():
                compile_c(_FOLDER / "kernels" / f"{workload.kernel}.c", path, [])
            return str(path)
        return str(input_file(match[1], folder))

    words = [re.sub(r"^\{(\w+)\}$", fill, word) for word in workload.command]
    if workload.program == "cc1":  # the compiler proper, not its driver, which only starts it
        words = _compiler_proper(words)
    return words, input_file(workload.stdin, folder) if workload.stdin else None


def _compiler_proper(words: list[str]) -> list[str]:
    found = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=False).stdout.strip()
    if not Path(found).exists():
        raise InputError("the workload needs GCC's cc1; install gcc")
    optimise = ["-E"] if words[0] == "cpp" else ["-O2"]
    return [found, "-quiet", *optimise, words[-1], "-o", "/dev/null"]


def _trace_one(workload: Workload, folder: Path, max_instructions: int) -> tuple[str, int]:
    output = folder / f"{workload.name}.trace.h5"
    command, stdin = _prepare(workload, folder / "inputs")
    with Path(stdin or os.devnull).open("rb") as given, Path(os.devnull).open("wb") as unheard:
        result = trace(
            command,
            output,
            stdin=given,
            stdout=unheard,
            stderr=unheard,
            max_instructions=max_instructions,
            progress=False,
        )
    return workload.name, result.instructions


def run(
    names: list[str], folder: Path, max_instructions: int, *, workers: int = 2, progress: bool = True
) -> dict[str, int]:
    """Trace these workloads (all where empty) into `folder`, at most `max_instructions` each; instructions by name.

    A trace that is there already stays, so a run that was stopped continues.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chosen = select(names)
    done: dict[str, int] = {}
    missing = []
    for workload in chosen:
        path = folder / f"{workload.name}.trace.h5"
        if path.exists():
            with Trace(path) as made:
                done[workload.name] = len(made)
        else:
            missing.append(workload)
    for workload in missing:  # inputs are shared: made before the processes start
        _prepare(workload, folder / "inputs")
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_trace_one, workload, folder, max_instructions) for workload in missing]
        for future in tqdm(as_completed(futures), total=len(futures), desc="trace", disable=None if progress else True):
            name, instructions = future.result()
            done[name] = instructions
    return done
