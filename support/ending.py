"""SIGTERM and SIGHUP as an exception, so that what a process has begun is removed and what it has started is ended."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[None]:
    """Keep `end_in_order` for the time of the context; outside the main thread nothing changes."""
    changed = end_in_order() if threading.current_thread() is threading.main_thread() else []
    try:
        yield
    finally:
        for number in changed:
            if signal.getsignal(number) is not signal.SIG_IGN:  # else one has come, and the process is about to end
                signal.signal(number, signal.SIG_DFL)


def end_in_order() -> list[signal.Signals]:
    """Raise SystemExit, with a shell's status for the signal, where SIGTERM or SIGHUP would end the process at once.

    Processes of multiprocessing, which a terminal would tell of Ctrl-C too, get SIGTERM. Returns the signals: one that
    is ignored (nohup) stays so.
    """
    deadly = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for other in deadly:
            signal.signal(other, signal.SIG_IGN)  # a terminal that closes, and timeout(1), send several
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
        sys.exit(128 + number)

    for number in deadly:
        signal.signal(number, end)
    return deadly
