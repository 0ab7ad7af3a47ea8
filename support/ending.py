"""SIGTERM and SIGHUP as an exception, so that what a process has begun is removed and what it has started is ended."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.01


class _Ended(SystemExit):
    """The end that a signal has asked for."""


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
        _again_where_lost(end, number)
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
        raise _Ended(128 + number)

    for number in deadly:
        signal.signal(number, end)
    return deadly


def _again_where_lost(end: Callable[[int, FrameType | None], NoReturn], number: int) -> None:
    """Call `end` again where its exception is lost: a callback from C (Numba's compiler has some) or a `__del__` cannot
    raise, so Python tells `sys.unraisablehook` of it and goes on.
    """
    others = sys.unraisablehook

    def lost(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, _Ended):
            others(unraisable)
            return
        sys.unraisablehook = others
        signal.signal(signal.SIGALRM, lambda _, frame: end(number, frame))
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)  # not at once, but when the callback is over

    sys.unraisablehook = lost
