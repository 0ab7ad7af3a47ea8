"""Compiles the QEMU plugin on first use, keeps it in the user's cache, and finds the version QEMU accepts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from support.compiled import compiled
from support.errors import InputError

SOURCE, OPERANDS = (Path(__file__).with_name(name) for name in ("plugin.c", "operands.h"))
FLAGS = ("-O2", "-pthread")
_BINARIES = {"x86-64": "qemu-x86_64", "aarch64": "qemu-aarch64", "riscv64": "qemu-riscv64"}


def find_qemu(isa: str) -> Path:
    """The user-mode emulator for an instruction set (the static build cannot load plugins)."""
    name = _BINARIES[isa]
    found = shutil.which(name)
    if found is None:
        raise InputError(
            f"{name}: not found; tracing needs QEMU's user mode (Debian and Ubuntu: apt install qemu-user)"
        )
    return Path(found)


def plugin_for(qemu: Path) -> Path:
    """The compiled plugin that this QEMU loads."""
    version = _announced_version(qemu)
    refusal = ""
    for _ in range(2):
        plugin = compile_plugin(version)
        refusal = _load(qemu, plugin)
        if not refusal:
            return plugin
        limit = re.search(r"supports only (?:a minimum version of|up to version) (\d+)", refusal)
        if limit is None or int(limit[1]) == version:
            break
        version = int(limit[1])
    line = next((line for line in reversed(refusal.splitlines()) if line.strip()), "no reason given")
    raise InputError(f"{qemu}: does not load the tracing plugin ({line.strip()}); install qemu-user 7.2 or newer")


def plugin_option(plugin: Path, **arguments: object) -> str:
    """The value of QEMU's option -plugin; it takes a doubled comma for a comma."""
    parts = [str(plugin), *(f"{name}={value}" for name, value in arguments.items())]
    return ",".join(part.replace(",", ",,") for part in parts)


def compile_plugin(api: int) -> Path:
    """plugin.c, compiled for a version of QEMU's plugin interface."""
    return compiled(SOURCE, [*FLAGS, f"-DPLUGIN_API={api}"], "the tracing plugin", [OPERANDS])


def _announced_version(qemu: Path) -> int:
    """The plugin interface is 1 up to QEMU 8.1; from 8.2 on, 2 is still accepted by all known versions."""
    run = subprocess.run([str(qemu), "--version"], capture_output=True, text=True, errors="replace", check=False)
    found = re.search(r"version (\d+)\.(\d+)", run.stdout)
    return 2 if found and (int(found[1]), int(found[2])) >= (8, 2) else 1


def _load(qemu: Path, plugin: Path) -> str:
    """Empty if QEMU loads the plugin, else what it says: it loads plugins before it looks for the program."""
    with tempfile.TemporaryDirectory(prefix="perfvec-") as folder:
        missing = str(Path(folder) / "no-such-program")
        run = subprocess.run(
            [str(qemu), "-plugin", plugin_option(plugin, dir=folder, reader=os.getpid()), missing],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    return run.stderr if "lugin" in run.stderr else ""
