"""The smallest trace source: lines `ADDRESS CODE [r|w ADDRESS SIZE]…`, one an executed x86-64 instruction."""

from pathlib import Path

import numpy as np

from tracegen.formats.trace import TraceWriter


def import_text(source: Path, output: Path) -> None:
    """Numbers are hexadecimal, sizes decimal: `401000 480303 r 7ff0 8` is add rax, [rbx] at 0x401000."""
    code: dict[int, bytes] = {}
    executed, accesses = [], []
    for number, line in enumerate(source.read_text().splitlines()):
        address, encoding, *rest = line.split()
        code[int(address, 16)] = bytes.fromhex(encoding).ljust(16, b"\0")
        executed.append(int(address, 16))
        for kind, place, size in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            accesses.append((number, int(place, 16), int(size), kind == "w"))
    static = np.array(sorted(code), np.uint64)
    with TraceWriter(output, isa="x86-64", program=source.stem, command=[source.stem], source="text") as writer:
        writer.static(static, np.array([list(code[address]) for address in sorted(code)], np.uint8))
        writer.append(np.searchsorted(static, np.array(executed, np.uint64)), *np.array(accesses).reshape(-1, 4).T)
