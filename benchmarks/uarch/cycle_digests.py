"""Digests of the timing model's cycles, to show that a change leaves all of them as they were (a tool, not a test):

    python benchmarks/uarch/cycle_digests.py ../shared/gem5-x86 -o before.json      # then change the model
    python benchmarks/uarch/cycle_digests.py ../shared/gem5-x86 --compare before.json

A digest is the SHA-256 of the latencies of a trace's last instructions on one machine, after warm-up: the folder's
machines (those of its latency files, or `uarch.json`) and all presets.

Set PERFVEC_UNSEALED=1 for data without a seal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from tracegen.formats.trace import Trace
from uarch.configuration import machine_from_dict
from uarch.machine_files import load_machine, preset_names
from uarch.timing.simulation import Simulation

TIMED = 250_000


def machines_of(folder: Path) -> list[object]:
    path = folder / "uarch.json"
    sampled = [machine_from_dict(machine) for machine in json.loads(path.read_text())] if path.exists() else []
    return [*sampled, *(load_machine(name) for name in preset_names())]


def digests(path: Path) -> dict[str, str]:
    """Machine → digest, of one trace; the trace's last TIMED instructions after caches have seen all before."""
    trace = Trace(path)
    instructions = trace.static
    start = max(len(trace) - TIMED, 0)
    before = list(trace.chunks(1 << 18, 0, start))
    timed = list(trace.chunks(1 << 16, start, len(trace)))
    found = {}
    for machine in machines_of(path.parent):
        simulation = Simulation(machine, instructions)
        for chunk in before:
            simulation.warm(chunk)
        digest = hashlib.sha256()
        for chunk in timed:
            digest.update(simulation.run(chunk).clip(max=65535).astype("<u2").tobytes())
        counters = {name: int(count) for name, count in simulation.counters.items()}
        digest.update(json.dumps(counters, sort_keys=True).encode())
        found[machine.name] = digest.hexdigest()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="where to write the digests")
    parser.add_argument("--compare", type=Path, help="digests written before")
    parser.add_argument("--workers", type=int, default=2, help="traces side by side")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.glob("*.trace.h5"))
    found: dict[str, dict[str, str]] = {}
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(digests, path): path.name.split(".")[0] for path in paths}
        for job in tqdm(as_completed(jobs), total=len(jobs), unit="trace"):
            found[jobs[job]] = job.result()
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if not arguments.compare:
        return 0
    recorded = json.loads(arguments.compare.read_text())
    pairs = [(trace, machine) for trace, machines in recorded.items() for machine in machines]
    other = [pair for pair in pairs if found.get(pair[0], {}).get(pair[1]) != recorded[pair[0]][pair[1]]]
    print(f"{len(pairs) - len(other)} of {len(pairs)} trace × machine pairs have the same cycles and counters")
    for trace, machine in other[:20]:
        print(f"  differs: {trace} on {machine}")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
