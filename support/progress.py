"""Progress bars, on stderr of a terminal."""

from __future__ import annotations

from tqdm import tqdm


def instruction_bar(what: str, total: int | None, progress: bool) -> tqdm:
    """A bar of instructions, of `total` where that is known; none without `progress`."""
    return tqdm(total=total, unit="instr", unit_scale=True, desc=what, disable=None if progress else True)
