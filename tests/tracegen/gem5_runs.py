"""Runs of stock gem5 v24.0.0.1 in `data/gem5`: `touch` (source beside it) on O3 (cortex-a72) and Minor (cortex-a53).

Made by `gem5.opt --debug-flags=ExecAll,O3PipeView,Vma --debug-file=trace.out.gz tracegen/gem5/run_se.py --uarch M
--stdout touch.txt -- ./touch`; of config.json and stats.txt, what is read was kept.
"""

from __future__ import annotations

import gzip
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data" / "gem5"
PROGRAM = DATA / "touch"
CORES = ("o3", "minor")

_EXEC = re.compile(
    r"\s*(\d+): system\.cpu: A0 T0 : 0x([0-9a-f]+) \S+?(?:\.([ \d]\d))? +: .*?"
    r"(?: A=0x([0-9a-f]+))?  FetchSeq=(\d+)  CPSeq=(\d+)  flags=\((.*)\)$"
)
_RECORD = re.compile(r"O3PipeView:fetch:\d+:0x[0-9a-f]+:\d+:(\d+):.*")


def lines(core: str) -> list[str]:
    return gzip.decompress((DATA / core / "trace.out.gz").read_bytes()).decode().splitlines()


def copy(core: str, folder: Path, text: bytes | None = None) -> Path:
    """The run's folder, to be changed; with another text, plain."""
    shutil.copytree(DATA / core, folder)
    if text is not None:
        (folder / "trace.out.gz").unlink()
        (folder / "trace.out").write_bytes(text)
    return folder


@dataclass
class Reference:
    """What a run executed, found by a plain reading of the text with everything in memory."""

    address: list[int]
    retired: list[int | None]  # tick; None where the text does not tell
    accesses: list[tuple[int, int, bool]]  # instruction, address, is a store


def reference(core: str) -> Reference:
    """A memory micro-operation that comes again at once had faulted the first time."""
    found, retire, seq = [], {}, 0
    for line in lines(core):
        if match := _RECORD.match(line):
            seq = int(match[1])
        elif line.startswith("O3PipeView:retire:"):
            retire[seq] = int(line.split(":")[2]) or None
        elif match := _EXEC.match(line):
            found.append(match.groups())
    result = Reference([], [], [])
    for one, following in zip(found, [*found[1:], None], strict=True):
        tick, pc, micro, address, seq, _, flags = one
        if following is not None and following[1:4] == (pc, micro, address) and address is not None:
            continue
        names = flags.split("|")
        if address is not None:
            result.accesses.append((len(result.address), int(address, 16), "IsStore" in names))
        if "IsMicroop" not in names or "IsLastMicroop" in names:
            result.address.append(int(pc, 16))
            result.retired.append(retire.get(int(seq)) if core == "o3" else int(tick))
    return result
