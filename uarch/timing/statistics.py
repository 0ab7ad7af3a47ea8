"""Statistics of a simulation: misses and mispredictions per thousand instructions, rates, shares, averages.

They derive from the core's counters (`Simulation.statistics`). A level's demand misses are of requests that a program
makes itself, page-table walks among them, not of those that a prefetcher above it sends. Requests for a line that is
already on its way are not misses; `l1d_merged_mpki` counts them. Of prefetchers, as Srinath et al. (Feedback Directed
Prefetching, HPCA 2007, §2): accuracy is the share of prefetched lines that a request used, also one of a prefetcher
above, lateness the share of these that were still on their way, coverage the share of would-be demand misses that found
a prefetched line. gem5's `pfIssued` counts besides what hits its cache or an MSHR (`HardPFReq.mshrMisses` are sent),
its `pfUseful` leaves out late ones. `dram_row_hit_rate` is the share of lines whose first burst found its row open.
"""

from __future__ import annotations

from collections.abc import Mapping

from uarch.configuration import Machine

LEVELS = ("l1i", "l1d", "l2", "l3")
LINE_BYTES = 64
QUEUES = ("reorder_buffer", "issue_queue", "load_queue", "store_queue")
MISPREDICTIONS = ("direction", "target", "indirect", "return")


def statistics(machine: Machine, counts: Mapping[str, int]) -> dict[str, float]:
    """Return measures by name, from counts of a simulation that also made a CPI stack.

    NaN where a machine has no such part (a third level, a prefetcher, a DRAM, an issue queue).
    """
    instructions, cycles = counts["instructions"], counts["cycles"]
    seconds = cycles / (machine.frequency_ghz * 1e9)

    def per_thousand(count: float) -> float:
        return _share(1000 * count, instructions)

    found: dict[str, float] = {
        "instructions": instructions,
        "cycles": cycles,
        "seconds": seconds,
        "cpi": _share(cycles, instructions),
        "ipc": _share(instructions, cycles),
    }
    for level in LEVELS:
        exists = level != "l3" or machine.l3 is not None
        demand = counts[f"{level}_misses"] - counts[f"{level}_misses_by_prefetchers"]
        requests = counts[f"{level}_accesses"] - counts[f"{level}_accesses_by_prefetchers"]
        measures = {
            "mpki": per_thousand(demand),
            "miss_ratio": _share(demand, requests),
            "merged_mpki": per_thousand(counts[f"{level}_merged"]),
            "prefetch_mpki": per_thousand(counts[f"{level}_misses_by_prefetchers"]),
            "write_backs_pki": per_thousand(counts[f"{level}_write_backs"]),
            "prefetches_pki": per_thousand(counts[f"{level}_prefetches"]),
            # lines that were prefetched before the count began are used in it
            "prefetch_accuracy": min(_share(counts[f"{level}_useful_prefetches"], counts[f"{level}_prefetches"]), 1.0),
            "prefetch_coverage": _share(counts[f"{level}_covered_misses"], counts[f"{level}_covered_misses"] + demand)
            if counts[f"{level}_prefetches"]
            else float("nan"),
            "prefetch_lateness": _share(counts[f"{level}_late_prefetches"], counts[f"{level}_useful_prefetches"]),
        }
        found |= {f"{level}_{name}": value if exists else float("nan") for name, value in measures.items()}
    found["itlb_mpki"], found["dtlb_mpki"] = (per_thousand(counts[f"{which}_misses"]) for which in ("itlb", "dtlb"))
    found["branches_pki"] = per_thousand(counts["branches"])
    found["branch_mpki"] = per_thousand(counts["mispredictions"])
    found["misprediction_rate"] = _share(counts["mispredictions"], counts["branches"])
    found |= {f"branch_{kind}_mpki": per_thousand(counts[f"mispredicted_{kind}"]) for kind in MISPREDICTIONS}
    found["decode_redirects_pki"] = per_thousand(counts["redirected_at_decode"])
    found["memory_reads_pki"] = per_thousand(counts["memory_reads"])
    found["memory_writes_pki"] = per_thousand(counts["memory_writes"])
    found["memory_gbs"] = _share(LINE_BYTES * (counts["memory_reads"] + counts["memory_writes"]), seconds) / 1e9
    lines = counts["dram_row_hits"] + counts["dram_row_misses"]
    found["dram_row_hit_rate"] = _share(counts["dram_row_hits"], lines)
    for queue in QUEUES:
        occupied = _share(counts[f"{queue}_occupied"], cycles)
        found[f"{queue}_occupancy"] = occupied if machine.core == "out-of-order" else float("nan")
    return found


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
