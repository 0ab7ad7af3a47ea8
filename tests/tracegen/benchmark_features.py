"""Million instructions a second of feature extraction on one core (a tool, not a test):

python tests/tracegen/benchmark_features.py TRACE… [--instructions N]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tracegen.decode import decode
from tracegen.features import SCHEMAS
from tracegen.trace import Trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--instructions", type=int, default=3_000_000)
    arguments = parser.parse_args()
    for path in arguments.traces:
        with Trace(path) as trace:
            began = time.perf_counter()
            instructions = decode(trace.address, trace.code, trace.isa)
            decoding = time.perf_counter() - began
            chunks = list(trace.chunks(stop=arguments.instructions))
        print(f"{path.name}: decoding {len(instructions):,} static instructions {decoding:.2f} s")
        for schema in SCHEMAS.values():
            schema.extractor(instructions).extract(chunks[0])  # compiles
            extractor = schema.extractor(instructions)
            began = time.perf_counter()
            for chunk in chunks:
                extractor.extract(chunk)
            millions = sum(len(chunk) for chunk in chunks) / 1e6
            print(f"  {schema.identity:14} {millions / (time.perf_counter() - began):6.1f} M instructions/s")


if __name__ == "__main__":
    main()
