"""The kinds of Linux's system calls, and what a machine takes for each (`uarch/system_calls.yaml`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from uarch.configuration import SystemCalls

UNKNOWN = 0xFFFF  # number of a call that the source of a trace does not tell, or that has no smaller one


@cache
def kinds() -> dict[str, dict[str, list[int | None]]]:
    """Names of system calls by kind, each with its number: of x86-64, of AArch64 and RISC-V."""
    return yaml.safe_load((Path(__file__).parent / "system_calls.yaml").read_text())


def cycles_by_number(calls: SystemCalls | None, isa: str) -> NDArray[np.int32]:
    """[n + 1] cycles in the kernel of the system calls 0 … n - 1 of an instruction set, and of all others."""
    if calls is None:
        return np.zeros(1, np.int32)
    column = 1 if isa in ("aarch64", "riscv64") else 0
    cycles: dict[int, int] = {}
    for kind, names in kinds().items():
        own = getattr(calls, kind)
        for numbers in names.values():
            if own is not None and (number := numbers[column]) is not None:
                cycles[number] = own
    found = np.full(max(cycles, default=-1) + 2, calls.default, np.int32)
    found[list(cycles)] = list(cycles.values())
    return found
