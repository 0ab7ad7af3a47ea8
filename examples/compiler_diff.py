"""A compiler writer's diff: what does -O3 gain over -O1, where, and by which cause?

    python examples/compiler_diff.py [SOURCE.c [ARGUMENT]]

Needs gcc. The causes are of simulated CPI stacks: each cycle that went belongs to one.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import perfvec as pv

KERNEL = Path(__file__).parents[1] / "tracegen" / "suite" / "kernels" / "matmul.c"
MACHINES = ["zen4", "cortex-a53"]


def main() -> None:
    source, argument = [*sys.argv[1:], *(str(KERNEL), "24")[len(sys.argv) - 1 :]][:2]
    with tempfile.TemporaryDirectory() as folder:
        traces = {}
        for level in ("-O1", "-O3"):
            program = str(Path(folder) / f"program{level}")
            subprocess.run(["gcc", level, "-g", "-static", "-o", program, source, "-lm"], check=True)
            traces[level] = pv.trace([program, argument], max_instructions=2_000_000)

        changed = pv.diff(traces["-O1"], traces["-O3"], MACHINES, by="line", budget=60, rows=6)
        print(changed)
        for machine in MACHINES:
            gained = -changed.table[f"difference.{machine}"].sum()
            share = gained / changed.table[f"old.{machine}"].sum()
            most = changed.table.iloc[changed.table[f"difference.{machine}"].abs().argmax()]
            line, cause = most["name"], most[f"cause.{machine}"]
            print(f"{machine}: -O3 saves {share:.1%} of the cycles; {line} changed most: {cause}")
        changed.to_html("compiler_diff.html")
        print("compiler_diff.html has the pictures")


if __name__ == "__main__":
    main()
