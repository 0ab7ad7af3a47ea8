"""What decoding gives for one instruction, before it becomes a row of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from uarch.instructions import Flag, Operation


class Decoded(NamedTuple):
    """Registers are numbers of `uarch.instructions`' space; `address` are those that form the memory address."""

    operation: Operation
    flags: Flag = Flag(0)
    address: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    destinations: tuple[int, ...] = ()
    micro_operations: int = 1


def distinct(registers: Iterable[int | None]) -> tuple[int, ...]:
    """The registers without repetition and without None, in order."""
    return tuple(dict.fromkeys(register for register in registers if register is not None))


def micro_operations(operation: Operation, loads: int, stores: int) -> int:
    """Compute part, loads and stores each as one micro-operation; at least one."""
    computes = operation not in (Operation.NONE, Operation.MOVE) or not (loads or stores)
    return int(computes) + loads + stores
