"""Cycles of long string instructions told by their parts, as on live-points, beside all their accesses simulated:

python -m benchmarks.tracegen.string_parts --machines base zen4
"""

from __future__ import annotations

import argparse

from tests.uarch.programs import Instruction, Program
from tracegen.live_points.string_instructions import parts
from uarch.configuration import Machine
from uarch.instructions import Chunk, Flag, Operation, StaticInstructions
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

_STRING = Instruction(Operation.INT_ALU, (1,), (1,), Flag.STRING | Flag.LOAD | Flag.STORE, 1, micro_operations=4)
_STORES, _LOADS = 0x10000000, 0x11000000


def string(accesses: int, *, copies: bool) -> tuple[StaticInstructions, Chunk]:
    """A string that stores so many bytes, or copies half as many."""
    program = Program([_STRING, Instruction()])
    rounds = range(accesses // 2 if copies else accesses)
    each = [[(_LOADS + k, 1, 0), (_STORES + k, 1, 1)] if copies else [(_STORES + k, 1, 1)] for k in rounds]
    program.execute(0, *(access for one in each for access in one))
    return program.static(), program.chunk()


def told_by_parts(machine: Machine, static: StaticInstructions, chunk: Chunk) -> float:
    """Cycles, by the simulation of parts."""
    simulation, cycles = Simulation(machine, static), 0.0
    for part in parts(chunk):
        if part.passed is not None:
            simulation.touch(part.passed)
        simulation.reset_counters()
        simulation.run(part.chunk)
        cycles += part.times * simulation.statistics["cycles"]
    return cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", nargs="+", default=["base", "zen4", "cortex-a53", "haswell"])
    parser.add_argument("--accesses", type=int, nargs="+", default=[100_000, 600_000, 2_000_000])
    arguments = parser.parse_args()
    print("accesses machine     stores copies")
    for accesses in arguments.accesses:
        strings = [string(accesses, copies=copies) for copies in (False, True)]
        for machine in map(load_machine, arguments.machines):
            errors = []
            for static, chunk in strings:
                whole = Simulation(machine, static)
                whole.run(chunk)
                errors.append(told_by_parts(machine, static, chunk) / whole.statistics["cycles"] - 1)
            print(f"{accesses:8} {machine.name:10} " + " ".join(f"{error:+7.1%}" for error in errors))


if __name__ == "__main__":
    main()
