"""Rate of importing a run of gem5: instructions a second of CPU time, one core.

python benchmarks/tracegen/gem5_import.py GEM5_FOLDER...   (best of three, after compilation)
"""

import sys
import tempfile
import time
from pathlib import Path

from tracegen.gem5.reader import import_gem5


def main() -> None:
    for name in sys.argv[1:]:
        folder = Path(name)
        size = max(path.stat().st_size for path in folder.glob("trace.out*"))
        best = float("inf")
        with tempfile.TemporaryDirectory() as out:
            for _ in range(4):
                begin = time.process_time()
                done = import_gem5(
                    [folder], Path(out) / "t.trace.h5", latency=Path(out) / "t.latency.h5", progress=False
                )
                best = min(best, time.process_time() - begin)
        rate = done.instructions / best
        found = f"{done.instructions:,} instructions, {size / 1e6:,.0f} MB"
        print(f"{folder.name}: {found}, {best:.2f} s, {rate:,.0f} instructions/s")


if __name__ == "__main__":
    main()
