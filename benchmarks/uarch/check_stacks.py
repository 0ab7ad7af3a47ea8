"""Components of CPI stacks beside the cycles saved where their cause is made ideal, as Markdown tables (a tool):

    python benchmarks/uarch/check_stacks.py ../shared/gem5-x86 --workers 2

As Eyerman et al. (ASPLOS 2006, section 5) judge stacks: a perfect predictor, all code or all data in L1, operations of
one cycle, unlimited ports, windows eight times as large. Each trace's last 200,000 instructions on 12 machines, after
caches have seen everything before and the core 50,000 instructions. Correlations are of shares of the machine's cycles.

Set PERFVEC_UNSEALED=1 for data without a seal.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from tracegen.formats.trace import Trace
from uarch.configuration import machine_from_dict
from uarch.timing.simulation import Simulation, new_stack
from uarch.timing.stack import CAUSES

TIMED, WARMUP = 200_000, 50_000
MACHINES = ("u001", "u003", "u006", "u009", "u013", "u021", "u033", "u042", "u054", "u000", "u004", "u032")
# What is made ideal → the causes that it takes away.
TAKEN = {
    "branches": ["misprediction, found at execution", "misprediction, found at decode"],
    "instructions": ["fetch from L2", "fetch from L3", "fetch from memory", "instruction TLB misses"],
    "data": [
        *("loads from L2", "loads from L3", "loads from memory", "data TLB misses"),
        *("stores to L2", "stores to L3", "stores to memory"),
    ],
    "execution": [
        "integer multiplication",
        "integer division",
        "floating-point addition",
        "floating-point multiplication",
        "floating-point division",
        "vector operations",
    ],
    "ports": ["ports"],
    "windows": [cause for cause, group in CAUSES.items() if group == "full windows"],
}


def rows(path: Path, names: tuple[str, ...]) -> list[dict[str, Any]]:
    trace = Trace(path)
    instructions = trace.static
    start = len(trace) - TIMED
    before = list(trace.chunks(1 << 18, 0, start - WARMUP))
    (warm,) = trace.chunks(WARMUP, start - WARMUP, start)
    (timed,) = trace.chunks(TIMED, start, len(trace))
    sampled = {values["name"]: values for values in json.loads((path.parent / "uarch.json").read_text())}
    found = []
    for name in names:
        machine = machine_from_dict(sampled[name])
        cycles = {}
        for ideal in (None, *TAKEN):
            simulation = Simulation(machine, instructions, [ideal] if ideal else [])
            for chunk in before:
                simulation.warm(chunk)
            simulation.run(warm)
            stack = new_stack(1)
            groups = np.zeros(TIMED, np.uint32)
            cycles[ideal] = int(simulation.run_with_stacks(timed, [(stack, groups)]).sum(dtype=np.int64))
            if ideal is None:
                whole = dict(zip(CAUSES, stack[0].tolist(), strict=True))
        for ideal, causes in TAKEN.items():
            found.append(
                {
                    "program": trace.name,
                    "machine": name,
                    "core": machine.core,
                    "ideal": ideal,
                    "component": sum(whole[cause] for cause in causes) / cycles[None],
                    "saved": 1 - cycles[ideal] / cycles[None],
                }
            )
    return found


def line(name: str, frame: pd.DataFrame) -> str:
    component, saved = frame["component"], frame["saved"]
    correlation = np.corrcoef(component, saved)[0, 1] if component.std() and saved.std() else float("nan")
    off = (component - saved).abs()
    means = f"{component.mean():.1%} | {saved.mean():.1%} | {off.mean():.1%}"
    return f"| {name} | {len(frame)} | {correlation:.3f} | {means} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2, help="traces side by side")
    parser.add_argument("--machines", nargs="+", default=MACHINES, help="of the folder's uarch.json")
    parser.add_argument("--csv", type=Path, help="write every pair")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.glob("*.trace.h5"))
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(rows, path, tuple(arguments.machines)) for path in paths]
        for job in tqdm(as_completed(jobs), total=len(jobs), unit="trace"):
            found += job.result()
    frame = pd.DataFrame(found)
    if arguments.csv:
        frame.to_csv(arguments.csv, index=False)
    head = "pairs | correlation | component | saved | mean difference |\n|---|---|---|---|---|---|"
    for core in ("out-of-order", "in-order"):
        of = frame[frame["core"] == core]
        print(f"| {core} | {head}")
        for ideal in TAKEN:
            print(line(ideal, of[of["ideal"] == ideal]))
        print(line("**all**", of))
        print()
    others = frame[frame["ideal"] != "windows"]
    print(f"| both cores | {head}\n{line('**all**', frame)}\n{line('all but windows', others)}\n")
    print("| differs most | machine | ideal | component | saved |\n|---|---|---|---|---|")
    frame["off"] = (frame["component"] - frame["saved"]).abs()
    for row in frame.sort_values("off", ascending=False).head(15).itertuples():
        print(f"| {row.program} | {row.machine} | {row.ideal} | {row.component:.1%} | {row.saved:.1%} |")


if __name__ == "__main__":
    main()
