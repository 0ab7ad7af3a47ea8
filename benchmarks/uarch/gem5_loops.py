"""Small loops on stock gem5 and in the timing model (a tool, not a test): cycles a round of each, as a Markdown table.

    python benchmarks/uarch/gem5_loops.py                                      # the timing model beside what gem5 gave
    python benchmarks/uarch/gem5_loops.py --gem5 gem5.opt --loops stores loads  # runs gem5 and keeps what it gives

`tests/uarch/loops` holds a loop in each .S file, `loops.yaml` which core it is for, `machines.json` the machines and
`gem5.json` what gem5 gave.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from tracegen.decode import decode
from tracegen.decode.disassembler import disassembler
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from uarch.configuration import Machine, machine_from_dict
from uarch.gem5.script import gem5_script
from uarch.gem5.simulated import as_simulated
from uarch.instructions import Chunk
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

LOOPS = Path(__file__).parents[2] / "tests" / "uarch" / "loops"
MEASURED = LOOPS / "gem5.json"
ROUNDS = "1000000000"  # more than are ever run
COMPILE = ("gcc", "-nostdlib", "-static", "-Wl,--build-id=none", "-Wl,-z,noexecstack")


@dataclass(frozen=True)
class Loop:
    name: str
    cores: str  # out-of-order, in-order or both
    skip: int = 0  # instructions that only warm the caches
    warmup: int = 5000  # instructions of the machine's own core before the measured ones
    instructions: int = 20000
    machines: tuple[str, ...] = ()
    within: float = 0.05  # how far the timing model may be from gem5 out of order,
    within_in_order: float = 0.05  # and in order

    @property
    def source(self) -> Path:
        return LOOPS / f"{self.name}.S"

    def build(self, folder: Path) -> Path:
        program = folder / self.name
        subprocess.run([*COMPILE, "-o", str(program), str(self.source)], check=True)
        return program

    def runs_on(self, machine: Machine) -> bool:
        if self.machines:
            return machine.name in self.machines
        return self.cores in (machine.core, "both")


def all_loops() -> list[Loop]:
    described = yaml.safe_load((LOOPS / "loops.yaml").read_text())
    return [
        Loop(name, **{key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()})
        for name, fields in described.items()
    ]


def all_machines() -> list[Machine]:
    """Return the machines as gem5 simulates them."""
    content = json.loads((LOOPS / "machines.json").read_text())
    return [
        as_simulated(load_machine(each) if isinstance(each, str) else machine_from_dict(each))[0] for each in content
    ]


def whole_text(program: Path) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Addresses [S] and bytes [S, 16] of all instructions of the program and of the zeros behind them on the page.

    A trace has only those that were executed, but cores fetch what lies behind a taken branch, too.
    """
    with program.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".text")
        start, text = section["sh_addr"], section.data()
    text += bytes(min(-(start + len(text)) % 4096, 2048))
    found = [(each.address, bytes(each.bytes)) for each in disassembler("x86-64", detail=False).disasm(text, start)]
    code = np.zeros((len(found), 16), np.uint8)
    for row, (_, raw) in enumerate(found):
        code[row, : len(raw)] = list(raw)
    return np.array([address for address, _ in found], np.uint64), code


def renumbered(chunk: Chunk, row: NDArray[np.int64]) -> Chunk:
    """The chunk with its static instruction `i` as `row[i]`."""
    following = np.minimum(chunk.next_static_id, len(row) - 1)  # the last one of a trace has none
    following = np.where(chunk.next_static_id < len(row), row[following], chunk.next_static_id)
    static = row[chunk.static_id].astype(chunk.static_id.dtype)
    return replace(chunk, static_id=static, next_static_id=following.astype(chunk.next_static_id.dtype))


class Traced:
    """A loop's trace, in parts: what warms the caches, the core, and what is measured."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        self.program = loop.build(folder)
        path = folder / f"{loop.name}.trace.h5"
        end = loop.skip + loop.warmup + loop.instructions
        # Where the arguments lie, on one line or on two, decides how some loops begin, and so all that follows.
        here = Execution([f"./{self.program.name}", ROUNDS], cwd=folder, env={}, max_instructions=end)
        trace(here, path, progress=False)
        with Trace(path) as file:
            address, code = whole_text(self.program)
            self.instructions = decode(address, code, file.isa)
            row = np.searchsorted(address, file.address)
            self.skipped = [renumbered(chunk, row) for chunk in file.chunks(1 << 18, 0, loop.skip)] if loop.skip else []
            (self.warm,) = file.chunks(loop.warmup, loop.skip, loop.skip + loop.warmup)
            (self.window,) = file.chunks(loop.instructions, loop.skip + loop.warmup, end)
        self.warm, self.window = renumbered(self.warm, row), renumbered(self.window, row)
        path.unlink()
        executed = np.bincount(self.window.static_id, minlength=len(address))
        self.rounds = loop.instructions / max(executed.sum() / executed[self._closing(executed)], 1)

    def _closing(self, executed: np.ndarray) -> int:
        """The branch of `AGAIN`: what is executed last of the loop."""
        jumps = np.flatnonzero(executed)
        backwards = self.window.next_static_id < self.window.static_id
        return int(np.max(self.window.static_id[backwards])) if backwards.any() else int(jumps[-1])

    def cycles(self, machine: Machine) -> float:
        """The timing model's cycles a round."""
        simulation = Simulation(machine, self.instructions)
        for chunk in self.skipped:
            simulation.warm(chunk)
        simulation.run(self.warm)
        return float(simulation.run(self.window).sum(dtype=np.int64)) / self.rounds


