"""Files that the program has mapped, as the plugin saw it in /proc/self/maps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracegen.binary import elf


def read_mappings(path: Path) -> Iterator[elf.Mapping]:
    """The files that were mapped, at the program's addresses, from the plugin's file `maps`."""
    if not path.exists():
        return
    base = 0
    for line in path.read_text(errors="surrogateescape").splitlines():
        if line.startswith("base "):
            base = int(line[5:], 16)
            continue
        fields = line.split(None, 5)
        if len(fields) == 6:
            start, end = (int(part, 16) - base for part in fields[0].split("-"))
            if start >= 0:
                yield elf.Mapping(start, end, int(fields[2], 16), fields[5].removesuffix(" (deleted)"))
