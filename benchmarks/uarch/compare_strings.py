"""Cycles of repeated string instructions (`rep stos`, `rep movs`) beside gem5's, in its labelled windows:

    python benchmarks/uarch/compare_strings.py ../shared/gem5-x86 --machines 8

Every string of at least `--accesses` accesses in a window, on each `--machines`-th machine that is out of order: the
error of its own latency, and of the cycles until 150 instructions further on. Set PERFVEC_UNSEALED=1 for data without a
seal.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from tqdm import tqdm

from tracegen.formats.trace import Trace
from uarch.configuration import machine_from_dict
from uarch.gem5.simulated import as_simulated
from uarch.instructions import Flag
from uarch.timing.simulation import Simulation

_WARM = 300_000  # instructions before a window's warm-up that caches see
_BEHIND = 150
_CLASSES = (16, 32, 64, 128, 1 << 30)  # of accesses, up to


def of_window(path: Path, accesses: int, every: int) -> list[dict[str, float]]:
    """One row for each string and machine."""
    with h5py.File(path) as file:
        start, warmup = int(file.attrs["start"]), int(file.attrs["warmup"])
        texts, latency = file["uarch"][:], file["latency"][:]
    with Trace(path.with_name(path.name.split(".")[0].rsplit("-", 1)[0] + ".trace.h5")) as trace:
        (window,) = trace.chunks(latency.shape[1], start, start + latency.shape[1])
        strings = (trace.static.flags[window.static_id] & Flag.STRING) != 0
        count = np.diff(window.access_offset)
        which = np.flatnonzero(strings & (count >= accesses))
        if len(which) == 0:
            return []
        before = list(trace.chunks(1 << 18, max(start - warmup - _WARM, 0), start - warmup))
        (warm,) = trace.chunks(warmup, start - warmup, start)
        machines = [as_simulated(machine_from_dict(json.loads(text)), trace.isa)[0] for text in texts]
        late = [k for k, machine in enumerate(machines) if machine.core == "out-of-order"][::every]
        rows = []
        for k in late:
            simulation = Simulation(machines[k], trace.static)
            for chunk in before:
                simulation.warm(chunk)
            simulation.run(warm)
            ours, gem5 = simulation.run(window).astype(np.int64), latency[k].astype(np.int64)
            for one in which.tolist():
                until = slice(one, one + _BEHIND)
                rows.append(
                    {
                        "accesses": int(count[one]),
                        "own": ours[one] / gem5[one] - 1,
                        "with those behind": ours[until].sum() / gem5[until].sum() - 1,
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--accesses", type=int, default=9)
    parser.add_argument("--machines", type=int, default=8, help="each of so many")
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("*.latency.h5"))
    rows = [row for path in tqdm(files) for row in of_window(path, arguments.accesses, arguments.machines)]
    table = pd.DataFrame(rows)
    table["up to"] = [next(most for most in _CLASSES if count <= most) for count in table.pop("accesses")]
    grouped = table.abs().groupby("up to")
    print(pd.concat({"median |error|": grouped.median(), "mean": grouped.mean()}, axis=1).round(3).to_string())
    print(grouped.size().to_string())


if __name__ == "__main__":
    main()
