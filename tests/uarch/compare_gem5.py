"""How far the timing model is from gem5 on the labelled windows (a tool, not a test):

    python tests/uarch/compare_gem5.py ../shared/gem5-x86 --programs perl lua k_chase --machines u001 u000

Caches see everything before the window's warm-up, the core the 50,000 instructions of warm-up and the window.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tracegen.decode import decode
from tracegen.trace import Trace
from uarch.configuration import machine_from_dict
from uarch.timing.simulation import Simulation

LEVELS = ("l1i", "l1d", "l2", "l3")
COLUMNS = {"mispredicts": "mispredictions", "l1i_misses": "l1i_misses", "l1d_accesses": "l1d_accesses",
           "l1d_misses": "l1d_misses", "l2_misses": "l2_misses", "l3_misses": "l3_misses"}  # fmt: skip


def with_merged(counters: dict[str, float]) -> dict[str, float]:
    """gem5 counts an access to a line that is on its way as a miss."""
    merged = {f"{level}_misses": counters[f"{level}_misses"] + counters[f"{level}_merged"] for level in LEVELS}
    return counters | merged


def windows(folder: Path, program: str, wanted: set[str]) -> list[dict[str, Any]]:
    """One row for each machine and window of a program."""
    trace = Trace(folder / f"{program}.trace.h5")
    instructions = decode(trace.address, trace.code, trace.isa)
    rows = []
    for path in sorted(folder.glob(f"{program}*.latency.h5")):
        if path.name.split(".")[0] not in (program, f"{program}-2"):
            continue
        with h5py.File(path) as file:
            start, warmup = int(file.attrs["start"]), int(file.attrs["warmup"])
            machines = [machine_from_dict(json.loads(text)) for text in file["uarch"][:]]
            chosen = [k for k, machine in enumerate(machines) if not wanted or machine.name in wanted]
            latency, counters = file["latency"][:][chosen], file["counters"][:][chosen]
            columns = list(file["counters"].attrs["columns"])
        length = latency.shape[1]
        before = list(trace.chunks(1 << 18, 0, start - warmup))
        (warm,) = trace.chunks(warmup, start - warmup, start)
        (window,) = trace.chunks(length, start, start + length)
        for k, which in enumerate(chosen):
            simulation = Simulation(machines[which], instructions)
            for chunk in before:
                simulation.warm(chunk)
            simulation.reset_counters()
            simulation.run(warm)
            measured = simulation.run(window)
            rows.append(
                {
                    "window": path.name.split(".")[0],
                    "machine": machines[which],
                    "gem5": latency[k].sum() / length,
                    "ours": measured.sum(dtype=np.int64) / length,
                    "latency": measured,
                    "gem5_latency": latency[k],
                    "gem5_counters": dict(zip(columns, counters[k], strict=True)),
                    "counters": with_merged(simulation.counters),
                }
            )
    return rows


def ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values)).astype(float)


def summary(rows: list[dict[str, Any]]) -> str:
    gem5, ours = np.array([row["gem5"] for row in rows]), np.array([row["ours"] for row in rows])
    error = np.abs(ours / gem5 - 1)
    correlation = np.corrcoef(ranks(gem5), ranks(ours))[0, 1] if len(rows) > 2 else float("nan")
    return (
        f"{len(rows):5d} pairs  median {np.median(error):6.1%}  mean {error.mean():6.1%}"
        f"  p90 {np.quantile(error, 0.9):6.1%}  worst {error.max():6.1%}"
        f"  bias {np.median(ours / gem5) - 1:+6.1%}  rank correlation {correlation:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", nargs="*", default=[])
    parser.add_argument("--machines", nargs="*", default=[])
    parser.add_argument("--each", action="store_true", help="a line for each pair, with counters (ours/gem5)")
    arguments = parser.parse_args()
    programs = arguments.programs or sorted(p.name.split(".")[0] for p in arguments.folder.glob("*.trace.h5"))
    rows: list[dict[str, Any]] = []
    for program in programs:
        found = windows(arguments.folder, program, set(arguments.machines))
        for row in found:
            if arguments.each:
                counts = "  ".join(
                    f"{name} {row['counters'][ours]:.0f}/{row['gem5_counters'][name]:.0f}"
                    for name, ours in COLUMNS.items()
                )
                print(f"{row['window']:10s} {row['machine'].name} CPI {row['ours']:7.3f} {row['gem5']:7.3f}  {counts}")
        print(f"{program:10s}", summary(found), flush=True)
        rows += found
    for core in ("out-of-order", "in-order"):
        chosen = [row for row in rows if row["machine"].core == core]
        if chosen:
            print(f"{core:12s}", summary(chosen))


if __name__ == "__main__":
    main()
