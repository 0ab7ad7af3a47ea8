"""The time of a scheduled program on machines of `uarch/`: traced once under QEMU, timed by the embedded simulator.

The program becomes a static executable (`kernel.c`) that calls the kernel twice. The trace is of both calls; the first
fills caches and predictors, the time is that of the second: as on real devices, where caches are warm too. It reads the
arguments that real devices get, and writes its results, so that they can be compared.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.tensor.build import compiled
from tracegen.tensor.layout import layouts_of, rearranged
from tracegen.tensor.measure import arguments
from tracegen.tensor.reference import Reference, unwritten
from tracegen.tensor.tasks import Task, arguments_of
from uarch.configuration import Machine
from uarch.machine_files import load_machine
from uarch.space import sample

if TYPE_CHECKING:
    from tvm.ir import IRModule

    from tracegen.formats.trace import Trace

PREFIX = "sim:"
# What each ISA's programs are built for: QEMU runs it, and the tracer decodes it.
TARGETS: dict[str, dict[str, object]] = {
    "x86-64": {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1},
    "aarch64": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 1},
}
VECTOR_BYTES = 16  # of SSE and of Advanced SIMD
_COMPILERS = {"x86-64": ("cc", "gcc", "clang"), "aarch64": ("aarch64-linux-gnu-gcc",)}
_SOURCE = Path(__file__).with_name("kernel.c")


class TooLong(Exception):
    """The kernel executes more instructions than the limit."""


def simulated_devices(text: str, isa: str) -> dict[str, Machine]:
    """{name: machine} of the devices that `sim:MACHINE` (a preset, or a file) or `sim:SPACE:N` (the first N that are
    drawn of a design space) stands for, running programs of the ISA.

    A name is `sim:` and the machine's; programs of other ISAs than x86-64 add `@ISA`, because times are theirs.
    Raises InputError unless there are such machines and this computer can build and trace for the ISA.
    """
    require_simulated(isa)
    space, _, count = text.removeprefix(PREFIX).rpartition(":")
    if space and count.isdigit():
        machines = sample(int(count), space=space)
    else:
        machines = [load_machine(text.removeprefix(PREFIX))]
    suffix = "" if isa == "x86-64" else f"@{isa}"
    return {f"{PREFIX}{machine.name}{suffix}": machine for machine in machines}


def isa_of(device: str) -> str:
    """The ISA of the programs that a simulated device runs, by its name."""
    return device.rpartition("@")[2] if "@" in device else "x86-64"


def require_simulated(isa: str) -> None:
    """Raise InputError unless this computer can build and trace programs of the ISA."""
    from tracegen.qemu.plugin import find_qemu

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
    module: IRModule,
    arguments: Sequence[tuple[str, tuple[int, ...]]],
    path: Path,
    isa: str = "x86-64",
    results: Sequence[int] = (),
) -> None:
    """Build the scheduled program as a static executable with a function `kernel`, which it calls twice.

    `results`: the numbers of the arguments that it writes to its second file (`kernel.c`).
    """
    unlinked = path.with_suffix(".o")
    compiled(module, TARGETS[isa]).write_to_file(str(unlinked), "o")
    shapes = ",".join(",".join(map(str, (*shape, 0))) for _, shape in arguments)
    flags = {
        "SHAPES": shapes,
        "BITS": ",".join(_bits(kind) for kind, _ in arguments),
        "FLOATS": ",".join(str(int(kind.startswith("float"))) for kind, _ in arguments),
        "RESULTS": ",".join(str(int(index in results)) for index in range(len(arguments))),
    }
    command = [compiler(isa), "-O1", "-static", *(f"-D{name}={value}" for name, value in flags.items())]
    done = subprocess.run(
        [*command, "-o", str(path), str(_SOURCE), str(unlinked), "-lm"], capture_output=True, text=True
    )
    if done.returncode:
        raise InputError(f"{_SOURCE.name}: {done.stderr.strip().splitlines()[-1]}")


def _bits(kind: str) -> str:
    return "8" if kind == "bool" else kind.lstrip("abcdefghijklmnopqrstuvwxyz")


def simulate(
    module: IRModule,
    task: Task,
    machines: Mapping[str, Machine],
    *,
    reference: Reference | None,
    isa: str,
    max_instructions: int,
) -> tuple[dict[str, float], float | None]:
    """Seconds of a task's scheduled program on each machine, and how far its results lie from the reference's.

    Raises TooLong where one call executes more than `max_instructions`.
    """
    arrays = rearranged(arguments(task.arguments), layouts_of(module))
    results = sorted(reference.outputs) if reference is not None else []
    for index in results:
        arrays[index] = unwritten(arrays[index].shape, arrays[index].dtype)
    with TemporaryDirectory(prefix="perfvec-kernel-") as folder:
        program, given, written = (Path(folder) / name for name in ("kernel", "arguments", "results"))
        executable(module, arguments_of(module), program, isa, results)
        with given.open("wb") as stream:
            for array in arrays:
                stream.write(np.ascontiguousarray(array).data)
        seconds = simulated_seconds([str(program), str(given), str(written)], machines, max_instructions)
        if reference is None:
            return seconds, None
        return seconds, reference.deviation(_results(written, {index: arrays[index] for index in results}))


def _results(path: Path, like: Mapping[int, NDArray[Any]]) -> dict[int, NDArray[Any]]:
    with path.open("rb") as stream:
        return {
            index: np.fromfile(stream, array.dtype, array.size).reshape(array.shape) for index, array in like.items()
        }


def simulated_seconds(
    command: Sequence[str], machines: Mapping[str, Machine], max_instructions: int
) -> dict[str, float]:
    """Seconds of the second call of `kernel` in an executable that runs as `command`, on each machine.

    Raises TooLong where one call executes more than `max_instructions`, InputError where the program fails.
    """
    from tracegen.formats.trace import Trace
    from tracegen.qemu import Execution, trace
    from tracegen.qemu.region import Region, parse_place
    from uarch.timing.simulations import Simulations

    execution = Execution(
        command,
        region=Region(start=parse_place("kernel"), returns=True),
        max_instructions=2 * max_instructions + 1,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with TemporaryDirectory(prefix="perfvec-kernel-") as folder:
        path = Path(folder) / "kernel.trace.h5"
        result = trace(execution, path, progress=False)
        if result.instructions > 2 * max_instructions:
            raise TooLong(f"too long: more than {max_instructions:,} instructions")
        if result.exit_status != 0:
            how = f"signal {result.signal}" if result.exit_status is None else f"status {result.exit_status}"
            raise InputError(f"the program ended with {how}")
        with Trace(path) as opened:
            instructions = opened.static
            simulations = Simulations(list(machines.values()), instructions)  # a core measures: no threads
            second = second_call(opened)
            for chunk in opened.chunks(stop=second):
                simulations.run(chunk)
            simulations.reset_counters()
            for chunk in opened.chunks(start=second):
                simulations.run(chunk)
    return {
        name: simulation.counters["cycles"] / (simulation.machine.frequency_ghz * 1e9)
        for name, simulation in zip(machines, simulations.each, strict=True)
    }


def second_call(trace: Trace) -> int:
    """Return where the first executed instruction, the kernel's entry, is executed again."""
    entry, before = None, 0
    for chunk in trace.chunks():
        entry = chunk.static_id[0] if entry is None else entry
        found = np.flatnonzero(chunk.static_id == entry)
        found = found[found + before > 0]
        if len(found):
            return before + int(found[0])
        before += len(chunk)
    raise InputError(f"{trace.path}: the kernel was called once only")
