"""An architect's cache study: which L2 gives the most for its area, for one program on a Zen 4?

    python examples/cache_study.py [PROGRAM ARGS…]

Without a program it takes a dictionary in Python. Every point of the small grid is simulated within the budget.
"""

import sys

import perfvec as pv

LOOKUPS = "d = {k: k for k in range(40000)}; print(sum(d[k * 7919 % 40000] for k in range(2000000)))"
PROGRAM = [sys.executable, "-ISc", LOOKUPS]  # stopped when enough of it has been traced

VARY = {"l2.size_kib": [256, 512, 1024, 2048], "l2.latency": [6, 7, 8, 10]}
AREA = "l2.size_kib"  # arithmetic over fields; the rest of the chip counts as 10,000 KiB below


def main() -> None:
    given = sys.argv[1:]
    trace = pv.trace(given or PROGRAM, skip=0 if given else 24_000_000, max_instructions=3_000_000)

    swept = pv.sweep(
        trace,
        base="zen4",
        vary=VARY,
        cost=AREA,
        objective="time * (cost + 10000)",
        constraints=["l2.latency >= 5 + l2.size_kib/512"],
        budget=60,
    )
    print(swept)
    best = swept.best.iloc[0]
    print(f"\nbest time x (area + 10,000): an L2 of {best['l2.size_kib']} KiB, {best['l2.latency']} cycles")

    chosen = pv.machine("zen4").with_(l2__size_kib=int(best["l2.size_kib"]), l2__latency=int(best["l2.latency"]))
    before, after = pv.simulate(trace, ["zen4", chosen]).table["cycles"]
    print(f"{after / before - 1:+.1%} cycles compared with zen4 as it is")
    swept.to_html("cache_study.html")
    print("cache_study.html has the pictures")


if __name__ == "__main__":
    main()
