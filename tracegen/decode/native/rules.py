"""Rules of cracking, as an instruction set gives them: the forms of instructions, and what a family makes of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from capstone import CsInsn
from numpy.typing import NDArray

from tracegen.decode.native.table import Cost, NativeTable
from uarch.instructions import FORWARDS, Operation

_MOST = 24  # micro-operations on a unit; what is longer is microcode, whose latency tells
_DIVIDES = (Operation.INT_DIV, Operation.FP_DIV, Operation.FP_SQRT, Operation.SIMD_FP_DIV, Operation.SIMD_FP_SQRT)


class Instruction(NamedTuple):
    """A static instruction; what changes its registers writes them in place. Unknown to the disassembler: no names."""

    mnemonic: str
    form: str
    operation: int
    flags: int
    sources: NDArray[np.uint8]
    destinations: NDArray[np.uint8]
    slow_address: bool = False

    @property
    def moves(self) -> bool:
        """Return whether it computes nothing."""
        return self.operation in (Operation.NONE, Operation.MOVE)


class Parts(NamedTuple):
    """Parts of an instruction.

    Micro-operations that the front end takes, those on the operation's unit, and their costs in cycles; cycles `after`
    which its result is there, beyond those of a load into a general register, or of what another's unit computes;
    traits as `NativeInstructions` has them.
    """

    front: int
    computes: int
    latency: int = -1
    busy: float = 0.0
    after: int = 0
    traits: int = 0


@dataclass(frozen=True)
class Rules:
    """An instruction set's. `parts` may change the registers; `fuses` tells of two neighbours whether they are one;
    `slow_address` whether the address takes some families longer.
    """

    form: Callable[[CsInsn], str]
    parts: Callable[[Instruction, NativeTable], Parts]
    fuses: Callable[[Instruction, Instruction, str], bool]
    slow_address: Callable[[CsInsn], bool] = lambda instruction: False


def before_branch(parts: Parts, accesses: bool) -> Parts:
    """Parts of what is fused with the branch behind it, on whose unit both are computed."""
    return parts._replace(computes=0, after=1) if not accesses and parts.computes == parts.latency == 1 else parts


def computed(front: int, operations: int, operation: int, cost: Cost | None) -> Parts:
    """Parts of what computes, of so many micro-operations; the latency is the operation's where the cost is unknown."""
    if cost is None:
        return Parts(front, 1 if operation in _DIVIDES else min(operations, _MOST))
    latency = min(max(cost.latency, 1), 2000)
    traits = FORWARDS * cost.forwards
    if operation in _DIVIDES:
        return Parts(front, 1, latency, cost.throughput)
    return Parts(front, min(operations, _MOST), latency, cost.throughput, traits=traits)
