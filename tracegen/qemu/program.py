"""Program that a command runs, as a shell and the kernel find it, and the places of its libraries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.errors import InputError
from tracegen.binary import elf

_SYSROOTS = {
    "x86-64": ("/usr/x86_64-linux-gnu",),
    "aarch64": ("/usr/aarch64-linux-gnu",),
    "riscv64": ("/usr/riscv64-linux-gnu",),
}
_DEBIAN_LIBC = {"x86-64": "libc6-amd64-cross", "aarch64": "libc6-arm64-cross", "riscv64": "libc6-riscv64-cross"}
_CPUS = {"aarch64": "max,sve=off"}  # QEMU does not tell what SVE's instructions access, and the C library uses them
_ZEROED = {"max": 512, "a64fx": 256}  # bytes that `dc zva` stores; 64 with QEMU's other CPUs (target/arm/cpu64.c)
_SCRIPT_DEPTH = 4  # interpreters that are scripts themselves, as in Linux


@dataclass(frozen=True)
class Executable:
    """Executable and arguments of a command: `#!` scripts are replaced by their interpreter."""

    executable: elf.Executable
    argv: tuple[str, ...]
    script: Path | None = None  # the file that the command names, where it is one


def find_program(command: Sequence[str | os.PathLike[str]], environment: Mapping[str, str], folder: Path) -> Executable:
    """Find the program of a command as a shell would, following `#!` lines to their interpreter."""
    argv = tuple(os.fspath(argument) for argument in command)
    path = named = _look_up(argv[0], environment, folder)
    for _ in range(_SCRIPT_DEPTH):
        try:
            with path.open("rb") as stream:
                start = stream.read(256)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); tracing needs to read the program") from error
        if start[:2] != b"#!":
            return Executable(elf.inspect(path), argv, named if named != path else None)
        words = start[2:].split(b"\n", 1)[0].strip().split(None, 1)
        if not words:
            raise InputError(f"{path}: its first line, '#!', names no interpreter")
        interpreter, *argument = (os.fsdecode(word) for word in words)
        if Path(interpreter).name == "env" and argument and not argument[0].startswith("-") and "=" not in argument[0]:
            # env(1) would replace itself by the interpreter, where its own trace ends
            interpreter, argument = argument[0], []
        argv = (interpreter, *argument, str(path) if "/" not in argv[0] else argv[0], *argv[1:])
        path = _look_up(interpreter, environment, folder)
    raise InputError(f"{path}: more than {_SCRIPT_DEPTH} scripts interpret each other; name the program itself")


def _look_up(name: str, environment: Mapping[str, str], folder: Path) -> Path:
    if not name:
        raise InputError("the program's name is empty; expected PROGRAM ARGS…")
    if "/" in name:
        path = folder / name
    else:
        search = environment.get("PATH", os.defpath)
        found = shutil.which(name, path=search)
        if found is None:
            raise InputError(f"{name}: no such program in PATH; for one in this folder write ./{name}")
        path = Path(found)
    if not path.exists():
        raise InputError(f"{path}: no such program")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a program in it")
    if not os.access(path, os.X_OK):
        raise InputError(f"{path}: is not executable; chmod +x it, or name a program")
    return path.absolute()


def sysroot_arguments(executable: elf.Executable, environment: Mapping[str, str]) -> list[str]:
    """`-L FOLDER` where a dynamic program's libraries are not those of this system."""
    if executable.interpreter is None or "QEMU_LD_PREFIX" in environment:
        return []
    if Path(executable.interpreter).exists():
        return []
    for root in _SYSROOTS[executable.isa]:
        if Path(root + executable.interpreter).exists():
            return ["-L", root]
    raise InputError(
        f"{executable.path}: its dynamic linker {executable.interpreter} is not here; install "
        f"{_DEBIAN_LIBC[executable.isa]}, set QEMU_LD_PREFIX to a folder that has it, or link the program statically"
    )


def cpu_arguments(isa: str, environment: Mapping[str, str]) -> list[str]:
    """`-cpu CPU` where QEMU's own choice does not serve and the user made none."""
    return ["-cpu", _CPUS[isa]] if isa in _CPUS and "QEMU_CPU" not in environment else []


def zeroed_bytes(isa: str, environment: Mapping[str, str]) -> int:
    """Bytes that AArch64's `dc zva` stores with the CPU that the user or `cpu_arguments` chose; else 0."""
    if isa != "aarch64":
        return 0
    return _ZEROED.get(environment.get("QEMU_CPU", _CPUS[isa]).split(",")[0], 64)
