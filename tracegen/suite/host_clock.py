"""This computer's core clock, measured: additions that wait for one another take a cycle each.

What the system names is the nominal clock or that of a moment; under load a core runs at another one, and a virtual
machine may not be told.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType

from tracegen.suite.host_time import host_time
from tracegen.suite.inputs import compile_c

_UNROLLED = 64
_ROUNDS = 1 << 22  # some 0.1 s at 3 GHz
# The empty assembly keeps the compiler from joining additions; the addend is a register, as some cores make additions
# of constants without waiting (Intel's Golden Cove).
_SOURCE = f"""#include <stdlib.h>
#define ADD sum += step; __asm__ volatile("" : "+r"(sum));
#define ADD4 ADD ADD ADD ADD
#define ADD16 ADD4 ADD4 ADD4 ADD4
int main(int count, char **words) {{
    volatile unsigned long kept;
    unsigned long sum = 0, step = (unsigned long)count;
    for (long round = atol(words[1]); round; round--) {{ {"ADD16 " * (_UNROLLED // 16)}}}
    kept = sum;
    return (int)(kept & 0);
}}
"""


class Clock:
    """The program that measures the clock; a context manager. Raises InputError without a C compiler."""

    def __enter__(self) -> Clock:
        self._scratch = tempfile.TemporaryDirectory(prefix="perfvec-")
        source, self._program = Path(self._scratch.name) / "clock.c", Path(self._scratch.name) / "clock"
        source.write_text(_SOURCE, encoding="utf-8")
        compile_c(source, self._program, [])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scratch.cleanup()

    def ghz(self, repeats: int = 1) -> float:
        """GHz now: additions over the median user time of runs of some 0.1 s each."""
        seconds = host_time([str(self._program), str(_ROUNDS)], repeats=repeats).seconds
        return _ROUNDS * _UNROLLED / seconds / 1e9


def clock_ghz(repeats: int = 5) -> float:
    """GHz of this computer's core. Raises InputError without a C compiler."""
    with Clock() as clock:
        return clock.ghz(repeats)
