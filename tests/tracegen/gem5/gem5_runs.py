"""Runs of stock gem5 v24.0.0.1 in `data/gem5`: `touch` (source beside it) on O3 (cortex-a72) and Minor (cortex-a53).
Those of X86 lie there, those of AArch64 and RISC-V (whose program has no symbols) in folders of their names; `v23` has
AArch64's by v23.0.0.1.

Made by `gem5.opt --debug-flags=ExecAll,O3PipeView,Vma --debug-file=trace.out.gz tracegen/gem5/run_se.py --uarch M
--stdout touch.txt -- ./touch`; of config.json and stats.txt, what is read was kept.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from uarch.configuration import Machine, machine_from_dict
from uarch.machine_files import load_machine

DATA = Path(__file__).parents[1] / "data" / "gem5"
PROGRAM = DATA / "touch"
CORES = ("o3", "minor")
OTHER_ISAS = ("aarch64", "riscv64")

_EXEC = re.compile(
    r"\s*(\d+): system\.cpu: A0 T0 : 0x([0-9a-f]+)(?: @\S+?)?(?:\.([ \d]\d))? +: .*?"
    r"(?: A=0x([0-9a-f]+))?  FetchSeq=(\d+)  CPSeq=(\d+)  flags=\((.*)\)$"
)
_RECORD = re.compile(r"O3PipeView:fetch:\d+:0x[0-9a-f]+:\d+:(\d+):.*")


PRESETS = {"o3": "cortex-a72", "minor": "cortex-a53"}


def machine_that_ran(core: str) -> Machine:
    """The preset as it was then: another latency of the second level, no step of a division."""
    values = load_machine(PRESETS[core]).to_dict()
    values["l2"]["latency"] = {"o3": 10, "minor": 8}[core]
    values["functional_units"].pop("div_step_latency")
    return machine_from_dict(values)


def lines(core: str, data: Path = DATA) -> list[str]:
    return gzip.decompress((data / core / "trace.out.gz").read_bytes()).decode().splitlines()


def copy(core: str, folder: Path, text: bytes | None = None, data: Path = DATA) -> Path:
    """The run's folder, to be changed; with another text, plain."""
    shutil.copytree(data / core, folder)
    if text is not None:
        (folder / "trace.out.gz").unlink()
        (folder / "trace.out").write_bytes(text)
    return folder


def run_gem5(folder: Path, program: Path, uarch: str, *options: str) -> None:
    """The environment's GEM5 runs `program` into `folder`/run, its output into `folder`/out; skips where it was built
    without the program's instruction set.
    """
    command = [os.environ["GEM5"], "-d", folder / "run", "--debug-flags=ExecAll,O3PipeView,Vma"]
    command += ["--debug-file=trace.out.gz", DATA.parents[3] / "tracegen" / "gem5" / "run_se.py", "--uarch", uarch]
    command += ["--stdout", folder / "out", *options, "--", program]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    if "cannot import name" in done.stderr:
        pytest.skip("this gem5 was built without the program's instruction set")
    assert done.returncode == 0, done.stderr


@dataclass
class Reference:
    """Instructions that a run executed, found by a plain reading of the text with everything in memory."""

    address: list[int]
    retired: list[int | None]  # tick; None where the text does not tell
    accesses: list[tuple[int, int, bool]]  # instruction, address, is a store


def reference(core: str, data: Path = DATA) -> Reference:
    """A memory micro-operation that comes again at once had faulted the first time; an atomic one loads and stores."""
    found, retire, seq = [], {}, 0
    for line in lines(core, data):
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
            ways = (False, True) if "IsAtomic" in names else ("IsStore" in names,)
            result.accesses += [(len(result.address), int(address, 16), way) for way in ways]
        if "IsMicroop" not in names or "IsLastMicroop" in names:
            result.address.append(int(pc, 16))
            result.retired.append(retire.get(int(seq)) if core == "o3" else int(tick))
    return result
