"""Words for how a traced program ended."""

from __future__ import annotations

import signal

_ILLEGAL = (
    "; QEMU may lack instructions that the program uses: build it without -march=native, on x86-64 with -mavx2 at most"
    ", on AArch64 without SVE"
)


def name_of_signal(number: int) -> str:
    """Return a signal as `ended_by` of a trace names it: "signal 11 (segmentation fault)"."""
    return f"signal {number} ({(signal.strsignal(number) or 'unknown').lower()})"


def cut_short(program: str, ended_by: str, instructions: int) -> str:
    """Tell in a line of the signal that ended a program after so many recorded instructions; empty where none did."""
    if not ended_by:
        return ""
    hint = _ILLEGAL if ended_by == name_of_signal(signal.SIGILL) else ""
    return f"{program}: ended by {ended_by} after {instructions:,} recorded instructions{hint}"
