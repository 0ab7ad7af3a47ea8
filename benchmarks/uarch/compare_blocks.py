"""Throughput of basic blocks of programs: the simulator with native micro-operations, llvm-mca, OSACA, this computer.

python -m benchmarks.uarch.compare_blocks POINTS.livepoints.h5… [--family zen4] [--machine host.yaml] [--blocks 200]
    [--llvm-mca llvm-mca-19] [--osaca PATH] [--here]

The blocks executed most, of at least four instructions, without calls, returns, strings, divisions and x87. All see a
block's copies one behind another, operands in L1, branches as expected and, but in the row `looped`, not taken. Neither
tool knows that a load may read what the block has stored, or the front end but its width, which OSACA does not know.
`--here` times the blocks on this computer, which has to be of the family.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.uarch.blocks import Block, blocks_of
from tracegen.decode import decode
from tracegen.live_points.live_points import load
from uarch.configuration import Machine, replace_fields
from uarch.constraints import FAMILIES, GEM5
from uarch.instructions import LAST, Chunk, Flag
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

_CPUS = {  # a family's name for llvm-mca and for OSACA
    "zen2": ("znver2", "ZEN2"),
    "zen3": ("znver3", "ZEN3"),
    "zen4": ("znver4", "ZEN4"),
    "zen5": ("znver5", ""),
    "haswell": ("haswell", "HSW"),
    "skylake": ("skylake-avx512", "SKX"),
    "icelake": ("icelake-server", "ICX"),
    "golden-cove": ("sapphirerapids", "SPR"),
    "cortex-a53": ("cortex-a53", ""),
    "cortex-a72": ("cortex-a72", "A72"),
    "neoverse-n1": ("neoverse-n1", "N1"),
}
_COPIES, _ROUNDS = 20, 200  # of a block one behind another, whose code and data stay in L1; of copies
_OURS = ("gem5's", "ours, looped", "ours")
_HEAD = [
    "| cycles | blocks | median off | within 10 % | median ratio | 10th to 90th percentile |",
    "|---|---|---|---|---|---|",
]
_KINDS = {  # of blocks, by what their text has, of x86-64; the first that fits
    "push, pop": r"(?m)^(push|pop)",
    "stores": r"(?m)^(?!cmp|test|nop)\w+ .*\)$",
    "arithmetic with a load": r"(?m)^(?!v?mov|cmp|test|lea|nop)\w+ .*(\)|%fs:\w+), ",
    "loads": r"(?m)^(?!lea|nop)\w+ .*(\)|%fs:)",
    "no memory": "",
}


def simulated(block: Block, machine: Machine, copies: int = _COPIES) -> float:
    """Cycles of a copy by the simulator; one copy is a loop."""
    address = np.concatenate([block.address + np.uint64(copy * block.size) for copy in range(copies)])
    static = decode(address, np.tile(block.code, (copies, 1)), block.isa)
    size, rounds = len(static), _ROUNDS // copies
    kinds = [[0] * bool(flags & Flag.LOAD) + [1] * bool(flags & Flag.STORE) for flags in static.flags]
    counts = [len(kind) for kind in kinds]
    stores = np.array([store for kind in kinds for store in kind], np.uint8)
    ids = np.tile(np.arange(size, dtype=np.uint32), rounds)
    chunk = Chunk(
        0,
        ids,
        np.append(ids[1:], LAST).astype(np.uint32),
        np.concatenate([[0], np.cumsum(np.tile(counts, rounds))]).astype(np.int64),
        np.tile(np.repeat(np.array(block.places(copies), np.uint64), counts), rounds),
        np.full(len(stores) * rounds, 8, np.uint8),
        np.tile(stores, rounds),
    )
    simulation = Simulation(machine, static, ("branches", "instructions"))
    simulation.run(chunk)
    simulation.reset_counters()
    simulation.run(chunk)
    return simulation.counters["cycles"] / (rounds * copies)


def by_llvm_mca(block: Block, family: str, tool: str) -> float:
    """Cycles of a copy; NaN where the tool does not know an instruction."""
    command = [tool, f"-mtriple={block.isa.replace('-', '_')}", f"-mcpu={_CPUS[family][0]}", f"-iterations={_ROUNDS}"]
    command += ["--summary-view", "--resource-pressure=0", "--instruction-info=0"]
    run = subprocess.run(command, input=block.text, capture_output=True, text=True, check=False)
    total = re.search(r"Total Cycles:\s+(\d+)", run.stdout)
    known = run.returncode == 0 and "not a recognized processor" not in run.stderr  # else that of another one
    return int(total[1]) / _ROUNDS if known and total else np.nan


def by_osaca(block: Block, family: str, tool: str) -> float:
    """Cycles of a copy: of the busiest port or, if more, of what waits for the copy before; NaN as above."""
    with tempfile.TemporaryDirectory(prefix="perfvec-") as folder:
        source, answer = Path(folder, "block.s"), Path(folder, "block.yaml")
        source.write_text(block.text)
        command = [tool, "--arch", _CPUS[family][1], "--yaml-out", str(answer), str(source)]
        syntax = ["--syntax", "ATT"] if block.isa == "x86-64" else []
        subprocess.run([*command, *syntax], capture_output=True, check=False)
        text = answer.read_text() if answer.exists() else ""
    found, _, warnings = text.partition("\nSummary:")[2].partition("\nWarnings:")
    carried, ports = re.search(r"LCD: ([\d.]+)", found), re.search(r"PortPressure: {(.*?)}", found, re.DOTALL)
    if carried is None or ports is None or "UnknownInstrWarning" in warnings:
        return np.nan
    return max(float(carried[1]), *(float(cycles) for cycles in re.findall(r":\s+([\d.]+)", ports[1])))


def here(blocks: Sequence[Block]) -> list[float]:
    """Cycles of a copy of each on this computer, its branch taken or not as is quicker; NaN where it faults."""
    straight = [block.straight() for block in blocks]
    lines = "".join(f"{code.hex()}\n" for codes in straight for code in codes)
    with tempfile.TemporaryDirectory(prefix="perfvec-") as folder:
        program = Path(folder, "time_blocks")
        subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name("time_blocks.c")], check=True)
        run = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    cycles = iter(np.nan if line == "-" else float(line) for line in run.stdout.splitlines())
    return [float(np.fmin.reduce([next(cycles) for _ in codes])) for codes in straight]


def row(name: str, ratio: np.ndarray) -> str:
    """A row of a table, of one's cycles over another's."""
    ratio = ratio[np.isfinite(ratio)]
    if not len(ratio):
        return f"| {name} | 0 | | | | |"
    low, middle, high = np.percentile(ratio, [10, 50, 90])
    off = np.abs(ratio - 1)
    spread = f"{middle:.2f} | {low:.2f} to {high:.2f}"
    return f"| {name} | {len(ratio)} | {np.median(off):.1%} | {np.mean(off <= 0.1):.0%} | {spread} |"


def tables(cycles: dict[str, np.ndarray]) -> list[str]:
    """Each column over each later one, and the same of the blocks that all have an answer to."""
    pairs = [(name, over) for k, over in enumerate(cycles) for name in list(cycles)[:k] if over not in _OURS]
    all_known = np.all([np.isfinite(column) for column in cycles.values()], axis=0)
    lines = [*_HEAD, *(row(f"{name} over {over}", cycles[name] / cycles[over]) for name, over in pairs)]
    lines += ["", "Blocks that all know:", "", *_HEAD]
    return lines + [row(f"{name} over {over}", (cycles[name] / cycles[over])[all_known]) for name, over in pairs]


def by_kind(blocks: Sequence[Block], cycles: dict[str, np.ndarray]) -> list[str]:
    """Each column over the last one for each kind of block."""
    kinds = np.array([next(kind for kind, text in _KINDS.items() if re.search(text, block.text)) for block in blocks])
    *names, last = cycles
    lines = ["", "By kind of block:", "", *_HEAD]
    for kind in _KINDS:
        ratios = {name: (cycles[name] / cycles[last])[kinds == kind] for name in names if name != "gem5's"}
        lines += [row(f"{kind}: {name} over {last}", ratio) for name, ratio in ratios.items()]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("points", nargs="+", type=Path)
    parser.add_argument("--family", choices=_CPUS, default="zen4")
    parser.add_argument("--machine", default="zen4-native")
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--llvm-mca", default="llvm-mca")
    parser.add_argument("--osaca", help="its program; without it OSACA is not asked")
    parser.add_argument("--here", action="store_true", help="time the blocks on this computer")
    options = parser.parse_args(arguments)
    machine = replace_fields(load_machine(options.machine), {"microcode": options.family})
    gem5 = replace_fields(machine, {"microcode": GEM5})
    ours = (partial(simulated, machine=gem5), partial(simulated, machine=machine, copies=1))
    columns: dict[str, Callable[[Block], float]] = dict(
        zip(_OURS, (*ours, partial(simulated, machine=machine)), strict=True)
    )
    if options.osaca:
        columns["OSACA"] = partial(by_osaca, family=options.family, tool=options.osaca)
    columns["llvm-mca"] = partial(by_llvm_mca, family=options.family, tool=options.llvm_mca)
    share = -(-options.blocks // len(options.points))
    blocks = [block for path in options.points for block in blocks_of(load(path), share)]
    cycles = {name: np.array([column(block) for block in blocks]) for name, column in columns.items()}
    if options.here:
        cycles["silicon"] = np.array(here(blocks))
    of_text = FAMILIES[options.family] == "x86-64"
    print("\n".join([*tables(cycles), *(by_kind(blocks, cycles) if of_text else [])]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
