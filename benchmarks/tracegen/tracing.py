"""Rate of tracing, whole: from the program's start to the finished file. Run by hand.

python benchmarks/tracegen/tracing.py [--megabytes 2]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
import time
from pathlib import Path

from tracegen.qemu import Execution, trace

KERNEL = """
#include <stdio.h>
#define N 160
static double a[N][N], b[N][N], c[N][N];
int main(void) {
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { a[i][j] = i + j; b[i][j] = i - j; }
    for (int r = 0; r < REPEAT; r++)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++) for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    printf("%g\\n", c[3][5]);
}
"""


def measure(name: str, command: list[str], folder: Path, limit: int | None = None) -> None:
    """Trace a command and print the rate."""
    output = folder / "t.trace.h5"
    begin = time.perf_counter()
    result = trace(Execution(command, stdout=subprocess.DEVNULL, max_instructions=limit), output)
    seconds = time.perf_counter() - begin
    size = output.stat().st_size / result.instructions
    millions = result.instructions / 1e6
    print(
        f"{name:10s} {millions:9.1f} M instructions {seconds:7.2f} s {millions / seconds:6.1f} M/s {size:5.2f} B each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=2, help="of text for gzip (20 are about 4 G instructions)")
    parser.add_argument("--folder", type=Path, default=None, help="where traces are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        (folder / "kernel.c").write_text(KERNEL)
        kernel = folder / "kernel"
        subprocess.run(["gcc", "-O1", "-DREPEAT=8", "-o", str(kernel), str(folder / "kernel.c")], check=True)
        words = [f"{random.Random(seed).getrandbits(40):x}" for seed in range(5000)]
        text = " ".join(random.Random(1).choices(words, k=int(options.megabytes * 1e6 / 10)))
        (folder / "text").write_text(text)
        measure("warm-up", ["true"], folder)
        measure("kernel", [str(kernel)], folder)
        measure("gzip", ["gzip", "-c", str(folder / "text")], folder)


if __name__ == "__main__":
    main()
