"""A performance engineer's profile: where do the cycles go, and would another machine help?

    python examples/hot_spots.py [PROGRAM ARGS…]

Without a program it takes gzip on a made-up table.
"""

import sys
import tempfile
from pathlib import Path

import perfvec as pv


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "records.csv"
        table.write_text("".join(f"{k},{k * 7919 % 1000},{k % 17}\n" for k in range(20_000)))
        trace = pv.trace(sys.argv[1:] or ["gzip", "-c", str(table)], max_instructions=2_000_000)
    print(f"{trace.name}: {trace.instructions:,} instructions\n")

    # Which loops cost most, and what their cycles are spent on: every cycle has one cause.
    simulation = pv.simulate(trace, "zen4")
    loops = simulation.stack.by("loop")
    print(loops)
    hottest = loops.table[loops.table["depth"] > 0].iloc[0]
    print(f"\nhottest loop: {hottest['name']}, {hottest['share.zen4']:.0%} of the cycles\n")

    # What of the machine the cycles are due to, and what other machines would make of the program.
    print(pv.attribute(trace, "zen4", budget=5), "\n")
    print(pv.predict(trace, ["zen4", "neoverse-n1", "cortex-a53"], budget=5))
    loops.to_html("hot_spots.html")
    print("\nhot_spots.html has a flame graph")


if __name__ == "__main__":
    main()
