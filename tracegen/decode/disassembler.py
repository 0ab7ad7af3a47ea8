"""Capstone's disassembler of each instruction set that has machine code."""

from __future__ import annotations

import capstone

_MODES = {
    "x86-64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    "riscv64": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC),
}


def disassembler(isa: str, *, detail: bool = True) -> capstone.Cs:
    """Return a new one; with `detail` its instructions have operands and groups, which takes its time."""
    engine = capstone.Cs(*_MODES[isa])
    engine.detail = detail
    return engine
