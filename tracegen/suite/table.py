"""Table of the traces of a folder, a row each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.suite.workloads import catalogue
from uarch.instructions import Flag

LINE = 64  # bytes


def table(folder: Path, *, progress: bool = True) -> list[dict[str, Any]]:
    """Rows of the traces in `folder`, catalogued ones in the catalogue's order: program, group, instructions, bytes of
    the file an instruction, static instructions, data footprint (KiB of distinct 64-byte lines accessed), branches,
    loads and stores an instruction.
    """
    known = catalogue()
    order = {name: place for place, name in enumerate(known)}
    paths = sorted(folder.glob("*.trace.h5"), key=lambda path: order.get(_name(path), len(order)))
    if not paths:
        raise InputError(f"{folder}: no *.trace.h5 here; make some with perfvec suite run -o {folder}")
    bar = tqdm(paths, desc="read", unit="trace", disable=None if progress else True)
    return [_row(path, known[_name(path)].group if _name(path) in known else "") for path in bar]


def _name(path: Path) -> str:
    return path.name.removesuffix(".trace.h5")


def _row(path: Path, group: str) -> dict[str, Any]:
    with Trace(path) as trace:
        flags = trace.static.flags
        branches = stores = 0
        lines = np.empty(0, np.uint64)
        for chunk in trace.chunks():
            branches += int(np.count_nonzero(flags[chunk.static_id] & int(Flag.BRANCH)))
            stores += int(np.count_nonzero(chunk.is_store))
            lines = np.union1d(lines, np.unique(chunk.address // LINE))
        return {
            "program": trace.name,
            "group": group,
            "instructions": len(trace),
            "bytes/instruction": round(path.stat().st_size / len(trace), 2),
            "static": len(trace.address),
            "data_kib": len(lines) * LINE // 1024,
            "branches": round(branches / len(trace), 3),
            "loads": round((trace.accesses - stores) / len(trace), 3),
            "stores": round(stores / len(trace), 3),
        }


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    rows = list(rows)
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join('---' if n in ('program', 'group') else '---:' for n in names)}|"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    return "\n".join(lines)


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a row, counts in thousands."""
    return [f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()]
