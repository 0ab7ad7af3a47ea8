"""The time of a scheduled program on machines of `uarch/`: traced once under QEMU, timed by the embedded simulator.

The program becomes a static executable (`kernel.c`) that calls the kernel twice. The trace is of both calls; the first
fills caches and predictors, the time is that of the second: as on real devices, where caches are warm too.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from tracegen.tensor.build import compiled
from uarch.configuration import load_machine
from uarch.errors import InputError

if TYPE_CHECKING:
    from tvm.ir import IRModule

    from tracegen.trace import Trace

PREFIX = "sim:"
# What each ISA's programs are built for: QEMU runs it, and the tracer decodes it.
TARGETS: dict[str, dict[str, object]] = {
    "x86-64": {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1},
    "aarch64": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 1},
}
_COMPILERS = {"x86-64": ("cc", "gcc", "clang"), "aarch64": ("aarch64-linux-gnu-gcc",)}
_SOURCE = Path(__file__).with_name("kernel.c")


class TooLong(Exception):
    """The kernel executes more instructions than the limit."""


def require_simulated(device: str, isa: str) -> None:
    """Raise InputError unless `sim:MACHINE` names a machine and this computer can build and trace for the ISA."""
    from tracegen.qemu.plugin import find_qemu

    load_machine(device.removeprefix(PREFIX))
    if isa not in TARGETS:
        raise InputError(f"programs cannot be built for {isa!r}; known are {', '.join(TARGETS)}")
    compiler(isa)
    find_qemu(isa)


def compiler(isa: str) -> str:
    """The system's C compiler for an ISA. Raises InputError where there is none."""
    for name in _COMPILERS[isa]:
        if found := shutil.which(name):
            return found
    raise InputError(f"{_COMPILERS[isa][0]} is needed to simulate {isa} programs; install it")


def executable(
    module: IRModule, arguments: Sequence[tuple[str, tuple[int, ...]]], path: Path, isa: str = "x86-64"
) -> None:
    """Build the scheduled program as a static executable with a function `kernel`, which it calls twice."""
    unlinked = path.with_suffix(".o")
    compiled(module, TARGETS[isa]).write_to_file(str(unlinked), "o")
    shapes = ",".join(",".join(map(str, (*shape, 0))) for _, shape in arguments)
    bits = ",".join(_bits(kind) for kind, _ in arguments)
    floats = ",".join(str(int(kind.startswith("float"))) for kind, _ in arguments)
    command = [compiler(isa), "-O1", "-static", f"-DSHAPES={shapes}", f"-DBITS={bits}", f"-DFLOATS={floats}"]
    done = subprocess.run(
        [*command, "-o", str(path), str(_SOURCE), str(unlinked), "-lm"], capture_output=True, text=True
    )
    if done.returncode:
        raise InputError(f"{_SOURCE.name}: {done.stderr.strip().splitlines()[-1]}")


def _bits(kind: str) -> str:
    return "8" if kind == "bool" else kind.lstrip("abcdefghijklmnopqrstuvwxyz")


def simulated_seconds(program: Path, machines: Sequence[str], max_instructions: int) -> dict[str, float]:
    """Seconds of the second call of `kernel` in the executable, on each machine (a preset or file).

    Raises TooLong where one call executes more than `max_instructions`.
    """
    from tracegen.decode import decode
    from tracegen.qemu import trace
    from tracegen.qemu.region import Region, parse_place
    from tracegen.trace import Trace
    from uarch.timing.simulation import Simulation

    region = Region(start=parse_place("kernel"), returns=True, times=2)
    with TemporaryDirectory(prefix="perfvec-kernel-") as folder:
        path = Path(folder) / "kernel.trace.h5"
        result = trace(
            [str(program)], path, region=region, max_instructions=2 * max_instructions + 1, progress=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if result.instructions > 2 * max_instructions:
            raise TooLong(f"too long: more than {max_instructions:,} instructions")
        with Trace(path) as opened:
            instructions = decode(opened.address, opened.code, opened.isa)
            simulations = [Simulation(load_machine(machine), instructions) for machine in machines]
            second = second_call(opened)
            for simulation in simulations:
                for chunk in opened.chunks(stop=second):
                    simulation.run(chunk)
                simulation.reset_counters()
                for chunk in opened.chunks(start=second):
                    simulation.run(chunk)
    return {
        name: simulation.counters["cycles"] / (simulation.machine.frequency_ghz * 1e9)
        for name, simulation in zip(machines, simulations, strict=True)
    }


def second_call(trace: Trace) -> int:
    """Where the first executed instruction, the kernel's entry, is executed again."""
    entry, before = None, 0
    for chunk in trace.chunks():
        entry = chunk.static_id[0] if entry is None else entry
        found = np.flatnonzero(chunk.static_id == entry)
        found = found[found + before > 0]
        if len(found):
            return before + int(found[0])
        before += len(chunk)
    raise InputError(f"{trace.path}: the kernel was called once only")
