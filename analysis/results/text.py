"""Tables of text, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from support.text import short

_SHORTEST = 8  # letters of a name in the terminal
_SHORTEST_REMARK = 16


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], *, remarks: bool = False, apart: bool = False) -> str:
    """Cells as text in 80 columns: the first column to the left and shortened as needed, the others to the right.

    With `remarks` the last column is text, which is shortened before names are. Names that are too long stand on lines
    of their own, above their cells, where shortened ones would be alike, or `apart` is set.
    """
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]
    if remarks:
        over = max(sum(widths) + len(widths) - 1 - 80, 0)
        widths[-1] = max(widths[-1] - over, min(widths[-1], _SHORTEST_REMARK))
        table = [[*row[:-1], short(row[-1], widths[-1])] for row in table]
    first = min(widths[0], max(80 - sum(widths[1:]) - len(widths) + 1, _SHORTEST))
    right = [" ".join(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)) for row in table]
    cut = [short(row[0], first).ljust(first) for row in table]
    apart |= len(set(cut)) < len({row[0] for row in table})
    lines = []
    for row, name, cells in zip(table, cut, right, strict=True):
        above = apart and len(row[0]) > first
        lines += [short(row[0], 80)] if above else []
        lines.append(f"{' ' * first if above else name} {cells}".rstrip())
    return "\n".join(lines)
