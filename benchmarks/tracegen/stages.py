"""Cost of each stage from a trace to a features file on one core, by CPU time (a tool, not a test):

python benchmarks/tracegen/stages.py TRACE… [--instructions N] [--start I]

Stack distances are measured over a million distinct lines that have all been seen before, in four orders, and over the
data lines of each trace.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from tracegen.features import SCHEMAS
from tracegen.features.default import _DefaultExtractor
from tracegen.features.file import FeaturesFile, extract
from tracegen.formats.trace import Trace
from tracegen.statistics.characterise import Characteriser
from tracegen.statistics.stack_distance import StackDistance

LINES = 1_000_000
REFERENCES = 8_000_000
REPEATS = 3


def seconds(action: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    action()
    return time.process_time() - began


def patterns() -> dict[str, NDArray[np.uint64]]:
    """Reference streams over LINES lines."""
    rng = np.random.default_rng(1)
    odds = np.cumsum(1.0 / np.arange(1, LINES + 1))
    zipf = rng.permutation(LINES)[np.searchsorted(odds / odds[-1], rng.random(REFERENCES))]
    streams = {
        "uniform random": rng.integers(0, LINES, REFERENCES),
        "zipf, exponent 1": zipf,
        "sweep": np.arange(REFERENCES) % LINES,
        "sweep, stride 7": np.arange(REFERENCES) * 7 % LINES,
    }
    return {name: lines.astype(np.uint64) + np.uint64(0x1FC000000) for name, lines in streams.items()}


def stack_distances() -> None:
    print(f"stack distance over {LINES:,} lines")
    for name, lines in patterns().items():
        stack = StackDistance()
        stack.measure(np.unique(lines))
        spent = min(seconds(lambda: stack.measure(lines)) for _ in range(REPEATS))  # noqa: B023
        print(f"  {name:34} {len(lines) / spent / 1e6:6.1f} M references/s")


def stages(path: Path, start: int, limit: int) -> None:
    with Trace(path) as trace:
        began = time.process_time()
        instructions = trace.static
        decoding = time.process_time() - began
        chunks = list(trace.chunks(start=start, stop=start + limit))
        print(f"{path.name}: {len(instructions):,} static, {sum(map(len, chunks)):,} executed instructions")
        print(f"  {'decoding':34} {len(instructions) / decoding / 1e3:6.1f} K static instructions/s")
        data = np.concatenate([chunk.address for chunk in chunks]) >> np.uint64(6)
        spent = min(seconds(lambda: StackDistance().measure(data)) for _ in range(REPEATS))
        print(f"  {'stack distance, data lines':34} {len(data) / spent / 1e6:6.1f} M references/s")
        millions = sum(map(len, chunks)) / 1e6

        def report(name: str, spent: float) -> None:
            print(f"  {name:34} {millions / spent:6.1f} M instructions/s")

        parts = [chunk.part(begin, begin + (1 << 15)) for chunk in chunks for begin in range(0, len(chunk), 1 << 15)]
        best: dict[str, float] = {}
        for _ in range(REPEATS):
            extractor = _DefaultExtractor(instructions)
            outs = [np.zeros((len(part), 14), np.uint8) for part in parts]
            for name, fill in (extractor.references | extractor.control).items():
                spent = seconds(lambda: [fill(part, out) for part, out in zip(parts, outs, strict=True)])  # noqa: B023
                best[name] = min(spent, best.get(name, spent))
        for name, spent in best.items():
            report(f"pass: {name}", spent)
        for schema in SCHEMAS.values():

            def whole() -> None:
                extractor = schema.extractor(instructions)  # noqa: B023
                for chunk in chunks:
                    extractor.extract(chunk)

            whole()  # compiles
            report(f"extraction, {schema.identity}", min(seconds(whole) for _ in range(REPEATS)))
        profile = Characteriser(instructions)
        report("characterise", seconds(lambda: [profile.observe(chunk) for chunk in chunks]))
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "f.features.h5"
            write = partial(extract, trace, SCHEMAS["default"], output, instructions=instructions, progress=False)
            spent = min(seconds(write) for _ in range(REPEATS))
            count = len(trace)
            print(f"  {'features file, without decoding':34} {count / spent / 1e6:6.1f} M instructions/s")
            file = FeaturesFile(output)
            spent = min(seconds(lambda: file.read(0, count)) for _ in range(REPEATS))
            print(f"  {'reading the features file':34} {count / spent / 1e6:6.1f} M instructions/s")
            with h5py.File(output) as opened:
                sizes: list[int] = []
                opened.visititems(lambda _, item: sizes.append(getattr(item, "nbytes", 0)))
                static = opened["static/features"].nbytes
            stored = (sum(sizes) - static) / count
            print(
                f"  {'bytes an instruction':34} {stored:6.2f} stored, {output.stat().st_size / count:.2f} in the file"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="*")
    parser.add_argument("--instructions", type=int, default=3_000_000)
    parser.add_argument("--start", type=int, default=0)
    arguments = parser.parse_args()
    StackDistance().measure(np.arange(9, dtype=np.uint64))  # compiles
    stack_distances()
    for path in arguments.traces:
        stages(path, arguments.start, arguments.instructions)


if __name__ == "__main__":
    main()
