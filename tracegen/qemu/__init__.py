"""Tracing of Linux programs (x86-64, AArch64, RISC-V 64) with QEMU's user mode and a plugin of our own."""

from tracegen.qemu.runner import TraceResult, trace

__all__ = ["TraceResult", "trace"]
