"""Label windows of other programs on the table's machines: TRACES SAMPLED LATENCIES OUTPUT [--every N].

SAMPLED holds the windows that `label_sampled.py` has labelled on machines of their own. One in N of them, of programs
that LATENCIES does not label, gets the embedded simulator's labels on LATENCIES' machines and on the presets. They
refine the rows of a model's table (`perfvec train --row-latencies OUTPUT`). Their names choose them, so that further
windows change nothing of these. Files that are there stay.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

from tqdm import tqdm

from perfvec.training.data import pair_files
from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from tracegen.label import label
from uarch.configuration import configuration_key
from uarch.machine_files import load_machine, preset_names


def label_rows(traces: Path, sampled: Path, latencies: Path, output: Path, *, every: int) -> None:
    """See the module's description. Raises InputError as `tracegen.label.label` does, and where a trace is missing."""
    own = [path for _, path in pair_files(traces, latencies)]
    with LatencyFile(own[0]) as file:
        machines = list(file.machines)
    known = {configuration_key(machine) for machine in machines}
    machines += [machine for machine in map(load_machine, preset_names()) if configuration_key(machine) not in known]
    labelled = set()
    for path in own:
        with LatencyFile(path) as file:
            labelled.add(file.trace_digest)
    pairs = sorted(pair_files(traces, sampled), key=lambda pair: pair[1])
    chosen = [pair for pair in pairs if zlib.crc32(pair[1].name.encode()) % every == 0]
    for trace, path in tqdm(chosen, desc="windows", unit="window", disable=None):
        with LatencyFile(path) as file:
            digest, start, count = file.trace_digest, file.start, len(file)
        if digest not in labelled:
            label([trace], machines, output, start=start, count=count, workers=1, touches=True, progress=False)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("traces", "sampled", "latencies", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--every", type=int, default=2)
    try:
        label_rows(**vars(parser.parse_args()))
    except InputError as error:
        parser.exit(2, f"label_rows: {error}\n")


if __name__ == "__main__":
    main()
