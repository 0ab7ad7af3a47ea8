"""Throughput of basic blocks of programs: the simulator with native micro-operations beside llvm-mca.

python benchmarks/uarch/compare_llvm_mca.py POINTS.livepoints.h5… [--family zen3] [--machine host.yaml] [--blocks 200]

The blocks executed most, of at least four instructions, without calls, returns, strings, divisions and x87. Both see a
block repeated with its operands in L1 and its branches as expected; a block's own loads and stores go to addresses of
their own.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import capstone
import numpy as np

from tracegen.decode import decode
from tracegen.decode.native.crack import RULES
from tracegen.live_points.live_points import LivePoints, load
from uarch.configuration import Machine, load_machine, replace_fields
from uarch.constraints import FAMILIES, GEM5
from uarch.instructions import LAST, Chunk, Flag, Operation
from uarch.timing.simulation import Simulation

_CPUS = {
    "zen2": "znver2",
    "zen3": "znver3",
    "zen4": "znver4",
    "haswell": "haswell",
    "skylake": "skylake",
    "icelake": "icelake-server",
    "golden-cove": "sapphirerapids",
    "cortex-a72": "cortex-a72",
    "neoverse-n1": "neoverse-n1",
}
_TRIPLES = {"x86-64": "x86_64", "aarch64": "aarch64"}
_LEFT_OUT = Flag.CALL | Flag.RETURN | Flag.STRING | Flag.SYSCALL | Flag.SERIALIZING | Flag.BARRIER | Flag.ATOMIC
_ROUNDS = 200


@dataclass(frozen=True)
class Block:
    """Consecutive static instructions: addresses, bytes, and how often the block was executed."""

    address: np.ndarray
    code: np.ndarray
    times: int


def blocks_of(points: LivePoints, most: int) -> list[Block]:
    """The blocks executed most in the sampled units."""
    static, code = points.static, points.code
    ids, counts = np.unique(points.pieces.static_id, return_counts=True)
    times = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    flags, found, begin = static.flags, [], 0
    ends = static.address[:-1] + static.length[:-1] != static.address[1:]
    for row in range(len(static)):
        last = row == len(static) - 1 or bool(ends[row]) or bool(flags[row] & Flag.BRANCH)
        changes = not last and times.get(row, 0) != times.get(row + 1, 0)
        if not (last or changes):
            continue
        rows = slice(begin, row + 1)
        begin = row + 1
        inside = flags[rows]
        operations = static.operation[rows]
        odd = np.any(inside & _LEFT_OUT) or np.any(np.isin(operations, (Operation.INT_DIV, Operation.FP_MISC)))
        if rows.stop - rows.start >= 4 and not odd and times.get(rows.start, 0):
            found.append(Block(static.address[rows], code[rows], times[rows.start]))
    return sorted(found, key=lambda block: -block.times)[:most]


def by_llvm_mca(block: Block, isa: str, cpu: str, tool: str) -> float | None:
    """Cycles of a round; None where the tool does not know an instruction."""
    rules = RULES[isa]
    engine = capstone.Cs(rules.architecture, rules.mode)
    if isa == "x86-64":
        engine.syntax = capstone.CS_OPT_SYNTAX_ATT
    lines = [next(engine.disasm_lite(raw.tobytes(), 0, 1), None) for raw in block.code]
    if any(line is None for line in lines):
        return None
    text = "\n".join(f"{line[2]} {line[3]}" for line in lines if line is not None) + "\n"
    command = [tool, f"-mtriple={_TRIPLES[isa]}", f"-mcpu={cpu}", f"-iterations={_ROUNDS}"]
    command += ["--summary-view", "--resource-pressure=0", "--instruction-info=0"]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    total = re.search(r"Total Cycles:\s+(\d+)", run.stdout)
    return int(total[1]) / _ROUNDS if run.returncode == 0 and total else None


def simulated(block: Block, isa: str, machine: Machine) -> float:
    """Cycles of a round by the simulator."""
    static = decode(block.address, block.code, isa)
    size = len(static)
    counts, stores = [], []
    for k in range(size):
        kinds = [0] * bool(static.flags[k] & Flag.LOAD) + [1] * bool(static.flags[k] & Flag.STORE)
        counts.append(len(kinds))
        stores += kinds
    ids = np.tile(np.arange(size, dtype=np.uint32), _ROUNDS)
    offset = np.concatenate([[0], np.cumsum(np.tile(counts, _ROUNDS))]).astype(np.int64)
    place, k = [], 0
    for row, count in enumerate(counts):
        place += [0x10000000 + 64 * row] * count
        k += count
    accesses = len(place)
    chunk = Chunk(
        0,
        ids,
        np.append(ids[1:], LAST).astype(np.uint32),
        offset,
        np.tile(np.array(place, np.uint64), _ROUNDS) if accesses else np.empty(0, np.uint64),
        np.full(accesses * _ROUNDS, 8, np.uint8),
        np.tile(np.array(stores, np.uint8), _ROUNDS) if accesses else np.empty(0, np.uint8),
    )
    simulation = Simulation(machine, static, ("branches", "instructions"))
    simulation.run(chunk)
    simulation.reset_counters()
    simulation.run(chunk)
    return simulation.counters["cycles"] / _ROUNDS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("points", nargs="+", type=Path)
    parser.add_argument("--family", choices=_CPUS, default="zen3")
    parser.add_argument("--machine", default="zen2")
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--llvm-mca", default="llvm-mca-14")
    options = parser.parse_args(arguments)
    machine = replace_fields(load_machine(options.machine), {"microcode": options.family})
    gem5 = replace_fields(load_machine(options.machine), {"microcode": GEM5})
    isa = FAMILIES[options.family]
    ratios: list[tuple[float, float]] = []
    share = -(-options.blocks // len(options.points))
    for path in options.points:
        for block in blocks_of(load(path), share):
            expected = by_llvm_mca(block, isa, _CPUS[options.family], options.llvm_mca)
            if expected:
                ratios.append((simulated(block, isa, machine) / expected, simulated(block, isa, gem5) / expected))
    native, micro = np.array(ratios).T
    for name, found in ((f"microcode {options.family}", native), ("microcode gem5", micro)):
        low, middle, high = np.percentile(found, [10, 50, 90])
        off = np.median(np.abs(found - 1))
        print(
            f"{name}: {len(found)} blocks, cycles over llvm-mca's {middle:.2f} ({low:.2f} to {high:.2f}), off {off:.1%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
