"""Tracing of Linux programs (x86-64, AArch64, RISC-V 64) with QEMU's user mode and a plugin of our own."""

from tracegen.qemu.execution import Execution
from tracegen.qemu.region import Region, parse_place
from tracegen.qemu.runner import TraceResult, trace
from tracegen.qemu.stream import ProgramStream, stream

__all__ = ["Execution", "ProgramStream", "Region", "TraceResult", "parse_place", "stream", "trace"]
