"""Label windows on machines of their own: TRACES LATENCIES OUTPUT [--machines N] [--count K] [--seed S].

Each window of LATENCIES, a folder of latency files of those traces, gets the embedded simulator's labels of its first K
instructions on N machines sampled for it alone: of each two the second is the first with one field changed. So a few
machines a window are thousands together, which teach a model's encoder (`perfvec train --sampled-latencies OUTPUT`).
Files that are there stay.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.label import label
from uarch.space import sample_pairs


def label_windows(
    traces: Path, latencies: Path, output: Path, *, machines: int, count: int, seed: int, pool: int = 64
) -> None:
    """See the module's description. `pool`: machines of which those changed fields have their values.

    Raises InputError as `tracegen.label.label` does, and where a labelled trace is missing.
    """
    by_digest = {}
    for path in sorted(traces.glob("*.trace.h5")):
        with Trace(path) as trace:
            by_digest[trace.digest] = path
    for number, path in enumerate(sorted(latencies.glob("*.latency.h5"))):
        with LatencyFile(path) as file:
            if file.trace_digest not in by_digest:
                raise InputError(f"{path}: its trace is not in {traces}")
            trace_path, start, length = by_digest[file.trace_digest], file.start, len(file)
        drawn = sample_pairs(max(pool, machines), seed + number)[:machines]
        label([trace_path], drawn, output, start=start, count=min(count, length), workers=1, touches=True)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("traces", "latencies", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--machines", type=int, default=32)
    parser.add_argument("--count", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1000)
    given = parser.parse_args()
    try:
        label_windows(
            given.traces, given.latencies, given.output, machines=given.machines, count=given.count, seed=given.seed
        )
    except InputError as error:
        print(f"label_sampled: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
