"""Compile the timing model's kernels ahead of the tests that need them: minutes, in which the checks run beside.

python tests/uarch/compile_kernels.py
"""

from __future__ import annotations

from programs import Instruction, Program

from uarch.configuration import load_machine
from uarch.timing.simulation import Simulation


def compile_kernels() -> None:
    """Run each kernel once on one instruction."""
    program = Program([Instruction()])
    program.execute(0)
    for name in ("cortex-a53", "base"):  # in order, out of order
        simulation = Simulation(load_machine(name), program.static())
        simulation.warm(program.chunk())
        simulation.run(program.chunk())


if __name__ == "__main__":
    compile_kernels()
