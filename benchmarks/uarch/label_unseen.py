"""Traces and cycles by stock gem5 of programs and machines that nothing was tuned to (a tool, not a test):

    python benchmarks/uarch/label_unseen.py FOLDER --gem5 gem5.opt [--machines 20] [--seed 1127]
    python benchmarks/uarch/compare_gem5.py FOLDER

The programs are some of the suite's (`perfvec suite list`) beyond those of the shared data, the machines a sample of
the design space. A window has 200,000 instructions from 3,050,000 on, after 50,000 of warm-up. What is there is
not made again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from support.errors import InputError
from tracegen.suite.workloads import Workload, select

PROGRAMS = (
    *("dc", "brotli", "unxz", "flex", "nasm", "cc1", "bwa-index", "cjpeg", "oggenc", "cmark", "troff", "diff"),
    *("minisat", "qhull", "aes", "k_tree", "k_life"),
)
START, COUNT = 3_050_000, 200_000
RUN_SE = Path(__file__).parents[2] / "tracegen" / "gem5" / "run_se.py"
PERFVEC = (sys.executable, "-m", "analysis.cli")


def trace(workload: Workload, folder: Path, gem5: str) -> None:
    """Write `NAME.trace.h5`, the instructions that gem5's atomic core executed. Raises InputError."""
    output = folder / f"{workload.name}.trace.h5"
    if output.exists():
        return
    command, stdin = workload.prepare(folder / "inputs", folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{workload.name}-") as name:
        run = Path(name)
        os.mkfifo(run / "trace.out")
        words = [gem5, "-d", name, "--debug-flags=ExecAll,O3PipeView,Vma", "--debug-file=trace.out", str(RUN_SE)]
        words += ["--uarch", "base", "--trace-fast-forward", "--fast-forward", str(START + COUNT + 10_000)]
        words += ["--max-instructions", "1000", "--cwd", str(folder.absolute()), "--stdout", f"{name}/stdout"]
        words += [word for key, value in workload.env.items() for word in ("--env", f"{key}={value}")]
        words += ["--stdin", str(stdin)] if stdin else []
        with (run / "gem5.log").open("wb") as log:
            process = subprocess.Popen([*words, "--", *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        imported = subprocess.run([*PERFVEC, "import", "gem5", name, "-o", str(output)], check=False)
        if imported.returncode:
            process.kill()  # it waits for a reader of its text
        if process.wait() or imported.returncode:
            lines = (run / "gem5.log").read_text(errors="replace").splitlines()
            fatal = [line for line in lines if "fatal" in line or "panic" in line]
            why = (fatal or [*filter(None, lines)] or ["no reason given"])[-1]
            raise InputError(f"{workload.name}: not traced: {why}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gem5", required=True)
    parser.add_argument("--programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--machines", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1127)
    parser.add_argument("--workers", type=int, default=2, help="simulations side by side")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for workload in select(arguments.programs):
        try:
            trace(workload, arguments.folder, arguments.gem5)
        except InputError as error:
            print(error, file=sys.stderr)
            continue
        words = ["label", str(arguments.folder / f"{workload.name}.trace.h5"), "-o", str(arguments.folder)]
        words += ["--simulator", "gem5", "--gem5", arguments.gem5, "--workers", str(arguments.workers)]
        words += ["--sample", str(arguments.machines), "--seed", str(arguments.seed)]
        subprocess.run([*PERFVEC, *words, "--start", str(START), "--count", str(COUNT)], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
