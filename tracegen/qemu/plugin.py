"""Compiles the QEMU plugin on first use, keeps it in the user's cache, and finds the version QEMU accepts."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from uarch.errors import InputError

SOURCE = Path(__file__).with_name("plugin.c")
_FLAGS = ("-O2", "-g0", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")
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
    """Compile plugin.c for a version of QEMU's plugin interface, unless the cache has it."""
    compiler = _compiler()
    key = hashlib.sha256()
    for part in (SOURCE.read_bytes(), " ".join([*compiler, *_FLAGS]).encode(), str(api).encode(), _identity(compiler)):
        key.update(hashlib.sha256(part).digest())
    name = f"qemu-plugin-{key.hexdigest()[:24]}.so"
    for folder in _cache_folders():
        plugin = folder / name
        if plugin.is_file():
            return plugin
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".plugin-", suffix=".so", dir=folder)
        except OSError:
            continue
        os.close(handle)
        try:
            command = [*compiler, *_FLAGS, f"-DPLUGIN_API={api}", "-o", temporary, str(SOURCE)]
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if run.returncode != 0:
                line = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip()[:200])
                raise InputError(f"the tracing plugin does not compile with {shlex.join(compiler)}: {line}")
            Path(temporary).chmod(0o755)
            Path(temporary).replace(plugin)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return plugin
    raise InputError("no writable folder for the compiled tracing plugin; set XDG_CACHE_HOME to one")


def _cache_folders() -> list[Path]:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    home = os.environ.get("HOME") or ""
    folders = [Path(base) / "perfvec"] if base.startswith("/") else [Path(home) / ".cache" / "perfvec"] if home else []
    return [*folders, Path(tempfile.gettempdir()) / f"perfvec-{os.getuid()}"]


def _compiler() -> list[str]:
    chosen = shlex.split(os.environ.get("CC", ""))
    for command in ([chosen] if chosen else []) + [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    raise InputError("no C compiler: tracing compiles its QEMU plugin on first use (apt install gcc, or set CC)")


def _identity(compiler: list[str]) -> bytes:
    path = Path(shutil.which(compiler[0]) or compiler[0]).resolve()
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}".encode()


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
