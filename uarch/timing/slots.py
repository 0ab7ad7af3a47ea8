"""A stage's slots: so many micro-operations a cycle."""

from __future__ import annotations

from uarch.jit import compiled


@compiled
def take(cycle: int, used: int, operations: int, width: int) -> tuple[int, int]:
    """The last cycle of `operations` more, and the slots used in it, where `used` of `cycle`'s `width` are taken."""
    used += operations
    if used <= 2 * width:  # nearly always, and then there is nothing that the host would have to foresee
        if used > width:
            used -= width
            cycle += 1
        return cycle, used
    while used > width:
        used -= width
        cycle += 1
    return cycle, used
