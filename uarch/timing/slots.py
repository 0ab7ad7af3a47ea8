"""A stage's slots: so many micro-operations a cycle."""

from __future__ import annotations

from uarch.timing.compiled import compiled


@compiled
def take(cycle: int, used: int, operations: int, width: int) -> tuple[int, int]:
    """The last cycle of `operations` more, and the slots used in it, where `used` of `cycle`'s `width` are taken."""
    used += operations
    while used > width:
        used -= width
        cycle += 1
    return cycle, used
