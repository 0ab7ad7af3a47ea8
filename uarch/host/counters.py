"""A counter of what programs started here do, by the kernel: perf_event_open(2), in user mode.

A counter counts a program that this thread starts while it is open, from its exec on, and all that it starts. `read`
also tells of programs that still run, and so does read(2) in one that was given the descriptor.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import subprocess
from types import TracebackType
from typing import NamedTuple

_NUMBERS = {"x86_64": 298, "aarch64": 241}  # of the system call
# perf_event_attr up to PERF_ATTR_SIZE_VER0: type, size, config, period, sample type, read format, flags, and the rest.
_ATTRIBUTES = struct.Struct("IIQQQQQ16x")
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR, _ENABLE_ON_EXEC = (1 << bit for bit in (0, 1, 5, 6, 12))
_FLAGS = _DISABLED | _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR | _ENABLE_ON_EXEC


class Event(NamedTuple):
    """A thing to count, in perf_event_open's numbers."""

    type: int
    config: int


CYCLES, BRANCH_MISSES = Event(0, 0), Event(0, 5)  # PERF_TYPE_HARDWARE


class Counter:
    """A counter of an event; a context manager. Raises OSError where the kernel refuses."""

    def __init__(self, event: Event) -> None:
        attributes = ctypes.create_string_buffer(
            _ATTRIBUTES.pack(event.type, _ATTRIBUTES.size, event.config, 0, 0, 0, _FLAGS), _ATTRIBUTES.size
        )
        library = ctypes.CDLL(None, use_errno=True)
        here, any_processor, no_group, no_flags = (ctypes.c_long(number) for number in (0, -1, -1, 0))
        number = ctypes.c_long(_NUMBERS.get(platform.machine(), -1))
        self.descriptor = int(library.syscall(number, attributes, here, any_processor, no_group, no_flags))
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def __enter__(self) -> Counter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def read(self) -> int:
        """Return the count so far."""
        return int.from_bytes(os.read(self.descriptor, 8), "little")


def refusal(event: Event) -> str:
    """Return why the event is not counted here, in a word; empty where it is.

    ENOENT: the (virtual) processor has no such counter; EACCES: /proc/sys/kernel/perf_event_paranoid forbids; nothing:
    a counter that stays at zero, as some virtual machines have.
    """
    try:
        with Counter(event) as counter:
            subprocess.run(["true"], check=True)
            return "" if counter.read() else "nothing"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "refused")