def gem5_cycles(gem5: Path, loop: Loop, machine: Machine, program: Path, folder: Path) -> tuple[int, int]:
    """Instructions that gem5 measured, and their cycles."""
    script = folder / f"{machine.name}.py"
    script.write_text(gem5_script(machine))
    options = [f"--warmup={loop.warmup}", f"--max-instructions={loop.instructions}"]
    options += [f"--fast-forward={loop.skip}"] if loop.skip else []
    output = folder / f"{loop.name}-{machine.name}"
    command = [str(gem5), "-q", "-d", str(output), str(script), *options, "--", str(program), ROUNDS]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    found = re.search(r"^(\d+) instructions, (\d+) cycles$", run.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{' '.join(command)}:\n{run.stdout}\n{run.stderr}")
    return int(found[1]), int(found[2])


def measure(gem5: Path, loops: list[Loop], machines: list[Machine], workers: int) -> None:
    """Runs the loops on gem5 and keeps cycles an instruction in `gem5.json`."""
    version = subprocess.run([str(gem5), "--version"], capture_output=True, text=True).stdout.split()[-1:]
    kept: dict[str, Any] = json.loads(MEASURED.read_text()) if MEASURED.exists() else {"cycles": {}}
    kept["gem5"] = "v" + version[0].removeprefix("v") if version else "?"
    kept["date"] = str(datetime.date.today())
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        folder = Path(name)
        jobs = [
            (loop, machine, pool.submit(gem5_cycles, gem5, loop, machine, loop.build(folder), folder))
            for loop in loops
            for machine in machines
            if loop.runs_on(machine)
        ]
        for loop, machine, job in jobs:
            instructions, cycles = job.result()
            kept["cycles"].setdefault(loop.name, {})[machine.name] = round(cycles / instructions, 5)
            print(f"{loop.name} {machine.name}: {cycles / instructions:.4f} cycles an instruction", file=sys.stderr)
            MEASURED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


@dataclass(frozen=True)
class Pair:
    """Cycles a round of a loop on a machine."""

    loop: Loop
    machine: Machine
    gem5: float
    ours: float

    @property
    def error(self) -> float:
        return self.ours / self.gem5 - 1


def compared(loops: list[Loop], machines: list[Machine]) -> list[Pair]:
    """The timing model beside what gem5 gave, where it gave something."""
    kept = json.loads(MEASURED.read_text())["cycles"]
    pairs = []
    with tempfile.TemporaryDirectory() as name:
        for loop in loops:
            chosen = [machine for machine in machines if machine.name in kept.get(loop.name, {})]
            if not chosen:
                continue
            traced = Traced(loop, Path(name))
            length = loop.instructions / traced.rounds
            for machine in chosen:
                pairs.append(Pair(loop, machine, kept[loop.name][machine.name] * length, traced.cycles(machine)))
    return pairs


def table(pairs: list[Pair]) -> str:
    """The error of the cycles in per cent, a row a loop, a column a machine."""
    machines = list(dict.fromkeys(pair.machine.name for pair in pairs))
    lines = [f"| loop | {' | '.join(machines)} |", "|---" * (len(machines) + 1) + "|"]
    for loop in dict.fromkeys(pair.loop.name for pair in pairs):
        errors = {pair.machine.name: 100 * pair.error for pair in pairs if pair.loop.name == loop}
        cells = [
            "" if name not in errors else "0" if abs(errors[name]) < 0.05 else f"{errors[name]:+.1f}"
            for name in machines
        ]
        lines.append(f"| {loop} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gem5", type=Path, help="gem5.opt for X86; its results are kept")
    parser.add_argument("--loops", nargs="*", default=[])
    parser.add_argument("--machines", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=2, help="runs of gem5 side by side")
    arguments = parser.parse_args()
    loops = [loop for loop in all_loops() if not arguments.loops or loop.name in arguments.loops]
    machines = [m for m in all_machines() if not arguments.machines or m.name in arguments.machines]
    if arguments.gem5 is None and not MEASURED.exists():
        parser.error(f"{MEASURED} is not there; --gem5 makes it")
    if arguments.gem5:
        measure(arguments.gem5.resolve(), loops, machines, arguments.workers)
    print(table(compared(loops, machines)))


if __name__ == "__main__":
    main()
