"""Label windows on machines of their own: TRACES OUTPUT [--latencies FOLDER] [--windows N] [--at I…] [--count K]
[--machines M] [--near-presets | --factorial] [--without PRESET…].

N windows of K instructions are taken of each trace, or of each window that a file of FOLDER labels, evenly apart; with
--at one begins at each of these instructions instead. Each gets the embedded simulator's labels on M machines sampled
for it alone: of each two the second is the first with one field changed. So a few machines a window are thousands
together, which teach a model's encoder (`perfvec train --sampled-latencies OUTPUT`). With --near-presets they are
mixtures of presets (`uarch.near`), but for those that are left out; with --factorial, machines whose fields vary each
by itself (`uarch.factorial`). The name of the trace and the window's begin draw them, so that other traces in the
folder change none. Files that are there stay.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.label import label
from uarch.factorial import factorial_pairs
from uarch.machine_files import load_machine, preset_names
from uarch.near import near_pairs
from uarch.space import sample_pairs


def label_windows(
    traces: Path,
    output: Path,
    *,
    latencies: Path | None,
    windows: int,
    at: Sequence[int] = (),
    machines: int,
    count: int,
    seed: int,
    pool: int,
    near_presets: bool = False,
    factorial: bool = False,
    without: Sequence[str] = (),
) -> None:
    """See the module's description. `pool`: sampled machines of which changed fields have their values.

    Raises InputError as `tracegen.label.label` does, and where a labelled trace is missing.
    """
    paths = sorted(traces.glob("*.trace.h5"))
    ranges = _whole(paths) if latencies is None else _labelled(paths, latencies)
    if at:
        places = [(path, start) for path, first, length in ranges for start in at if _lies(start, count, first, length)]
    else:
        places = [(path, start) for path, first, length in ranges for start in _evenly(first, length, windows, count)]
    presets = [load_machine(name) for name in preset_names() if name not in without]
    for path, start in tqdm(places, desc="windows", unit="window", disable=None):
        own = _seed(seed, path, start)
        if near_presets:
            drawn = near_pairs(presets, machines, own)
        elif factorial:
            drawn = factorial_pairs(presets, machines, own)
        else:
            drawn = sample_pairs(max(pool, machines), own)[:machines]
        label([path], drawn, output, start=start, count=count, workers=1, touches=True, progress=False)


def _lies(start: int, count: int, first: int, length: int) -> bool:
    return first <= start and start + count <= first + length


def _seed(seed: int, path: Path, start: int) -> int:
    """The seed of one window's machines, 48 bits: machines of two windows have other names."""
    window = f"{seed} {path.name} {start}"
    return int.from_bytes(hashlib.sha256(window.encode()).digest()[:6], "big")


def _whole(paths: list[Path]) -> Iterator[tuple[Path, int, int]]:
    """(trace, 0, length) of each trace."""
    for path in paths:
        with Trace(path) as trace:
            yield path, 0, len(trace)


def _labelled(paths: list[Path], latencies: Path) -> Iterator[tuple[Path, int, int]]:
    """(trace, first instruction, length) of each latency file."""
    by_digest = {}
    for path in paths:
        with Trace(path) as trace:
            by_digest[trace.digest] = path
    for path in sorted(latencies.glob("*.latency.h5")):
        with LatencyFile(path) as file:
            if file.trace_digest not in by_digest:
                raise InputError(f"{path}: its trace is not among the traces")
            yield by_digest[file.trace_digest], file.start, len(file)


def _evenly(first: int, length: int, windows: int, count: int) -> list[int]:
    """Return the begins of windows in the middles of so many equal parts of a range; none where they would overlap."""
    if length < windows * count:
        return []
    return [first + (2 * k + 1) * length // (2 * windows) - count // 2 for k in range(windows)]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("traces", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--latencies", type=Path)
    parser.add_argument("--windows", type=int, default=1)
    parser.add_argument("--at", type=int, nargs="+", default=[])
    parser.add_argument("--machines", type=int, default=32)
    parser.add_argument("--count", type=int, default=15_000)
    parser.add_argument("--seed", type=int, default=0)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--near-presets", action="store_true")
    kind.add_argument("--factorial", action="store_true")
    parser.add_argument("--without", nargs="+", default=[], choices=preset_names())
    try:
        label_windows(**vars(parser.parse_args()), pool=64)
    except InputError as error:
        parser.exit(2, f"label_sampled: {error}\n")


if __name__ == "__main__":
    main()
