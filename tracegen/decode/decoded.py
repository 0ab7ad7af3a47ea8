"""Result of decoding one instruction, before it becomes a row of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from uarch.instructions import Flag, Interruption, Operation, Temporary


class MicroOperations(NamedTuple):
    """`total` of an instruction; of them `compute` on the unit of its operation (a chain for a divide, else side by
    side); cycles that others take `before` its access or computation begins and `after` it until results are there;
    whether it waits for the last one that is `chained` as well.
    """

    total: int = 1
    compute: int = 1
    before: int = 0
    after: int = 0
    chained: int = 0


class Decoded(NamedTuple):
    """Registers are numbers of `uarch.instructions`' space; `address` are those that form the memory address."""

    operation: Operation
    flags: Flag = Flag(0)
    address: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    destinations: tuple[int, ...] = ()
    micro_operations: MicroOperations = MicroOperations()
    vector_unit: bool = False  # a scalar floating-point operation that the vector units do
    float_move: bool = False  # a move, change of sign or rounding that the floating-point units do
    merges_flags: int = (
        0  # how many of the flag groups (FLAGS, then CARRY) its result is made from, though it writes them
    )
    interruption: Interruption = Interruption.NONE
    temporary: Temporary = Temporary(0)


def distinct(registers: Iterable[int | None]) -> tuple[int, ...]:
    """The registers without repetition and without None, in order."""
    return tuple(dict.fromkeys(register for register in registers if register is not None))


def one_each(operation: Operation, accesses: int, more: int = 0) -> MicroOperations:
    """The compute part, each load and store, and `more`, one micro-operation each."""
    computes = int(operation not in (Operation.NONE, Operation.MOVE) or not accesses)
    return MicroOperations(computes + accesses + more, computes)
