"""Scheduled programs become shared objects, one for each target."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from support.errors import InputError

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.runtime import Module

# What the devices of this machine are to LLVM: a target's attributes.
TARGETS: dict[str, dict[str, object]] = {
    name: {"kind": "llvm", "mcpu": name, "num-cores": 1} for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4")
}
_NEEDS = {"x86-64-v2": ("sse4_2",), "x86-64-v3": ("avx2", "fma"), "x86-64-v4": ("avx512f", "avx512vl", "avx512bw")}


def level_of(device: str) -> str:
    """Return the target that programs are built for on a device: `LEVEL`, or `LEVEL@COMPUTER` where it is one of
    several computers.
    """
    return device.partition("@")[0]


def require_device(name: str) -> None:
    """Raise InputError unless this machine can run programs built for the device `name`."""
    level, at, computer = name.partition("@")
    if level not in TARGETS:
        raise InputError(f"there is no device {name!r} to measure on; known are {', '.join(TARGETS)}")
    if at and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", computer):
        raise InputError(f"{name!r}: {computer!r} is no name of a computer; letters, digits, '.', '_', '-' make one")
    flags = next(
        (line.split() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), []
    )
    missing = [flag for flag in _NEEDS[level] if flag not in flags]
    if missing:
        raise InputError(f"{name}: this machine's processor lacks {', '.join(missing)}; leave the device out")


def compiled(module: IRModule, target: dict[str, object]) -> Module:
    """The scheduled program compiled for the target."""
    from tvm.driver import build
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
    from tvm.target import Target

    return build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=Target(target))


def shared_object(module: IRModule, target: dict[str, object], path: Path) -> None:
    """Build the scheduled program for the target into a shared object with one function `main`."""
    unlinked = path.with_suffix(".o")
    compiled(module, target).write_to_file(str(unlinked), "o")
    subprocess.run([linker(), "-shared", "-o", str(path), str(unlinked)], check=True, capture_output=True)
    unlinked.unlink()


def linker() -> str:
    """The system's `ld`."""
    found = shutil.which("ld")
    if found is None:
        raise InputError("ld is needed to build tensor programs; install binutils")
    return found
