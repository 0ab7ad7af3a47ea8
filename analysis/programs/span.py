"""The part of a trace that is simulated, and the warm-up before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from support.errors import InputError
from support.progress import instruction_bar
from tracegen.formats.trace import Trace
from tracegen.label import WARMUP
from uarch.instructions import Chunk
from uarch.timing.simulations import Simulations

_CHUNK = 1 << 16  # instructions that all machines pass before the next


@dataclass(frozen=True)
class Span:
    """Instructions of a trace to time, and the number before them that warm pipeline and predictors."""

    start: int = 0
    count: int | None = None  # to the trace's end
    warmup: int = WARMUP

    def __post_init__(self) -> None:
        """Raise InputError for numbers of instructions that there are not."""
        for name, value, least in (("start", self.start, 0), ("count", self.count, 1), ("warmup", self.warmup, 0)):
            if value is not None and value < least:
                raise InputError(f"{name} = {value:,} must be at least {least}")

    def until(self, limit: int | None) -> Span:
        """Return what of it is among a run's first `limit` instructions. Raises InputError where nothing is."""
        if limit is None:
            return self
        if limit <= self.start:
            raise InputError(f"no instruction is timed: the limit of {limit:,} is before --start {self.start:,}")
        count = limit - self.start
        return replace(self, count=count if self.count is None else min(self.count, count))

    def stop(self, trace: Trace) -> int:
        """Return the instruction after the last timed one. Raises InputError where none is timed."""
        if self.start >= len(trace):
            raise InputError(
                f"{trace.path}: has {len(trace):,} instructions, so none from --start {self.start:,} on; lower it"
            )
        return len(trace) if self.count is None else min(self.start + self.count, len(trace))


def require_time(trace: Trace, span: Span, cycles: Iterable[float]) -> None:
    """Raise InputError where what is timed takes no cycle: its instructions retire with the one before them."""
    if not all(value > 0 for value in cycles):
        raise InputError(
            f"{trace.path}: {span.stop(trace) - span.start:,} timed instructions retire in the cycle of the one before "
            "them; time more (--count)"
        )


def timed(trace: Trace, running: Simulations, span: Span, progress: bool) -> Iterator[Chunk]:
    """Warm the machines up, and hand over what is to be timed, chunk by chunk."""
    stop, warm = span.stop(trace), max(span.start - span.warmup, 0)
    with instruction_bar(f"simulate {trace.name}", stop, progress) as bar:
        for chunk in trace.chunks(_CHUNK, stop=warm):
            running.warm(chunk)
            bar.update(len(chunk))
        for chunk in trace.chunks(_CHUNK, warm, span.start):
            running.run(chunk)
            bar.update(len(chunk))
        running.reset_counters()
        for chunk in trace.chunks(_CHUNK, span.start, stop):
            yield chunk
            bar.update(len(chunk))
